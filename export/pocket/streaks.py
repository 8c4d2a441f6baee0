"""Streaks of rain in a picture, told by their form: the referee names a picture's weather as a whole, and calls a dry
scene with a few streaks dry.

A streak is a thin bright line that leans as the world's rain does (render.py): brighter than what lies beside it in
five rows on end. It is looked for where the truth's own rendering is flat. Rendered dry scenes have none, rainy ones 29
or more; flakes of snow look alike, so that nothing is said of snowy scenes.
"""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

# Grey levels by which a streak is brighter than what is so many pixels beside it; its rows, and pixels to the left in
# each.
_BRIGHTER, _BESIDE, _ROWS, _LEAN = 6.0, 2, 5, 0.25
# Grey levels between which a window of a rendering is flat.
_WINDOW, _FLAT = np.ones((7, 7), np.uint8), 14
# From so many on a picture shows rain.
STREAKED = 3


def count_streaks(picture: NDArray[np.uint8], rendered: NDArray[np.uint8]) -> int:
    """How many streaks a picture has where the truth's rendering without rain is flat, uint8 RGB [128, 128, 3] both."""
    grey, flat = (cv2.cvtColor(of, cv2.COLOR_RGB2GRAY).astype(np.float32) for of in (picture, rendered))
    line = grey - np.maximum(_moved(grey, _BESIDE, 0), _moved(grey, -_BESIDE, 0))
    rows = range(-(_ROWS // 2), _ROWS // 2 + 1)
    streaks = np.min([_moved(line, -_LEAN * row, row) for row in rows], axis=0) > _BRIGHTER
    streaks &= cv2.dilate(flat, _WINDOW) - cv2.erode(flat, _WINDOW) < _FLAT
    return int(cv2.connectedComponents(streaks.astype(np.uint8))[0]) - 1


def _moved(grey: NDArray[np.float32], x: float, y: float) -> NDArray[np.float32]:
    """What lies so far to the right and below of each pixel."""
    matrix = np.array([[1, 0, -x], [0, 1, -y]], np.float32)
    return np.asarray(cv2.warpAffine(grey, matrix, grey.shape[::-1], borderMode=cv2.BORDER_REPLICATE), np.float32)
