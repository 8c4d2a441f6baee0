"""How the edits of many variants are spread over types and over values, so that a suite that is "always red" shows.

Edits are counted by what is new in them, so that "red car" -> "blue car" and "a red bus" -> "a blue bus" are one value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from ..edit import Edit
from ..english.difference import words_of
from ..english.edit_scope import AGREEING

# Of fewer edits a share says little.
_FEW = 20


@dataclass(frozen=True)
class TypeSpread:
    """The edits of a type, their `share` of all edits, and the new words with their counts, the most frequent first."""

    type: str
    edits: int
    share: float
    values: tuple[tuple[str, int], ...]

    @property
    def most(self) -> float:
        """The share of the most frequent value."""
        return self.values[0][1] / self.edits


def spread_of(edits: Iterable[Edit]) -> list[TypeSpread]:
    """The spread of each type, the most frequent type first; of equal ones the first by name."""
    counts = Counter((edit.type, value_of(edit)) for edit in edits)
    by_type: dict[str, list[tuple[str, int]]] = {}
    for (type_, value), count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        by_type.setdefault(type_, []).append((value, count))
    totals = {type_: sum(count for _, count in values) for type_, values in by_type.items()}
    spreads = [TypeSpread(one, totals[one], totals[one] / counts.total(), tuple(by_type[one])) for one in by_type]
    return sorted(spreads, key=lambda spread: (-spread.edits, spread.type))


def value_of(edit: Edit) -> str:
    """What an edit brings: the words of its alternative that its keyword has not, without small ones; where none is
    left, the whole alternative; for an edit that only removes words "no" and those words, such as "no ball".
    """
    old, new = ([word.same for word in words_of(text)] for text in (edit.keyword, edit.alternative))
    words = [word for word in new if word not in old] if new else old
    if not edit.keyword:  # "out of focus" stays together, "at night" is "night"
        return " ".join(_without_ends(words)) or edit.alternative
    telling = [word for word in words if not _is_small(word)]
    return ("" if new else "no ") + " ".join(telling or new or old)


def _is_small(word: str) -> bool:
    return word in AGREEING or word in ("of", "with")


def _without_ends(words: Sequence[str]) -> Sequence[str]:
    while words and _is_small(words[0]):
        words = words[1:]
    while words and _is_small(words[-1]):
        words = words[:-1]
    return words


def skewed(spreads: Iterable[TypeSpread], single: Collection[str] = ()) -> list[TypeSpread]:
    """The types of at least 20 edits in which one value is more than half-way from an even share to all of them, or is
    the only one; but for types of `single`, which are to have one value only.
    """
    return [
        spread
        for spread in spreads
        if spread.edits >= _FEW
        and (spread.most > (1 + 1 / len(spread.values)) / 2 or (len(spread.values) == 1 and spread.type not in single))
    ]
