"""The edges stage's `run`: each source has its own, and one that cannot be read costs no other."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tiny_desk import tiny_run
from tiny_painting import RELATIVE, pixels_of

from counterfactory.engine.profile.maps import DetectorSettings, HedSettings
from counterfactory.engine.sources.source import Source
from counterfactory.engine.stages.maps.draw_maps import draw_maps, edge_maps

HED = DetectorSettings("hed", hed=HedSettings(batch=2))


@pytest.mark.parametrize("settings", [RELATIVE, HED], ids=["relative", "hed"])
def test_each_source_has_its_own_edges(settings: DetectorSettings, sources: list[Source], tmp_path: Path) -> None:
    needed = [sources[i] for i in (6, 0, 1, 4, 3, 2)]
    sources[4].path.write_bytes(b"no picture any more")
    with tiny_run(tmp_path / "suite", sources) as run:
        found = draw_maps(run.of(edges=settings), sources, needed, run.pictures)
        assert set(found) == set(needed) - {sources[4]}
        for source, (edge_map,) in found.items():
            image = pixels_of(source)
            alone = 255 - image[..., 0] if settings.hed else edge_maps(image[None], settings)[0]
            np.testing.assert_array_equal(edge_map, alone)
        assert run.networks.entered == ["edges"]
        assert run.done("edges") == (6, 7)  # one was not needed, one cannot be read
        assert run.run.meter.current == "edges"
        assert run.made("edges") == 5
        if settings.hed:
            assert [len(call) for call in run.networks.calls["hed"]] == [2, 1, 1, 1]
            assert run.networks.opened == ["hed 32 32", "hed 32 48", "hed 48 32"]
