"""The kernels' references on the CPU: OpenCV and NumPy against slow, obvious oracles and against the engine."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from counterfactory.kernels.canny import CannySettings, canny

Pixels = NDArray[np.uint8]
Whole = NDArray[np.int64]


def noise(seed: int, *shape: int) -> Pixels:
    """Smooth noise of few levels, so that there are gradients of all kinds and many equal neighbours."""
    rng = np.random.default_rng(seed)
    images = rng.integers(0, 256, shape, np.uint8)
    for image in images:
        image[:] = cv2.GaussianBlur(image, (0, 0), 1.2).reshape(image.shape)
        low, high = int(image.min()), int(image.max())
        image[:] = (image.astype(int) - low) * 255 // max(high - low, 1) // 8 * 8
    return images


def slow_canny(image: Pixels, low: int, high: int, l2: bool) -> Pixels:
    """Canny's steps over whole arrays: Sobel of the steepest channel, ridges, then flood fill from strong pixels."""
    height, width = image.shape[:2]
    best = [np.zeros((height, width), np.int64), np.zeros((height, width), np.int64), np.full((height, width), -1)]
    for channel in image.reshape(height, width, -1).transpose(2, 0, 1):
        p = np.pad(channel.astype(np.int64), 1, mode="edge")
        rows, columns = p[:-2] + 2 * p[1:-1] + p[2:], p[:, :-2] + 2 * p[:, 1:-1] + p[:, 2:]
        dx, dy = rows[:, 2:] - rows[:, :-2], columns[2:] - columns[:-2]
        size = dx * dx + dy * dy if l2 else abs(dx) + abs(dy)
        best = [np.where(size > best[2], new, old) for new, old in zip((dx, dy, size), best, strict=True)]
    dx, dy, size = best
    around = np.pad(size, 1)
    weak: set[tuple[int, int]] = set()
    reached: list[tuple[int, int]] = []
    for y, x in np.argwhere(size > low).tolist():
        across, down, here = int(dx[y, x]), int(dy[y, x]), int(size[y, x])
        shallow, rise = abs(across) * 13573, abs(down) * 32768
        if rise < shallow:
            ridge = here > around[y + 1, x] and here >= around[y + 1, x + 2]
        elif rise > shallow + abs(across) * 65536:
            ridge = here > around[y, x + 1] and here >= around[y + 2, x + 1]
        else:
            side = -1 if (across < 0) != (down < 0) else 1
            ridge = here > around[y, x + 1 - side] and here > around[y + 2, x + 1 + side]
        if ridge:
            weak.add((y, x))
            if here > high:
                reached.append((y, x))
    weak -= set(reached)
    for y, x in reached:
        beside = {(y + j, x + i) for j in (-1, 0, 1) for i in (-1, 0, 1)} & weak
        weak -= beside
        reached.extend(beside)
    edges = np.zeros((height, width), np.uint8)
    for y, x in reached:
        edges[y, x] = 255
    return edges


@settings(max_examples=30)
@given(
    shape=st.tuples(st.integers(1, 2), st.integers(1, 40), st.integers(1, 40)),
    seed=st.integers(0, 1000),
    colour=st.booleans(),
    l2=st.booleans(),
    low=st.floats(0, 200),
    more=st.floats(0, 300),
)
def test_it_is_canny_s(shape: tuple[int, int, int], seed: int, colour: bool, l2: bool, low: float, more: float) -> None:
    images = noise(seed, *shape, 3) if colour else noise(seed, *shape)
    edges = canny(images, CannySettings(low, low + more, l2))
    # OpenCV compares with whole numbers.
    bounds = [int(bound * bound) if l2 else int(bound) for bound in (low, low + more)]
    for image, found in zip(images, edges, strict=True):
        assert (found == slow_canny(image, *bounds, l2)).all()


def test_grey_and_blur_come_first() -> None:
    image = noise(3, 1, 40, 50, 3)
    levels = image[0].astype(int) @ np.array([9798, 19235, 3735]) + 16384 >> 15
    padded = np.pad(levels, 2, mode="edge")
    taps = list(enumerate([1, 4, 6, 4, 1]))
    blurred = sum(int(a * b) * padded[j : j + 40, i : i + 50] for j, a in taps for i, b in taps)
    blurred = (np.asarray(blurred) + 128) // 256
    found = canny(image, CannySettings(20, 60, blur=5, colour="grey"))[0]
    assert (found == slow_canny(blurred.astype(np.uint8), 20, 60, False)).all()
    assert (found > 0).mean() > 0.02


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        *(({"low": low}, "0 <= low <= high") for low in (-1.0, 300.0)),
        *(({"high": high}, "0 <= low <= high") for high in (float("nan"), 1e6)),
        *(({"blur": blur}, "blur must be") for blur in (4, 9)),
        ({"colour": "red"}, "colour must be"),
    ],
)
def test_settings_that_make_no_sense_are_refused(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CannySettings(**{"low": 100.0, "high": 200.0, **changed})


@pytest.mark.parametrize(("shape", "dtype"), [((1, 8, 8), np.float32), ((8, 8), np.uint8), ((1, 8, 8, 4), np.uint8)])
def test_other_arrays_are_refused(shape: tuple[int, ...], dtype: Any) -> None:
    with pytest.raises(ValueError, match="got"):
        canny(np.zeros(shape, dtype), CannySettings(1, 2))
