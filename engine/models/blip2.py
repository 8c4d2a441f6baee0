"""BLIP-2 as the engine uses it: images to captions (Li et al. 2023, arXiv 2301.12597).

Vision encoder, Q-Former and projection are one graph that turns an image into query embeddings; an OPT decoder with
an explicit key-value cache continues them as text, by the rules of `decoding`. All rows of a batch start at the same
position, so no row is padded and a caption does not depend on its neighbours. On a GPU the cache stays in device
memory: a plan with the input `parents` gathers the cache by the row that each row continues.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from .batching import Batched, pad_rows
from .clip import to_pixel_values
from .decoding import DecodingSettings, decode

Floats = NDArray[np.float32]
Ids = NDArray[np.int64]


@dataclass(frozen=True)
class Blip2:
    """The captioner. `embeddings` is OPT's token table, [V, D]; `bos` starts a caption and `eos` ends it.

    The decoder's batch is the encoder's times the rows per image, which are captions times beams.
    """

    vision: Batched
    decoder: Batched
    embeddings: Floats
    tokenizer: Tokenizer
    bos: int
    eos: int

    def caption(
        self,
        images: Sequence[NDArray[np.uint8]],
        generators: Sequence[Sequence[np.random.Generator]],
        prefix: str,
        settings: DecodingSettings,
    ) -> list[list[str]]:
        """Captions of uint8 RGB images of any sizes: one per generator, of which all images have the same number.

        A caption continues `prefix` and does not contain it.
        """
        side = self.vision.signature.inputs[0].shape[2]
        assert side is not None
        captions: list[list[str]] = []
        for start in range(0, len(images), self.vision.batch):
            some = slice(start, start + self.vision.batch)
            queries = self.vision.run({"pixel_values": to_pixel_values(images[some], side)})["query_embeds"]
            captions += self._continue(queries, generators[some], prefix, settings)
        return captions

    def _continue(
        self,
        queries: Floats,
        generators: Sequence[Sequence[np.random.Generator]],
        prefix: str,
        settings: DecodingSettings,
    ) -> list[list[str]]:
        """Captions after the query embeddings [B, Q, D] of each image."""
        each = len(generators[0])
        prompt = [self.bos, *(self.tokenizer.encode(prefix, add_special_tokens=False).ids if prefix else ())]
        rows = np.repeat(queries, each * settings.beams, axis=0)
        spoken = np.repeat(self.embeddings[prompt][None], len(rows), axis=0)
        past = _KeyValueCache(self.decoder, len(rows))
        logits = past.append(np.concatenate([rows, spoken], axis=1))

        def advance(tokens: Ids, parents: Ids) -> Floats:
            past.reorder(parents)
            return past.append(self.embeddings[tokens][:, None])

        texts = decode(logits, advance, settings, prompt, self.eos, [g for some in generators for g in some])
        captions = [str(self.tokenizer.decode(text)).strip() for text in texts]
        return [captions[i : i + each] for i in range(0, len(captions), each)]


class _KeyValueCache:
    """The key-value cache of the decoder's rows. The plan's batch is padded with copies of the last row."""

    def __init__(self, decoder: Batched, rows: int) -> None:
        self._decoder, self._rows, self._position = decoder, rows, 0
        inputs = {port.name: port.shape for port in decoder.signature.inputs}
        _, layers, heads, _, width = (0 if n is None else n for n in inputs["past_keys"])
        empty = np.zeros((decoder.batch, layers, heads, 0, width), np.float32)
        self._cache: dict[str, Any] = {"past_keys": empty, "past_values": empty}
        self._gathers = "parents" in inputs
        self._parents: Ids = np.arange(decoder.batch)

    def reorder(self, parents: Ids) -> None:
        """Let row i continue the cache of row `parents[i]`."""
        self._parents = np.append(parents, np.arange(self._rows, self._decoder.batch))
        if not self._gathers and not np.array_equal(self._parents, np.arange(self._decoder.batch)):
            self._cache = {name: held[self._parents] for name, held in self._cache.items()}

    def append(self, inputs_embeds: Floats) -> Floats:
        """Append embeddings [R, S, D] to the cache; returns logits [R, V] after the last position."""
        steps = np.arange(self._position, self._position + inputs_embeds.shape[1], dtype=np.int64)
        feeds = {
            "inputs_embeds": pad_rows(inputs_embeds, self._decoder.batch),
            "position_ids": np.tile(steps, (self._decoder.batch, 1)),
            **self._cache,
        }
        if self._gathers:
            feeds["parents"] = self._parents
        out = self._decoder.run_full(feeds, hold=("keys", "values"), rows=self._rows)
        self._cache = {"past_keys": out["keys"], "past_values": out["values"]}
        self._position += len(steps)
        logits: Floats = out["logits"][: self._rows]
        return logits
