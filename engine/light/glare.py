"""Glare: the brightest part of a picture shines into the lens, which veils all around and leaves ghosts of its blades.

Stray light of a bright point falls off with a power of the angle (the CIE's disability glare, 1999, goes with its
square); ghosts lie on the line through the picture's middle, at the other side too.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from counterfactory.kernels.opencv import cv2

from .sky import Sky
from .view import Field, Floats, View, blurred, luminance, scaled, spread

# The shorter side of the map of stray light at most; an aperture's blades.
_MAP, _BLADES = 256, 6
# Ghosts: where on the line from the light (1) through the middle (0), radius in shares of the shorter side, colour.
_GHOSTS = (
    (0.55, 0.030, (0.9, 0.8, 0.5)),
    (0.25, 0.018, (0.5, 0.9, 0.6)),
    (-0.25, 0.045, (0.9, 0.55, 0.4)),
    (-0.55, 0.080, (0.45, 0.7, 0.9)),
    (-0.95, 0.055, (0.7, 0.5, 0.9)),
)


def glare(view: View, sky: Sky | None, amount: float, rng: np.random.Generator) -> View:
    """A picture with the light of its brightest part in the lens."""
    light = Field(_stray_light(view, _brightest(view, sky), rng.uniform(0, np.pi)) * np.float32(amount))

    return view.changed(lambda pixels, window: np.asarray(cv2.add(pixels, light.at(window), dst=pixels), np.float32))


def _stray_light(view: View, source: tuple[float, float], turn: float) -> Floats:
    """What a light at a place (x, y), in shares of the picture's sides, adds to it: a map [h, w, 3]."""
    scale = min(1.0, _MAP / view.short, 8 * _MAP / max(view.height, view.width))
    height, width = max(1, round(view.height * scale)), max(1, round(view.width * scale))
    unit = np.float32(min(height, width))
    x, y = source[0] * width, source[1] * height
    across = (np.arange(width, dtype=np.float32) + np.float32(0.5 - x))[None] / unit
    down = (np.arange(height, dtype=np.float32) + np.float32(0.5 - y))[:, None] / unit
    squares = across**2 + down**2
    veil = 0.03 / (squares + np.float32(0.012)) + 0.45 * np.exp(-squares / np.float32(0.6)) + 0.12
    angle = np.arctan2(down, across) * np.float32(_BLADES / 2) + np.float32(turn)
    rays = np.asarray(cv2.pow(np.abs(np.cos(angle)), 60), np.float32)
    rays *= np.exp(-np.sqrt(squares) / np.float32(0.16)) * np.float32(0.5)
    light = scaled(spread((veil + rays).astype(np.float32)), (1.0, 0.93, 0.80))
    for at, radius, colour in _GHOSTS:
        centre = width / 2 + at * (x - width / 2), height / 2 + at * (y - height / 2)
        _add_ghost(light, centre, radius * float(unit), 0.07 * np.array(colour))
    return light


def _brightest(view: View, sky: Sky | None) -> tuple[float, float]:
    """Where the light is, in shares of the picture's sides: the brightest place, rather in the sky, high and aside."""
    light = luminance(view.small)
    height, width = light.shape
    smooth = np.sqrt(blurred(light, min(height, width) / 24)) * np.float32(0.5)
    across = (np.arange(width, dtype=np.float32) + 0.5) / width - np.float32(0.5)
    down = (np.arange(height, dtype=np.float32) + 0.5)[:, None] / height
    smooth += np.float32(0.8) * np.abs(across) - np.float32(0.35) * down
    if sky is not None:
        smooth += np.float32(0.3) * sky.near.at(view.whole())
    row, column = np.unravel_index(int(smooth.argmax()), smooth.shape)
    return (float(column) + 0.5) / width, (float(row) + 0.5) / height


def _add_ghost(light: Floats, centre: tuple[float, float], reach: float, colour: NDArray[np.float64]) -> None:
    """A soft disc, brighter at its rim."""
    (x, y), (height, width) = centre, light.shape[:2]
    left, right = max(0, int(x - reach)), min(width, int(x + reach) + 2)
    top, bottom = max(0, int(y - reach)), min(height, int(y + reach) + 2)
    if left >= right or top >= bottom:
        return
    dx = (np.arange(left, right) + 0.5 - x)[None] / max(reach, 0.5)
    dy = (np.arange(top, bottom) + 0.5 - y)[:, None] / max(reach, 0.5)
    away = np.sqrt(dx * dx + dy * dy)
    disc = np.clip((1 - away) * 8, 0, 1) * (0.45 + 0.55 * away**4)
    light[top:bottom, left:right] += (disc[..., None] * colour).astype(np.float32)
