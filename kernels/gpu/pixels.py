"""Pictures into pixel values and back on the GPU: `counterfactory.kernels.pixels`, bit for bit.

Shrinking, channel order, scale and dtype are one pass: 8-bit pictures cross to the GPU, a fourth of the bytes of
pixel values even before they are shrunk. Compiled, not run on a GPU.
"""

from __future__ import annotations

import numpy as np
import torch
import triton
import triton.language as tl
from numpy.typing import NDArray

from ..pixels import check_images, check_pixel_values, shrinking
from .launch import NEAR, check_device, launch
from .rounding import nearest


@triton.jit
def shrink_kernel(
    images,
    pixel_values,
    first_row,
    row_weights,
    first_column,
    column_weights,
    count,
    height,
    width,
    side,
    rows,
    columns,
    factor,
    ties_up: tl.constexpr,
    block: tl.constexpr,
):
    """Pixel values [B, 3, side, side] of images uint8 [B, height, width, 3]; `rows` and `columns` are numbers of
    taps. Sums in the order of the source's pixels, along x first, as OpenCV.
    """
    at = tl.program_id(0) * block + tl.arange(0, block)
    inside = at < count
    x = at % side
    y = at // side % side
    channel = at // (side * side) % 3
    picture = at // (side * side * 3) * (height * width)
    left = tl.load(first_column + x, mask=inside, other=0)
    top = tl.load(first_row + y, mask=inside, other=0)
    total = tl.zeros([block], tl.float32)
    for i in range(rows):
        line = picture + tl.minimum(top + i, height - 1) * width
        across = tl.zeros([block], tl.float32)
        for j in range(columns):
            pixel = line + tl.minimum(left + j, width - 1)
            level = tl.load(images + 3 * pixel + channel, mask=inside, other=0).to(tl.float32)
            across += level * tl.load(column_weights + x * columns + j, mask=inside, other=0.0)
        total += across * tl.load(row_weights + y * rows + i, mask=inside, other=0.0)
    # Through int32, since PTX's floor for float32 flushes denormals, which nothing else here does.
    level = (total * factor + 0.5).to(tl.int32).to(tl.float32) if ties_up else nearest(total * factor)
    values = tl.div_rn(level, 127.5) - 1.0
    tl.store(pixel_values + at, values.to(pixel_values.dtype.element_ty), mask=inside)


@triton.jit
def image_kernel(pixel_values, images, count, area, block: tl.constexpr):
    """Images uint8 [B, H, W, 3] of pixel values [B, 3, H, W], `area` pixels each."""
    at = tl.program_id(0) * block + tl.arange(0, block)
    inside = at < count
    channel = at % 3
    pixel = at // 3 % area
    picture = at // (3 * area)
    value = tl.load(pixel_values + (picture * 3 + channel) * area + pixel, mask=inside, other=0.0).to(tl.float32)
    level = nearest(tl.minimum(tl.maximum((value + 1.0) * 127.5, 0.0), 255.0))
    tl.store(images + at, level.to(tl.uint8), mask=inside)


def to_pixel_values(images: torch.Tensor, side: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """uint8 RGB [B, H, W, 3] to `dtype` (float32 or float16) [B, 3, side, side] in -1..1, squeezed to a square by
    area; float16 is the float32 value rounded. Raises ValueError for other dtypes or shapes, for pictures smaller
    than `side`, and for a tensor that is not on a GPU.
    """
    check_images(images.dtype == torch.uint8, images.dtype, tuple(images.shape), side)
    if dtype not in (torch.float32, torch.float16):
        raise ValueError(f"pixel values are float32 or float16, asked for {dtype}")
    check_device("shrinking", images)
    batch, height, width, _ = images.shape
    values = torch.empty((batch, 3, side, side), dtype=dtype, device=images.device)
    if batch == 0:
        return values
    way = shrinking(height, width, side)
    rows, columns = way.rows.weights.shape[1], way.columns.weights.shape[1]
    launch(
        shrink_kernel,
        values.numel(),
        images.contiguous(),
        values,
        _moved(way.rows.first, images),
        _moved(way.rows.weights, images),
        _moved(way.columns.first, images),
        _moved(way.columns.weights, images),
        *(values.numel(), height, width, side, rows, columns, way.factor),
        block=NEAR,
        ties_up=way.ties_up,
    )
    return values


def to_images(pixel_values: torch.Tensor) -> torch.Tensor:
    """Floats [B, 3, H, W] to uint8 RGB [B, H, W, 3]: the nearest level, ties to the even one, -1..1 and no further.

    Calculated in float32 whatever the dtype; what NaN becomes is not said. Raises ValueError for another shape or
    for a tensor that is not on a GPU.
    """
    check_pixel_values(pixel_values.is_floating_point(), pixel_values.dtype, tuple(pixel_values.shape))
    check_device("making pictures", pixel_values)
    batch, _, height, width = pixel_values.shape
    images = torch.empty((batch, height, width, 3), dtype=torch.uint8, device=pixel_values.device)
    if images.numel():
        launch(image_kernel, images.numel(), pixel_values.contiguous(), images, images.numel(), height * width)
    return images


def _moved(array: NDArray[np.generic], beside: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(array).to(beside.device)
