"""Moved pictures, made with OpenCV's warps, in any weather and light, at any size; the maps that are found are those
that were asked for.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial
from itertools import pairwise

import cv2
import numpy as np
import pytest
import skimage.data
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from counterfactory.engine.pocket.world import TIMES, WEATHERS
from counterfactory.engine.pocket.worlds import EMBEDDED
from counterfactory.engine.profile.profile import load_profile
from counterfactory.engine.stages.check.quality import small_outlines
from counterfactory.engine.stages.check.registration import registration_scores, source_map

Pixels = NDArray[np.uint8]


def warp(image: Pixels, linear: NDArray[np.float64], shift: tuple[float, float]) -> Pixels:
    """Moved about the middle by a linear map [2, 2] and a shift in shares of the shorter side."""
    height, width = image.shape[:2]
    middle, side = np.array([(width - 1) / 2, (height - 1) / 2]), min(height, width)
    matrix = np.column_stack([linear, middle + np.array(shift) * side - linear @ middle])
    flags = cv2.INTER_CUBIC
    return np.asarray(cv2.warpAffine(image, matrix, (width, height), flags=flags, borderMode=cv2.BORDER_REFLECT))


def zoom(image: Pixels, size: float) -> Pixels:
    return warp(image, np.eye(2) * size, (0, 0))


@cache
def streets(weather: str, time: str) -> list[Pixels]:
    scenes = [EMBEDDED.scene(78, number) for number in range(8)]
    return [EMBEDDED.draw(replace(scene, weather=weather, time=time)).picture for scene in scenes]


def scores(source: Pixels, picture: Pixels) -> dict[str, float]:
    return registration_scores(small_outlines(picture), source_map(small_outlines(source)))


def photograph(name: str) -> Pixels:
    image = np.asarray(getattr(skimage.data, name)(), np.uint8)
    return image if image.ndim == 3 else np.dstack([image] * 3)


def dusk(image: Pixels) -> Pixels:
    """Darker, bluer, behind haze, and noisy."""
    rng = np.random.default_rng(3)
    seen = 255 * (image / 255) ** 1.6 * (0.5, 0.55, 0.75) * 0.7 + 40 + rng.normal(0, 4, image.shape)
    return seen.clip(0, 255).astype(np.uint8)


def test_a_copy_lies_in_place_and_another_or_a_blank_picture_is_not_aligned() -> None:
    clear, in_place = streets("clear", "day"), {"in_place": 1.0, "shift": 0.0, "scale": 0.0}
    assert scores(clear[0], clear[0]) == in_place | {"aligned": 1.0}
    assert scores(clear[0], np.full((128, 128, 3), 90, np.uint8)) == in_place | {"aligned": 0.0}
    assert max(scores(a, b)["aligned"] for a, b in pairwise(clear)) < 0.65
    assert scores(photograph("astronaut"), np.ascontiguousarray(photograph("chelsea")[:, :300]))["aligned"] < 0.3


@pytest.mark.parametrize("weather", WEATHERS)
@pytest.mark.parametrize("time", TIMES)
def test_weather_and_light_move_nothing_and_a_hundredth_is_seen_in_them(weather: str, time: str) -> None:
    pairs = list(zip(streets("clear", "day"), streets(weather, time), strict=True))
    least = load_profile("pocket").check.least["in_place"]
    still, zoomed, pushed = (
        sum(scores(source, moved(picture))["in_place"] >= least for source, picture in pairs)
        for moved in (np.copy, partial(zoom, size=1.03), partial(warp, linear=np.eye(2), shift=(0.006, -0.008)))
    )
    # By rendered fog at night next to nothing is left to go by.
    assert (still, zoomed, pushed) == (7 if (weather, time) == ("foggy", "night") else 8, 0, 0)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 7), st.floats(0.95, 1.05), st.floats(-2, 2), st.floats(-0.02, 0.02), st.floats(-0.02, 0.02))
def test_the_map_is_found(number: int, size: float, angle: float, x: float, y: float) -> None:
    radians = np.deg2rad(angle)
    turn = np.array([[np.cos(radians), -np.sin(radians)], [np.sin(radians), np.cos(radians)]])
    found = scores(streets("clear", "day")[number], warp(streets("cloudy", "day")[number], turn * size, (x, y)))
    assert found["shift"] == pytest.approx(np.hypot(x, y), abs=0.004)
    assert found["scale"] == pytest.approx(max(size, 1 / size) - 1, abs=0.012)
    # The root mean square of how far places have moved, the slow way.
    places = np.stack(np.meshgrid(np.linspace(-0.5, 0.5, 101), np.linspace(-0.5, 0.5, 101)), -1).reshape(-1, 2)
    moved = places @ (turn * size - np.eye(2)).T + (x, y)
    assert 1 - found["in_place"] == pytest.approx(float(np.sqrt((moved**2).sum(axis=1).mean())), abs=0.004)


@pytest.mark.parametrize("name", ["astronaut", "coffee", "chelsea", "rocket"])
def test_photographs_in_another_light_at_their_own_size(name: str) -> None:
    source = photograph(name)
    shifted = warp(source, np.eye(2), (0.0071, 0.0071))
    assert scores(source, dusk(source))["in_place"] > 0.997
    assert 1 - scores(source, dusk(shifted))["in_place"] == pytest.approx(0.01, abs=0.002)
    larger = zoom(source, 1.03)
    assert scores(source, dusk(larger))["scale"] == pytest.approx(0.03, abs=0.005)
    sides = [np.linspace(-0.5, 0.5, 101) * side / min(source.shape[:2]) for side in source.shape[1::-1]]
    moved = 0.03 * np.hypot(*np.meshgrid(*sides))
    assert 1 - scores(source, larger)["in_place"] == pytest.approx(float(np.sqrt((moved**2).mean())), abs=0.001)
    faint = (source * 0.04 + 120).astype(np.uint8)
    assert scores(faint, larger)["scale"] == pytest.approx(0.03, abs=0.006), "of a source next to without contrast"
    wide = warp(source, np.diag([1.04, 1.0]), (0, 0))
    assert scores(source, dusk(wide))["in_place"] < 0.992
    if name == "astronaut":
        assert scores(source, dusk(warp(source, np.eye(2), (0.2, 0))))["shift"] == pytest.approx(0.2, abs=0.01)


@pytest.mark.parametrize(
    "moved",
    [
        lambda image: warp(image, np.eye(2), (0.2, 0)),
        lambda image: warp(image, np.eye(2), (-0.1, 0.12)),
        lambda image: zoom(image, 1.25),
        lambda image: zoom(image, 0.8),
        lambda image: image[:, ::-1],
        lambda image: image[::-1],
        lambda image: np.rot90(image).copy(),
    ],
)
def test_what_is_far_away_fails_one_of_both(moved: object) -> None:
    for source, picture in zip(streets("clear", "day"), streets("rainy", "day"), strict=True):
        found = scores(source, moved(picture))  # type: ignore[operator]
        assert found["in_place"] < 0.99 or found["aligned"] < 0.4


@pytest.mark.parametrize("shape", [(128, 128), (8, 40), (1, 1)])
def test_nothing_is_told_by_a_picture_without_outlines(shape: tuple[int, int]) -> None:
    flat = np.full((*shape, 3), 90, np.uint8)
    assert scores(flat, flat) == {}
    stripes = np.zeros((128, 128, 3), np.uint8)
    stripes[::8] = 255  # along them it could lie anywhere
    assert scores(stripes, stripes) == {}
