"""The denoiser as the engine uses it: hint encoder, fused ControlNet and UNet, and the decoder of latents.

A plan has one shape, so pictures of another size need plans of their own. One row of a batch is one evaluation; rows
never see each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import cv2
import numpy as np
from numpy.typing import NDArray

from ..runtime.session import Array
from .batching import Batched

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class DenoiserRow:
    """One row: latents [C, h, w], a timestep, text states [T, D], a hint embedding [D, h, w], a control scale."""

    latents: Floats
    timestep: int
    text: Floats
    hint: Floats
    control_scale: float


@dataclass(frozen=True)
class _Held:
    """Gathered rows, and what each place of the array is a copy of; rows are not changed once they were given."""

    array: Floats
    rows: list[Floats | None]


@dataclass(frozen=True)
class PaintPlans:
    """The plans of one picture size. `latent_shape` is [C, h, w]. One thread at a time evaluates."""

    hint: Batched
    denoiser: Batched
    decoder: Batched
    latent_shape: tuple[int, int, int]
    # Where rows are gathered, again and again: memory that is new each time costs as much as the copying, and texts and
    # hints are often where they were.
    _gathered: dict[str, _Held] = field(default_factory=dict, init=False, repr=False, compare=False)

    def embed_hints(self, edges: NDArray[np.uint8]) -> Floats:
        """Hint embeddings [N, D, h, w] of edge maps uint8 [N, H, W]."""
        hints = edges[:, None].astype(np.float32) / np.float32(255)
        return self.hint.run({"hint": hints})["hint_embedding"]

    def evaluate(self, rows: Sequence[DenoiserRow]) -> list[Floats]:
        """Model outputs [C, h, w] of rows."""
        feeds: dict[str, Array] = {
            "latents": self._gather("latents", [r.latents for r in rows]),
            "timestep": np.array([r.timestep for r in rows], np.int64),
            "text": self._gather("text", [r.text for r in rows]),
            "hint_embedding": self._gather("hint_embedding", [r.hint for r in rows]),
            "control_scale": np.array([r.control_scale for r in rows], np.float32),
        }
        return list(self.denoiser.run(feeds)["prediction"])

    def decode(self, latents: Sequence[Floats]) -> list[NDArray[np.uint8]]:
        """Pictures, uint8 RGB [H, W, 3], of scaled latents [C, h, w]."""
        pixels = self.decoder.run({"latents": np.stack(latents)})["pixel_values"]
        levels = pixels + np.float32(1)
        levels *= np.float32(127.5)
        np.clip(np.rint(levels, out=levels), 0, 255, out=levels)
        return [cv2.merge(list(planes)).astype(np.uint8, copy=False) for planes in levels.astype(np.uint8)]

    def _gather(self, name: str, rows: Sequence[Floats]) -> Floats:
        """Rows as one array, which the next gathering of that name overwrites where its rows are others."""
        held = self._gathered.get(name)
        if held is None or len(held.array) < len(rows):
            held = self._gathered[name] = _Held(np.empty((len(rows), *rows[0].shape), np.float32), [None] * len(rows))
        for place, row in enumerate(rows):
            if held.rows[place] is not row:
                held.array[place] = held.rows[place] = row
        return held.array[: len(rows)]
