"""The editing denoiser as the engine uses it: the encoder of pictures, the step whose rows follow others, the decoder.

Rows of one group share a batch, so a row names the one that it follows by its distance. What it takes over from that
row is in its numbers alone (models/alignment.py); export/graphs/editing.py describes how the graph uses them.
With ControlNets rows follow the maps of their source too. A plan has one shape: each picture size needs its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterfactory.kernels.pixels import to_pictures

from ..runtime.session import Array
from .batching import Batched
from .hints import embed, embed_several, hints_apart
from .picture_networks import LatentEncoder

Floats = NDArray[np.float32]
Pictures = NDArray[np.uint8]


@dataclass(frozen=True)
class RowHint:
    """What a row's ControlNet follows: an embedding [D, h, w] and its scale; of N [N, D, h, w] and N scales."""

    embedding: Floats
    scale: float | tuple[float, ...]


@dataclass(frozen=True)
class EditorRow:
    """One row: latents [C, h, w], a timestep, text states [T, D].

    It follows the row `follows` places before it, 0 for none: its cross-attention is that row's @ `cross_map` [T, T]
    and its own * `cross_own` [T], and with `takes_self` its self-attention is that row's. `words` [T] weighs the tokens
    whose attention is shown. `hint` is None where the plan has no ControlNet.
    """

    latents: Floats
    timestep: int
    text: Floats
    cross_map: Floats
    cross_own: Floats
    words: Floats
    follows: int = 0
    takes_self: bool = False
    hint: RowHint | None = None


@dataclass(frozen=True)
class EditorOutput:
    """The outputs for a row: the model's prediction [C, h, w], and the attention on its words [h / 4, w / 4]."""

    output: Floats
    attention: Floats


@dataclass(frozen=True)
class EditorPlans:
    """The plans of one picture size. `latent_shape` is [C, h, w]; `hints` embed the maps of each hint with a weight,
    none where no maps are followed.
    """

    encoder: LatentEncoder
    editor: Batched
    decoder: Batched
    latent_shape: tuple[int, int, int]
    hints: tuple[Batched, ...] = ()

    def embed_hints(self, edges: NDArray[np.uint8]) -> Sequence[Floats]:
        """Hint embeddings [D, h, w] of edge maps uint8 [N, H, W], for an editor that follows them alone."""
        return embed(self.hints[0], edges)

    def embed_several(self, maps: Sequence[NDArray[Any] | None], weights: Sequence[float]) -> Sequence[Floats]:
        return embed_several(self.hints, self.editor.signature, maps, weights)

    @property
    def hints_apart(self) -> bool:
        """Whether each hint has a ControlNet of its own in the editor."""
        return hints_apart(self.editor.signature) is not None

    def evaluate(self, rows: Sequence[EditorRow]) -> list[EditorOutput]:
        """One batch of rows, whole groups of them. Raises ValueError for more rows than the plan takes, and for a row
        that follows one outside of the batch.
        """
        if len(rows) > self.editor.batch:
            raise ValueError(f"the editor's plan takes {self.editor.batch} rows, got {len(rows)}")
        sources = [place - row.follows for place, row in enumerate(rows)]
        if min(sources) < 0:
            raise ValueError("a row follows one that is not in its batch: rows of a group go together")
        names = ("latents", "text", "cross_map", "cross_own", "words")
        feeds: dict[str, Array] = {name: np.stack([getattr(row, name) for row in rows]) for name in names}
        feeds["timestep"] = np.array([row.timestep for row in rows], np.int64)
        feeds["source_rows"] = np.array(sources, np.int64)
        feeds["self_rows"] = np.array([sources[at] if row.takes_self else at for at, row in enumerate(rows)], np.int64)
        if hints := [row.hint for row in rows if row.hint is not None]:
            feeds["hint_embedding"] = np.stack([hint.embedding for hint in hints])
            feeds["control_scale"] = np.array([hint.scale for hint in hints], np.float32)
        out = self.editor.run(feeds)
        return [EditorOutput(*both) for both in zip(out["prediction"], out["attention"], strict=True)]

    def decode(self, latents: Floats) -> list[Pictures]:
        """Pictures, uint8 RGB [H, W, 3], of scaled latents [N, C, h, w]."""
        return to_pictures(self.decoder.run({"latents": latents})["pixel_values"])
