"""The painting stage's `run`: pictures stand by the right variant, batches are full, and what is on record stays."""

from __future__ import annotations

import time
from collections.abc import Generator
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tiny_desk import numbers, tiny_run, tiny_variants
from tiny_networks import TinyPainter
from tiny_painting import PAINT, RELATIVE, Pixels, hints, pixels_of, same_picture

from counterfactory.engine.meter.meter import Meter, Progress
from counterfactory.engine.schedule.overlap import in_chunks, write_behind
from counterfactory.engine.sources.source import Source, load_mask
from counterfactory.engine.stages.maps.draw_maps import edge_maps
from counterfactory.engine.stages.paint.paint_variants import (
    PaintJob,
    paint,
    paint_variants,
    unpainted_sources,
)
from counterfactory.engine.stages.run import Recipe
from counterfactory.engine.variant import Variant


def painted_alone(painter: TinyPainter, variant: Variant) -> Pixels:
    """A variant's picture, painted by itself."""
    hint = edge_maps(pixels_of(variant.source)[None], RELATIVE)[0]
    plans = painter.plans(*hint.shape, batch=1, streams=1, decode_batch=1)
    job = PaintJob(variant.key, numbers(variant.edited_caption, 7, 24), plans.embed_hints(hint[None])[0], plans)
    ((_, picture),) = paint([job], numbers("nothing", 7, 24), PAINT)
    return picture


@pytest.mark.parametrize(("batch", "wanted"), [(1, [1] * 7), (2, [2, 2, 2, 1])])
def test_hints_are_embedded_once_a_source_in_the_plan_s_batches(
    sources: list[Source], tmp_path: Path, painter: TinyPainter, batch: int, wanted: list[int]
) -> None:
    """Sources of one picture size share a batch: here three of one, and two each of two others."""
    given: list[int] = []

    def count(plan: Any, feeds: Any) -> Any:
        given.append(len(feeds["hint"]))
        return plan.run(feeds)

    variants, maps = sorted(tiny_variants(sources, 1), key=lambda v: v.source.name), hints(sources)
    with tiny_run(tmp_path / "suite", sources, variants=7, painter=painter) as run:
        for size in {found.shape for (found,) in maps.values() if found is not None}:
            plans = painter.plans(*size, batch=3, streams=1, decode_batch=2, hint_batch=batch)
            counted = SimpleNamespace(batch=plans.hint.batch, run=partial(count, plans.hint))
            run.networks._plans[size[0], size[1]] = replace(plans, hint=counted)  # type: ignore[arg-type]
        found = paint_variants(
            run.of(paint=replace(PAINT, sampler=replace(PAINT.sampler, steps=2))), variants, maps, run.pictures
        )
        assert len(found) == 7
    assert sorted(given, reverse=True) == wanted


def test_every_variant_gets_its_own_picture_and_mask(
    painter: TinyPainter, sources: list[Source], tmp_path: Path
) -> None:
    sources = sources[:4]
    variants = sorted(tiny_variants(sources, 2), key=lambda v: v.source.name)  # sources together, sizes in turn
    maps = hints(sources)
    with tiny_run(tmp_path / "suite", sources, variants=8, painter=painter) as first:
        assert unpainted_sources(first.of(), variants) == sources
        found = paint_variants(first.of(paint=PAINT), variants, maps, first.pictures)
        assert list(found) == variants
        for variant, row in found.items():
            picture = first.run.suite.load_image(row)
            assert same_picture(picture, painted_alone(painter, variant)), variant
            assert row.mask is not None
            mask = load_mask(variant.source, picture.shape[:2])
            np.testing.assert_array_equal(np.asarray(Image.open(tmp_path / "suite" / row.mask.path)), mask)
        assert first.networks.entered == ["paint"]
        assert first.done("paint") == (8, 8)
        assert first.run.meter.current == "paint"
        assert first.made("paint") == 8
        written = [progress.done for progress in first.progress if progress.stage == "paint"]
        assert written == [0, 2, 4, 6, 8], "pictures are written as they come, a decode's at a time"
        texts = [text for call in first.networks.calls["clip_text"] for text in call]
        assert sorted(texts) == ["edited 0", "edited 1", "edited 2", "nothing"], "a text is encoded once"
        sizes = {found.shape for (found,) in maps.values() if found is not None}
        assert sum(name.startswith("paint") for name in first.networks.opened) == len(sizes)
        assert unpainted_sources(first.of(), variants) == []
    with tiny_run(tmp_path / "suite", sources, variants=8, painter=painter) as second:
        assert paint_variants(second.of(paint=PAINT), variants, {}, second.pictures) == found
        assert (second.networks.opened, second.networks.entered) == ([], [])
        # One picture is gone, another's source has no edges: the first alone is painted again.
        for variant in (variants[2], variants[7]):
            (tmp_path / "suite" / found[variant].image.path).unlink()
        assert unpainted_sources(second.of(), variants) == [variants[2].source, variants[7].source]
        again = paint_variants(
            second.of(paint=PAINT), variants, {variants[2].source: maps[variants[2].source]}, second.pictures
        )
        assert again == {variant: row for variant, row in found.items() if variant != variants[7]}
        assert second.made("paint") == 1


def test_an_interrupt_between_batches_waits_for_what_is_being_written(tmp_path: Path) -> None:
    """What the stage hands to a writer beside it is finished work: it is on the disk when the suite is closed."""
    written = list[str]()

    def write(made: dict[str, str]) -> dict[str, str]:
        time.sleep(0.1)
        written.extend(made)
        return made

    def make(todo: list[str]) -> Generator[dict[str, str], None, None]:
        yield from write_behind((dict.fromkeys(part, "made") for part in in_chunks(todo, 2)), write, depth=2)

    def interrupt(_: Progress) -> None:
        if written:
            raise KeyboardInterrupt

    keys = {item: f"key of {item}" for item in "abcdefgh"}
    with tiny_run(tmp_path, [], variants=8) as tiny:
        run = replace(tiny.run, meter=Meter(interrupt))
        with pytest.raises(KeyboardInterrupt) as raised:
            run.recorded("paint", keys, Recipe(make), counted=True)
    assert raised.tb is not None  # frames are still held: nothing but the stage itself can have ended the writing
    assert len(written) >= 4, "what was handed over before the interrupt is written"
