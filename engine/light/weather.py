"""The same place in another weather: a covered sky, haze, fog, rain, snow.

Air scatters light: what comes from a distance is weakened by t = exp(-optical depth) and the air's own light takes its
place, I = J t + A (1 - t) (Koschmieder 1924). Without a depth map a photograph lies at one distance and its sky far
away; a picture with a sky also recedes from its lower border to its horizon.
"""

from __future__ import annotations

import numpy as np

from counterfactory.kernels.opencv import cv2

from .particles import fall_flakes, fall_streaks
from .sky import Sky
from .view import Colour, Field, Floats, View, Window, blurred, clouds, luminance, scaled, shift_colours, spread, times

_SAME: Colour = (1.0, 1.0, 1.0)


def airlight(view: View, tint: Colour) -> Colour:
    """What light the air of a picture sends: as bright as its bright parts, nearly of the tint's colour."""
    small = view.small.reshape(-1, 3)
    light = luminance(view.small).ravel()
    bright = float(np.quantile(light, 0.9))
    chosen = small[light >= bright].mean(axis=0)
    level = min(0.75, max(0.85 * bright + 0.1 * float(light.max()), min(0.3, 3 * float(light.mean())), 0.02))
    own = chosen / max(float(chosen.mean()), 1e-4)
    red, green, blue = (float(level * t * (0.88 + 0.12 * o)) for t, o in zip(tint, own, strict=True))
    return red, green, blue


def scatter(pixels: Floats, optical_depth: Floats, air: Colour, colours: Colour = _SAME) -> Floats:
    """Linear light [h, w, 3] through air of an optical depth [h, w], times a factor for each colour."""
    if colours == _SAME:
        passed = spread(np.asarray(cv2.exp(-optical_depth), np.float32))
    else:
        passed = np.asarray(cv2.merge([cv2.exp(optical_depth * np.float32(-c)) for c in colours]), np.float32)
    red, green, blue = air
    away = scaled(pixels, _SAME, (-red, -green, -blue))
    cv2.multiply(away, passed, dst=away)
    return scaled(away, _SAME, air)


def distance(view: View, sky: Sky | None, window: Window, sky_at: float = 1.0) -> Floats:
    """How far away each pixel is, [rows, W]: 0 to 1, and its sky at `sky_at` or farther."""
    shape = window.bottom - window.top, window.width
    if view.depth is not None:
        plane = view.depth.at(window)
    elif sky is None:
        plane = np.full(shape, 0.6, np.float32)
    else:
        sure = min(1.0, sky.area / 0.15)
        lower = np.clip((window.down - np.float32(sky.horizon)) / np.float32(max(1 - sky.horizon, 0.1)), 0, 1)
        plane = np.broadcast_to(np.float32(0.6 + 0.15 * sure) - np.float32(0.3 * sure) * lower, shape)
    if sky is None:
        return plane
    matte = sky.at(window).matte
    return np.asarray(plane + np.maximum(np.float32(sky_at) - plane, 0) * matte, np.float32)


def foggy(view: View, sky: Sky | None, amount: float, rng: np.random.Generator) -> View:
    """Fog: grey-white air that drifts."""
    air, drift = airlight(view, (0.99, 1.0, 1.02)), clouds(view, rng)

    def change(pixels: Floats, window: Window) -> Floats:
        depth = (np.float32(0.2) + np.float32(2.4) * distance(view, sky, window, 2.5)) * np.float32(amount)
        depth *= 1 + np.float32(0.16) * drift.at(window)
        return scatter(pixels, np.maximum(depth, 0), air)

    return view.changed(change)


def hazy(view: View, sky: Sky | None, amount: float, rng: np.random.Generator) -> View:
    """Haze: pale, warm air in sunlight, through which blue is lost first."""
    air = airlight(view, (1.08, 1.0, 0.84))

    def change(pixels: Floats, window: Window) -> Floats:
        depth = (np.float32(0.1) + np.float32(2.0) * distance(view, sky, window, 1.5)) * np.float32(amount)
        return scatter(pixels, depth, air, (0.85, 1.0, 1.25))

    return view.changed(change)


def overcast(view: View, sky: Sky | None, amount: float, rng: np.random.Generator) -> View:
    """A covered sky: no sun, soft shadows, pale and cool."""
    thin = np.float32(0.3 * amount)
    dull = _covered(view, sky, amount, clouds(view, rng, 0.9), exposure=0.65, saturation=0.35, flatness=0.8)
    air = airlight(view, (0.8, 0.82, 0.84))
    return dull.changed(lambda pixels, window: scatter(pixels, distance(view, sky, window) * thin, air))


