"""Edge maps of photographs: the hint that keeps a variant's layout.

RGB pictures become binary maps of their outlines. One layout should give nearly one map in any weather and light:
grain, rain streaks and small snowflakes are filtered out first, and every gradient is then measured against the
gradients around it, which lifts outlines out of fog and darkness. (A local histogram equalisation, CLAHE, before plain
Canny agreed less between weathers at every setting tried: a mean F1 of 0.86 at best over the street world, against
0.90.) The batch is a loop over pictures: each map depends on its picture and the settings alone.

Non-maximum suppression and hysteresis: Canny, "A computational approach to edge detection", 1986, as in OpenCV.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .opencv import cv2

_SMOOTHING = 0.8  # sigma in pixels of the blur before the derivative; 1.1 already loses poles, legs and panes
_UNIT = 1000.0  # cv2.Canny wants int16 gradients: relative ones are handed over in thousandths

# Derivatives along x and y in grey levels a pixel and the sum of their squares, each float32 [H, W].
_Gradient = tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]


@dataclass(frozen=True)
class EdgeSettings:
    """How edges are found. The defaults suit pictures of about 128 pixels.

    `low`, `high`: hysteresis thresholds on the relative gradient; 1 is a gradient typical of its surroundings.
    `reach`: sigma in pixels of the Gaussian window that makes up the surroundings.
    `floor`: gradient in grey levels a pixel that is added to the surroundings' own, so that the grain of an empty
      sky or of a compressed picture stays below the thresholds.
    `median`: side of the median filter in pixels: 3, 5, or 1 to leave it out.
    `min_pixels`: connected pieces with fewer pixels than this are dropped.
    """

    low: float = 0.4
    high: float = 1.0
    reach: float = 4.0
    floor: float = 2.0
    median: int = 3
    min_pixels: int = 11

    def __post_init__(self) -> None:
        if not 0 < self.low <= self.high <= 16:
            raise ValueError(f"edge thresholds need 0 < low <= high <= 16, got low {self.low}, high {self.high}")
        if not 0.5 <= self.reach <= 256:
            raise ValueError(f"edge reach must be 0.5 to 256 pixels, got {self.reach}")
        if not 0 < self.floor <= 255:
            raise ValueError(f"edge floor must be above 0 and at most 255 grey levels a pixel, got {self.floor}")
        if self.median not in (1, 3, 5):
            raise ValueError(f"edge median must be 1, 3 or 5 pixels, got {self.median}")
        if self.min_pixels < 0:
            raise ValueError(f"edge min_pixels must be at least 0, got {self.min_pixels}")


def canny_edges(images: NDArray[np.uint8], settings: EdgeSettings) -> NDArray[np.uint8]:
    """Edge maps of a batch: uint8 RGB [B, H, W, 3] to uint8 [B, H, W], 255 on an edge and 0 elsewhere.

    Raises ValueError for another dtype or shape, and for pictures without pixels.
    """
    if images.dtype != np.uint8 or images.ndim != 4 or images.shape[3] != 3 or 0 in images.shape[1:]:
        raise ValueError(f"edges need uint8 images [B, H, W, 3] with pixels, got {images.dtype} {list(images.shape)}")
    maps = np.zeros(images.shape[:3], np.uint8)
    for image, edges in zip(images, maps, strict=True):
        edges[:] = trace_edges(relative_gradient(image, settings), settings)
    return maps


def relative_gradient(
    image: NDArray[np.uint8], settings: EdgeSettings
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Derivatives of a picture, uint8 RGB [H, W, 3], along x and y, float32 [H, W] each, in thousandths of what is
    typical of their surroundings.
    """
    dx, dy, power = _gradient(image, settings.median)
    # The surroundings are averaged as square roots, so that one lit window at night does not outweigh a dim wall.
    root = cv2.GaussianBlur(np.sqrt(np.sqrt(power)), (0, 0), settings.reach, borderType=cv2.BORDER_REFLECT)
    scale = _UNIT / (root * root + settings.floor)
    return dx * scale, dy * scale


def trace_edges(gradient: tuple[NDArray[np.float32], NDArray[np.float32]], settings: EdgeSettings) -> NDArray[np.uint8]:
    """The edge map, as of `canny_edges`, of a picture with this `relative_gradient`."""
    # Canny adds squares in int32, so a component beyond 23170 thousandths could overflow; thresholds end at 16000.
    across, down = (np.clip(np.rint(d), -23000, 23000).astype(np.int16) for d in gradient)
    edges = cv2.Canny(across, down, settings.low * _UNIT, settings.high * _UNIT, L2gradient=True)
    return _without_specks(np.asarray(edges, np.uint8), settings.min_pixels)


def _gradient(image: NDArray[np.uint8], median: int) -> _Gradient:
    """Gradient of each pixel's steepest channel.

    The steepest channel rather than grey: a red car on a road of the same luminance has outlines too.
    """
    calm = cv2.medianBlur(np.ascontiguousarray(image), median) if median > 1 else image
    smooth = cv2.GaussianBlur(calm.astype(np.float32), (0, 0), _SMOOTHING, borderType=cv2.BORDER_REPLICATE)
    across, down = (
        cv2.split(cv2.Sobel(smooth, cv2.CV_32F, *order, scale=1 / 8, borderType=cv2.BORDER_REPLICATE))
        for order in ((1, 0), (0, 1))
    )
    steepest = np.zeros(smooth.shape[:2], np.float32)
    for dx, dy in zip(across, down, strict=True):
        power = np.asarray(dx * dx + dy * dy, np.float32)
        steeper = cv2.compare(power, steepest, cv2.CMP_GT)
        for best, new in ((across[0], dx), (down[0], dy), (steepest, power)):
            cv2.copyTo(new, steeper, best)
    return np.asarray(across[0], np.float32), np.asarray(down[0], np.float32), steepest


def _without_specks(edges: NDArray[np.uint8], min_pixels: int) -> NDArray[np.uint8]:
    """The map without its 8-connected pieces of fewer than `min_pixels` pixels."""
    _, pieces = cv2.connectedComponents(edges, connectivity=8)
    shown = np.where(np.bincount(pieces.ravel()) < min_pixels, np.uint8(0), np.uint8(255))
    shown[0] = 0  # piece 0 is the ground between the edges
    return shown.take(np.asarray(pieces, np.intp))
