"""A network that estimates depth, as the engine uses it: near and far of one picture, for a ControlNet to follow.

It takes image [B, 3, H, W], RGB in 0..1, and gives depth [B, H, W], larger where nearer, on a scale that may be
another one for each picture, as with MiDaS (Ranftl et al. 2020, arXiv 1907.01341) and Depth Anything. The
preprocessing that a published network needs is part of its graph.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .batching import Batched

_NEAREST = 65535


@dataclass(frozen=True)
class DepthEstimator:
    """The plan for one picture size."""

    plan: Batched

    def nearness(self, images: NDArray[np.uint8]) -> NDArray[np.uint16]:
        """Maps of a batch: uint8 RGB [B, H, W, 3] to uint16 [B, H, W], 65535 at the nearest pixel and 0 at the
        farthest, as ControlNets were trained on; 0 everywhere where the network sees no difference.
        """
        pixels = np.ascontiguousarray(images.transpose(0, 3, 1, 2)).astype(np.float32) / np.float32(255)
        depth = self.plan.run({"image": pixels})["depth"].astype(np.float64)
        low, high = depth.min((1, 2), keepdims=True), depth.max((1, 2), keepdims=True)
        scaled: NDArray[np.float64] = np.rint((depth - low) / np.where(high > low, high - low, 1.0) * _NEAREST)
        return scaled.astype(np.uint16)