def rainy(view: View, sky: Sky | None, amount: float, rng: np.random.Generator) -> View:
    """Rain: a dark covered sky, wet air, and streaks at several distances."""
    # A little rain needs as many clouds as much.
    drops, early = fall_streaks(view, amount, rng), 1 - (1 - amount) ** 3
    dull = _covered(view, sky, early, clouds(view, rng, 0.9), 0.62, 0.5, 0.3)
    air = airlight(view, (0.97 * 0.7, 0.7, 1.04 * 0.7))

    def change(pixels: Floats, window: Window) -> Floats:
        wet = scatter(pixels, distance(view, sky, window) * np.float32(0.3 * early), air)
        return _before(wet, drops.at(window), air, 1.5)

    return dull.changed(change)


def snowy(view: View, sky: Sky | None, amount: float, rng: np.random.Generator) -> View:
    """Snow that falls: flakes at several distances, white air, flat light."""
    flakes, early = fall_flakes(view, amount, rng), 1 - (1 - amount) ** 3
    dull = _covered(view, sky, early, clouds(view, rng, 0.9), 1.0, 0.5, 0.5)
    air = airlight(view, (0.98, 1.0, 1.04))

    def change(pixels: Floats, window: Window) -> Floats:
        far = distance(view, sky, window)
        white = scatter(pixels, (np.float32(0.1) + far) * np.float32(0.55 * early), air)
        return _before(white, flakes.at(window), air, 1.45)

    return dull.changed(change)


def _blend(pixels: Floats, other: Floats, share: Floats) -> Floats:
    """Pixels [h, w, 3], and of `other` the `share` [h, w]."""
    more = times(np.asarray(cv2.subtract(other, pixels), np.float32), share)
    return np.asarray(cv2.add(pixels, more, dst=more), np.float32)


def _before(pixels: Floats, covered: Floats, air: Colour, power: float) -> Floats:
    """A picture behind particles of the air's light, which cover some of each pixel [h, w]."""
    red, green, blue = (-power * c for c in air)
    away = times(scaled(pixels, _SAME, (red, green, blue)), covered)
    return np.asarray(cv2.subtract(pixels, away, dst=away), np.float32)


def _covered(
    view: View, sky: Sky | None, amount: float, cover: Field, exposure: float, saturation: float, flatness: float
) -> View:
    """Under a covered sky: large differences of light are flattened, which leaves those of surfaces (a guided filter's
    base, He & Sun 2015, arXiv 1505.00996), colours are pale and cool, the sky is grey.
    """
    # What is as bright as the mean stays.
    base, level = _Base.of(view), float(np.log(luminance(view.small).mean() + _DARK))
    tint = (exposure * 0.96, exposure, exposure * 1.05)
    # As bright as the picture's bright parts: by night a covered sky is dark.
    grey = min(0.7, float(np.quantile(luminance(view.small), 0.9)) * 0.5 * (1 + exposure))

    def change(pixels: Floats, window: Window) -> Floats:
        logs = cv2.log(luminance(pixels) + np.float32(_DARK))
        large = base.at(np.asarray(logs, np.float32), window)
        gain = cv2.exp((large - np.float32(level)) * np.float32(-flatness * amount))
        flat = times(pixels, np.asarray(gain, np.float32))
        mixed = [1 + (t - 1) * amount for t in tint]
        after = shift_colours(flat, (mixed[0], mixed[1], mixed[2]), 1 - (1 - saturation) * amount)
        if sky is not None:
            light = np.asarray(grey * np.exp(0.1 * cover.at(window)), np.float32)
            painted = scaled(spread(light), (0.97, 1.0, 1.04))
            after = _blend(after, painted, sky.at(window).matte * np.float32(0.9 * amount))
        return after

    return view.changed(change)


_DARK = 0.004


class _Base:
    """The large-scale part of a picture's log luminance, with its outlines: a fast guided filter of itself."""

    def __init__(self, slope: Field, offset: Field) -> None:
        self._slope, self._offset = slope, offset

    @classmethod
    def of(cls, view: View) -> _Base:
        logs = np.asarray(np.log(luminance(view.small) + np.float32(_DARK)), np.float32)
        sigma, noise = min(logs.shape) / 14, 0.35
        mean = blurred(logs, sigma)
        variance = np.maximum(blurred(logs * logs, sigma) - mean * mean, 0)
        slope = np.asarray(variance / (variance + noise), np.float32)
        offset = np.asarray(mean - slope * mean, np.float32)
        return cls(Field(blurred(slope, sigma)), Field(blurred(offset, sigma)))

    def at(self, logs: Floats, window: Window) -> Floats:
        """The base of some rows with these logarithms of their luminance, [rows, W]."""
        return np.asarray(self._slope.at(window) * logs + self._offset.at(window), np.float32)
