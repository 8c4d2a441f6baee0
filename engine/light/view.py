"""A photograph on its way through edits, in linear light: its rows at full size when they are asked for, and all of it
small.

What an edit must know of the whole picture (how bright it is, where its sky lies) it reads from the small one, and what
it lays over the picture (fog, glows, streaks) are fields: maps of a size of their own. So a picture of any size passes
through in strips, and all that edits do scales with it. Linear light is float32, 1 where sRGB's 255 is (IEC 61966-2-1).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from counterfactory.kernels.opencv import cv2

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]
Colour = tuple[float, float, float]
# Rows top to bottom of a picture, float32 [bottom - top, W, 3], which whoever asked may write into.
Rows = Callable[[int, int], Floats]

LUMINANCE: Colour = (0.2126, 0.7152, 0.0722)
# Sides of the small picture at most, and of fields of particles.
_SMALL, _SMALL_LONG = 192, 1536


@dataclass(frozen=True)
class Window:
    """The rows `top` to `bottom` of a picture of `height` x `width` pixels."""

    height: int
    width: int
    top: int
    bottom: int

    @property
    def down(self) -> Floats:
        """How far down the picture its rows lie, 0 to 1, [rows, 1]."""
        return ((np.arange(self.top, self.bottom, dtype=np.float32) + 0.5) / np.float32(self.height))[:, None]

    @property
    def across(self) -> Floats:
        """How far to the right its columns lie, 0 to 1, [1, W]."""
        return ((np.arange(self.width, dtype=np.float32) + 0.5) / np.float32(self.width))[None]


@dataclass(frozen=True)
class Field:
    """A map of a whole picture, float32 [h, w] or [h, w, 3], at a size of its own."""

    values: Floats

    def at(self, window: Window) -> Floats:
        """The map on a picture's rows: means where the picture is smaller, bilinear where it is larger."""
        height, width = self.values.shape[:2]
        if (height, width) == (window.height, window.width):
            return self.values[window.top : window.bottom]
        if height >= window.height:
            size, area = (window.width, window.height), width >= window.width
            whole = cv2.resize(self.values, size, interpolation=cv2.INTER_AREA if area else cv2.INTER_LINEAR)
            return np.asarray(whole, np.float32)[window.top : window.bottom]
        y = np.clip((np.arange(window.top, window.bottom) + 0.5) * (height / window.height) - 0.5, 0, height - 1)
        above = y.astype(np.intp)
        first, below = above[0], np.minimum(above + 1, height - 1)
        part, how = self.values[first : below[-1] + 1], cv2.INTER_AREA if window.width < width else cv2.INTER_LINEAR
        wide: Floats = np.asarray(cv2.resize(part, (window.width, len(part)), interpolation=how), np.float32)
        share = (y - above).astype(np.float32).reshape(-1, *[1] * (wide.ndim - 1))
        lower, upper = wide[below - first], wide[above - first]
        lower -= upper
        lower *= share
        return np.asarray(cv2.add(upper, lower), np.float32)


@dataclass(frozen=True)
class View:
    """A picture after some edits. `small` is all of it, float32 [h, w, 3]; `halo` counts the rows above and below that
    a row is made of; `depth` is 0 near and 1 far, where it is known.
    """

    height: int
    width: int
    rows: Rows
    small: Floats
    halo: int = 0
    depth: Field | None = None

    @property
    def short(self) -> int:
        """The shorter side in pixels."""
        return min(self.height, self.width)

    def whole(self) -> Window:
        """The small picture's window."""
        height, width = self.small.shape[:2]
        return Window(height, width, 0, height)

    def changed(self, change: Callable[[Floats, Window], Floats]) -> View:
        """After a change that looks at each pixel by itself."""
        height, width, rows = self.height, self.width, self.rows
        return replace(
            self,
            rows=lambda top, bottom: change(rows(top, bottom), Window(height, width, top, bottom)),
            small=change(self.small.copy(), self.whole()),
        )


def open_view(picture: Bytes, depth: Floats | None) -> View:
    """An 8-bit sRGB picture [H, W, 3], and its depth [H, W] where it is known."""
    height, width = picture.shape[:2]
    values = np.arange(256) / 255
    table = np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4).astype(np.float32)
    scale = min(1.0, _SMALL / min(height, width), _SMALL_LONG / max(height, width))
    size = max(1, round(width * scale)), max(1, round(height * scale))

    def rows(top: int, bottom: int) -> Floats:
        return np.asarray(cv2.LUT(picture[top:bottom], table), np.float32)

    small = _reduced(rows, (height, width), size)
    return View(height, width, rows, small, depth=None if depth is None else Field(depth))


