"""Edges relative to their surroundings on the GPU: `counterfactory.kernels.edges` for a whole batch at once.

The median is exact. Blurs, derivatives and surroundings are float32 sums whose order OpenCV chooses by the CPU that
it runs on, so a gradient can come out a thousandth of its unit away; from the gradients on, all is whole numbers and
equal to OpenCV's. Maps therefore differ only where that thousandth turns a comparison of neighbours or a threshold.
Compiled, not run on a GPU.
"""

from __future__ import annotations

import cv2
import torch
import triton
import triton.language as tl

from ..edges import EdgeSettings, check_colours
from .canny import edges_of
from .launch import NEAR, around, check_device, launch

MEDIAN_BLOCK = 64  # of up to 32 taps each: a register tile of 2048
_SMOOTHING = 0.8  # as in the reference
_UNIT = 1000.0


@triton.jit
def median_kernel(source, target, count, height, width, side: tl.constexpr, taps: tl.constexpr, block: tl.constexpr):
    """Median of side x side pixels, channel by channel, of uint8 [B, H, W, 3]; beyond the border its pixels go on.

    `taps` is the power of two that holds side * side. The median's bits are found from the highest on: it is the
    largest level that more than half of the pixels reach.
    """
    at = tl.program_id(0) * block + tl.arange(0, block)
    inside = at < count
    channel = at % 3
    pixel = at // 3
    x = pixel % width
    y = pixel // width % height
    corner = pixel - y * width - x
    tap = tl.arange(0, taps)
    row = tl.minimum(tl.maximum(y[:, None] + (tap // side - side // 2)[None, :], 0), height - 1)
    column = tl.minimum(tl.maximum(x[:, None] + (tap % side - side // 2)[None, :], 0), width - 1)
    real = inside[:, None] & (tap < side * side)[None, :]
    offset = (corner[:, None] + row * width + column) * 3 + channel[:, None]
    level = tl.load(source + offset, mask=real, other=0).to(tl.int32)
    median = tl.zeros([block], tl.int32)
    for bit in tl.static_range(8):
        higher = median + (128 >> bit)
        reached = tl.sum((level >= higher[:, None]).to(tl.int32), axis=1)
        median = tl.where(reached > side * side // 2, higher, median)
    tl.store(target + at, median.to(tl.uint8), mask=inside)


@triton.jit
def smooth_kernel(source, target, weights, count, length, stride, radius, reflected: tl.constexpr, block: tl.constexpr):
    """Weighted sum along one axis of `length`, `stride` elements apart, to float32; `weights` [2 * radius + 1].

    Beyond the border the picture is mirrored with its border pixel (`reflected`), else the border pixel goes on.
    """
    at = tl.program_id(0) * block + tl.arange(0, block)
    inside = at < count
    place = at // stride % length
    start = at - place * stride
    total = tl.zeros([block], tl.float32)
    for i in range(2 * radius + 1):
        q = place + i - radius
        if reflected:
            # A window may be wider than the picture, and then be mirrored many times.
            q = ((q % (2 * length)) + 2 * length) % (2 * length)
            q = tl.minimum(q, 2 * length - 1 - q)
        else:
            q = tl.minimum(tl.maximum(q, 0), length - 1)
        total += tl.load(weights + i) * tl.load(source + start + q * stride, mask=inside, other=0).to(tl.float32)
    tl.store(target + at, total, mask=inside)


@triton.jit
def steepest_kernel(smooth, across, down, roots, count, height, width, block: tl.constexpr):
    """Derivatives in grey levels a pixel of each pixel's steepest channel, and the fourth root of their power.

    `smooth` float32 [B, H, W, 3]; the rest float32 [B, H, W].
    """
    at = tl.program_id(0) * block + tl.arange(0, block)
    inside = at < count
    x = at % width
    y = at // width % height
    power = tl.full([block], -1.0, tl.float32)
    best_across = tl.zeros([block], tl.float32)
    best_down = tl.zeros([block], tl.float32)
    for channel in tl.static_range(3):
        nw, n, ne, w, e, sw, s, se = around(smooth + channel, at, x, y, height, width, 3, inside)
        dx = ((ne - nw) + (se - sw)) * 0.125 + (e - w) * 0.25
        dy = ((sw + se) * 0.125 + s * 0.25) - ((nw + ne) * 0.125 + n * 0.25)
        size = dx * dx + dy * dy
        steeper = size > power
        power = tl.where(steeper, size, power)
        best_across = tl.where(steeper, dx, best_across)
        best_down = tl.where(steeper, dy, best_down)
    tl.store(across + at, best_across, mask=inside)
    tl.store(down + at, best_down, mask=inside)
    tl.store(roots + at, tl.sqrt_rn(tl.sqrt_rn(power)), mask=inside)


@triton.jit
def _nearest(value):
    """Values of magnitude below 2^22 to the nearest whole number, ties to the even one, as NumPy rounds float32.

    Adding 1.5 * 2^23 leaves a float32 no bits for a fraction; libdevice's rint is not known to the interpreter.
    """
    return (value + 12582912.0) - 12582912.0


@triton.jit
def relative_kernel(derivative, surroundings, target, count, floor, block: tl.constexpr):
    """A derivative over its surroundings, in thousandths, int16; clipped so that Canny's squares fit int32."""
    at = tl.program_id(0) * block + tl.arange(0, block)
    inside = at < count
    root = tl.load(surroundings + at, mask=inside, other=1.0)
    scale = tl.div_rn(1000.0, root * root + floor)
    value = tl.load(derivative + at, mask=inside, other=0.0) * scale
    value = _nearest(tl.minimum(tl.maximum(value, -23000.0), 23000.0))
    tl.store(target + at, value.to(tl.int16), mask=inside)


def canny_edges(images: torch.Tensor, settings: EdgeSettings) -> torch.Tensor:
    """Edge maps of a batch: uint8 RGB [B, H, W, 3] to uint8 [B, H, W], 255 on an edge and 0 elsewhere.

    Raises ValueError for another dtype or shape, for pictures without pixels, and for a tensor not on a GPU.
    """
    across, down = relative_gradients(images, settings)
    return edges_of(across, down, settings.low * _UNIT, settings.high * _UNIT, True, settings.min_pixels)


def relative_gradients(images: torch.Tensor, settings: EdgeSettings) -> tuple[torch.Tensor, torch.Tensor]:
    """Relative derivatives along x and y, in thousandths, int16 [B, H, W] each. Raises as `canny_edges`."""
    check_colours(images.dtype == torch.uint8, images.dtype, tuple(images.shape))
    check_device("edges", images)
    batch, height, width, _ = images.shape
    count = batch * height * width
    across, down = (torch.empty((batch, height, width), dtype=torch.int16, device=images.device) for _ in range(2))
    if count == 0:
        return across, down
    smooth = _smoothed(_calmed(images.contiguous(), settings.median), 3, _SMOOTHING, reflected=False)
    empty = torch.empty(across.shape, dtype=torch.float32, device=images.device)
    steep_x, steep_y, roots = empty, torch.empty_like(empty), torch.empty_like(empty)
    launch(steepest_kernel, count, smooth, steep_x, steep_y, roots, count, height, width, block=NEAR)
    around = _smoothed(roots, 1, settings.reach, reflected=True)
    launch(relative_kernel, count, steep_x, around, across, count, settings.floor)
    launch(relative_kernel, count, steep_y, around, down, count, settings.floor)
    return across, down


def _calmed(images: torch.Tensor, median: int) -> torch.Tensor:
    if median == 1:
        return images
    calm = torch.empty_like(images)
    _, height, width, _ = images.shape
    count, taps = images.numel(), 16 if median == 3 else 32
    launch(median_kernel, count, images, calm, count, height, width, block=MEDIAN_BLOCK, side=median, taps=taps)
    return calm


def _smoothed(images: torch.Tensor, channels: int, sigma: float, reflected: bool) -> torch.Tensor:
    """Gaussian of [B, H, W, ...] along x, then y; the window is as wide as OpenCV's for floats, 4 sigma a side."""
    side = round(8 * sigma + 1) | 1
    weights = torch.from_numpy(cv2.getGaussianKernel(side, sigma, cv2.CV_32F).reshape(-1)).to(images.device)
    height, width = images.shape[1:3]
    for length, stride in ((width, channels), (height, width * channels)):
        smooth = torch.empty(images.shape, dtype=torch.float32, device=images.device)
        arguments = images, smooth, weights, images.numel(), length, stride, side // 2
        launch(smooth_kernel, images.numel(), *arguments, block=NEAR, reflected=reflected)
        images = smooth
    return images
