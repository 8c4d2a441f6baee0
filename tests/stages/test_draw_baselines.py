"""Baselines: the weather and the light of variants, drawn by rule beside what a model painted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from rewriting import wanted_of
from tiny_desk import tiny_run, tiny_variants
from tiny_painting import pixels_of

from counterfactory.engine.edit import Edit
from counterfactory.engine.sources.source import Source, load_mask
from counterfactory.engine.stages.paint import draw_baselines as stage
from counterfactory.engine.stages.paint.draw_baselines import draw_baselines
from counterfactory.engine.stages.paint.paint_light import draw_variants
from counterfactory.engine.variant import Variant

FOG, NIGHT, BLUE = Edit("weather", "", "foggy"), Edit("time", "by day", "at night"), Edit("colour", "red", "blue")
ASKED = replace(wanted_of(2, (1, 2)), baseline="light")


def test_what_weather_and_light_can_show_of_a_variant_is_drawn_once(
    sources: list[Source], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unmasked = replace(sources[1], mask_path=None, key="another")
    edits = ((FOG,), (NIGHT,), (FOG, BLUE), (BLUE,), (FOG,), (FOG,))
    of = (*sources[:1] * 3, sources[1], unmasked, sources[2])
    variants = [
        replace(one, source=source, edits=changed)
        for one, source, changed in zip(tiny_variants(sources, 1), of, edits, strict=False)
    ]
    control = replace(variants[0], key="c" * 64, kind="control", edits=())
    sources[2].path.unlink()
    with tiny_run(tmp_path / "suite", sources) as made:
        assert draw_baselines(made.run, variants, made.pictures) == {}, "nobody asked for any"
        found = draw_baselines(made.of(ASKED), [control, *variants], made.pictures)
        assert list(found) == [variants[0], variants[1], variants[4]]
        shown = {one: made.run.suite.load_image(row) for one, row in found.items()}
        for one, row in found.items():
            original = pixels_of(one.source)
            assert shown[one].shape == original.shape
            assert not np.array_equal(shown[one], original)
            assert b"algorithmicallyEnhanced" in (tmp_path / "suite" / row.image.path).read_bytes()
            assert Path(row.image.path).match(f"{one.source.name}/*.png")
        foggy, night, _ = shown.values()
        assert foggy.mean() > night.mean() + 20, "each variant has its own"
        for one, row in found.items():
            assert (row.mask is None) == (one.source is unmasked)
            if row.mask is not None:
                carried = np.asarray(Image.open(tmp_path / "suite" / row.mask.path))
                np.testing.assert_array_equal(carried, load_mask(one.source, shown[one].shape[:2]))
        monkeypatch.setattr(stage, "draw_variants", lambda run, missing, pictures: iter([]))
        assert draw_baselines(made.of(ASKED), variants, made.pictures) == found, "and is on record"


def test_what_was_drawn_before_an_interrupt_is_on_record(
    sources: list[Source], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    variants = [replace(one, edits=(FOG,)) for one in tiny_variants(sources[:2], 10)]
    left = list[list[Variant]]()

    def stops(run: Any, missing: Sequence[Variant], pictures: Any) -> Iterator[Any]:
        left.append(list(missing))
        for at, drawn in enumerate(draw_variants(run, missing, pictures)):
            if at == 18:
                raise InterruptedError
            yield drawn

    monkeypatch.setattr(stage, "draw_variants", stops)
    with tiny_run(tmp_path / "suite", sources) as made:
        with pytest.raises(InterruptedError):
            draw_baselines(made.of(ASKED), variants, made.pictures)
        assert list(draw_baselines(made.of(ASKED), variants, made.pictures)) == variants
    assert [len(missing) for missing in left] == [20, 4], "all batches of eight that were whole"
