"""A decoder's values, -1..1, as 8-bit pictures: rounded to the nearest level, of two the even one, and clipped."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .opencv import cv2


def to_pictures(values: NDArray[np.float32]) -> list[NDArray[np.uint8]]:
    """Pictures uint8 RGB [H, W, 3] of values float32 [B, 3, H, W]."""
    levels = values + np.float32(1)
    levels *= np.float32(127.5)
    np.clip(np.rint(levels, out=levels), 0, 255, out=levels)
    return [cv2.merge(list(planes)).astype(np.uint8, copy=False) for planes in levels.astype(np.uint8)]
