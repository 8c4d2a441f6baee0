"""Plain Canny edges, as ControlNet's canny checkpoints were trained on: absolute thresholds on 8-bit gradients.

Pictures of any brightness keep their own scale here, so fog and night lose outlines; `edges.py` measures gradients
against their surroundings instead. This is OpenCV's Canny over a batch, and what the GPU's kernels are held to.

Canny, "A computational approach to edge detection", 1986, as `cv2.Canny` with a 3 x 3 Sobel has it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from .opencv import cv2

_MOST = 32767.0  # OpenCV's own ceiling; no 8-bit picture has a gradient beyond 2040


@dataclass(frozen=True)
class CannySettings:
    """How edges are found.

    `low`, `high`: hysteresis thresholds on the Sobel gradient: |dx| + |dy|, or with `l2` the root of their squares.
    `blur`: side of the Gaussian in pixels, 3, 5 or 7; 1 leaves it out, as `cv2.Canny` itself does.
    `colour`: what a colour picture's gradient is: that of its "grey" luminance, or at each pixel that of its
      "steepest" channel, which is what `cv2.Canny` does with three channels.
    """

    low: float
    high: float
    l2: bool = False
    blur: int = 1
    colour: Literal["grey", "steepest"] = "steepest"

    def __post_init__(self) -> None:
        if not 0 <= self.low <= self.high <= _MOST:
            raise ValueError(
                f"canny thresholds need 0 <= low <= high <= {_MOST:.0f}, got low {self.low}, high {self.high}"
            )
        if self.blur not in (1, 3, 5, 7):
            raise ValueError(f"canny blur must be 1, 3, 5 or 7 pixels, got {self.blur}")
        if self.colour not in ("grey", "steepest"):
            raise ValueError(f"canny colour must be grey or steepest, got {self.colour!r}")


def canny(images: NDArray[np.uint8], settings: CannySettings) -> NDArray[np.uint8]:
    """Edge maps of a batch: uint8 [B, H, W] or RGB [B, H, W, 3] to uint8 [B, H, W], 255 on an edge and 0 elsewhere.

    Raises ValueError for another dtype or shape, and for pictures without pixels.
    """
    shape = images.shape
    fits = len(shape) == 3 or (len(shape) == 4 and shape[3] == 3)
    if images.dtype != np.uint8 or not fits or 0 in shape[1:]:
        raise ValueError(
            f"canny needs uint8 pictures [B, H, W] or [B, H, W, 3] with pixels, got {images.dtype} {list(shape)}"
        )
    maps = np.zeros(images.shape[:3], np.uint8)
    for image, edges in zip(images, maps, strict=True):
        edges[:] = cv2.Canny(_prepared(image, settings), settings.low, settings.high, L2gradient=settings.l2)
    return maps


def _prepared(image: NDArray[np.uint8], settings: CannySettings) -> NDArray[np.uint8]:
    prepared = np.ascontiguousarray(image)
    if prepared.ndim == 3 and settings.colour == "grey":
        prepared = np.asarray(cv2.cvtColor(prepared, cv2.COLOR_RGB2GRAY), np.uint8)
    if settings.blur > 1:
        side = (settings.blur, settings.blur)
        prepared = np.asarray(cv2.GaussianBlur(prepared, side, 0, borderType=cv2.BORDER_REPLICATE), np.uint8)
    return prepared
