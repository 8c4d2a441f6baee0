"""BLIP-2 as the engine uses it: images to captions (Li et al. 2023, arXiv 2301.12597).

Vision encoder, Q-Former and projection are one graph that turns an image into query embeddings; an OPT decoder with
an explicit key-value cache continues them as text. All rows of a batch start at the same position, so no row is
padded against another and a caption does not depend on its neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from .batching import Batched
from .clip import to_pixel_values


@dataclass(frozen=True)
class Blip2:
    """The captioner. `embeddings` is OPT's token table, [V, D]; `bos` starts a caption and `eos` ends it."""

    vision: Batched
    decoder: Batched
    embeddings: NDArray[np.float32]
    tokenizer: Tokenizer
    bos: int
    eos: int

    def caption(self, images: Sequence[NDArray[np.uint8]], max_tokens: int) -> list[str]:
        """Greedy captions of uint8 RGB images of any sizes; a caption ends at `eos` or after `max_tokens` tokens."""
        side = self.vision.signature.inputs[0].shape[2]
        assert side is not None
        captions: list[str] = []
        for start in range(0, len(images), self.vision.batch):
            pixels = to_pixel_values(images[start : start + self.vision.batch], side)
            tokens = self._continue(self.vision.run({"pixel_values": pixels})["query_embeds"], max_tokens)
            captions += [self._text(row) for row in tokens]
        return captions

    def _continue(self, query_embeds: NDArray[np.float32], max_tokens: int) -> NDArray[np.int64]:
        """Token ids [B, n] after the query embeddings [B, Q, D]; rows that ended go on with eos."""
        batch = len(query_embeds)
        cache = next(p.shape for p in self.decoder.signature.inputs if p.name == "past_keys")
        _, layers, heads, _, width = (0 if n is None else n for n in cache)
        keys = values = np.zeros((batch, layers, heads, 0, width), np.float32)
        first = np.repeat(self.embeddings[None, None, self.bos], batch, axis=0)
        inputs, position = np.concatenate([query_embeds, first], axis=1), 0
        tokens: list[NDArray[np.int64]] = []
        ended = np.zeros(batch, bool)
        while len(tokens) < max_tokens and not ended.all():
            positions = np.tile(np.arange(position, position + inputs.shape[1], dtype=np.int64), (batch, 1))
            feeds = {"inputs_embeds": inputs, "position_ids": positions, "past_keys": keys, "past_values": values}
            out = self.decoder.run(feeds)
            keys, values, position = out["keys"], out["values"], position + inputs.shape[1]
            chosen = np.where(ended, self.eos, out["logits"].argmax(axis=-1)).astype(np.int64)
            ended |= chosen == self.eos
            tokens.append(chosen)
            inputs = self.embeddings[chosen][:, None]
        return np.stack(tokens, axis=1)

    def _text(self, tokens: NDArray[np.int64]) -> str:
        ids = tokens.tolist()
        kept = ids[: ids.index(self.eos)] if self.eos in ids else ids
        return str(self.tokenizer.decode(kept)).strip()
