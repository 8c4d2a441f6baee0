"""Between pictures and pixel values: 8-bit RGB into a network's -1..1, and a decoder's -1..1 into 8-bit RGB.

Shrinking is by area and rounds to whole levels first, as `cv2.resize` with INTER_AREA does: a picture that was saved
small and one that is shrunk here give the same pixel values. Enlarging, where OpenCV changes to another
interpolation, is left to the caller.
"""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

HALF_RANGE = 127.5
_SLIVER = 1e-3  # OpenCV leaves out the parts of pixels that are narrower


def to_pixel_values(images: NDArray[np.uint8], side: int) -> NDArray[np.float32]:
    """uint8 RGB [B, H, W, 3] to float32 [B, 3, side, side] in -1..1, squeezed to a square by area.

    Raises ValueError for another dtype or shape, and for pictures smaller than `side`.
    """
    check_images(images.dtype == np.uint8, images.dtype, images.shape, side)
    squares = np.empty((len(images), side, side, 3), np.float32)
    for image, square in zip(images, squares, strict=True):
        square[:] = cv2.resize(np.ascontiguousarray(image), (side, side), interpolation=cv2.INTER_AREA)
    return np.ascontiguousarray(squares.transpose(0, 3, 1, 2)) / np.float32(HALF_RANGE) - np.float32(1)


def to_images(pixel_values: NDArray[np.floating]) -> NDArray[np.uint8]:
    """Floats [B, 3, H, W] to uint8 RGB [B, H, W, 3]: the nearest level, ties to the even one, -1..1 and no further.

    Calculated in float32 whatever the dtype; what NaN becomes is not said. Raises ValueError for another shape.
    """
    check_pixel_values(pixel_values.dtype.kind == "f", pixel_values.dtype, pixel_values.shape)
    shifted = pixel_values.astype(np.float32) + np.float32(1)
    levels = (shifted * np.float32(HALF_RANGE)).round().clip(0, 255).astype(np.uint8)
    return np.ascontiguousarray(levels.transpose(0, 2, 3, 1))


@dataclass(frozen=True)
class Taps:
    """What each of S pixels of a shrunk axis is made of: the source's pixels from `first` int32 [S] on, by `weights`
    float32 [S, T]; those that it does not reach weigh 0.
    """

    first: NDArray[np.int32]
    weights: NDArray[np.float32]


@dataclass(frozen=True)
class Shrinking:
    """How a picture is shrunk: sums along x by `columns`, of these along y by `rows`, times `factor`, then rounded to
    a whole level: ties up where `ties_up`, else to the even one. OpenCV 4 and 5 round so, each path its own way.
    """

    rows: Taps
    columns: Taps
    factor: float
    ties_up: bool


def shrinking(height: int, width: int, side: int) -> Shrinking:
    """The way from `height` x `width` pixels to `side` x `side`, by area.

    Where both ratios are whole, whole pixels are summed exactly and divided once at the end.
    """
    if height % side == 0 and width % side == 0:
        tall, wide = height // side, width // side
        factor = float(np.float32(1 / (tall * wide)))
        return Shrinking(_blocks(tall, side), _blocks(wide, side), factor, tall == wide == 2)
    return Shrinking(area_taps(height, side), area_taps(width, side), 1.0, False)


def _blocks(ratio: int, side: int) -> Taps:
    return Taps(np.arange(side, dtype=np.int32) * np.int32(ratio), np.ones((side, ratio), np.float32))


def area_taps(length: int, side: int) -> Taps:
    """The share that each of `length` pixels has in each of `side`, in float64 and then rounded, as OpenCV has it.

    Slivers of pixels, below a thousandth, are left out without making up for them, as there.
    """
    scale = length / side
    begin = np.arange(side) * scale
    end = begin + scale
    cell = np.minimum(scale, length - begin)
    last = np.minimum(np.floor(end).astype(np.int64), length - 1)
    whole = np.minimum(np.ceil(begin).astype(np.int64), last)  # the first pixel that counts in full
    head, tail = whole - begin, end - last
    has_head, has_tail = head > _SLIVER, tail > _SLIVER
    first = whole - has_head
    at = first[:, None] + np.arange(int((last + has_tail - first).max()))
    weights = np.where((at >= whole[:, None]) & (at < last[:, None]), (1 / cell)[:, None], 0.0)
    weights = np.where((at == whole[:, None] - 1) & has_head[:, None], (head / cell)[:, None], weights)
    share = np.minimum(np.minimum(tail, 1.0), cell) / cell
    weights = np.where((at == last[:, None]) & has_tail[:, None], share[:, None], weights)
    return Taps(first.astype(np.int32), weights.astype(np.float32))


def check_images(is_uint8: bool, dtype: object, shape: tuple[int, ...], side: int) -> None:
    """Raise ValueError unless dtype and shape are those of RGB pictures of at least `side` in height and width."""
    if side < 1 or not is_uint8 or len(shape) != 4 or shape[3] != 3:
        raise ValueError(
            f"pixel values need uint8 pictures [B, H, W, 3] and a side of 1 or more, "
            f"got {dtype} {list(shape)} and {side}"
        )
    if min(shape[1:3]) < side:
        raise ValueError(f"pictures are only shrunk here: {shape[1]} x {shape[2]} is smaller than {side}; resize first")


def check_pixel_values(floating: bool, dtype: object, shape: tuple[int, ...]) -> None:
    """Raise ValueError unless dtype and shape are those of pixel values."""
    if not floating or len(shape) != 4 or shape[1] != 3:
        raise ValueError(f"pictures need float pixel values [B, 3, H, W], got {dtype} {list(shape)}")
