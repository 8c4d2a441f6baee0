"""The kernels' references on the CPU: OpenCV and NumPy against slow, obvious oracles and against the engine."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Literal

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from counterfactory.engine.models import clip
from counterfactory.engine.models import sampler as sampling
from counterfactory.engine.models.denoiser import ShapePlans
from counterfactory.kernels import guided_step, pixels, token_mask
from counterfactory.kernels.canny import CannySettings, canny, whole_thresholds

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
def test_canny_is_cannys(
    shape: tuple[int, int, int], seed: int, colour: bool, l2: bool, low: float, more: float
) -> None:
    images = noise(seed, *shape, 3) if colour else noise(seed, *shape)
    edges = canny(images, CannySettings(low, low + more, l2))
    bounds = whole_thresholds(low, low + more, l2)
    for image, found in zip(images, edges, strict=True):
        assert (found == slow_canny(image, *bounds, l2)).all()


def test_grey_and_blur_come_first() -> None:
    image = noise(3, 1, 40, 50, 3)
    levels = image[0].astype(int) @ np.array([9798, 19235, 3735]) + 16384 >> 15
    padded = np.pad(levels, 2, mode="edge")
    weights = np.array([1, 4, 6, 4, 1])
    blurred = sum(
        int(a * b) * padded[j : j + 40, i : i + 50] for j, a in enumerate(weights) for i, b in enumerate(weights)
    )
    blurred = (np.asarray(blurred) + 128) // 256
    found = canny(image, CannySettings(20, 60, blur=5, colour="grey"))[0]
    assert (found == slow_canny(blurred.astype(np.uint8), 20, 60, False)).all()
    assert (found > 0).mean() > 0.02


def test_views_are_read_as_they_look() -> None:
    images = noise(1, 2, 30, 40, 3)
    view = images[:, ::-1, :, ::-1]
    chosen = CannySettings(20, 60, blur=3)
    assert (canny(view, chosen) == canny(np.ascontiguousarray(view), chosen)).all()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"low": -1.0}, "0 <= low <= high"),
        ({"low": 300.0}, "0 <= low <= high"),
        ({"high": float("nan")}, "0 <= low <= high"),
        ({"high": 1e6}, "0 <= low <= high"),
        ({"blur": 4}, "blur must be"),
        ({"blur": 9}, "blur must be"),
        ({"colour": "red"}, "colour must be"),
    ],
)
def test_settings_that_make_no_sense_are_refused(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CannySettings(**{"low": 100.0, "high": 200.0, **changed})


@pytest.mark.parametrize(
    "call",
    [
        lambda: canny(np.zeros((1, 8, 8), np.float32), CannySettings(1, 2)),  # type: ignore[arg-type]
        lambda: canny(np.zeros((8, 8), np.uint8), CannySettings(1, 2)),
        lambda: canny(np.zeros((1, 8, 8, 4), np.uint8), CannySettings(1, 2)),
        lambda: pixels.to_pixel_values(np.zeros((1, 8, 4, 3), np.uint8), 5),
        lambda: pixels.to_pixel_values(np.zeros((1, 3, 8, 8), np.uint8), 4),
        lambda: pixels.to_images(np.zeros((1, 8, 8, 3), np.float32)),
        lambda: token_mask.choose(np.zeros((2, 40), np.float32), np.zeros((1, 2), np.int32)),
        lambda: token_mask.choose(np.zeros((1, 40), np.float32), np.zeros((1, 2), np.int64)),  # type: ignore[arg-type]
    ],
)
def test_other_arrays_are_refused(call: Callable[[], Any]) -> None:
    with pytest.raises(ValueError, match=r"got|smaller"):
        call()


def trajectory(kind: Literal["ddim", "unipc"], steps: int) -> tuple[sampling.Sampler, list[guided_step.StepWeights]]:
    sampler = sampling.Sampler(sampling.SamplerSettings(kind, steps, "epsilon", "leading", False))
    return sampler, [guided_step.StepWeights(s.clean, s.correct, s.advance) for s in sampler._steps]


def test_a_batch_steps_as_the_samplers_do_alone() -> None:
    """Rows of two samplers, step counts and guidances in one batch: each as the engine has it, bit for bit."""
    rng = np.random.default_rng(0)
    kinds: list[tuple[Literal["ddim", "unipc"], int]] = [("unipc", 6), ("unipc", 4), ("ddim", 5), ("unipc", 1)]
    rows = [trajectory(*kind) for kind in kinds]
    shape = (4, 5, 7)
    latents = rng.standard_normal((4, *shape), np.float32)
    history = np.full((3, 4, *shape), np.nan, np.float32)
    alone: list[tuple[Any, Any]] = [(row.copy(), ()) for row in latents]
    for i in range(6):
        on = [row for row, (_, weights) in enumerate(rows) if i < len(weights)]
        conditional, unconditional = rng.standard_normal((2, len(on), *shape), np.float32)
        scales = [7.5 if (row + i) % 2 else None for row in on]
        table = guided_step.pack([(rows[row][1][i], scale) for row, scale in zip(on, scales, strict=True)])
        found, kept = guided_step.guided_step(table, latents[on], conditional, unconditional, history[:, on])
        latents[on], history[:, on] = found, kept
        for at, (row, scale) in enumerate(zip(on, scales, strict=True)):
            output = conditional[at]
            if scale is not None:
                output = unconditional[at] + np.float32(scale) * (output - unconditional[at])
            alone[row] = rows[row][0].step(i, alone[row][0], output, alone[row][1])
            assert np.array_equal(latents[row], alone[row][0])


def test_rows_that_do_not_fit_are_refused() -> None:
    table = guided_step.pack([(guided_step.StepWeights((1.0, 0.0), (), (1.0, 0.0)), None)])
    row, history = np.zeros((1, 4), np.float32), np.zeros((3, 1, 4), np.float32)
    with pytest.raises(ValueError, match=r"unconditional must be float32 \[1, 4\], got float64"):
        guided_step.guided_step(table, row, row, row.astype(np.float64), history)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="history must be"):
        guided_step.guided_step(table, row, row, row, history[:2])
    with pytest.raises(ValueError, match="2 clean"):
        guided_step.StepWeights((1.0, 0.0), (1.0,), (1.0, 0.0))


@settings(max_examples=40)
@given(rows=st.integers(1, 3), tokens=st.integers(1, 100), words=st.integers(1, 4), seed=st.integers(0, 1000))
def test_masks_bit_by_bit(rows: int, tokens: int, words: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    bits = rng.integers(-(2**31), 2**31, (rows, words), np.int64).astype(np.int32)
    logits = rng.choice(np.array([-1, 0, 0, 2, 2, -np.inf, np.nan], np.float32), (rows, tokens))
    masked, chosen = token_mask.mask_logits(logits, bits), token_mask.choose(logits, bits)
    for row in range(rows):
        allowed = [t < 32 * words and (int(bits[row, t // 32]) >> (t % 32)) & 1 == 1 for t in range(tokens)]
        expected = [value if may else -np.inf for value, may in zip(logits[row].tolist(), allowed, strict=True)]
        assert np.array_equal(masked[row], np.array(expected, np.float32), equal_nan=True)
        finite = [t for t in range(tokens) if expected[t] > -np.inf]
        assert chosen[row] == max(finite, key=lambda t: (expected[t], -t), default=-1)


def test_packing_is_undone() -> None:
    allowed = np.random.default_rng(0).random((3, 77)) < 0.5
    packed = token_mask.pack(allowed)
    assert packed.shape == (3, 3)
    assert packed.dtype == np.int32
    assert (token_mask.unpack(packed, 77) == allowed).all()
    assert not token_mask.unpack(packed, 200)[:, 77:].any()


@pytest.mark.parametrize("size", [(64, 64), (64, 128), (48, 48), (75, 96), (32, 32), (33, 100)])
def test_pixel_values_are_the_engines(size: tuple[int, int]) -> None:
    images = np.random.default_rng(0).integers(0, 256, (3, *size, 3), np.uint8)
    assert np.array_equal(pixels.to_pixel_values(images, 32), clip.to_pixel_values(list(images), 32))


@settings(max_examples=40)
@given(side=st.integers(1, 40), more=st.tuples(st.integers(0, 90), st.integers(0, 90)), seed=st.integers(0, 99))
def test_shrinking_is_opencvs(side: int, more: tuple[int, int], seed: int) -> None:
    """The taps, summed as they say, give what cv2.resize gives, level by level."""
    height, width = side + more[0], side + more[1]
    image = np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)
    way = pixels.shrinking(height, width, side)
    total = np.zeros((side, side, 3), np.float32)
    for i in range(way.rows.weights.shape[1]):
        row = image[np.minimum(way.rows.first + i, height - 1)].astype(np.float32)
        across = np.zeros((side, side, 3), np.float32)
        for j in range(way.columns.weights.shape[1]):
            columns = np.minimum(way.columns.first + j, width - 1)
            across += row[:, columns] * way.columns.weights[:, j, None]
        total += across * way.rows.weights[:, i, None, None]
    total *= np.float32(way.factor)
    levels = np.floor(total + np.float32(0.5)) if way.ties_up else np.rint(total)
    assert (levels == cv2.resize(image, (side, side), interpolation=cv2.INTER_AREA)).all()


def test_pictures_are_the_decoders() -> None:
    values = np.random.default_rng(0).uniform(-1.2, 1.2, (2, 3, 9, 11)).astype(np.float32)
    values[0, :, 0] = (np.arange(11, dtype=np.float32) + 0.5) / np.float32(127.5) - 1  # ties, or next to them
    decoder: Any = SimpleNamespace(run=lambda feeds: {"pixel_values": values})
    decoded = ShapePlans(decoder, decoder, decoder, (4, 9, 11)).decode([np.zeros((4, 9, 11), np.float32)] * 2)
    assert (pixels.to_images(values) == np.stack(decoded)).all()
    assert len(np.unique(decoded)) > 100
