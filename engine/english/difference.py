"""What changed from one caption to another, computed word by word: no model's account of it is trusted.

Words are aligned so that as many as can be are kept in their order (a longest common subsequence), whatever their case
and the punctuation between them. Of several such alignments the one that keeps the earliest words is taken.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property, lru_cache

WORD = re.compile(r"[^\W_]+(?:['\u2019-][^\W_]+)*")


@dataclass(frozen=True)
class Word:
    """A word of a caption: number `at` from 0, characters [start, end)."""

    text: str
    at: int
    start: int
    end: int

    @cached_property
    def same(self) -> str:
        """What it is compared by: its letters, whatever their case and the apostrophe."""
        return self.text.replace("\u2019", "'").casefold()


@dataclass(frozen=True)
class Change:
    """Words that are gone and those in their place, neighbours each; one of both may be empty. The change lies before
    word number `at` of the old caption, or begins with it; `new_at` is its place in the new.
    """

    at: int
    removed: tuple[Word, ...]
    new_at: int
    added: tuple[Word, ...]


@dataclass(frozen=True)
class Difference:
    """Two captions' words: `pairs` of words that stayed, old and new, and the changes between them, in order."""

    pairs: tuple[tuple[Word, Word], ...]
    changes: tuple[Change, ...]

    @property
    def removed(self) -> tuple[Word, ...]:
        """All words of the old caption that are gone."""
        return tuple(word for change in self.changes for word in change.removed)

    @property
    def added(self) -> tuple[Word, ...]:
        """All words of the new caption that were not there."""
        return tuple(word for change in self.changes for word in change.added)


@lru_cache(maxsize=64)  # a caption is compared with all of its variants
def words_of(caption: str) -> tuple[Word, ...]:
    """The words of a caption; "it's" and "half-lit" are one each."""
    return tuple(Word(m.group(), at, m.start(), m.end()) for at, m in enumerate(WORD.finditer(caption)))


@lru_cache(maxsize=4)  # the checks of an edited caption ask one after the other
def compare(caption: str, edited: str) -> Difference:
    """What changed from `caption` to `edited`."""
    old, new = words_of(caption), words_of(edited)
    pairs = _aligned([word.same for word in old], [word.same for word in new])
    changes, i, j = list[Change](), 0, 0
    for p, q in [*pairs, (len(old), len(new))]:
        if (i, j) != (p, q):
            changes.append(Change(i, old[i:p], j, new[j:q]))
        i, j = p + 1, q + 1
    return Difference(tuple((old[p], new[q]) for p, q in pairs), tuple(changes))


def _aligned(old: list[str], new: list[str]) -> list[tuple[int, int]]:
    """Pairs of places of a longest common subsequence, by its table of lengths; captions are short."""
    both = zip(old, new, strict=False)
    begun = next((i for i, pair in enumerate(both) if pair[0] != pair[1]), min(len(old), len(new)))
    most = [[0] * (len(new) + 1) for _ in range(len(old) + 1)]
    for i in reversed(range(begun, len(old))):
        row, below, word = most[i], most[i + 1], old[i]
        for j in reversed(range(begun, len(new))):
            row[j] = 1 + below[j + 1] if word == new[j] else max(below[j], row[j + 1])
    pairs, i, j = [(i, i) for i in range(begun)], begun, begun
    while most[i][j]:
        if old[i] == new[j]:
            pairs.append((i, j))
            i, j = i + 1, j + 1
        elif most[i + 1][j] == most[i][j]:
            i += 1
        else:
            j += 1
    return pairs
