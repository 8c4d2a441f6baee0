"""Batched Canny on the GPU: what `counterfactory.kernels.canny` gives, pixel for pixel, for a whole batch at once.

Everything is whole numbers as in OpenCV, so there is nothing to round differently: luminance in 1/32768, blur in
1/65536, gradients in int16, directions by tangents in 1/32768. Grey, blur, gradient, thinning and the three kernels
of `pieces` are a launch each and leave 8- and 16-bit intermediates in memory. Compiled, not run on a GPU.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from ..canny import BLUR_WEIGHTS, CannySettings, check_pictures, whole_thresholds
from .launch import NEAR, around, check_device, launch
from .pieces import keep_pieces


@triton.jit
def grey_kernel(colours, greys, count, block: tl.constexpr):
    """Luminance of RGB pixels, rounded (ITU-R BT.601 in 1/32768, as cv2.cvtColor)."""
    at = tl.program_id(0) * block + tl.arange(0, block)
    inside = at < count
    red = tl.load(colours + 3 * at, mask=inside, other=0).to(tl.int32)
    green = tl.load(colours + 3 * at + 1, mask=inside, other=0).to(tl.int32)
    blue = tl.load(colours + 3 * at + 2, mask=inside, other=0).to(tl.int32)
    grey = (red * 9798 + green * 19235 + blue * 3735 + 16384) >> 15
    tl.store(greys + at, grey.to(tl.uint8), mask=inside)


@triton.jit
def blur_kernel(
    source, target, weights, count, height, width, channels: tl.constexpr, side: tl.constexpr, block: tl.constexpr
):
    """Gaussian of side x side pixels by `weights` int32 [side] in 1/256; beyond the border its pixels go on.

    Both directions at once: sums of whole numbers are exact in any order, and a picture's rows stay in the cache.
    """
    at = tl.program_id(0) * block + tl.arange(0, block)
    inside = at < count
    channel = at % channels
    pixel = at // channels
    x = pixel % width
    y = pixel // width % height
    corner = pixel - y * width - x
    total = tl.zeros([block], tl.int32)
    for i in range(side):
        row = corner + tl.minimum(tl.maximum(y + (i - side // 2), 0), height - 1) * width
        for j in tl.static_range(side):
            column = tl.minimum(tl.maximum(x + (j - side // 2), 0), width - 1)
            level = tl.load(source + (row + column) * channels + channel, mask=inside, other=0).to(tl.int32)
            total += tl.load(weights + i) * tl.load(weights + j) * level
    tl.store(target + at, ((total + 32768) >> 16).to(tl.uint8), mask=inside)


@triton.jit
def _magnitude(across, down, l2: tl.constexpr):
    """int32: |dx| + |dy|, or with l2 the sum of squares."""
    return across * across + down * down if l2 else tl.abs(across) + tl.abs(down)


@triton.jit
def gradient_kernel(
    source, across, down, count, height, width, channels: tl.constexpr, l2: tl.constexpr, block: tl.constexpr
):
    """Sobel derivatives int16 along x and y, of the channel that is steepest at each pixel, the first among equals."""
    at = tl.program_id(0) * block + tl.arange(0, block)
    inside = at < count
    x = at % width
    y = at // width % height
    steepest = tl.full([block], -1, tl.int32)
    best_across = tl.zeros([block], tl.int32)
    best_down = tl.zeros([block], tl.int32)
    for channel in tl.static_range(channels):
        nw, n, ne, w, e, sw, s, se = around(source + channel, at, x, y, height, width, channels, inside)
        dx = (ne - nw) + 2 * (e - w) + (se - sw)
        dy = (sw - nw) + 2 * (s - n) + (se - ne)
        size = _magnitude(dx, dy, l2)
        steeper = size > steepest
        steepest = tl.where(steeper, size, steepest)
        best_across = tl.where(steeper, dx, best_across)
        best_down = tl.where(steeper, dy, best_down)
    tl.store(across + at, best_across.to(tl.int16), mask=inside)
    tl.store(down + at, best_down.to(tl.int16), mask=inside)


@triton.jit
def thin_kernel(across, down, marks, count, height, width, low, high, l2: tl.constexpr, block: tl.constexpr):
    """Marks 0, 1 (weak) or 2 (strong): pixels whose magnitude is a ridge across the gradient, and above `low` or
    `high`. Beyond the border all is flat. Of two equal pixels side by side the first is a ridge; on diagonals neither.
    """
    at = tl.program_id(0) * block + tl.arange(0, block)
    inside = at < count
    x = at % width
    y = at // width % height
    dx = tl.load(across + at, mask=inside, other=0).to(tl.int32)
    dy = tl.load(down + at, mask=inside, other=0).to(tl.int32)
    size = _magnitude(dx, dy, l2)
    # tan 22.5 degrees is 13573 / 32768, and tan 67.5 is 2 more. int16 gradients up to 23170 keep all of it in int32.
    rise = tl.abs(dy) << 15
    shallow = tl.abs(dx) * 13573
    steep = shallow + (tl.abs(dx) << 16)
    level = rise < shallow
    upright = rise > steep
    step_x = tl.where(upright, 0, tl.where((level == 0) & ((dx ^ dy) < 0), -1, 1))
    step_y = tl.where(level, 0, 1)
    before_in = inside & (x >= step_x) & (x - step_x < width) & (y >= step_y)
    after_in = inside & (x + step_x >= 0) & (x + step_x < width) & (y + step_y < height)
    before = at - step_y * width - step_x
    after = at + step_y * width + step_x
    size_before = _magnitude(
        tl.load(across + before, mask=before_in, other=0).to(tl.int32),
        tl.load(down + before, mask=before_in, other=0).to(tl.int32),
        l2,
    )
    size_after = _magnitude(
        tl.load(across + after, mask=after_in, other=0).to(tl.int32),
        tl.load(down + after, mask=after_in, other=0).to(tl.int32),
        l2,
    )
    equal_counts = level | upright
    ridge = (size > size_before) & ((size > size_after) | (equal_counts & (size == size_after)))
    mark = tl.where(ridge & (size > low), tl.where(size > high, 2, 1), 0)
    tl.store(marks + at, mark.to(tl.uint8), mask=inside)


def canny(images: torch.Tensor, settings: CannySettings) -> torch.Tensor:
    """Edge maps of a batch: uint8 [B, H, W] or RGB [B, H, W, 3] to uint8 [B, H, W], 255 on an edge and 0 elsewhere.

    The result lies on the pictures' device. Raises ValueError for another dtype or shape, for pictures without
    pixels, and for a tensor that is not on a GPU.
    """
    check_pictures("canny", images.dtype == torch.uint8, images.dtype, tuple(images.shape))
    check_device("canny", images)
    batch, height, width = images.shape[:3]
    if batch == 0:
        return images.new_empty((0, height, width))
    prepared = _prepared(images.contiguous(), settings)
    count, channels = batch * height * width, 3 if prepared.ndim == 4 else 1
    across = torch.empty((batch, height, width), dtype=torch.int16, device=images.device)
    down = torch.empty_like(across)
    arguments = prepared, across, down, count, height, width
    launch(gradient_kernel, count, *arguments, block=NEAR, channels=channels, l2=settings.l2)
    return edges_of(across, down, settings.low, settings.high, settings.l2)


def edges_of(
    across: torch.Tensor, down: torch.Tensor, low: float, high: float, l2: bool, min_pixels: int = 0
) -> torch.Tensor:
    """Edge maps uint8 [B, H, W] of derivatives int16 [B, H, W], none beyond 23170: non-maximum suppression and
    hysteresis as `cv2.Canny(across, down, low, high, L2gradient=l2)`, without pieces below `min_pixels`.
    """
    marks = torch.empty(across.shape, dtype=torch.uint8, device=across.device)
    count, (_, height, width) = marks.numel(), marks.shape
    bounds = whole_thresholds(low, high, l2)
    if count:
        launch(thin_kernel, count, across, down, marks, count, height, width, *bounds, block=NEAR, l2=l2)
    return keep_pieces(marks, min_pixels)


def _prepared(images: torch.Tensor, settings: CannySettings) -> torch.Tensor:
    if images.ndim == 4 and settings.colour == "grey":
        greys = images.new_empty(images.shape[:3])
        launch(grey_kernel, greys.numel(), images, greys, greys.numel())
        images = greys
    if settings.blur == 1:
        return images
    blurred = torch.empty_like(images)
    weights = torch.tensor(BLUR_WEIGHTS[settings.blur], dtype=torch.int32, device=images.device)
    channels = 3 if images.ndim == 4 else 1
    arguments = images, blurred, weights, images.numel(), images.shape[1], images.shape[2]
    launch(blur_kernel, images.numel(), *arguments, block=NEAR, channels=channels, side=settings.blur)
    return blurred
