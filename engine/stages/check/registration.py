"""Whether a painted picture lies where its source does: numbers of its pixels alone, no network.

    in_place   1 less how far the picture has moved, a root mean square over its places
    shift      how far its middle has
    scale      by how much it is larger or smaller, along the side where that is most
    aligned    how alike outlines are once that is undone, a correlation; 1: the same, about 0: another picture

Distances are shares of the shorter side. What masks and boxes carry over is false where a picture has moved: editors
that take instructions zoom and push. Both pictures become maps of their outlines, each against its surroundings
(kernels/edges.py), which weather, light and colours leave as they are, and the affine map between the two is found by
least squares (the inverse compositional algorithm, Baker & Matthews 2004). It starts where nothing moved; where that
ends with maps that are not alike, from several sizes, each with the shift that suits it best.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from counterfactory.kernels.opencv import cv2

from .quality import Gradient

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
# An affine map from places in the source to places in the picture, [3, 3]; the middle is the origin.
Affine = Doubles

# Outlines beyond this many thousandths of their surroundings' count no more; maps are blurred by this sigma, and left
# out this near to the border.
_STRONGEST, _BLUR, _BORDER = 1500.0, 1.0, 4
# The mean square of a map's slopes below which a picture has nothing to be told by.
_PLAIN = 1e-5
_STEPS, _SMALL_STEP = 12, 0.05  # of a pixel, at the border
# Below this correlation other places to start from are tried, of these sizes.
_ALIKE, _SIZES = 0.5, (1.0, 0.9, 1.11, 0.8, 1.25, 0.7, 1.43)


class SourceMap(NamedTuple):
    """A source's outlines: the `map` float32 [h, w], its inner values without their mean, [N], their `slopes` along the
    six numbers of an affine map, [N, 6], and the inverse of these slopes' products, [6, 6].
    """

    map: Floats
    values: Doubles
    slopes: Doubles
    inverse: Doubles


def source_map(source: Gradient) -> SourceMap | None:
    """What a source's pictures are aligned with, by its `small_outlines`; None where these are too few to tell."""
    outlines = _outline_map(source)
    height, width = outlines.shape
    if min(height, width) <= 4 * _BORDER:
        return None
    across, down = (cv2.Sobel(outlines, cv2.CV_32F, *order, scale=1 / 8) for order in ((1, 0), (0, 1)))
    dx, dy, x, y = (_inner(values) for values in (across, down, *_coordinates(outlines.shape)))
    slopes = np.stack([dx, dx * x, dx * y, dy, dy * x, dy * y], axis=1) * (min(height, width) / 2)
    slopes -= slopes.mean(axis=0)
    products = slopes.T @ slopes
    # Singular where all outlines run one way: along them a picture could lie anywhere.
    if np.linalg.eigvalsh(products)[0] < _PLAIN * len(slopes):
        return None
    values = _inner(outlines)
    return SourceMap(outlines, values - values.mean(), slopes, np.linalg.inv(products))


def registration_scores(picture: Gradient, source: SourceMap | None) -> dict[str, float]:
    """The scores of a picture with these `small_outlines` against its source; none where nothing can be told."""
    if source is None:
        return {}
    outlines = _outline_map(picture)
    affine, alike = _align(outlines, source, np.eye(3))
    if alike < _ALIKE:
        for start in _other_starts(outlines, source):
            other, other_alike = _align(outlines, source, start)
            if other_alike > alike:
                affine, alike = other, other_alike
    height, width = outlines.shape
    unit = min(height, width) / 2
    change = affine - np.eye(3)
    # Of places spread evenly over the picture, the mean square of x and of y.
    squares = np.array([1.0, (width / 2 / unit) ** 2 / 3, (height / 2 / unit) ** 2 / 3])
    sizes = np.linalg.svd(affine[:2, :2], compute_uv=False)
    moved = float(np.sqrt((change[:2][:, [2, 0, 1]] ** 2 @ squares).sum())) / 2
    numbers = {
        "in_place": 1 - moved,
        "shift": float(np.hypot(*change[:2, 2])) / 2,
        "scale": float(np.exp(np.abs(np.log(np.maximum(sizes, 1e-3))).max())) - 1,
        "aligned": alike,
    }
    # To four digits: a few pixels' last bits depend on where in memory they lie.
    return {name: round(min(max(value, 0.0), 1.0), 4) for name, value in numbers.items()}


