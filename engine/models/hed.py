"""HED as the engine uses it: soft edges by a network (Xie & Tu 2015, arXiv 1504.06375)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .batching import Batched


@dataclass(frozen=True)
class Hed:
    """The plan for one picture size: image [B, 3, H, W], RGB in 0..1, to edges [B, H, W] in 0..1."""

    plan: Batched

    def edges(self, images: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Edge maps of a batch: uint8 RGB [B, H, W, 3] to uint8 [B, H, W].

        Raises ValueError for another dtype or shape, and for pictures without pixels.
        """
        if images.dtype != np.uint8 or images.ndim != 4 or images.shape[-1] != 3 or 0 in images.shape:
            raise ValueError(
                f"edges need uint8 images [B, H, W, 3] with pixels, got {images.dtype} {list(images.shape)}"
            )
        pixels = np.ascontiguousarray(images.transpose(0, 3, 1, 2)).astype(np.float32) / np.float32(255)
        edges = self.plan.run({"image": pixels})["edges"]
        # Truncated, not rounded, as the maps were that the ControlNets were trained on.
        return (edges * np.float32(255)).clip(0, 255).astype(np.uint8)
