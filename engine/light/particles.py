"""What falls through the air: streaks of rain and flakes of snow, as how much of each pixel they cover.

Drops fall at all distances. Near ones are few, long, wide and out of focus; far ones are many, short and faint. Each
has a rank: more of them are there, and they are stronger, the higher the amount, so that little rain is a part of
much.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from counterfactory.kernels.opencv import cv2

from .view import Bytes, Field, Floats, View

# The shorter side of the maps that particles are drawn on, and the longer one at most.
_SHORT, _LONG = (384, 1080), 8192
# Fractions of a pixel that OpenCV draws at.
_SHIFT = 4
# Filters read no more of 8-bit pixels than this: blurs are of three deviations.
_REACH = 3
_Draw = Callable[[Bytes, "_Layer", Floats, Floats, list[int], float], None]


@dataclass(frozen=True)
class _Layer:
    """Particles at one distance: how many on a square picture; their `length` (or radius), their `width` and the blur
    of their edges in thousandths of the shorter side; how much they cover; by what factor their map is smaller.
    """

    count: int
    length: float
    width: float
    cover: float
    blur: float
    factor: int = 1


_RAIN = (
    _Layer(800, 28, 1.4, 0.22, 0.6),
    _Layer(340, 60, 2.0, 0.34, 0.9),
    _Layer(110, 120, 3.0, 0.34, 1.8, 2),
    _Layer(24, 220, 5.5, 0.22, 5.0, 4),
)
_SNOW = (
    _Layer(900, 1.7, 0, 0.4, 0.7),
    _Layer(520, 2.8, 0, 0.65, 1.0),
    _Layer(220, 4.6, 0, 0.8, 1.8, 2),
    _Layer(60, 8.5, 0, 0.7, 4.0, 4),
    _Layer(14, 16.0, 0, 0.5, 8.0, 4),
)


def fall_streaks(view: View, amount: float, rng: np.random.Generator) -> Field:
    """How much of each place rain covers, 0 to 1; all of it is slanted one way."""
    slant = np.deg2rad(rng.uniform(4, 20)) * (1 if rng.random() < 0.5 else -1)

    def draw(canvas: Bytes, layer: _Layer, points: Floats, own: Floats, levels: list[int], unit: float) -> None:
        lengths = layer.length * unit * (0.6 + 0.8 * own[:, 0])
        tilt = slant + np.deg2rad(1.6) * (own[:, 1] - 0.5)
        ends = points + np.stack([np.sin(tilt), np.cos(tilt)], axis=1) * lengths[:, None]
        width = max(1, round(layer.width * unit))
        line, antialiased = cv2.line, cv2.LINE_AA
        for start, end, level in zip(_fixed(points), _fixed(ends), levels, strict=True):
            line(canvas, start, end, level, width, antialiased, _SHIFT)

    # Streaks begin and end slowly.
    return _fall(view, amount, rng, _RAIN, draw, taper=1 / 7)


def fall_flakes(view: View, amount: float, rng: np.random.Generator) -> Field:
    """How much of each place snow covers, 0 to 1; flakes are neither round nor alike."""

    def draw(canvas: Bytes, layer: _Layer, points: Floats, own: Floats, levels: list[int], unit: float) -> None:
        radii = layer.length * unit * (0.6 + 0.8 * own[:, 0])
        shapes = np.stack([radii * (0.8 + 0.5 * own[:, 1]), radii * (0.7 + 0.3 * own[:, 2])], axis=1)
        angles = (180 * own[:, 1] * 7 % 180).tolist()
        ellipse, antialiased = cv2.ellipse, cv2.LINE_AA
        for centre, axes, level, angle in zip(_fixed(points), _fixed(shapes), levels, angles, strict=True):
            ellipse(canvas, centre, axes, angle, 0, 360, level, -1, antialiased, _SHIFT)

    return _fall(view, amount, rng, _SNOW, draw, taper=0)


def _fall(
    view: View, amount: float, rng: np.random.Generator, layers: tuple[_Layer, ...], draw: _Draw, taper: float
) -> Field:
    """Particles of all layers; `taper` is the deviation of a blur downwards, in lengths."""
    scale = min(max(_SHORT[0] / view.short, 1), _SHORT[1] / view.short, _LONG / max(view.height, view.width))
    height, width = max(1, round(view.height * scale)), max(1, round(view.width * scale))
    open_air = np.ones((height, width), np.float32)
    for layer in layers:
        count = min(20_000, round(layer.count * height * width / min(height, width) ** 2))
        own = rng.random((count, 6), dtype=np.float32)
        shape = max(1, height // layer.factor), max(1, width // layer.factor)
        unit = min(shape) / 1000
        margin = np.float32(2 * layer.length * unit)
        points = own[:, :2] * (np.array(shape[::-1], np.float32) + 2 * margin) - margin
        # A particle of rank r is there from an amount of r / 1.5 on, and whole a half later.
        strength = np.clip((amount * 1.5 - own[:, 5]) * 2, 0, 1)
        there = strength > 0
        levels = np.rint(255 * strength * (0.4 + 0.6 * own[:, 4])).astype(int)[there].tolist()
        canvas = np.zeros(shape, np.uint8)
        draw(canvas, layer, points[there], own[there, 2:5], levels, unit)
        across = max(0.4, layer.blur * unit)
        down = float(np.hypot(across, taper * layer.length * unit))
        size = 2 * int(_REACH * across) + 1, 2 * int(_REACH * down) + 1
        soft = cv2.GaussianBlur(canvas, size, across, sigmaY=down, borderType=cv2.BORDER_REPLICATE)
        if layer.factor > 1:
            soft = cv2.resize(soft, (width, height), interpolation=cv2.INTER_LINEAR)
        # What is seen past a particle, by its level of 256.
        clear = (1 - layer.cover * np.arange(256) / 255).astype(np.float32)
        open_air = np.asarray(cv2.multiply(open_air, cv2.LUT(soft, clear)), np.float32)
    return Field(np.asarray(1 - open_air, np.float32))


def _fixed(points: Floats) -> list[tuple[int, int]]:
    """Points in the fractions that OpenCV draws at."""
    x, y = np.rint(points.T * (1 << _SHIFT)).astype(int).tolist()
    return list(zip(x, y, strict=True))