def _outline_map(outlines: Gradient) -> Floats:
    """How strong outlines are, 0 to 1, float32 [h, w]."""
    strength = np.minimum(np.asarray(cv2.magnitude(*outlines)), np.float32(_STRONGEST)) / np.float32(_STRONGEST)
    return np.asarray(cv2.GaussianBlur(strength, (0, 0), _BLUR), np.float32)


def _coordinates(shape: tuple[int, ...]) -> tuple[Floats, Floats]:
    """x and y of each pixel, from the middle, in halves of the shorter side."""
    height, width = shape
    unit = min(height, width) / 2
    x, y = ((np.arange(n, dtype=np.float32) - np.float32((n - 1) / 2)) / np.float32(unit) for n in (width, height))
    return np.broadcast_to(x, (height, width)), np.broadcast_to(y[:, None], (height, width))


def _inner(values: Any) -> Doubles:
    """The values that lie off the border, [N]: a quarter, since maps are blurred."""
    return np.asarray(values[_BORDER:-_BORDER:2, _BORDER:-_BORDER:2], np.float64).ravel()


def _warped(outlines: Floats, affine: Affine) -> Floats:
    """A picture's outlines where an affine map from the source to it takes them back to."""
    height, width = outlines.shape
    unit = min(height, width) / 2
    own = np.array([[unit, 0, (width - 1) / 2], [0, unit, (height - 1) / 2], [0, 0, 1]])
    in_pixels = (own @ affine @ np.linalg.inv(own))[:2]
    flags, border = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP, cv2.BORDER_REPLICATE
    return np.asarray(cv2.warpAffine(outlines, in_pixels, (width, height), flags=flags, borderMode=border), np.float32)


def _align(outlines: Floats, source: SourceMap, start: Affine) -> tuple[Affine, float]:
    """The affine map to a picture's outlines that least squares lead to, and the correlation there."""
    affine, alike, best, norm = start, -1.0, start, float(np.linalg.norm(source.values))
    for _ in range(_STEPS):
        seen = _inner(_warped(outlines, affine))
        seen = seen - seen.mean()
        product, own = float(seen @ source.values), float(np.linalg.norm(seen))
        if product <= 0:  # nor is there anything to be seen
            break
        correlation = product / (own * norm)
        if correlation > alike:
            alike, best = correlation, affine
        step = source.inverse @ (source.slopes.T @ (seen * (product / own**2) - source.values))
        update = np.eye(3)
        update[:2] += step.reshape(2, 3)[:, [1, 2, 0]]
        if abs(np.linalg.det(update)) < 0.1:
            break
        affine = affine @ np.linalg.inv(update)
        if np.abs(step).max() * min(outlines.shape) / 2 < _SMALL_STEP:
            break
    return best, alike


def _other_starts(outlines: Floats, source: SourceMap) -> list[Affine]:
    """Where else a picture's outlines may lie: of each size the shift at which they are most alike."""
    height, width = outlines.shape
    unit, padded = min(height, width) / 2, (2 * height, 2 * width)
    # NumPy's transforms give the same wherever arrays lie; OpenCV's phase correlation does not.
    spectrum = np.fft.rfft2(source.map - source.map.mean(dtype=np.float64), padded).conj()
    starts = []
    for size in _SIZES:
        start = np.diag([size, size, 1.0])
        warped = _warped(outlines, start)
        alike = np.fft.irfft2(spectrum * np.fft.rfft2(warped - np.mean(warped, dtype=np.float64), padded), padded)
        y, x = (int(n) for n in np.unravel_index(alike.argmax(), alike.shape))
        y, x = y - padded[0] * (y >= height), x - padded[1] * (x >= width)
        start[:2, 2] = size * x / unit, size * y / unit
        starts.append(start)
    return starts
