"""The same place at another time of day: a low sun, dusk, night.

A photograph by day is lit by all of its sky. What it would look like later is guessed from how bright its surfaces are:
the sky gets the colours of the hour, surfaces what light is left, small lights burn on and glow, and by night a lamp
lights a part of the scene, because a picture that is dark all over looks like a filter.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from counterfactory.kernels.opencv import cv2

from .grain import add_grain, grain
from .sky import Sky
from .view import Field, Floats, View, Window, blurred, luminance, scaled, shift_colours, smoothstep, spread, times


def dim(view: View, target: float, least: float, most: float) -> float:
    """The factor between `least` and `most` that brings a picture's mean logarithm of light to a target."""
    level = float(np.exp(np.log(luminance(view.small) + 1e-3).mean()))
    return min(most, max(least, target / level))


def sunset(view: View, sky: Sky | None, amount: float, rng: np.random.Generator) -> View:
    """A low warm sun at one side: what faces light is orange, shadows are cool, and the air beside the sun glows."""
    from_right = bool(rng.random() < 0.5)
    height = rng.uniform(0.25, 0.45) if sky is None else sky.horizon * rng.uniform(0.8, 0.95)
    gain = dim(view, 0.075, 0.2, 0.6)
    level = max(float(luminance(view.small).mean()), 0.02)
    aspect = view.width / view.short, view.height / view.short

    def change(pixels: Floats, window: Window) -> Floats:
        side = window.across if from_right else 1 - window.across
        low = window.down - np.float32(height)
        away = ((1 - side) * np.float32(aspect[0])) ** 2 + (low * np.float32(aspect[1])) ** 2
        facing = np.asarray(0.4 + 0.9 * np.exp(-away / np.float32(1.1)), np.float32)

        def relight(surfaces: Floats) -> Floats:
            light = luminance(surfaces)
            lit = np.asarray(light / (light + np.float32(0.6 * level)), np.float32)
            lit *= facing
            shade = shift_colours(surfaces, (0.36 * gain, 0.35 * gain, 0.58 * gain), 0.85)
            sun = shift_colours(surfaces, (3.3 * gain, 1.5 * gain, 0.45 * gain), 0.9)
            return np.asarray(cv2.add(shade, times(sun, lit), dst=shade), np.float32)

        after = _under_sky(pixels, relight, sky, window, _SUNSET_SKY, 0.6)
        glow = np.asarray(np.exp(-away / np.float32(0.35)) * 0.3 + np.exp(-away / np.float32(1.6)) * 0.14, np.float32)
        after = np.asarray(cv2.add(after, scaled(spread(glow), (1.0, 0.48, 0.15)), dst=after), np.float32)
        return _mixed(pixels, after, amount)

    return view.changed(change)


def dusk(view: View, sky: Sky | None, amount: float, rng: np.random.Generator) -> View:
    """The sun is down: dim, blue, without shadows; a sky with a last warm rim, lights that are on, some grain."""
    gain = dim(view, 0.018, 0.05, 0.15)
    lights, noise = _Lights.of(view, sky), grain(view, rng)

    def relight(surfaces: Floats) -> Floats:
        return shift_colours(surfaces, (0.66 * gain, 0.82 * gain, 1.4 * gain), 0.5)

    def change(pixels: Floats, window: Window) -> Floats:
        after = _under_sky(pixels, relight, sky, window, _DUSK_SKY, 1.0)
        after = _mixed(pixels, lights.shine(after, pixels, window, 0.4), amount)
        return add_grain(after, noise, window, 0.0005 * amount, 0.0015 * amount)

    return view.changed(change)


def night(view: View, sky: Sky | None, amount: float, rng: np.random.Generator) -> View:
    """Moonlight, one warm lamp somewhere near the middle, a dark sky, small lights that burn and glow, and grain."""
    gain = dim(view, 0.006, 0.016, 0.045)
    lights = _Lights.of(view, sky)
    x, y, reach = rng.uniform(0.3, 0.7), rng.uniform(0.4, 0.75), rng.uniform(0.36, 0.48)
    aspect = view.width / view.short, view.height / view.short
    noise = grain(view, rng)

    def change(pixels: Floats, window: Window) -> Floats:
        across = (window.across - np.float32(x)) * np.float32(aspect[0])
        down = (window.down - np.float32(y)) * np.float32(aspect[1])
        pool = np.asarray(np.exp(-(across**2 + down**2) / np.float32(reach**2)), np.float32)
        if view.depth is not None:
            pool *= (1 - view.depth.at(window)) ** 2 * np.float32(1.3)

        def relight(surfaces: Floats) -> Floats:
            moon = shift_colours(surfaces, (0.6 * gain, 0.85 * gain, 1.55 * gain), 0.4)
            lamp = shift_colours(surfaces, (3.9 * gain, 2.7 * gain, 1.4 * gain), 0.8)
            return np.asarray(cv2.add(moon, times(lamp, pool), dst=moon), np.float32)

        after = _under_sky(pixels, relight, sky, window, _NIGHT_SKY, 0.7)
        after = _mixed(pixels, lights.shine(after, pixels, window, 0.6), amount)
        return add_grain(after, noise, window, 0.0006 * amount, 0.0022 * amount)

    return view.changed(change)


