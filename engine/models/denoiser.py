"""The denoiser as the engine uses it: hint encoder, fused ControlNet and UNet, and the decoder of latents.

A plan has one shape, so pictures of another size need plans of their own. One row of a batch is one evaluation; rows
never see each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..runtime.session import Array
from .batching import Batched

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Evaluation:
    """One row: latents [C, h, w], a timestep, text states [T, D], a hint embedding [D, h, w], a control scale."""

    latents: Floats
    timestep: int
    text: Floats
    hint: Floats
    control_scale: float


@dataclass(frozen=True)
class ShapePlans:
    """The plans of one picture size. `latent_shape` is [C, h, w]."""

    hint: Batched
    denoiser: Batched
    decoder: Batched
    latent_shape: tuple[int, int, int]

    def embed_hints(self, edges: NDArray[np.uint8]) -> Floats:
        """Hint embeddings [N, D, h, w] of edge maps uint8 [N, H, W]."""
        hints = edges[:, None].astype(np.float32) / np.float32(255)
        return self.hint.run({"hint": hints})["hint_embedding"]

    def evaluate(self, rows: Sequence[Evaluation]) -> list[Floats]:
        """Model outputs [C, h, w] of rows."""
        feeds: dict[str, Array] = {
            "latents": np.stack([r.latents for r in rows]),
            "timestep": np.array([r.timestep for r in rows], np.int64),
            "text": np.stack([r.text for r in rows]),
            "hint_embedding": np.stack([r.hint for r in rows]),
            "control_scale": np.array([r.control_scale for r in rows], np.float32),
        }
        return list(self.denoiser.run(feeds)["prediction"])

    def decode(self, latents: Sequence[Floats]) -> list[NDArray[np.uint8]]:
        """Pictures, uint8 RGB [H, W, 3], of scaled latents [C, h, w]."""
        pixels = self.decoder.run({"latents": np.stack(latents)})["pixel_values"]
        levels = ((pixels + np.float32(1)) * np.float32(127.5)).round().clip(0, 255).astype(np.uint8)
        return list(np.ascontiguousarray(levels.transpose(0, 2, 3, 1)))
