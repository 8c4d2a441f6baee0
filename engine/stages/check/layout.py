"""How far a painted picture keeps the layout that its mask states: do outlines lie where the mask changes its class?

No class is known: whatever two values meet in a mask, an outline should run between them. Outlines are gradients
against their surroundings (kernels/edges.py), whatever the painter's own hint is: absolute thresholds lose outlines in
fog and at night, and would reject the weather.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterfactory.kernels.edges import EdgeSettings, canny_edges
from counterfactory.kernels.opencv import cv2

# Pictures are looked at this high or wide, which the detector's own settings suit, so that a score means the same at
# any size.
_SHORT_SIDE = 128
# Without any tolerance, or with two pixels of it, the referee of the pocket world agrees less with the score.
_REACH = 1
_OUTLINES = EdgeSettings()


def outlined_share(image: NDArray[np.uint8], mask: NDArray[Any]) -> float:
    """The share of a mask's boundaries that have an outline of the picture within a pixel; 1 of a mask without any."""
    height, width = image.shape[:2]
    scale = min(1.0, _SHORT_SIDE / min(height, width))
    size = (round(width * scale), round(height * scale))
    small = np.asarray(cv2.resize(image, size, interpolation=cv2.INTER_AREA), np.uint8)
    # OpenCV's plain INTER_NEAREST takes the first pixel of each block, not the middle one.
    values = cv2.resize(mask, size, interpolation=cv2.INTER_NEAREST_EXACT).reshape(*size[::-1], -1)
    # Where a pixel's value differs from the one before it in its row or column.
    boundaries = np.zeros(size[::-1], bool)
    boundaries[:, 1:] = (values[:, 1:] != values[:, :-1]).any(axis=2)
    boundaries[1:] |= (values[1:] != values[:-1]).any(axis=2)
    if not boundaries.any():
        return 1.0
    side = 2 * _REACH + 1
    cross = cv2.getStructuringElement(cv2.MORPH_CROSS, (side, side))
    near = cv2.dilate(canny_edges(small[None], _OUTLINES)[0], cross) > 0
    return round(float((boundaries & near).sum() / boundaries.sum()), 6)
