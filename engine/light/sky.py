"""Where a photograph's sky lies, by its pixels alone: what is bright or blue, smooth and joined to the upper border.

A white wall or a ceiling passes for a sky. So whatever edits do to a sky has to look right on a wall too: they give it
the light of a sky and leave its shades.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from counterfactory.kernels.opencv import cv2

from .view import Field, Floats, View, Window, blurred, luminance, smoothstep, times

# What a sky takes of the picture at least, and of the upper border.
_LEAST_AREA, _LEAST_BORDER = 0.03, 0.12
# The difference from a sky below which a pixel may be of it, and how much of a sky's rim may be such at most.
_ALIKE, _MOST_ALIKE = 0.15, 0.25


@dataclass(frozen=True)
class Sky:
    """A picture's sky: `near` is 1 where it may lie, `inside` where all around is sky too, `colour` its linear light
    there, `horizon` how far down the picture it ends, 0 to 1; `area` is its share of the picture.
    """

    source: View
    near: Field
    inside: Field
    colour: Field
    horizon: float
    area: float

    def at(self, window: Window) -> SkyRows:
        """The sky on some rows. No more of a pixel is sky than its darkest channel allows, as the rest cannot be darker
        than black; and what is brighter than the sky stands before it, but for clouds.
        """
        near, inside, colour = (field.at(window) for field in (self.near, self.inside, self.colour))
        if not near.any():
            return SkyRows(near, colour)
        small = window == self.source.whole()
        pixels = self.source.small if small else self.source.rows(window.top, window.bottom)
        ratios = cv2.split(cv2.divide(pixels, colour))
        least = cv2.min(cv2.min(ratios[0], ratios[1]), ratios[2])
        most = cv2.max(cv2.max(ratios[0], ratios[1]), ratios[2])
        share = smoothstep(np.asarray(least, np.float32), 0.2, 0.75)
        share *= 1 - smoothstep(np.asarray(most, np.float32), 1.6, 2.6)
        share *= near
        return SkyRows(np.maximum(share, smoothstep(np.asarray(least, np.float32), 0.06, 0.22) * inside), colour)


class SkyRows(NamedTuple):
    """On some rows, how much of each pixel is sky, 0 to 1 [rows, W], and the sky's colour there [rows, W, 3]."""

    matte: Floats
    colour: Floats

    def removed(self, pixels: Floats) -> Floats:
        """What is left of pixels without their sky: outlines that are mixed of both keep nothing of its light."""
        left = times(self.colour, self.matte)
        cv2.subtract(pixels, left, dst=left)
        return np.maximum(left, 0, out=left)


