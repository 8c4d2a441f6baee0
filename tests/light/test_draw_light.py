"""Photographs in every light and weather: the same bytes again, stronger with each level, nothing moved, and each value
does to a picture what its words say.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise

import cv2
import numpy as np
import pytest
import skimage.data
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from counterfactory.engine.edit import EDIT_TYPES
from counterfactory.engine.light import draw
from counterfactory.engine.light.draw import draw_light, open_photograph
from counterfactory.engine.light.levels import AMOUNTS, SEVERITIES, amount_at
from counterfactory.engine.light.menu import EXCLUSIVE, MENU
from counterfactory.engine.stages.check.quality import small_outlines
from counterfactory.engine.stages.check.registration import registration_scores, source_map

Pixels = NDArray[np.uint8]
TYPES = {value: type_ for type_, values in MENU.items() for value in values}
PHOTOGRAPHS = ("astronaut", "coffee", "chelsea", "rocket")


@cache
def photograph(name: str, side: int = 256) -> Pixels:
    image = np.asarray(getattr(skimage.data, name)(), np.uint8)
    scale = side / min(image.shape[:2])
    size = round(image.shape[1] * scale), round(image.shape[0] * scale)
    return np.asarray(cv2.resize(image, size, interpolation=cv2.INTER_AREA), np.uint8)


@cache
def street() -> Pixels:
    """A drawn street: a blue sky with a lamp far below it, a sunlit wall, a dark ground."""
    image = np.zeros((240, 320, 3), np.uint8)
    image[:110] = np.linspace((90, 140, 225), (170, 200, 240), 110)[:, None].round()
    image[110:] = (105, 100, 92)
    image[60:200, 40:150] = (190, 160, 120)
    image[90:200, 90:150] = (90, 74, 60)
    image[150:156, 240:246] = (255, 250, 230)
    grain = np.random.default_rng(5).integers(-4, 5, image.shape)
    return np.asarray((image + grain).clip(0, 255), np.uint8)


def drawn(picture: Pixels, value: str, severity: float = 1.0, seed: int = 7, **more: NDArray[np.float32]) -> Pixels:
    scene = open_photograph(picture, **more)
    return draw_light(scene, [(TYPES[value], value)], severity, np.random.default_rng(seed))


def linear(picture: Pixels) -> NDArray[np.float64]:
    values = picture / 255
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def light(picture: Pixels) -> float:
    return float(linear(picture).mean())


def warmth(picture: Pixels) -> float:
    """Red over blue light."""
    red, _, blue = linear(picture).reshape(-1, 3).mean(axis=0)
    return float(red / blue)


def cast(picture: Pixels) -> float:
    """How far the mean colour is from grey."""
    mean = linear(picture).reshape(-1, 3).mean(axis=0)
    return float(mean.max() / mean.min())


def saturation(picture: Pixels) -> float:
    top, bottom = (getattr(linear(picture), end)(axis=2) for end in ("max", "min"))
    return float(np.mean((top - bottom) / np.maximum(top, 1e-3)))


def contrast(picture: Pixels) -> float:
    return float(picture.mean(axis=2).std())


def detail(picture: Pixels) -> float:
    """What a blur of two pixels takes away."""
    grey = picture.mean(axis=2)
    return float(np.std(grey - cv2.GaussianBlur(grey, (0, 0), 2)))


def blocks(picture: Pixels) -> float:
    """How much larger steps are between JPEG's blocks than inside them."""
    steps = np.abs(np.diff(picture.mean(axis=2), axis=1)).mean(axis=0)
    between = np.arange(len(steps)) % 8 == 7
    return float(steps[between].mean() / steps[~between].mean())


def test_the_menu_is_of_known_types_and_cheap() -> None:
    assert set(MENU) <= set(EDIT_TYPES)
    assert len(TYPES) == sum(map(len, MENU.values())) == 14
    assert set(TYPES) == set(draw._DRAW) == set(AMOUNTS)
    assert all(len(pair) == 2 and pair <= set(TYPES) for pair in EXCLUSIVE)
    code = "import counterfactory.engine.light.menu, sys; print({'numpy', 'cv2'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@pytest.mark.parametrize("value", TYPES)
def test_the_same_key_draws_the_same_and_another_key_another(value: str) -> None:
    picture = photograph("coffee")
    source, first = picture.copy(), drawn(picture, value)
    assert np.array_equal(first, drawn(picture, value))
    # Only a key's dither is in what has no chance in it, and bytes have none.
    assert np.array_equal(first, drawn(picture, value, seed=8)) == (value == "compressed")
    assert np.array_equal(picture, source)


def test_threads_change_nothing() -> None:
    picture = photograph("coffee", 512)
    expected = {value: drawn(picture, value) for value in TYPES}
    before = cv2.getNumThreads()
    try:
        cv2.setNumThreads(4)
        with ThreadPoolExecutor(4) as pool:
            results = dict(zip(TYPES, pool.map(lambda value: drawn(picture, value), TYPES), strict=True))
    finally:
        cv2.setNumThreads(before)
    assert [value for value in TYPES if not np.array_equal(results[value], expected[value])] == []


