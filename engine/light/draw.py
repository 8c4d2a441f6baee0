"""Draws a photograph in another light or weather, at its own size, without networks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from . import camera, daytime, weather
from .glare import glare
from .levels import amount_at
from .menu import MENU
from .sky import Sky, detect_sky
from .view import Bytes, Floats, View, encode, open_view

# Pixels of a strip: as many as stay in a core's cache. More where an edit needs many rows around it.
_STRIP = 2**17
_Draw = Callable[[View, Sky | None, float, np.random.Generator], View]
_DRAW: dict[str, _Draw] = {
    "at sunset": daytime.sunset,
    "at dusk": daytime.dusk,
    "at night": daytime.night,
    "overcast": weather.overcast,
    "hazy": weather.hazy,
    "foggy": weather.foggy,
    "rainy": weather.rainy,
    "snowy": weather.snowy,
    "in glare": glare,
    "out of focus": lambda view, sky, amount, rng: camera.out_of_focus(view, amount),
    "in motion": lambda view, sky, amount, rng: camera.in_motion(view, amount, rng),
    "discoloured": lambda view, sky, amount, rng: camera.discoloured(view, amount, rng),
    "noisy": lambda view, sky, amount, rng: camera.noisy(view, amount, rng),
    "compressed": lambda view, sky, amount, rng: camera.compressed(view, amount),
}


@dataclass(frozen=True)
class Photograph:
    """A photograph before any edit, and where its sky lies: what its pictures share."""

    view: View
    sky: Sky | None


def open_photograph(picture: Bytes, depth: Floats | None = None) -> Photograph:
    """As a picture uint8 RGB [H, W, 3] shows it; `depth` is float32 [H, W], 0 near and 1 far. Raises ValueError."""
    if picture.ndim != 3 or picture.shape[2] != 3 or picture.dtype != np.uint8 or not picture.size:
        raise ValueError(f"a picture is uint8 [H, W, 3], got {picture.dtype} {list(picture.shape)}")
    if depth is not None and depth.shape != picture.shape[:2]:
        raise ValueError(f"a depth map is of its picture's size {list(picture.shape[:2])}, got {list(depth.shape)}")
    view = open_view(picture, depth)
    return Photograph(view, detect_sky(view))


def draw_light(
    photograph: Photograph, values: Sequence[tuple[str, str]], severity: float, rng: np.random.Generator
) -> Bytes:
    """A photograph with edits of MENU, (type, value) each, as new uint8 RGB [H, W, 3] of its picture's size.

    `severity` is above 0 and at most 1. One state of `rng` gives one picture, and at another severity the same one but
    for its strength. Raises ValueError for a value that is not on the menu and for a severity out of range.
    """
    for type_, value in values:
        if value not in MENU.get(type_, ()):
            raise ValueError(f"no light or weather is called {type_}: {value}")
    if not 0 < severity <= 1:
        raise ValueError(f"a severity is above 0 and at most 1, got {severity}")
    return draw_amounts(photograph, {value: amount_at(value, severity) for _, value in values}, rng)


def draw_amounts(photograph: Photograph, amounts: Mapping[str, float], rng: np.random.Generator) -> Bytes:
    """What `draw_light` draws, by amounts of values, each 0 to 1, in place of a severity, which is tuned by this."""
    seed, view = int(rng.integers(2**62)), photograph.view
    for value in (value for of_type in MENU.values() for value in of_type if value in amounts):
        own = np.random.Generator(np.random.SFC64([seed, *value.encode()]))
        view = _DRAW[value](view, photograph.sky, amounts[value], own)
    return _drawn(view, seed)


def _drawn(view: View, seed: int) -> Bytes:
    drawn = np.empty((view.height, view.width, 3), np.uint8)
    stream = np.random.SFC64([seed])
    # Rows around a strip are drawn with it and thrown away: more rows at a time, where memory allows.
    step = max(_STRIP // view.width, min(4 * view.halo, 8 * _STRIP // view.width), 2 * view.halo, 64) // 64 * 64
    for top in range(0, view.height, step):
        bottom = min(top + step, view.height)
        shape = bottom - top, view.width, 3
        count = int(np.prod(shape))
        dither = stream.random_raw(-(-count // 8)).view(np.uint8)[:count].reshape(shape)
        drawn[top:bottom] = encode(view.rows(top, bottom), dither)
    return drawn
