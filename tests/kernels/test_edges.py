"""Edge maps: layouts survive weather, precipitation does not become outlines, and the map's own promises hold."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from counterfactory.engine.pocket.worlds import EMBEDDED
from counterfactory.kernels.edges import EdgeSettings, canny_edges

Pixels = NDArray[np.uint8]
DEFAULT = EdgeSettings()
# Agreement with the clear day that each weather and time reaches on average, less a margin for other layouts.
AGREEMENT = {
    ("cloudy", "day"): 0.96,
    ("foggy", "day"): 0.93,
    ("rainy", "day"): 0.90,
    ("snowy", "day"): 0.84,
    ("clear", "sunset"): 0.95,
    ("clear", "night"): 0.83,
    ("foggy", "night"): 0.77,
    ("rainy", "night"): 0.77,
    ("snowy", "night"): 0.76,
}


@cache
def pictures(layouts: tuple[Any, ...], weather: str, time: str) -> Pixels:
    return np.stack([EMBEDDED.draw(replace(scene, weather=weather, time=time)).picture for scene in layouts])


@cache
def masks_of(layouts: tuple[Any, ...]) -> Pixels:
    return np.stack([EMBEDDED.draw(scene).mask for scene in layouts])


def near(edges: Pixels) -> NDArray[np.bool_]:
    """Within one pixel of an edge."""
    return np.stack([cv2.dilate(e, np.ones((3, 3), np.uint8)) for e in edges]) > 0


def agreement(a: Pixels, b: Pixels) -> float:
    """F1 of two sets of maps, edges matching within one pixel."""
    precision = float((near(a) & (b > 0)).sum() / (b > 0).sum())
    recall = float((near(b) & (a > 0)).sum() / (a > 0).sum())
    return 2 * precision * recall / (precision + recall)


def outlines(mask: Pixels) -> Pixels:
    """Where the class changes from a pixel to its right or lower neighbour."""
    changes = np.zeros(mask.shape, np.uint8)
    changes[:, :-1] |= (mask[:, 1:] != mask[:, :-1]).astype(np.uint8)
    changes[:-1] |= (mask[1:] != mask[:-1]).astype(np.uint8)
    return changes


@pytest.fixture(scope="module")
def layouts() -> tuple[Any, ...]:
    rng = np.random.default_rng(20)
    return tuple(EMBEDDED.sample(rng) for _ in range(24))


@pytest.fixture(scope="module")
def clear(layouts: tuple[Any, ...]) -> Pixels:
    return canny_edges(pictures(layouts, "clear", "day"), DEFAULT)


@pytest.mark.parametrize(("weather", "time"), list(AGREEMENT))
def test_a_layout_has_one_map_in_any_weather(layouts: tuple[Any, ...], clear: Pixels, weather: str, time: str) -> None:
    edges = canny_edges(pictures(layouts, weather, time), DEFAULT)
    assert agreement(clear, edges) > AGREEMENT[weather, time]


@pytest.mark.parametrize("weather", ["clear", "foggy", "rainy", "snowy"])
@pytest.mark.parametrize("time", ["day", "sunset", "night"])
def test_vehicles_and_people_keep_their_outlines(layouts: tuple[Any, ...], weather: str, time: str) -> None:
    edges = near(canny_edges(pictures(layouts, weather, time), DEFAULT))
    vehicle = EMBEDDED.classes.index("vehicle")
    things = [np.where(mask >= vehicle, mask, 0).astype(np.uint8) for mask in masks_of(layouts)]
    true = np.stack([outlines(mask) for mask in things]) > 0
    assert (edges & true).sum() > 0.75 * true.sum()


@pytest.mark.parametrize("weather", ["rainy", "snowy"])
def test_rain_and_snow_in_the_sky_are_no_edges(layouts: tuple[Any, ...], weather: str) -> None:
    """The sky well above the roofs is empty: of the edges that rain and snow would draw there, few remain."""
    empty = (masks_of(layouts) == 0).astype(np.uint8)
    sky = np.stack([cv2.erode(mask, np.ones((9, 9), np.uint8)) for mask in empty])
    found = canny_edges(pictures(layouts, weather, "day"), DEFAULT) > 0
    plain = canny_edges(pictures(layouts, weather, "day"), EdgeSettings(median=1, min_pixels=0)) > 0
    share, unfiltered = float(found[sky > 0].mean()), float(plain[sky > 0].mean())
    assert share < 0.015
    assert share < 0.15 * unfiltered


def test_each_map_is_its_pictures_alone(layouts: tuple[Any, ...], clear: Pixels) -> None:
    images = pictures(layouts, "clear", "day")
    again = canny_edges(images[::-1], DEFAULT)[::-1]
    assert (again == clear).all()
    for image, edges in zip(images[:4], clear, strict=False):
        assert (canny_edges(image[None], DEFAULT)[0] == edges).all()


def test_a_rectangle_gives_its_outline() -> None:
    image = np.full((1, 64, 96, 3), 90, np.uint8)
    image[:, 20:44, 30:70] = 180
    edges = canny_edges(image, DEFAULT)
    true = np.zeros((64, 96), np.uint8)
    cv2.rectangle(true, (30, 20), (69, 43), 255, 1)
    assert agreement(true[None], edges) > 0.97


def test_colours_of_one_luminance_have_an_edge() -> None:
    image = np.zeros((1, 64, 64, 3), np.uint8)
    image[:, :, :32], image[:, :, 32:] = (200, 30, 60), (30, 117, 60)
    grey = cv2.cvtColor(image[0], cv2.COLOR_RGB2GRAY)
    assert np.ptp(grey.astype(int)) <= 2
    assert (canny_edges(image, DEFAULT)[0, 8:-8, 30:35] > 0).any(axis=1).all()


@settings(max_examples=40)
@given(
    count=st.integers(0, 3),
    height=st.integers(1, 40),
    width=st.integers(1, 40),
    seed=st.integers(0, 1000),
    median=st.sampled_from([1, 3, 5]),
    min_pixels=st.integers(0, 30),
)
def test_any_map_is_clean(count: int, height: int, width: int, seed: int, median: int, min_pixels: int) -> None:
    images = np.random.default_rng(seed).integers(0, 256, (count, height, width, 3), np.uint8)
    before = images.tobytes()
    edges = canny_edges(images, replace(DEFAULT, median=median, min_pixels=min_pixels))
    assert edges.shape == (count, height, width)
    assert edges.dtype == np.uint8
    assert np.isin(edges, (0, 255)).all()
    assert images.tobytes() == before
    for one in edges:
        assert all(size >= min_pixels for size in pieces(one))


def pieces(edges: Pixels) -> list[int]:
    """Sizes of the 8-connected pieces, by flood fill."""
    left = {(int(y), int(x)) for y, x in np.argwhere(edges)}
    sizes = []
    while left:
        reached = [left.pop()]
        for y, x in reached:
            beside = {(y + dy, x + dx) for dy in (-1, 0, 1) for dx in (-1, 0, 1)} & left
            left -= beside
            reached.extend(beside)
        sizes.append(len(reached))
    return sizes


def test_neither_flat_pictures_nor_grain_have_edges() -> None:
    assert not canny_edges(np.full((1, 32, 48, 3), 128, np.uint8), DEFAULT).any()
    grain = np.random.default_rng(0).normal(120, 4, (4, 128, 128, 3)).round().clip(0, 255).astype(np.uint8)
    assert (canny_edges(grain, DEFAULT) > 0).mean() < 0.005


def test_views_with_strides_are_read_as_they_look() -> None:
    images = np.random.default_rng(1).integers(0, 256, (2, 48, 40, 3), np.uint8)
    images = np.stack([cv2.GaussianBlur(image, (0, 0), 3) for image in images]).astype(np.uint8)
    view = images[:, ::-1, :, ::-1]
    assert (canny_edges(view, DEFAULT) == canny_edges(np.ascontiguousarray(view), DEFAULT)).all()


def test_other_arrays_are_refused() -> None:
    others = [np.zeros(shape, np.uint8) for shape in ((8, 8, 3), (1, 3, 8, 8), (1, 8, 8, 4), (1, 0, 8, 3))]
    for images in (np.zeros((1, 8, 8, 3), np.float32), *others):
        with pytest.raises(ValueError, match="edges need uint8 images"):
            canny_edges(images, DEFAULT)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        *(({"low": low}, "0 < low <= high") for low in (0.0, 2.0, float("nan"))),
        ({"high": 17.0}, "0 < low <= high"),
        *(({"reach": reach}, "reach must be") for reach in (0.0, 1e9)),
        ({"floor": 0.0}, "floor must be"),
        *(({"median": median}, "median must be 1, 3 or 5") for median in (0, 2)),
        ({"min_pixels": -1}, "min_pixels must be at least 0"),
    ],
)
def test_settings_that_make_no_sense_are_refused(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        EdgeSettings(**changed)
