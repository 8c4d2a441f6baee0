"""BLIP-2 as the engine uses it: images to captions (Li et al. 2023, arXiv 2301.12597).

Vision encoder, Q-Former and projection are one graph that turns an image into query embeddings; an OPT decoder with
an explicit key-value cache continues them as text, by the rules of `decoding`. All rows of a batch start at the same
position, so no row is padded and a caption does not depend on its neighbours. A decoder for GPUs keeps its cache in
device memory and only ever adds to it: beams are told apart by a table of the rows that hold each one's positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from ..errors import CounterfactoryError
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
        past = _Continuation(self.decoder, len(rows))
        logits = past.append(np.concatenate([rows, spoken], axis=1))

        def advance(tokens: Ids, parents: Ids) -> Floats:
            past.reorder(parents)
            return past.append(self.embeddings[tokens][:, None])

        texts = decode(logits, advance, settings, prompt, self.eos, [g for some in generators for g in some])
        captions = [str(self.tokenizer.decode(text)).strip() for text in texts]
        return [captions[i : i + each] for i in range(0, len(captions), each)]


class _GrowingCache:
    """A cache that each run takes and gives whole, [B, L, heads, P, D/heads]: rows are reordered here."""

    outputs = MappingProxyType({"past_keys": "keys", "past_values": "values"})

    def __init__(self, decoder: Batched) -> None:
        inputs = {port.name: port for port in decoder.signature.inputs}
        shape = tuple(length or 0 for length in inputs["past_keys"].shape)
        empty = np.zeros((decoder.batch, *shape[1:3], 0, shape[4]), inputs["past_keys"].dtype)
        self._cache: dict[str, Any] = {"past_keys": empty, "past_values": empty}

    def reorder(self, parents: Ids) -> None:
        if not np.array_equal(parents, np.arange(len(parents))):
            self._cache = {name: held[parents] for name, held in self._cache.items()}

    def feeds(self) -> dict[str, Any]:
        return self._cache

    def take(self, held: dict[str, Any], added: int) -> None:
        self._cache = held


class _AddedCache:
    """A cache that a device keeps, [P, B, L, heads, D/heads]: what was written stays where it is.

    A row that goes on from another finds its past in the table `rows` [P, B], which alone is reordered.
    """

    outputs = MappingProxyType({"cache_keys": "cache_keys_added", "cache_values": "cache_values_added"})

    def __init__(self, decoder: Batched) -> None:
        inputs = {port.name: port for port in decoder.signature.inputs}
        shape = tuple(length or 0 for length in inputs["cache_keys"].shape)
        empty = np.zeros((0, decoder.batch, *shape[2:]), inputs["cache_keys"].dtype)
        self._cache: dict[str, Any] = {"cache_keys": empty, "cache_values": empty}
        self._own: Ids = np.arange(decoder.batch)
        self._rows: Ids | None = np.zeros((0, decoder.batch), np.int64) if "cache_rows" in inputs else None

    def reorder(self, parents: Ids) -> None:
        if self._rows is not None:
            self._rows = self._rows[:, parents]
        elif not np.array_equal(parents, self._own):
            raise CounterfactoryError(
                "the captioner's decoder was exported for captions without beams; export opt_decoder again with the "
                "profile that asks for them"
            )

    def feeds(self) -> dict[str, Any]:
        return self._cache if self._rows is None else {**self._cache, "cache_rows": self._rows}

    def take(self, held: dict[str, Any], added: int) -> None:
        self._cache = held
        if self._rows is not None:
            self._rows = np.concatenate([self._rows, np.tile(self._own, (added, 1))])


class _Continuation:
    """The rows of a decoder behind their cache. The plan's batch is padded with copies of the last row."""

    def __init__(self, decoder: Batched, rows: int) -> None:
        self._decoder, self._rows, self._position = decoder, rows, 0
        keeps = any(port.name == "cache_keys" for port in decoder.signature.inputs)
        self._cache = _AddedCache(decoder) if keeps else _GrowingCache(decoder)

    def reorder(self, parents: Ids) -> None:
        """Let row i continue what row `parents[i]` was."""
        self._cache.reorder(np.append(parents, np.arange(self._rows, self._decoder.batch)))

    def append(self, inputs_embeds: Floats) -> Floats:
        """Append embeddings [R, S, D] to the cache; returns logits [R, V] after the last position."""
        steps = np.arange(self._position, self._position + inputs_embeds.shape[1], dtype=np.int64)
        feeds = {
            "inputs_embeds": pad_rows(inputs_embeds, self._decoder.batch),
            "position_ids": np.tile(steps, (self._decoder.batch, 1)),
            **self._cache.feeds(),
        }
        outputs = self._cache.outputs
        out = self._decoder.run_full(feeds, hold=tuple(outputs.values()), rows=self._rows)
        self._cache.take({name: out[output] for name, output in outputs.items()}, len(steps))
        self._position += len(steps)
        logits: Floats = out["logits"][: self._rows]
        return logits
