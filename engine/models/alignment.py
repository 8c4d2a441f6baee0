"""The alignment of an edited caption's tokens with the source's, along which prompt-to-prompt carries attention over.

Hertz et al. 2022 (arXiv 2208.01626), section 3.2. Captions of as many words are edited by replacement, word for word:
the attention on a word goes to the word in its place, evenly to all of its tokens where it has another number of them.
Others are edited by refinement: tokens are aligned so that as many as possible stay in their order, and new ones keep
their own attention. The arrays are inputs of the editing denoiser's graph (export/graphs/editing.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from tokenizers import Tokenizer

Floats = NDArray[np.float32]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class CaptionTokens:
    """A caption as a text encoder reads it: `ids` of all T places, and the number of the word that each belongs to.

    Words are separated by spaces and counted from 0; None where a place is the beginning, the end or padding.
    """

    ids: tuple[int, ...]
    words: tuple[int | None, ...]

    @property
    def inside(self) -> list[int]:
        """The places of the caption's own tokens."""
        return [place for place, word in enumerate(self.words) if word is not None]

    @property
    def by_word(self) -> list[list[int]]:
        """The places of each word's tokens."""
        return [list(places) for _, places in groupby(self.inside, key=lambda place: self.words[place])]

    @property
    def outside(self) -> list[int]:
        return [place for place, word in enumerate(self.words) if word is None]


@dataclass(frozen=True)
class Alignment:
    """Where each of an edited caption's T tokens takes its attention from.

    Attention is source @ `cross_map` [T, T] + own * `cross_own` [T]. `gone` [T] are the source's tokens that the edit
    removed, `new` [T] those that it added.
    """

    cross_map: Floats
    cross_own: Floats
    gone: Flags
    new: Flags

    def reweighted(self, weight: float) -> Alignment:
        """The alignment with `weight` times the attention on the edit's new tokens."""
        weights = np.where(self.new, np.float32(weight), np.float32(1))
        return replace(self, cross_map=self.cross_map * weights, cross_own=self.cross_own * weights)


def read_tokens(tokenizer: Tokenizer, caption: str) -> CaptionTokens:
    """A caption's tokens, padded and cut as the tokenizer is set to."""
    encoding = tokenizer.encode(caption)
    starts = zip(encoding.offsets, encoding.special_tokens_mask, strict=True)
    words = (None if special else len(caption[: start + 1].split()) - 1 for (start, _), special in starts)
    return CaptionTokens(tuple(encoding.ids), tuple(words))


def follow_nobody(tokens: int) -> tuple[Floats, Floats]:
    """The map [T, T] and the share of its own attention [T] of a row that is not edited."""
    return np.zeros((tokens, tokens), np.float32), np.ones(tokens, np.float32)


def align(source: CaptionTokens, edited: CaptionTokens) -> Alignment:
    """How an edited caption's tokens follow the source's. Raises ValueError where they have other numbers of places."""
    size = len(source.ids)
    if len(edited.ids) != size:
        raise ValueError(f"captions have {size} and {len(edited.ids)} places: they are of different text encoders")
    old, new = source.by_word, edited.by_word
    pairs, gone, brought = (_replaced if len(old) == len(new) else _refined)(source, edited, old, new)
    cross_map, cross_own = follow_nobody(size)
    # The beginning, the end and the padding between them and the last place, each with its like.
    outside = zip(source.outside, edited.outside, strict=False)
    for i, j, share in [*pairs, *((i, j, 1.0) for i, j in outside)]:
        cross_map[i, j], cross_own[j] = share, 0
    places = np.arange(size)
    return Alignment(cross_map, cross_own, np.isin(places, gone), np.isin(places, brought))


_Places = list[int]
# Triples (place in the source, place in the edited caption, share of the attention), places that went, and that came.
_Match = tuple[list[tuple[int, int, float]], _Places, _Places]


def _replaced(source: CaptionTokens, edited: CaptionTokens, old: Sequence[_Places], new: Sequence[_Places]) -> _Match:
    pairs, gone, brought = list[tuple[int, int, float]](), _Places(), _Places()
    for from_, to in zip(old, new, strict=True):
        if len(from_) == len(to):
            pairs += [(i, j, 1.0) for i, j in zip(from_, to, strict=True)]
        else:
            pairs += [(i, j, 1 / len(to)) for i in from_ for j in to]
        if [source.ids[i] for i in from_] != [edited.ids[j] for j in to]:
            gone += from_
            brought += to
    return pairs, gone, brought


def _refined(source: CaptionTokens, edited: CaptionTokens, old: Sequence[_Places], new: Sequence[_Places]) -> _Match:
    """Token by token, in a longest common subsequence; of several the one that keeps the earliest tokens."""
    rows, columns = source.inside, edited.inside
    same = [[source.ids[i] == edited.ids[j] for j in columns] for i in rows]
    most = np.zeros((len(rows) + 1, len(columns) + 1), np.int64)
    for p in reversed(range(len(rows))):
        for q in reversed(range(len(columns))):
            most[p, q] = most[p + 1, q + 1] + 1 if same[p][q] else max(most[p + 1, q], most[p, q + 1])
    matches, p, q = list[tuple[int, int]](), 0, 0
    while most[p, q]:
        if same[p][q]:
            matches.append((rows[p], columns[q]))
            p, q = p + 1, q + 1
        elif most[p + 1, q] == most[p, q]:
            p += 1
        else:
            q += 1
    gone, brought = set(rows) - {i for i, _ in matches}, set(columns) - {j for _, j in matches}
    return [(i, j, 1.0) for i, j in matches], sorted(gone), sorted(brought)
