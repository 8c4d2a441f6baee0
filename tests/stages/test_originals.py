"""Originals: each source as the painter sees it, kept once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from PIL import Image
from tiny_desk import tiny_run
from tiny_painting import pixels_of

from counterfactory.engine.sources.source import Source, load_mask
from counterfactory.engine.stages.original import keep_originals


def test_originals_are_kept_as_the_painter_sees_them_with_their_masks(sources: list[Source], tmp_path: Path) -> None:
    bare = replace(sources[6], mask_path=None)
    asked = [*sources[:6], bare]
    with tiny_run(tmp_path / "suite", sources) as first:
        some = keep_originals(first.of(), asked[2:4], first.pictures)
        assert list(some) == asked[2:4]
        found = keep_originals(first.of(), asked, first.pictures)
        assert list(found) == asked
        assert {source: found[source] for source in some} == some
        for source, row in found.items():
            key = first.run.keys.original_key(source.key)
            assert row.image.path == f"originals/{source.name}/{key[:16]}.png"
            np.testing.assert_array_equal(first.run.suite.load_image(row), pixels_of(source))
            if source is bare:
                assert row.mask is None
                continue
            assert row.mask is not None
            mask = np.asarray(Image.open(tmp_path / "suite" / row.mask.path))
            np.testing.assert_array_equal(mask, load_mask(source, pixels_of(source).shape[:2]))
        assert first.run.meter.current == "read"
        assert (first.networks.opened, first.networks.entered) == ([], [])
    with tiny_run(tmp_path / "suite", sources) as second:
        assert keep_originals(second.of(), asked, second.pictures) == found


def test_an_original_that_is_gone_is_written_again_and_one_that_cannot_be_read_is_left_out(
    sources: list[Source], tmp_path: Path
) -> None:
    with tiny_run(tmp_path / "suite", sources) as run:
        found = keep_originals(run.of(), sources, run.pictures)
        (tmp_path / "suite" / found[sources[1]].image.path).unlink()
        assert keep_originals(run.of(), sources, run.pictures) == found
        assert (tmp_path / "suite" / found[sources[1]].image.path).is_file()
    sources[2].path.unlink()
    with tiny_run(tmp_path / "other", sources) as run:
        assert list(keep_originals(run.of(), sources, run.pictures)) == [*sources[:2], *sources[3:]]