# The share of a picture that lamps take at most.
_MOST_LAMPS = 0.012
# Linear colours of a sky from its top down to the horizon.
_SkyColours = tuple[tuple[float, float, float], ...]
_Relight = Callable[[Floats], Floats]
_SUNSET_SKY: _SkyColours = ((0.10, 0.13, 0.27), (0.38, 0.23, 0.20), (0.95, 0.42, 0.13))
_DUSK_SKY: _SkyColours = ((0.022, 0.036, 0.095), (0.07, 0.075, 0.15), (0.24, 0.135, 0.14))
_NIGHT_SKY: _SkyColours = ((0.0022, 0.0034, 0.0095), (0.004, 0.0055, 0.013), (0.011, 0.0105, 0.017))


def _under_sky(
    pixels: Floats, relight: _Relight, sky: Sky | None, window: Window, colours: _SkyColours, cloudiness: float
) -> Floats:
    """Surfaces in the light of the hour, and the sky in its colours, with the shades that it has."""
    if sky is None:
        return relight(pixels)
    own = sky.at(window)
    surfaces = relight(own.removed(pixels))
    place = np.clip(window.down / np.float32(max(sky.horizon, 0.05)), 0, 1)[:, 0]
    ramp = np.stack([np.interp(place, (0.0, 0.6, 1.0), [c[i] for c in colours]) for i in range(3)], axis=1)
    painted = np.ascontiguousarray(np.broadcast_to(ramp[:, None].astype(np.float32), pixels.shape))
    ratios = np.asarray(cv2.divide(luminance(pixels), luminance(own.colour)), np.float32)
    shades = np.asarray(cv2.pow(np.clip(ratios, 0.3, 2.5), cloudiness), np.float32)
    return np.asarray(cv2.add(surfaces, times(painted, shades * own.matte), dst=surfaces), np.float32)


def _mixed(pixels: Floats, after: Floats, amount: float) -> Floats:
    """Between a picture and what becomes of it, by ratios, so that each step darkens alike."""
    if amount >= 1:
        return after
    floor, before = np.float32(1e-4), pixels + np.float32(1e-4)
    np.maximum(after, 0, out=after)
    after += floor
    cv2.log(before, dst=before)
    cv2.log(after, dst=after)
    cv2.exp(cv2.addWeighted(before, 1 - amount, after, amount, 0, dst=after), dst=after)
    after -= floor
    return after


@dataclass(frozen=True)
class _Lights:
    """Small bright things of a picture, as lamps and what they light: how bright it is `around` places, the `glow` of
    all lamps, and the `share` of their power. Paper between letters is bright and small too, but there is much of it.
    """

    around: Field
    glow: Field
    share: float
    sky: Sky | None

    @classmethod
    def of(cls, view: View, sky: Sky | None) -> _Lights:
        """Those of a picture by day."""
        small, short = view.small, min(view.small.shape[:2])
        side = max(3, short // 28 | 1)
        opened = cv2.morphologyEx(luminance(small), cv2.MORPH_OPEN, np.ones((side, side), np.uint8))
        dark = cls(Field(blurred(np.asarray(opened, np.float32), side / 2)), Field(np.zeros_like(small)), 1.0, sky)
        burning = dark.burning(small, view.whole())
        share = min(1.0, _MOST_LAMPS / max(float(burning.mean()), 1e-6))
        light = times(small, burning * np.float32(share))
        glow = 0.35 * blurred(light, short / 60) + 0.2 * blurred(light, short / 14)
        return replace(dark, glow=Field(np.asarray(glow, np.float32)), share=share)

    def shine(self, after: Floats, pixels: Floats, window: Window, power: float) -> Floats:
        """The picture `after` the hour's light, with the lights of `pixels` on."""
        burning, own = self.burning(pixels, window), power * self.share
        if burning.any():
            lamps = times(shift_colours(pixels, (own, 0.8 * own, 0.5 * own), 1.0), burning)
            cv2.max(after, lamps, dst=after)
        if not self.glow.values.any():
            return after
        glow = scaled(self.glow.at(window), (power, 0.7 * power, 0.4 * power))
        return np.asarray(cv2.add(after, glow, dst=glow), np.float32)

    def burning(self, pixels: Floats, window: Window) -> Floats:
        """How much of a light each pixel is, 0 to 1: bright, far above what is around, no sky."""
        light = luminance(pixels)
        above = smoothstep(light - self.around.at(window), 0.35, 0.7)
        above *= smoothstep(light, 0.75, 1.0)
        if self.sky is not None:
            above *= 1 - self.sky.near.at(window)
        return above