def _reduced(rows: Rows, shape: tuple[int, int], size: tuple[int, int]) -> Floats:
    """All of a picture as means of its linear light, by strips; `size` is (w, h)."""
    height, width = shape
    # Means of whole blocks first, so that no more than a strip of a large picture is there at a time.
    block = max(1, min(height // size[1], width // size[0]) // 2)
    if block == 1:
        return np.asarray(cv2.resize(rows(0, height), size, interpolation=cv2.INTER_AREA), np.float32)
    step = block * max(1, 2**17 // (width * block))
    parts = (rows(top, min(top + step, height)) for top in range(0, height, step))
    sizes = ((part, (-(-width // block), -(-len(part) // block))) for part in parts)
    strips = [cv2.resize(part, reduced, interpolation=cv2.INTER_AREA) for part, reduced in sizes]
    return np.asarray(cv2.resize(np.concatenate(strips), size, interpolation=cv2.INTER_AREA), np.float32)


def encode(pixels: Floats, dither: Bytes) -> Bytes:
    """Linear light as 8-bit sRGB, with a random byte for each value that says to which side it is rounded: no bands
    where light changes slowly. What is a byte already stays that byte. The pixels are written over, as memory that is
    used again is much faster than new.
    """
    # Powers of 0 take OpenCV ten times as long.
    line = np.clip(pixels, 4e-7, 1, out=pixels)
    encoded = np.asarray(cv2.pow(line, 1 / 2.4), np.float32)
    cv2.addWeighted(encoded, 1.055, encoded, 0, -0.055, dst=encoded)
    # Below 0.0031 the curve is a straight line, which lies above the power.
    line *= np.float32(12.92)
    cv2.max(encoded, np.minimum(line, np.float32(0.04045), out=line), dst=encoded)
    # A little less than a half to either side, so that no inexact power makes another byte of a byte.
    cv2.addWeighted(encoded, 255, dither, 0.98 / 255, -0.49, dst=encoded, dtype=cv2.CV_32F)
    return np.asarray(cv2.convertScaleAbs(encoded), np.uint8)


def luminance(pixels: Floats) -> Floats:
    """How bright linear light [h, w, 3] is, [h, w]."""
    return np.asarray(cv2.transform(pixels, np.array([LUMINANCE], np.float32)), np.float32)


def spread(plane: Floats) -> Floats:
    """A plane [h, w] for each of three colours."""
    return np.asarray(cv2.merge([plane, plane, plane]), np.float32)


def times(pixels: Floats, plane: Floats) -> Floats:
    """Pixels [h, w, 3] times a plane [h, w]."""
    product = spread(plane)
    return np.asarray(cv2.multiply(pixels, product, dst=product), np.float32)


def scaled(pixels: Floats, colour: Colour, more: Colour = (0.0, 0.0, 0.0)) -> Floats:
    """Pixels [h, w, 3], each channel times its own factor, and more."""
    return np.asarray(cv2.transform(pixels, np.column_stack([np.diag(colour), more]).astype(np.float32)), np.float32)


def shift_colours(pixels: Floats, tint: Colour, saturation: float) -> Floats:
    """Pixels with their colours nearer to grey, and multiplied by a tint."""
    grey = np.broadcast_to(np.array(LUMINANCE), (3, 3))
    matrix = np.diag(tint) @ (saturation * np.eye(3) + (1 - saturation) * grey)
    return np.asarray(cv2.transform(pixels, matrix.astype(np.float32)), np.float32)


def smoothstep(plane: Floats, low: float, high: float) -> Floats:
    """0 up to `low`, 1 from `high` on, and smooth between."""
    share = np.clip((plane - np.float32(low)) * np.float32(1 / (high - low)), 0, 1)
    return np.asarray(share * share * (3 - 2 * share), np.float32)


def clouds(view: View, rng: np.random.Generator, largest: float = 0.6) -> Field:
    """A smooth random field of mean 0 and deviation 1: three octaves, the largest of this share of the shorter side."""
    height, width = view.small.shape[:2]
    total = np.zeros((height, width), np.float32)
    for octave in range(3):
        cell = max(largest * min(height, width) / 2**octave, 1.0)
        shape = int(height / cell) + 3, int(width / cell) + 3
        points = rng.standard_normal(shape, dtype=np.float32)
        x, y = rng.random(2)
        scale = np.array([[1 / cell, 0, x + 0.5], [0, 1 / cell, y + 0.5]])
        flags = cv2.INTER_CUBIC | cv2.WARP_INVERSE_MAP
        octave_map = cv2.warpAffine(points, scale, (width, height), flags=flags, borderMode=cv2.BORDER_REFLECT)
        total += np.asarray(octave_map, np.float32) / np.float32(2**octave)
    return Field(np.asarray((total - total.mean()) / max(float(total.std()), 1e-6), np.float32))


def blurred(plane: Floats, sigma: float) -> Floats:
    """A small map, smooth; `sigma` in its pixels."""
    border = cv2.BORDER_REPLICATE
    return np.asarray(cv2.GaussianBlur(plane, (0, 0), max(sigma, 0.3), borderType=border), np.float32)
