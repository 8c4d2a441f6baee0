"""What is still to be seen of a labelled thing, against plain NumPy, by hand-made pictures and by any pictures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray
from tiny_desk import IMAGE, IMAGE_BATCH, tiny_run, tiny_variants

from counterfactory.engine.profile.check import CheckSettings
from counterfactory.engine.profile.profile import load_profile
from counterfactory.engine.sources.data_set import find_sources
from counterfactory.engine.sources.shapes import Box
from counterfactory.engine.sources.source import load_pixels
from counterfactory.engine.stages.check.score_pictures import score_pictures
from counterfactory.engine.stages.check.visibility import see_source, visibility_scores
from counterfactory.kernels.opencv import cv2

Pixels = NDArray[np.uint8]
GATE = load_profile("light").check.least
CHECK = CheckSettings(batch=IMAGE_BATCH, label_prompt="one {label}", logit_scale=7.0)


def scores(picture: Pixels, source: Pixels, boxes: Sequence[Box] = (), mask: Any = None) -> dict[str, float]:
    return visibility_scores(picture, see_source(source, boxes, mask))


def textured(height: int, width: int, seed: int = 0, cell: int = 6) -> Pixels:
    """Shapes of all sizes in grey levels 40 to 215."""
    rng = np.random.default_rng(seed)
    total = np.zeros((height, width), np.float32)
    for size in (cell, 3 * cell, 9 * cell):
        coarse = rng.random((height // size + 2, width // size + 2), dtype=np.float32)
        total += np.asarray(cv2.resize(coarse, (width, height), interpolation=cv2.INTER_CUBIC))
    total = (total - total.min()) / (total.max() - total.min())
    return np.repeat((40 + 175 * total).astype(np.uint8)[..., None], 3, axis=2)


def veiled(picture: Pixels, share: float, level: int = 150) -> Pixels:
    """A picture behind a veil that lets a share of it through."""
    return (picture * share + level * (1 - share)).round().astype(np.uint8)


def noisy(picture: Pixels, spread: float) -> Pixels:
    noise = np.random.default_rng(9).normal(0, spread, picture.shape)
    return np.clip(picture + noise, 0, 255).astype(np.uint8)


SCENE = textured(96, 144)


def lightness(grey: Any) -> NDArray[np.float64]:
    """CIE L* of grey levels of sRGB (IEC 61966-2-1, CIE 15)."""
    value = np.asarray(grey, np.float64) / 255
    linear = np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)
    return np.asarray(np.where(linear > 0.008856, 116 * np.cbrt(linear) - 16, 903.3 * linear))


def plainly(picture: Pixels, source: Pixels) -> float:
    """The score of grey pictures of 96 pixels' shorter side, window by window."""
    kept = there = 0.0
    planes = [lightness(picture[..., 0]), lightness(source[..., 0])]
    for _ in range(2):
        height, width = planes[0].shape
        y, x = ((np.arange(n) + 0.5 - n / 2) / (0.3 * n) for n in (height, width))
        weight = np.exp(-(y[:, None] ** 2 + x[None] ** 2) / 2)
        padded = [np.pad(plane, 1, mode="symmetric") for plane in planes]
        for i in range(height):
            for j in range(width):
                seen, shown = (plane[i : i + 3, j : j + 3].ravel() for plane in padded)
                (rest, shared), (_, own) = np.cov(seen, shown, bias=True)
                signal = min(shared**2 / max(own, 1e-6), rest)
                bits = np.log2(1 + own / 0.04)
                kept += weight[i, j] / weight.sum() * min(bits, np.log2(1 + signal / (0.4 * (rest - signal) + 0.04)))
                there += weight[i, j] / weight.sum() * bits
        planes = [plane.reshape(height // 2, 2, width // 2, 2).mean(axis=(1, 3)) for plane in planes]
    return kept / there


@pytest.mark.parametrize("picture", [noisy(SCENE, 25), 255 - veiled(SCENE, 0.2)])
def test_scores_are_those_of_plain_arithmetic(picture: Pixels) -> None:
    grey = np.repeat(picture[..., :1], 3, axis=2)
    assert scores(grey, SCENE)["visible"] == pytest.approx(plainly(grey, SCENE), abs=0.01)


def test_a_copy_is_whole_and_what_hides_it_takes_it_away_by_degrees() -> None:
    assert scores(SCENE, SCENE) == {"intact": 1.0, "visible": 1.0}
    for steps in ([veiled(SCENE, s) for s in (0.7, 0.3, 0.1, 0.03, 0.01)], [noisy(SCENE, s) for s in (5, 20, 60)]):
        found = [scores(step, SCENE)["visible"] for step in (SCENE, *steps)]
        assert found == sorted(found, reverse=True)
    assert scores(veiled(SCENE, 0.3), SCENE)["visible"] > 2 * GATE["visible"]
    assert scores(veiled(SCENE, 0.01), SCENE)["visible"] < GATE["visible"]
    assert scores(255 - SCENE, SCENE)["visible"] > 0.8, "dark on light is as visible as light on dark"


def test_contrast_of_something_else_is_no_contrast_of_the_thing() -> None:
    gone = veiled(SCENE, 0.0)
    streaks = gone.copy()
    streaks[:, ::7] = 230
    flakes = gone.copy()
    flakes[np.random.default_rng(2).random(gone.shape[:2]) < 0.05] = 255
    for other in (noisy(gone, 40), streaks, flakes):
        assert scores(other, SCENE)["visible"] < GATE["visible"] / 2
    assert scores(textured(96, 144, 7), SCENE)["visible"] < 0.25, "another scene, with as much contrast"
    assert (
        scores(np.maximum(veiled(SCENE, 0.5), streaks), SCENE)["visible"] < scores(veiled(SCENE, 0.5), SCENE)["visible"]
    )


def test_boxes_are_looked_at_and_what_lies_elsewhere_does_not_count() -> None:
    source, small = textured(240, 320), Box(20, 30, 44, 50, "bird")
    hidden = source.copy()
    hidden[22:60, 10:58] = 128
    assert scores(hidden, source)["visible"] > 0.8
    assert scores(hidden, source, [small])["visible"] < GATE["visible"]
    assert scores(hidden, source, [Box(200, 100, 300, 200, "car")])["visible"] == 1.0
    others = [Box(100 + 8 * i, 100, 190 + 8 * i, 200, "car") for i in range(12)]
    assert scores(hidden, source, [*others, small])["visible"] < GATE["visible"], "one of many"
    around = np.full_like(source, 128)
    around[22:60, 10:58] = source[22:60, 10:58]
    assert scores(around, source, [small])["visible"] > 0.8
    assert scores(around, source)["visible"] < GATE["visible"]


@pytest.mark.parametrize("colours", [False, True])
def test_classes_of_a_mask_are_looked_at_where_there_is_no_box(colours: bool) -> None:
    source, numbers = textured(120, 160), np.zeros((120, 160), np.uint8)
    numbers[10:50, 10:60], numbers[60:62, 100:102] = 3, 7
    mask = np.stack([numbers * 20, numbers, numbers], axis=-1) if colours else numbers
    hidden = source.copy()
    hidden[8:52, 8:62] = 128
    assert scores(hidden, source, mask=mask)["visible"] < GATE["visible"]
    assert scores(hidden, source, [Box(100, 60, 150, 110, "car")], mask)["visible"] == 1.0, "boxes go first"
    tiny = source.copy()
    tiny[58:64, 98:104] = 128
    assert scores(tiny, source, mask=mask)["visible"] > 0.9, "a few pixels are no class"


def test_what_the_source_does_not_show_cannot_be_lost() -> None:
    plain = np.full((64, 96, 3), 90, np.uint8)
    assert scores(veiled(plain, 0.0), plain) == {"intact": 1.0}
    assert scores(plain * 0, plain * 0) == {"intact": 1.0}
    half = np.full((96, 144, 3), 90, np.uint8)
    half[:, 72:] = SCENE[:, 72:]
    assert scores(veiled(half, 0.4), half, [Box(10, 30, 20, 40, "sky")])["visible"] > 0.4, "the picture instead"
    dark = (SCENE // 4).astype(np.uint8)
    assert scores(dark, dark)["visible"] == 1.0
    assert scores(veiled(dark, 0.5, 0), dark)["visible"] > GATE["visible"]


def test_new_flat_blocks_are_holes_and_old_ones_are_not() -> None:
    for level in (0, 1, 128, 255):
        holed = SCENE.copy()
        holed[:48] = level
        assert scores(holed, SCENE)["intact"] < GATE["intact"]
        assert scores(holed, holed)["intact"] == 1.0
    sky = np.full((96, 96, 3), 200, np.uint8)
    assert scores(sky * 0, sky)["intact"] == 0.0, "black is a hole in a plain sky too"
    assert scores(sky // 2, sky)["intact"] == 1.0
    assert scores(sky * 0, sky // 10)["intact"] == 1.0, "nearly black before"
    assert scores(noisy(SCENE // 8, 3), SCENE)["intact"] == 1.0, "a night has grain"


@pytest.mark.parametrize("shape", [(16, 16), (16, 40), (1, 1), (2, 3), (3, 700)])
def test_tiny_and_narrow_pictures_are_scored(shape: tuple[int, int]) -> None:
    source = np.random.default_rng(4).integers(0, 256, (*shape, 3), np.uint8)
    box = Box(0, 0, shape[1] / 2, shape[0] / 2, "dot")
    for boxes in ((), [box]):
        assert scores(source, source, boxes).get("visible", 1.0) == 1.0
    if min(shape) >= 16:
        assert scores(veiled(source, 0.5), source)["visible"] > GATE["visible"] > scores(source * 0, source)["visible"]
        assert scores(source * 0, source)["intact"] == 0.0


PICTURES = st.tuples(st.integers(1, 40), st.integers(1, 40)).flatmap(
    lambda shape: st.tuples(*[arrays(np.uint8, (*shape, 3)) for _ in range(2)], arrays(np.uint16, shape))
)
CORNERS = st.tuples(*[st.floats(0, 1) for _ in range(4)])


@given(PICTURES, st.lists(CORNERS, max_size=3), st.booleans())
def test_any_picture_has_scores_within_range(
    pictures: tuple[Pixels, Pixels, Any], corners: list[tuple[float, ...]], masked: bool
) -> None:
    picture, source, mask = pictures
    height, width = source.shape[:2]
    boxes = [Box(a * width, b * height, max(a, c) * width, max(b, d) * height, "x") for a, b, c, d in corners]
    found = scores(picture, source, boxes, mask if masked else None)
    assert all(0 <= value <= 1 for value in found.values())
    assert set(found) - {"visible"} == {"intact"}
    assert scores(source, source, boxes, mask if masked else None).get("visible", 1.0) == 1.0


def test_boxes_of_a_data_set_are_what_its_pictures_are_held_to(tmp_path: Path) -> None:
    """As the check stage reads them; and a box that is read otherwise has scores of its own."""
    names = ("a", "b")
    (tmp_path / "images").mkdir()
    for name in names:
        cv2.imwrite(str(tmp_path / "images" / f"{name}.png"), textured(64, 96, ord(name)))
    sources, _ = find_sources(tmp_path / "images")
    box = Box(10, 10, 30, 30, "car")
    boxed = [replace(source, boxes=(box,), listed=(box,)) for source in sources]
    marked = [replace(source, boxes=(replace(box, ignored="difficult"),)) for source in boxed]

    def hidden(variant: Any) -> Pixels:
        picture = load_pixels(variant.source, IMAGE).copy()
        picture[2:36, 2:36] = 128
        return picture

    found = {}
    with tiny_run(tmp_path / "suite", boxed, variants=1) as run:
        for name, of in (("boxed", boxed), ("marked", marked)):
            painted = run.paint(tiny_variants(of, 1), hidden)
            seen = score_pictures(run.of(check=CHECK), painted, run.pictures)
            found[name] = [row.scores["visible"] for row in seen.values()]
    assert max(found["boxed"]) < GATE["visible"] < min(found["marked"])
