"""The autoencoder's encoder: pictures to the latents that the denoiser knows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .batching import Batched

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class LatentEncoder:
    """The plan for one picture size: pixel_values [B, 3, H, W], RGB in -1..1, to latents [B, C, h, w]."""

    plan: Batched

    def encode(self, pictures: NDArray[np.uint8]) -> Floats:
        """Scaled latents [N, C, h, w] of pictures, uint8 RGB [N, H, W, 3]."""
        values = pictures.transpose(0, 3, 1, 2).astype(np.float32) / np.float32(127.5) - np.float32(1)
        latents: Floats = self.plan.run({"pixel_values": np.ascontiguousarray(values)})["latents"]
        return latents
