"""Whether a mask was smoothed: resized by interpolation, blurred, anti-aliased or saved as JPEG, so that its edges hold
numbers, or colours, that nobody drew.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

# An edge that was smoothed has strays: pixels whose number lies between those of opposite neighbours. Of the pixels at
# the edges of drawn, rendered and enlarged masks at most 2 % are strays, of those that were resized by interpolation,
# blurred or saved as JPEG 15 to 90 %. A class for the borders of things has as many, but is one.
_STRAYS, _STRAY_NUMBERS, _LEAST_EDGE, _LEAST_NUMBERS, _MIDDLE = 0.15, 3, 40, 5, 1024


def is_smoothed(mask: NDArray[Any]) -> bool:
    """Whether the middle of a mask [H, W] of numbers below 65,536 has many strays at its edges, of several numbers."""
    top, left_edge = (max(0, (side - _MIDDLE) // 2) for side in mask.shape)
    mask = mask[top : top + _MIDDLE, left_edge : left_edge + _MIDDLE]
    middle, left, right, up, down = mask[1:-1, 1:-1], mask[1:-1, :-2], mask[1:-1, 2:], mask[:-2, 1:-1], mask[2:, 1:-1]
    edges = int(((middle != left) | (middle != right) | (middle != up) | (middle != down)).sum())
    if edges < _LEAST_EDGE:
        return False
    strays = np.zeros(middle.shape, bool)
    for before, after in ((left, right), (up, down)):
        strays |= ((before < middle) & (middle < after)) | ((before > middle) & (middle > after))
    of_strays, of_all = np.bincount(middle[strays]), np.bincount(mask.ravel())
    if (count := int(strays.sum())) < _STRAYS * edges or np.count_nonzero(of_all) < _LEAST_NUMBERS:
        return False
    several = (of_strays >= 0.05 * count).sum() >= _STRAY_NUMBERS
    return bool(several or (2 * of_strays > of_all[: of_strays.size]).sum() >= _STRAY_NUMBERS)
