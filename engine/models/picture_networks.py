"""Networks that read whole pictures of one size, as the engine uses them: soft edges, depth, and latents.

The preprocessing that a published network needs is part of its graph.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .batching import Batched

Floats = NDArray[np.float32]
Pictures = NDArray[np.uint8]
_NEAREST = 65535


def _by_channels(pictures: Pictures, white: float) -> Floats:
    """Pictures [N, H, W, 3] as float32 [N, 3, H, W], the level 255 being `white`."""
    return np.ascontiguousarray(pictures.transpose(0, 3, 1, 2)).astype(np.float32) / np.float32(255 / white)


@dataclass(frozen=True)
class Hed:
    """HED (Xie & Tu 2015, arXiv 1504.06375): image [B, 3, H, W], RGB in 0..1, to soft edges [B, H, W] in 0..1."""

    plan: Batched

    def edges(self, images: Pictures) -> Pictures:
        """Edge maps of a batch: uint8 RGB [B, H, W, 3] to uint8 [B, H, W].

        Raises ValueError for another dtype or shape, and for pictures without pixels.
        """
        if images.dtype != np.uint8 or images.ndim != 4 or images.shape[-1] != 3 or 0 in images.shape:
            raise ValueError(
                f"edges need uint8 images [B, H, W, 3] with pixels, got {images.dtype} {list(images.shape)}"
            )
        edges = self.plan.run({"image": _by_channels(images, 1)})["edges"]
        # Truncated, not rounded, as the maps were that the ControlNets were trained on.
        return (edges * np.float32(255)).clip(0, 255).astype(np.uint8)


@dataclass(frozen=True)
class DepthEstimator:
    """Near and far for a ControlNet to follow: image [B, 3, H, W], RGB in 0..1, to depth [B, H, W], larger where
    nearer, on a scale that may be another one for each picture, as with MiDaS (Ranftl et al. 2020, arXiv 1907.01341)
    and Depth Anything.
    """

    plan: Batched

    def nearness(self, images: Pictures) -> NDArray[np.uint16]:
        """Maps of a batch: uint8 RGB [B, H, W, 3] to uint16 [B, H, W], 65535 at the nearest pixel and 0 at the
        farthest, as ControlNets were trained on; 0 everywhere where the network sees no difference.
        """
        depth = self.plan.run({"image": _by_channels(images, 1)})["depth"].astype(np.float64)
        low, high = depth.min((1, 2), keepdims=True), depth.max((1, 2), keepdims=True)
        scaled: NDArray[np.float64] = np.rint((depth - low) / np.where(high > low, high - low, 1.0) * _NEAREST)
        return scaled.astype(np.uint16)


@dataclass(frozen=True)
class LatentEncoder:
    """The autoencoder's encoder: pixel_values [B, 3, H, W], RGB in -1..1, to latents [B, C, h, w]."""

    plan: Batched

    def encode(self, pictures: Pictures) -> Floats:
        """Scaled latents [N, C, h, w] of pictures, uint8 RGB [N, H, W, 3]."""
        values = _by_channels(pictures, 2) - np.float32(1)
        latents: Floats = self.plan.run({"pixel_values": values})["latents"]
        return latents
