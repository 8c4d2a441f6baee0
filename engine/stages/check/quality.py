"""Whether a painted picture is a sound picture, and one of its own: numbers of its pixels alone, no network.

    sharp      how sharp it is, against its source; 1: as sharp or sharper
    changed    how far it is from its source; 0 of a copy
    distinct   how far it is from the nearest of its source's variants before it; 0 of a copy

    layout     whether outlines lie where its mask changes its class; of pictures with masks

All are 0 to 1. Distances are root mean squares of pixels over areas, so that noise of painting counts little. For the
layout no class is known: whatever two values meet in a mask, an outline should run between them. Outlines are gradients
against their surroundings (kernels/edges.py), whatever the painter's own hint is: absolute thresholds lose outlines in
fog and at night, and would reject the weather.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from counterfactory.kernels.edges import EdgeSettings, relative_gradient, trace_edges
from counterfactory.kernels.opencv import cv2

Pixels = NDArray[np.uint8]
Thumbnail = NDArray[np.float32]
# Along x and y, float32 [h, w] each (kernels/edges.py).
Gradient = tuple[NDArray[np.float32], NDArray[np.float32]]

# Pictures are compared at this height or width, whichever is shorter.
_SIDE = 32
# Detail of a source, as a share of its contrast, below which its picture cannot be called blurred against it.
_PLAIN = 1e-3

# For outlines pictures are looked at this high or wide, which the detector's own settings suit, so that a score means
# the same at any size.
_SHORT_SIDE = 128
# Without any tolerance, or with two pixels of it, the referee of the pocket world agrees less with the score.
_REACH = 1
_OUTLINES = EdgeSettings()


class SourceLook(NamedTuple):
    """What a source's pictures are held against: its detail, and its thumbnail."""

    detail: float
    thumbnail: Thumbnail


def look_at_source(source: Pixels) -> SourceLook:
    """Of a source's picture, uint8 RGB [H, W, 3]."""
    return SourceLook(_detail(_grey(source)), thumbnail(source))


def quality_scores(picture: Pixels, own: Thumbnail, source: SourceLook) -> dict[str, float]:
    """The scores of a picture, uint8 RGB [H, W, 3] with its `own` thumbnail, against its source; all but "distinct"."""
    return {
        "sharp": round(min(1.0, _detail(_grey(picture)) / max(source.detail, _PLAIN)), 6),
        "changed": distance(own, source.thumbnail),
    }


def thumbnail(picture: Pixels) -> Thumbnail:
    """What pictures are compared by, float32 [h, w, 3]."""
    return np.asarray(smaller(picture, _SIDE / min(picture.shape[:2])), np.float32)


def smaller(picture: Pixels, scale: float) -> Pixels:
    """A picture scaled down by area; as it is from a `scale` of 1 on."""
    if scale >= 1:
        return picture
    size = [max(1, round(side * scale)) for side in picture.shape[1::-1]]
    return np.asarray(cv2.resize(picture, size, interpolation=cv2.INTER_AREA), np.uint8)


def distance(own: Thumbnail, other: Thumbnail) -> float:
    """How far two thumbnails of one shape are from each other: 0 alike, 1 black and white."""
    return round(float(np.sqrt(np.mean((own - other) ** 2))) / 255, 6)


def _grey(picture: Pixels) -> Pixels:
    return np.asarray(cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY))


def _detail(grey: Pixels) -> float:
    """The contrast between neighbours as a share of the picture's own, so that a foggy street is no blurred one."""
    _, between = cv2.meanStdDev(cv2.Laplacian(grey, cv2.CV_16S))
    _, own = cv2.meanStdDev(grey)
    return float(between[0, 0]) / max(float(own[0, 0]), 1.0)


def small_outlines(picture: Pixels) -> Gradient:
    """A picture's outlines against their surroundings, uint8 RGB [H, W, 3], at the size that they are looked at."""
    return relative_gradient(smaller(picture, _SHORT_SIDE / min(picture.shape[:2])), _OUTLINES)


def outlined_share(outlines: Gradient, mask: NDArray[Any]) -> float:
    """The share of a mask's boundaries that have an outline within a pixel; 1 of a mask without any."""
    height, width = outlines[0].shape
    # OpenCV's plain INTER_NEAREST takes the first pixel of each block, not the middle one.
    values = cv2.resize(mask, (width, height), interpolation=cv2.INTER_NEAREST_EXACT).reshape(height, width, -1)
    # Where a pixel's value differs from the one before it in its row or column.
    boundaries = np.zeros((height, width), bool)
    boundaries[:, 1:] = (values[:, 1:] != values[:, :-1]).any(axis=2)
    boundaries[1:] |= (values[1:] != values[:-1]).any(axis=2)
    if not boundaries.any():
        return 1.0
    side = 2 * _REACH + 1
    cross = cv2.getStructuringElement(cv2.MORPH_CROSS, (side, side))
    near = cv2.dilate(trace_edges(outlines, _OUTLINES), cross) > 0
    return round(float((boundaries & near).sum() / boundaries.sum()), 6)
