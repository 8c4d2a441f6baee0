"""An editor that follows several hints: every row of a source has what its maps come to, back and forth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny_desk import EDIT_BATCH, tiny_run, tiny_sources
from tiny_networks import tiny_editor

from counterfactory.engine.edit import Edit
from counterfactory.engine.models.editor import EditorOutput, EditorPlans, EditorRow
from counterfactory.engine.profile.invert import InvertSettings, rows_per_source, rows_per_variant
from counterfactory.engine.profile.maps import HintSettings
from counterfactory.engine.profile.paint import GuidanceSettings, PaintSettings, SamplerSettings
from counterfactory.engine.sources.source import Source
from counterfactory.engine.stages.maps.draw_maps import Maps
from counterfactory.engine.stages.paint.edit_variants import edit_candidates
from counterfactory.engine.stages.paint.paint_variants import VariantPicture
from counterfactory.engine.variant import Variant

PAINT = PaintSettings(
    SamplerSettings("ddim", 4, "v_prediction", "trailing", True),
    GuidanceSettings(2.5, 0.0, 1.0),
    denoiser="editor",
    control_scale=1.5,
    negative_prompt="",
    batch=EDIT_BATCH,
    streams=1,
    decode_batch=2,
)
INVERT = InvertSettings(0.0, 0, (0.5, 1.0), 0.8, 2.0, (), 0.3, 0.0)


def plans_of(controls: int) -> EditorPlans:
    """Two encoders of hints before one ControlNet, or before two."""
    both, editor = tiny_editor(32, 32, batch=EDIT_BATCH, picture_batch=2, controls=2), None
    if controls == 1:
        editor = tiny_editor(32, 32, batch=EDIT_BATCH, picture_batch=2, controls=1).editor
    return both if editor is None else replace(both, editor=editor)


def maps_of(source: Source) -> Maps:
    """Edges in 8 bits and depth in 16."""
    rng = np.random.default_rng(int(source.name))
    return rng.integers(0, 256, (32, 32), np.uint8), rng.integers(0, 65536, (32, 32), np.uint16)


def edited(
    plans: EditorPlans, sources: list[Source], weights: tuple[float, float], suite: Path, noted: list[EditorRow]
) -> list[VariantPicture]:
    """All candidates of one edit of each source; `noted` are the rows that were evaluated."""
    variants = [
        Variant(f"{i:064x}", one, i, "caption 1", (Edit("weather", "1", "2"),), "caption 2", 0, None, "variant")
        for i, one in enumerate(sources)
    ]
    maps: Mapping[Source, Maps] = {source: maps_of(source) for source in sources}
    evaluate = EditorPlans.evaluate

    def note(self: EditorPlans, rows: Any) -> list[EditorOutput]:
        noted.extend(rows)
        return evaluate(self, rows)

    with tiny_run(suite, sources) as run, pytest.MonkeyPatch.context() as patched:
        patched.setattr(EditorPlans, "evaluate", note)
        patched.setattr(run.networks, "editor_plans", lambda height, width: plans)
        hints = (HintSettings("edges", "hint", weights[0]), HintSettings("depth", "hint_1", weights[1]))
        of = run.of(paint=PAINT, invert=INVERT, hints=hints)
        return list(edit_candidates(of, variants, maps, run.pictures))


@pytest.mark.parametrize("controls", [1, 2], ids=["one ControlNet", "one each"])
def test_every_row_follows_its_source_s_hints_by_their_weights(controls: int, tmp_path: Path) -> None:
    sources = [one for one in tiny_sources(tmp_path / "sources", 4) if one.size == (32, 32)]
    assert len(sources) == 2
    plans, noted, others = plans_of(controls), list[EditorRow](), list[EditorRow]()
    assert plans.hint is not None
    found = edited(plans, sources, (0.5, 2.0), tmp_path / "one", noted)
    wanted = []
    for edges, depth in map(maps_of, sources):
        assert edges is not None
        assert depth is not None
        encoders = (plans.hint, edges / 255), (*plans.other_hints, depth / 65535)
        each = [plan.run({"hint": np.float32(one)[None, None]})["hint_embedding"][0] for plan, one in encoders]
        wanted.append(np.stack(each) if controls == 2 else 0.5 * each[0] + 2.0 * each[1])
    scales = {row.hint.scale for row in noted if row.hint is not None}
    assert scales == {(0.75, 3.0) if controls == 2 else 1.5}
    of_each = rows_per_source(PAINT, INVERT) + rows_per_variant(PAINT, INVERT)
    for one in wanted:
        alike = [row for row in noted if row.hint and np.allclose(row.hint.embedding, one, rtol=1e-4, atol=1e-5)]
        assert len(alike) == of_each
    assert len(noted) == 2 * of_each
    turned = edited(plans, sources, (2.0, 0.5), tmp_path / "other", others)
    differences = [np.abs(a.pixels.astype(int) - b.pixels).max() for a, b in zip(found, turned, strict=True)]
    assert min(differences) > 2, "weights decide what is drawn"