def detect_sky(view: View) -> Sky | None:
    """The sky of a picture that no edit has changed yet; None where there is next to none."""
    small = view.small
    height, width = small.shape[:2]
    if min(height, width) < 12:
        return None
    rough = _roughness(small)
    region = _region(small, rough)
    if region.mean() < _LEAST_AREA:
        return None
    # What is joined to it and of its colour belongs to it.
    alike = _difference(small, _colour_around(small, region)) < _ALIKE
    parts = np.asarray(cv2.connectedComponents((region | (alike & (rough < 0.05))).astype(np.uint8), connectivity=4)[1])
    region = np.isin(parts, np.unique(parts[region]))
    colour = _colour_around(small, region)
    # Paper, or a wall all around a thing.
    if region[-max(1, height // 40) :].mean() > 0.5:
        return None
    # A sky ends at outlines. A light that falls off on a wall or on paper is none: some of it would be one.
    rim = (_grown(region, 4) > 0) & (_grown(region, 2) == 0)
    if rim.any() and (_difference(small, colour) < _ALIKE)[rim].mean() > _MOST_ALIKE:
        return None
    reach = max(1, round(0.025 * min(height, width)))
    rows = np.flatnonzero(region.mean(axis=1) > 0.08)
    horizon = (float(rows[-1]) + 1) / height if len(rows) else 0.3
    near = Field(blurred(_grown(region, reach), 0.4 * reach))
    inside = Field(blurred(1 - _grown(~region, 2), 1.0))
    return Sky(view, near, inside, Field(np.maximum(colour, np.float32(0.01))), horizon, float(region.mean()))


def _grown(region: NDArray[np.bool_], reach: int) -> Floats:
    """1 where a region is no more pixels away, 0 elsewhere."""
    square = np.ones((2 * reach + 1, 2 * reach + 1), np.uint8)
    return np.asarray(cv2.dilate(region.astype(np.float32), square), np.float32)


def _colour_around(small: Floats, region: NDArray[np.bool_]) -> Floats:
    """The colour of a region, smooth; beyond it that of its nearest part, all the more the nearer."""
    share = region.astype(np.float32)
    sigma = 0.06 * min(share.shape)
    weight = share + np.float32(1e-4) * blurred(share, 4 * sigma) + np.float32(1e-7)
    mass = blurred(weight, sigma)
    sums = [blurred(np.asarray(cv2.multiply(plane, weight), np.float32), sigma) for plane in cv2.split(small)]
    return np.asarray(cv2.merge([cv2.divide(total, mass) for total in sums]), np.float32)


def _difference(small: Floats, colour: Floats) -> Floats:
    """How far the light of pixels is from a colour, in roots, as a share of it, [h, w]."""
    root, own = np.sqrt(small), np.sqrt(np.maximum(colour, 0))
    return np.asarray(np.abs(root - own).max(axis=2) / np.maximum(own.max(axis=2), np.float32(0.1)), np.float32)


def _roughness(small: Floats) -> Floats:
    """How much light changes from pixel to pixel, in roots, smooth, [h, w]."""
    light = luminance(np.sqrt(small))
    across, down = (cv2.Sobel(light, cv2.CV_32F, *order, ksize=3, scale=1 / 8) for order in ((1, 0), (0, 1)))
    return blurred(np.asarray(cv2.magnitude(across, down), np.float32), 1.5)


def _region(small: Floats, rough: Floats) -> NDArray[np.bool_]:
    """The pixels of the small picture that are surely sky, [h, w]."""
    root = np.sqrt(small)
    light = luminance(root)
    red, green, blue = (root[..., i] for i in range(3))
    top, bottom = np.maximum(np.maximum(red, green), blue), np.minimum(np.minimum(red, green), blue)
    colourful = (top - bottom) / np.maximum(top, 1e-3)
    bluish = (blue >= green - 0.02) & (green >= red - 0.06) & (light > 0.22)
    bluish |= (blue >= green - 0.1) & (green >= red + 0.1) & (blue >= red + 0.15) & (light > 0.35)
    pale = (colourful < 0.2) & (light > max(0.45, float(np.quantile(light, 0.55))))
    candidate = ((bluish & (colourful > 0.05)) | pale) & (rough < 0.02)
    # Branches before a white sky, one of an old film, a dull one.
    candidate |= pale & (light > 0.88) & (rough < 0.05)
    candidate |= (colourful < 0.3) & (light > 0.8) & (rough < 0.01)
    candidate |= (colourful < 0.12) & (light > 0.38) & (rough < 0.01)
    opened = cv2.morphologyEx(candidate.astype(np.uint8), cv2.MORPH_OPEN, np.ones((3, 3), np.uint8))
    parts = np.asarray(cv2.connectedComponents(opened, connectivity=4)[1])
    borders = parts[: max(1, len(parts) // 40)]
    counts = np.bincount(borders[borders > 0], minlength=int(parts.max()) + 1)
    kept = counts >= _LEAST_BORDER * borders.size
    kept[0] = False
    # Patches between branches join where one of the kept is near.
    large = kept[parts]
    if not large.any():
        return np.asarray(large)
    reach = max(3, min(parts.shape) // 28)
    near = cv2.dilate(large.astype(np.uint8), np.ones((2 * reach + 1, 2 * reach + 1), np.uint8)) > 0
    floor = int(np.flatnonzero(large.any(axis=1))[-1])
    near[floor + 1 :] = False
    sizes = np.bincount(parts.ravel())
    return np.asarray(large | (near & (parts > 0) & (sizes[parts] >= 6)))
