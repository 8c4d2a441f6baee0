"""The bench of hints: sets of them differ in what they follow, and figures are of the right pictures."""

from __future__ import annotations

from pathlib import Path

import hints
import numpy as np
import pytest
from hints import Subject

from counterfactory.engine.pocket.worlds import STREETS
from counterfactory.export.pocket.data import HELD_OUT
from counterfactory.export.pocket.observed import draw_pairs


def test_weights_sum_to_one_and_the_streets_are_sampled_in_full(tmp_path: Path) -> None:
    subject = Subject.of(tmp_path, "denoiser_controls")
    assert subject.profile.paint.rows_per_variant > 2
    assert (subject.profile.paint.denoiser, subject.profile.models.folder) == ("denoiser_controls", str(tmp_path))
    for kinds in hints._SETS:
        profile = subject.following(kinds)
        assert profile.hints is not None
        weights = {hint.kind: hint.weight for hint in profile.hints}
        assert sum(weights.values()) == pytest.approx(1)
        assert {kind for kind, weight in weights.items() if weight} == set(kinds)
        assert [hint.plan for hint in profile.hints] == ["hint", "hint_depth", "hint_classes"]
        assert profile.hints[2].palette == "streets"
    assert len(hints._SETS) == 7


def test_maps_are_found_edges_and_the_truth(tmp_path: Path) -> None:
    (pair, *_) = draw_pairs(HELD_OUT, 1, 1)
    edges, depth, classes = Subject.of(tmp_path, "denoiser_controls").maps(pair)
    assert edges is not None
    assert set(np.unique(edges)) == {0, 255}
    assert np.array_equal(depth, pair.drawing.nearness)
    assert classes is not None
    road = pair.drawing.mask == STREETS.classes.index("road")
    assert np.unique(classes[road], axis=0).tolist() == [[128, 64, 128]]