@pytest.mark.slow
@pytest.mark.parametrize("side", [192, 300])
def test_a_scene_is_left_as_it_was_by_what_is_drawn_of_it(side: int) -> None:
    picture = np.asarray(cv2.resize(street(), (side * 4 // 3, side)), np.uint8)
    depth = np.linspace(0, 1, picture.shape[0] * picture.shape[1], dtype=np.float32).reshape(picture.shape[:2])
    for more in ({}, {"depth": depth}):
        shared = open_photograph(picture, **more)
        assert shared.sky is not None
        for value in (*TYPES, *reversed(TYPES)):
            one = draw_light(shared, [(TYPES[value], value)], 0.8, np.random.default_rng(7))
            assert np.array_equal(one, drawn(picture, value, 0.8, **more)), value


@pytest.mark.parametrize("value", TYPES)
def test_strips_leave_no_trace(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    picture = photograph("astronaut", 300)
    whole = drawn(picture, value).astype(int)
    monkeypatch.setattr(draw, "_STRIP", 64 * 300)
    strips = drawn(picture, value).astype(int)
    # Dither is drawn by strip; JPEG's blocks depend on the last bit of what they compress.
    assert np.abs(strips - whole).max() <= (8 if value == "compressed" else 1)


@pytest.mark.parametrize("name", PHOTOGRAPHS)
@pytest.mark.parametrize("value", TYPES)
def test_every_level_is_stronger_than_the_one_below(value: str, name: str) -> None:
    picture = photograph(name)
    changes = [float(np.abs(drawn(picture, value, s).astype(int) - picture).mean()) for s in SEVERITIES]
    assert changes[0] > 0.15
    assert changes[-1] > 3
    assert all(low < high for low, high in pairwise(changes)), changes


@settings(max_examples=15)
@given(st.sampled_from(sorted(TYPES)), st.floats(0.02, 0.9), st.floats(0.08, 0.5), st.integers(0, 99))
def test_strength_is_continuous_and_grows_for_any_key(value: str, low: float, step: float, seed: int) -> None:
    picture, high = photograph("coffee", 128), min(1.0, low + step)
    weak, strong = (drawn(picture, value, severity, seed).astype(int) for severity in (low, high))
    assert np.abs(weak - picture).mean() <= np.abs(strong - picture).mean() + 0.3
    near = drawn(picture, value, min(1.0, low + 0.002), seed).astype(int)
    assert np.abs(near - weak).mean() < 2.5 or value == "compressed"  # qualities are whole numbers


def test_amounts_rise_from_nothing() -> None:
    for value in TYPES:
        amounts = [amount_at(value, severity) for severity in np.linspace(0, 1, 51)]
        assert amounts[0] == 0
        assert all(low < high for low, high in pairwise(amounts)), value
        assert amounts[-1] <= 1


@pytest.mark.parametrize("value", TYPES)
def test_outlines_stay_in_place(value: str) -> None:
    shifts = []
    for name in ("astronaut", "coffee", "chelsea"):
        picture = photograph(name, 300)
        scores = registration_scores(small_outlines(drawn(picture, value, 0.6)), source_map(small_outlines(picture)))
        assert scores["in_place"] >= 0.998
        shifts.append(scores["shift"] * 128)
    # In pixels of registration's maps, of 128 on the shorter side. What falls and what shines hides outlines, so that
    # one photograph alone seems to move by a little more.
    assert float(np.median(shifts)) < 0.1


@pytest.mark.parametrize("value", TYPES)
@pytest.mark.parametrize("severity", [0.2, 1.0])
@pytest.mark.parametrize(
    "picture",
    [
        *(np.full((*size, 3), value, np.uint8) for size, value in (((16, 16), 200), ((40, 60), 0), ((40, 60), 255))),
        *(np.random.default_rng(1).integers(0, 256, (*size, 3), np.uint8) for size in ((16, 700), (900, 17))),
        np.repeat(np.random.default_rng(3).integers(0, 256, (64, 48, 1), np.uint8), 3, axis=2),
        np.full((1, 1, 3), 90, np.uint8),
    ],
    ids=["tiny", "black", "white", "wide", "tall", "grey", "a pixel"],
)
def test_any_picture_can_be_drawn(value: str, severity: float, picture: Pixels) -> None:
    other = drawn(picture, value, severity)
    assert (other.shape, other.dtype) == (picture.shape, np.uint8)


def test_values_are_drawn_in_the_order_of_the_physics() -> None:
    picture = street()
    values = [("camera", "in motion"), ("weather", "rainy"), ("time", "at night")]
    first, second, rain = (
        draw_light(open_photograph(picture), order, severity, np.random.default_rng(2))
        for order, severity in ((values, 0.8), (values[::-1], 0.8), (values[1:], 1.0))
    )
    assert np.array_equal(first, second)
    assert light(rain) < 0.5 * light(drawn(picture, "rainy")), "rain by night is lit by the night"


def test_streaks_of_faint_rain_are_among_those_of_heavy_rain() -> None:
    picture = np.full((200, 300, 3), 60, np.uint8)
    faint, heavy = (drawn(picture, "rainy", severity).mean(axis=2).astype(np.float64) for severity in (0.5, 1.0))
    faint, heavy = (plane - cv2.GaussianBlur(plane, (0, 0), 12) for plane in (faint, heavy))
    assert np.corrcoef(faint.ravel(), heavy.ravel())[0, 1] > 0.5


def test_distance_is_followed_where_it_is_known() -> None:
    picture = np.random.default_rng(4).integers(20, 120, (120, 160, 3), np.uint8)
    depth = np.broadcast_to(np.linspace(0, 1, 160, dtype=np.float32), (120, 160)).copy()
    for value in ("foggy", "hazy", "snowy"):
        contrasts = [contrast(part) for part in np.array_split(drawn(picture, value, depth=depth), 4, axis=1)]
        assert contrasts == sorted(contrasts, reverse=True), value
        assert contrasts[-1] < 0.75 * contrasts[0]
    # A lamp lights what is near.
    near, far = (light(drawn(picture, "at night", depth=np.full_like(depth, d))) for d in (0.0, 1.0))
    assert near > 1.3 * far


def test_a_sky_is_far_away_and_dark_at_night() -> None:
    picture = street()
    assert contrast(drawn(picture, "foggy", 0.6)[:50]) < 0.5 * contrast(picture[:50])
    for value in ("at night", "at dusk"):
        assert light(drawn(picture, value)[:50]) < 0.25 * light(picture[:50]), value
    assert saturation(drawn(picture, "overcast")[:50]) < 0.3 * saturation(picture[:50])


# What a value does to a picture: a figure of the picture, and the share of it that is left at most or at least.
CHANGES: dict[str, list[tuple[Callable[[Pixels], float], float, float]]] = {
    "at sunset": [(warmth, 1.4, 9), (light, 0.2, 0.95)],
    "at dusk": [(lambda p: warmth(p[200:]), 0, 0.8), (light, 0.02, 0.5)],
    "at night": [(light, 0.01, 0.3), (lambda p: warmth(np.rot90(p, 2)[:30, :40]), 0, 0.95)],
    "overcast": [(saturation, 0.1, 0.75), (contrast, 0.3, 0.9)],
    "hazy": [(contrast, 0.1, 0.7), (lambda p: float(np.quantile(p, 0.02)), 1.5, 99), (saturation, 0.1, 0.8)],
    "foggy": [(contrast, 0.05, 0.6), (lambda p: float(np.quantile(p, 0.02)), 1.5, 99), (saturation, 0.05, 0.6)],
    "rainy": [(light, 0.2, 0.9), (saturation, 0.1, 0.8), (lambda p: detail(p[120:150, 160:]), 1.3, 99)],
    "snowy": [(saturation, 0.1, 0.8), (lambda p: detail(p[120:150, 160:]), 2, 99)],
    "in glare": [(light, 1.1, 9), (lambda p: float(np.quantile(p, 0.02)), 1.2, 9)],
    "out of focus": [(detail, 0.02, 0.7), (light, 0.97, 1.06)],
    "in motion": [(detail, 0.02, 0.85), (light, 0.98, 1.02)],
    "noisy": [(lambda p: detail(p[120:150, 160:]), 1.5, 99), (light, 0.9, 1.1)],
    "compressed": [(blocks, 2, 99), (light, 0.9, 1.1)],
    "discoloured": [(light, 0.6, 1.3), (cast, 1.5, 99)],
}


@pytest.mark.parametrize("value", TYPES)
def test_each_value_does_what_it_says(value: str) -> None:
    picture = street()
    other = drawn(picture, value)
    for number, (figure, least, most) in enumerate(CHANGES[value]):
        ratio = figure(other) / figure(picture)
        assert least <= ratio <= most, (number, ratio)


def test_a_small_lamp_burns_at_night() -> None:
    other = drawn(street(), "at night").astype(int)
    assert other[151:155, 241:245].mean() > max(120, 2.5 * other[165:180, 255:280].mean())


def test_glare_comes_from_the_brightest_part() -> None:
    picture = np.full((200, 300, 3), 60, np.uint8)
    picture[30:50, 230:250] = 255
    grown = drawn(picture, "in glare").astype(int) - picture
    assert grown[60:80, 200:220].mean() > 1.5 * grown[150:, :80].mean() > 0


def test_what_a_caller_cannot_ask_for() -> None:
    picture, rng = street(), np.random.default_rng(0)
    with pytest.raises(ValueError, match="no light or weather is called weather: at night"):
        draw_light(open_photograph(picture), [("weather", "at night")], 1.0, rng)
    for severity in (0.0, -1.0, 1.01, float("nan")):
        with pytest.raises(ValueError, match="severity"):
            draw_light(open_photograph(picture), [("weather", "foggy")], severity, rng)
    with pytest.raises(ValueError, match="uint8"):
        open_photograph(picture[..., 0])
    with pytest.raises(ValueError, match="depth"):
        open_photograph(picture, np.zeros((3, 3), np.float32))
