"""The matrix of a suite whose user names values: a cell for every source and every value, and what became of it.

The cells of one value are counted together, as a record keeps them: sources by why their cell is empty. A picture fills
the cells of all values that its edits bring.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ..edit import Edit
from .picture_row import PictureRow
from .verdicts import ScoredRow

# A type of edit and a value that the user names for it.
Cell = tuple[str, str]
# Why a cell is empty although its source could have had it: a source has room for so many variants only.
FEWER = "fewer variants wanted"
REJECTED = "picture was rejected"


@dataclass(frozen=True)
class ValueCells:
    """The cells of a value: `possible` are the sources whose caption allows an edit to it; of those `painted` have a
    picture of it (or are to have one), and `accepted` an accepted one. `empty` has all other sources by why. `turns`
    count the sources whose first set of edits, second and so on brings it, of as many sets as it may take.
    """

    type: str
    value: str
    possible: int
    painted: int
    accepted: int
    empty: Mapping[str, tuple[str, ...]]
    turns: tuple[int, ...]

    @property
    def cell(self) -> Cell:
        """Type and value."""
        return self.type, self.value

    def commonest(self, *, rejected: bool = True) -> str | None:
        """The commonest reason of what has no picture, or where rejections count no accepted one; of equal ones the
        first by name. None where nothing is missing.
        """
        counts = Counter({reason: len(sources) for reason, sources in self.empty.items()})
        counts[REJECTED] = self.painted - self.accepted if rejected else 0
        return min(+counts, key=lambda reason: (-counts[reason], reason), default=None)


def coverage(cells: Iterable[ValueCells]) -> float:
    """The share of the possible cells that have an accepted picture; 0 where none is possible."""
    counts = [(one.accepted, one.possible) for one in cells]
    possible = sum(count for _, count in counts)
    return sum(count for count, _ in counts) / possible if possible else 0.0


def value_of_edit(edit: Edit, values: Sequence[str]) -> str | None:
    """Which of the values named for its type an edit brings: the longest that stands in its new words and not in those
    that it takes; None for none.
    """
    named = [value for value in values if _says(edit.alternative, value) and not _says(edit.keyword, value)]
    return max(named, key=len, default=None)


def _says(text: str, value: str) -> bool:
    words, text = " ".join(unicodedata.normalize("NFC", value).casefold().split()), text.casefold()
    return re.search(rf"(?<!\w){re.escape(words)}(?!\w)", text) is not None


def add_cells(before: Sequence[ValueCells], more: Sequence[ValueCells]) -> tuple[ValueCells, ...]:
    """The cells of two groups of sources together, of the same values."""
    if not before or not more:
        return tuple(before or more)
    added = []
    for one, other in zip(before, more, strict=True):
        counts = {name: getattr(one, name) + getattr(other, name) for name in ("possible", "painted", "accepted")}
        reasons = dict.fromkeys((*one.empty, *other.empty))
        empty = {reason: (*one.empty.get(reason, ()), *other.empty.get(reason, ())) for reason in reasons}
        turns = tuple(map(sum, zip(one.turns, other.turns, strict=True)))
        added.append(replace(one, **counts, empty=empty, turns=turns))
    return tuple(added)


@dataclass
class AcceptedCells:
    """Gathers the cells that accepted pictures fill, row by row."""

    cells: Sequence[ValueCells]
    _filled: dict[Cell, set[str]] = field(default_factory=dict)

    def add(self, row: PictureRow | ScoredRow) -> None:
        """One more picture."""
        if self.cells and row.accepted and row.kind == "variant":
            for edit in row.edits:
                value = value_of_edit(edit, [one.value for one in self.cells if one.type == edit.type])
                if value is not None:
                    self._filled.setdefault((edit.type, value), set()).add(sys.intern(row.source))

    def counted(self) -> tuple[ValueCells, ...]:
        """The cells with what was accepted."""
        return tuple(replace(one, accepted=len(self._filled.get(one.cell, ()))) for one in self.cells)


def count_accepted(cells: Sequence[ValueCells], rows: Iterable[PictureRow | ScoredRow]) -> tuple[ValueCells, ...]:
    """The cells with those counted as accepted that an accepted picture of the rows fills."""
    gathered = AcceptedCells(cells)
    for row in rows:
        gathered.add(row)
    return gathered.counted()
