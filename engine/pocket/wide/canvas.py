"""What a scene is painted on: colours and surfaces at three times the size of the picture.

Every pixel holds its colour and the number of the surface that it shows, so that one stroke paints both, and class,
object, distance and lamp of a pixel are looked up by its surface when the painting is done.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import cv2
import numpy as np
from numpy.typing import NDArray

from .scene import CLASSES, SIZE

SCALE = 3
SIDE = SIZE * SCALE
_SHIFT = 4  # OpenCV takes corners in sixteenths of a pixel
_MOST_SURFACES = 256
_MARGIN = 24  # no detail reaches as many pixels beyond the polygon that it is painted in

Rgb = tuple[float, float, float]
Point = tuple[float, float]


@dataclass(frozen=True)
class Plane:
    """The inverse of the distance over image coordinates: a x + b y + c."""

    a: float = 0.0
    b: float = 0.0
    c: float = 0.0

    @classmethod
    def upright(cls, z: float) -> Plane:
        """A plane that faces the camera."""
        return cls(c=1 / z)

    @classmethod
    def along(cls, x0: float, z0: float, x1: float, z1: float) -> Plane:
        """An upright plane seen at distance z0 where the image's x is x0, and at z1 where it is x1."""
        if abs(x1 - x0) < 1e-6:
            return cls.upright(min(z0, z1))
        a = (1 / z1 - 1 / z0) / (x1 - x0)
        return cls(a=a, c=1 / z0 - a * x0)


@dataclass(frozen=True)
class Surface:
    """What all pixels of one surface have in common. `instance` is 0 for what is no object, else its number plus 1."""

    label: int
    instance: int = 0
    plane: Plane = Plane()
    lit: bool = False  # keeps its colour in any light: the sky
    lamp: bool = False  # shines by itself


def shade(rgb: Rgb, factor: float) -> Rgb:
    """A colour made darker or lighter."""
    red, green, blue = (min(255.0, part * factor) for part in rgb)
    return red, green, blue


def mix(rgb: Rgb, other: Rgb, share: float) -> Rgb:
    """A colour with a share of another."""
    red, green, blue = (a * (1 - share) + b * share for a, b in zip(rgb, other, strict=True))
    return red, green, blue


@dataclass
class Canvas:
    """The painting, uint8 [SIDE, SIDE, 4]: red, green, blue, and the surface's number."""

    pixels: NDArray[np.uint8] = field(default_factory=lambda: np.zeros((SIDE, SIDE, 4), np.uint8))
    surfaces: list[Surface] = field(default_factory=list)

    def surface(self, label: str, plane: Plane, instance: int = 0, *, lit: bool = False, lamp: bool = False) -> int:
        """The number of a new surface."""
        assert len(self.surfaces) < _MOST_SURFACES, "surfaces are numbered in eight bits"
        self.surfaces.append(Surface(CLASSES.index(label), instance, plane, lit, lamp))
        return len(self.surfaces) - 1

    def lamp_on(self, surface: int) -> int:
        """A surface like another that shines."""
        of = self.surfaces[surface]
        return self.surface(CLASSES[of.label], of.plane, of.instance, lit=True, lamp=True)

    def polygon(self, points: Sequence[Point], rgb: Rgb, surface: int) -> None:
        cv2.fillPoly(self.pixels, [self._corners(points)], (*rgb, surface), shift=_SHIFT)

    @contextmanager
    def inside(self, points: Sequence[Point]) -> Iterator[None]:
        """What is painted meanwhile stays inside of a polygon, to the pixel."""
        corners = self._corners(points)
        low = np.clip((corners.min(0) >> _SHIFT) - _MARGIN, 0, SIDE)
        high = np.clip((corners.max(0) >> _SHIFT) + _MARGIN, 0, SIDE)
        part = self.pixels[low[1] : high[1], low[0] : high[0]]
        before, stencil = part.copy(), np.zeros(part.shape[:2], np.uint8)
        if stencil.size:
            cv2.fillPoly(stencil, [corners - (low << _SHIFT)], 1, shift=_SHIFT)
        yield
        part[stencil == 0] = before[stencil == 0]

    @staticmethod
    def _corners(points: Sequence[Point]) -> NDArray[np.int32]:
        corners = np.array(points, np.float64) * (SIDE << _SHIFT) - (1 << (_SHIFT - 1))
        return corners.round().astype(np.int32)

    def box(self, x0: float, y0: float, x1: float, y1: float, rgb: Rgb, surface: int) -> None:
        self.polygon([(x0, y0), (x1, y0), (x1, y1), (x0, y1)], rgb, surface)

    def ellipse(self, x: float, y: float, rx: float, ry: float, rgb: Rgb, surface: int) -> None:
        centre, radii = (round(x * SIDE), round(y * SIDE)), (max(1, round(rx * SIDE)), max(1, round(ry * SIDE)))
        cv2.ellipse(self.pixels, centre, radii, 0, 0, 360, (*rgb, surface), -1)

    def ring(self, x: float, y: float, rx: float, ry: float, wide: float, rgb: Rgb, surface: int) -> None:
        centre, radii = (round(x * SIDE), round(y * SIDE)), (max(1, round(rx * SIDE)), max(1, round(ry * SIDE)))
        cv2.ellipse(self.pixels, centre, radii, 0, 0, 360, (*rgb, surface), max(1, round(wide * SIDE)))

    def stroke(self, points: Sequence[Point], wide: float, rgb: Rgb, surface: int) -> None:
        """A line with round ends, `wide` as a share of the image."""
        corners = (np.array(points, np.float64) * SIDE).round().astype(np.int32)
        cv2.polylines(self.pixels, [corners], False, (*rgb, surface), max(1, round(wide * SIDE)))

    def darken(self, x: float, y: float, rx: float, ry: float, factor: float) -> None:
        """A shadow on what is painted already: colours only."""
        x0, x1 = (round(min(1.0, max(0.0, v)) * SIDE) for v in (x - rx, x + rx))
        y0, y1 = (round(min(1.0, max(0.0, v)) * SIDE) for v in (y - ry, y + ry))
        if x1 <= x0 or y1 <= y0:
            return
        across = (np.arange(x0, x1, dtype=np.float32) / SIDE - x) / rx
        down = (np.arange(y0, y1, dtype=np.float32) / SIDE - y) / ry
        far = across[None] ** 2 + down[:, None] ** 2
        share = np.clip(1.6 * (1 - far), 0, 1)[..., None] * np.float32(1 - factor)
        part = self.pixels[y0:y1, x0:x1, :3]
        part[:] = (part * (1 - share)).astype(np.uint8)
