"""The captioner as the engine uses it: BLIP-2 (Li et al. 2023, arXiv 2301.12597), or another of its form.

Vision encoder, Q-Former and projection are one graph that turns an image into query embeddings; an OPT decoder with
an explicit key-value cache continues them as text, by the rules of `decoding`. Florence-2's decoder (Xiao et al. 2023,
arXiv 2311.06242) does not begin with what its encoder makes of an image: it is given that with every step. All rows of
a batch start at the same position, so no row is padded and a caption does not depend on its neighbours. A decoder for
GPUs keeps its cache in device memory and only ever adds to it: a table of the rows that hold each beam's positions
keeps beams apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..errors import CounterfactoryError
from ..profile.caption import DecodingSettings
from ..schedule.overlap import in_chunks
from .batching import Batched, pad_rows
from .clauses import to_clause
from .clip import to_pixel_values
from .decoding import decode

if TYPE_CHECKING:
    from tokenizers import Tokenizer

Floats = NDArray[np.float32]
Ids = NDArray[np.int64]
Generators = Sequence[Sequence[np.random.Generator]]  # of each image's captions


@dataclass(frozen=True)
class Reading:
    """A text that is read before image number `image`, and the `spans` of words to score, characters [start, end)."""

    image: int
    text: str
    spans: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Blip2:
    """The captioner. `embeddings` is the decoder's token table, [V, D]; `bos` starts a caption and `eos` ends it.

    The decoder's batch is the encoder's times the rows per image, which are captions times beams.
    """

    vision: Batched
    decoder: Batched
    embeddings: Floats
    tokenizer: Tokenizer
    bos: tuple[int, ...]
    eos: int

    @property
    def at_once(self) -> int:
        """The images that are captioned together: a batch for each stream."""
        return self.vision.at_once

    def caption(
        self, images: Sequence[NDArray[np.uint8]], generators: Generators, prefix: str, settings: DecodingSettings
    ) -> list[list[str]]:
        """Captions of uint8 RGB images of any sizes: one per generator, of which all images have the same number.

        A caption continues `prefix` and does not contain it. One that ran out of tokens ends with a clause.
        """
        captions: list[list[str]] = []
        for start in range(0, len(images), self.at_once):
            batch = images[start : start + self.at_once]
            queries = self._look(batch)
            parts = [
                (queries[at : at + self.vision.batch], generators[start + at : start + at + self.vision.batch])
                for at in range(0, len(batch), self.vision.batch)
            ]
            for texts in self.decoder.each(lambda part: self._continue(*part, prefix, settings), parts):
                captions += texts
        return captions

    def read(
        self, images: Sequence[NDArray[np.uint8]], readings: Sequence[Reading], prefix: str, room: int
    ) -> list[tuple[float | None, ...]]:
        """How likely the captioner would write the words of a reading's spans where they stand, behind `prefix` and the
        text before them: the geometric mean of their tokens' probabilities, 0..1, for each span.

        Images are uint8 RGB of any sizes. None for words beyond `room` tokens of a text, which the decoder's plan may
        have no place for, and for a span without tokens.
        """
        queries, prompt = self._look(images), self._prompt(prefix)
        texts = [_span_tokens(self.tokenizer, reading, room) for reading in readings]
        # Rows with the same places to score share the long runs of the decoder between them.
        rows = sorted(_rows(readings, texts), key=lambda row: row.places)

        def read(chunk: list[_DecoderRow]) -> list[NDArray[np.float64]]:
            return self._surprises(queries[[row.image for row in chunk]], prompt, chunk)

        parts = list(in_chunks(rows, self.decoder.batch))
        surprises: dict[int, NDArray[np.float64]] = {}
        for chunk, read_of in zip(parts, self.decoder.each(read, parts), strict=True):
            surprises |= zip((i for row in chunk for i in row.texts), read_of, strict=True)
        return [
            tuple(None if span is None else float(np.exp(-surprises[i][span].mean())) for span in text.spans)
            for i, text in enumerate(texts)
        ]

    def _look(self, images: Sequence[NDArray[np.uint8]]) -> Floats:
        """Query embeddings [N, Q, D], or what a decoder attends to of each image [N, ...]."""
        side = self.vision.signature.inputs[0].shape[2]
        assert side is not None
        return self.vision.run({"pixel_values": to_pixel_values(images, side)})["query_embeds"]

    def _prompt(self, prefix: str) -> list[int]:
        return [*self.bos, *(self.tokenizer.encode(prefix, add_special_tokens=False).ids if prefix else ())]

    def _begin(self, queries: Floats, prompt: Sequence[int]) -> tuple[_Continuation, Floats]:
        """The rows of some queries once they have read the prompt, and logits [R, V] after it."""
        past = _Continuation(self.decoder, queries)
        spoken = np.repeat(self.embeddings[list(prompt)][None], len(queries), axis=0)
        return past, past.append(spoken if past.attends else np.concatenate([queries, spoken], axis=1))

    def _surprises(
        self, queries: Floats, prompt: Sequence[int], rows: Sequence[_DecoderRow]
    ) -> list[NDArray[np.float64]]:
        """-log p of each token of the rows' texts after the tokens before it, the texts of one row after those of the
        other; only tokens in a span are scored, the others are 0.
        """
        tokens = np.full((len(rows), max(len(row.context) for row in rows)), self.eos)
        for line, decoder_row in zip(tokens, rows, strict=True):
            line[: len(decoder_row.context)] = decoder_row.context
        past, logits = self._begin(queries, prompt)
        # Plans read at least as many positions at once.
        most = len(prompt) if past.attends else queries.shape[1]
        texts = [(row, text) for row, decoder_row in enumerate(rows) for text in decoder_row.texts.values()]
        surprises = [np.zeros(text.last) for _, text in texts]
        position = 0
        for at in sorted({at for _, text in texts for at in text.places}):
            for start in range(position, at, most):
                logits = past.append(self.embeddings[tokens[:, start : min(start + most, at)]])
            position = at
            looked = sorted({row for row, text in texts if at in text.places})
            most_of = logits[looked].max(axis=1, keepdims=True).astype(np.float64)
            sums = np.log(np.exp(logits[looked] - most_of).sum(axis=1)) + most_of[:, 0]  # log of the sum of exp
            whole = dict(zip(looked, sums, strict=True))
            for (row, text), own in zip(texts, surprises, strict=True):
                if at in text.places:
                    own[at] = whole[row] - logits[row, text.tokens[at]]
        return surprises

    def _continue(
        self, queries: Floats, generators: Generators, prefix: str, settings: DecodingSettings
    ) -> list[list[str]]:
        """Captions after the query embeddings [B, Q, D] of each image."""
        each, prompt = len(generators[0]), self._prompt(prefix)
        rows = np.repeat(queries, each * settings.beams, axis=0)
        past, logits = self._begin(rows, prompt)

        def advance(tokens: Ids, parents: Ids) -> Floats:
            past.reorder(parents)
            return past.append(self.embeddings[tokens][:, None])

        texts = decode(logits, advance, settings, prompt, self.eos, list(chain(*generators)))
        captions = [self._text_of(text, settings.max_tokens) for text in texts]
        return [captions[i : i + each] for i in range(0, len(captions), each)]

    def _text_of(self, tokens: Sequence[int], most: int) -> str:
        """What tokens say; as far as the last clause where they ran out."""
        text = str(self.tokenizer.decode(tokens)).strip()
        return text if len(tokens) < most else to_clause(text)


@dataclass(frozen=True)
class _SpanTokens:
    """The tokens of a text, its spans as slices of them or None, and the `places` of all tokens that lie in one."""

    tokens: Sequence[int]
    spans: tuple[slice | None, ...]
    places: frozenset[int]

    @property
    def last(self) -> int:
        """The end of the last token to score; 0 where there is none."""
        return max(self.places, default=-1) + 1


@dataclass(frozen=True)
class _DecoderRow:
    """What one row of the decoder reads: an image, and the `context`, the tokens before the last one to score. Each of
    its `texts`, by number, begins like the context as far as the text goes.
    """

    image: int
    context: Sequence[int]
    texts: Mapping[int, _SpanTokens]

    @property
    def places(self) -> list[int]:
        """The places of all tokens to score, in order."""
        return sorted({at for text in self.texts.values() for at in text.places})


def _rows(readings: Sequence[Reading], texts: Sequence[_SpanTokens]) -> list[_DecoderRow]:
    """The rows that read all texts: texts that differ in their last word only, or continue another, share a row."""
    groups: dict[tuple[int, tuple[int, ...]], dict[int, _SpanTokens]] = {}
    begun: dict[tuple[int, tuple[int, ...]], dict[int, _SpanTokens]] = {}
    for i in sorted((i for i, text in enumerate(texts) if text.last), key=lambda i: -texts[i].last):
        image, context = readings[i].image, tuple(texts[i].tokens[: texts[i].last - 1])
        group = begun.get((image, context))
        if group is None:
            group = groups[image, context] = {}
            begun |= {(image, context[:length]): group for length in range(len(context) + 1)}
        group[i] = texts[i]
    return [_DecoderRow(image, context, group) for (image, context), group in groups.items()]


def _span_tokens(tokenizer: Tokenizer, reading: Reading, room: int) -> _SpanTokens:
    encoded = tokenizer.encode(reading.text, add_special_tokens=False)

    def find(start: int, end: int) -> slice | None:
        # A token may hold the space before its word, in its own characters or not.
        inside = [i for i, (a, b) in enumerate(encoded.offsets) if a < end and b > start]
        return slice(inside[0], inside[-1] + 1) if inside and inside[-1] < room else None

    spans = tuple(find(*span) for span in reading.spans)
    places = frozenset(at for span in spans if span is not None for at in range(span.start, span.stop))
    return _SpanTokens(encoded.ids, spans, places)


class _Continuation:
    """The rows of a decoder behind their cache. The plan's batch is padded with copies of the last row.

    One kind of cache is taken and returned whole by each run, [B, L, heads, P, D/heads]: its rows are reordered here.
    Another is kept by a device, [P, B, L, heads, D/heads]: what was written stays where it is, and a row that goes on
    from another finds its past in a table of rows [P, B], which alone is reordered. A decoder that `attends` to images
    takes their queries at every step; rows are reordered only among those of one image.
    """

    def __init__(self, decoder: Batched, queries: Floats) -> None:
        self._decoder, self._rows, self._position = decoder, len(queries), 0
        inputs = {port.name: port for port in decoder.signature.inputs}
        self.attends = "query_embeds" in inputs
        self._attended = {"query_embeds": pad_rows(queries, decoder.batch)} if self.attends else {}
        self._keeps = "cache_keys" in inputs
        if self._keeps:
            self._outputs = {"cache_keys": "cache_keys_added", "cache_values": "cache_values_added"}
        else:
            self._outputs = {"past_keys": "keys", "past_values": "values"}
        port = inputs[next(iter(self._outputs))]
        shape = [length or 0 for length in port.shape]  # no positions yet
        shape[1 if self._keeps else 0] = decoder.batch
        self._cache: dict[str, Any] = dict.fromkeys(self._outputs, np.zeros(shape, port.dtype))
        self._own: Ids = np.arange(decoder.batch)
        self._table: Ids | None = np.zeros((0, decoder.batch), np.int64) if "cache_rows" in inputs else None

    def reorder(self, parents: Ids) -> None:
        """Let row i continue what row `parents[i]` was."""
        parents = np.append(parents, self._own[self._rows :])
        if self._table is not None:
            self._table = self._table[:, parents]
        elif np.array_equal(parents, self._own):
            return
        elif self._keeps:
            raise CounterfactoryError(
                "the captioner's decoder was exported for captions without beams; export opt_decoder again with the "
                "profile that asks for them"
            )
        else:
            self._cache = {name: array[parents] for name, array in self._cache.items()}

    def append(self, inputs_embeds: Floats) -> Floats:
        """Append embeddings [R, S, D] to the cache; returns logits [R, V] after the last position."""
        steps = np.arange(self._position, self._position + inputs_embeds.shape[1], dtype=np.int64)
        feeds = {
            "inputs_embeds": pad_rows(inputs_embeds, self._decoder.batch),
            "position_ids": np.tile(steps, (self._decoder.batch, 1)),
            **self._attended,
            **self._cache,
        }
        if self._table is not None:
            feeds["cache_rows"] = self._table
            self._table = np.concatenate([self._table, np.tile(self._own, (len(steps), 1))])
        out = self._decoder.run_full(feeds, hold=tuple(self._outputs.values()), rows=self._rows)
        self._cache = {name: out[output] for name, output in self._outputs.items()}
        self._position += len(steps)
        logits: Floats = out["logits"][: self._rows]
        return logits
