"""The plan of a suite whose user names values: every source has each value once, as far as its caption allows, before
any is repeated.

A cell is a source and a value. Where a source has fewer variants than cells, it takes the values that the sources
before it took least often, so that each comes about equally often; of equal ones a draw by the source's key decides.
Turn for turn: what a source takes first depends on what those before it took first, so that asking for more variants
keeps those that exist. Where all cells fit, no source depends on another. Sources that have turns (menu_edits.py) take
values by these instead, and a painter's own menu in the same way where every variant has as many edits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

from ...content_keys import choice_key
from ...edit import Edit
from ...english.mentions import changed_protected_word
from ...english.words import allowed_values
from ...keys import generator
from ...request import SuiteRequest
from ...suite.cells import FEWER, Cell, ValueCells, value_of_edit
from ...tasks.choose import cover_cells, in_turn
from ...variant import Variant
from .caption_edits import CaptionEdits

SAID, KEPT = "in the caption already", "names a protected word"
NO_WORDS, FILTERED = "no words of its type", "fails the text filters"
NO_PARTNER, DROPPED = "no second edit with it", "caption was dropped"


class CellPlan(NamedTuple):
    """Whether a caption allows a cell, why it is empty, and the number of the first set of edits that brings it."""

    allowed: bool
    reason: str | None
    turn: int | None = None


class Matrix:
    """The cells of a shard's sources; `before` are those of the sources before them."""

    def __init__(self, request: SuiteRequest, before: Sequence[ValueCells] = ()) -> None:
        named = request.interventions
        self.cells = [] if named is None else [(type_, value) for type_, values in named.axes for value in values]
        self._request = request
        turns = {one.cell: list(accumulate(one.turns)) for one in before}
        # How many of the sources so far have each cell by their first set of edits, their second, and so on.
        self._taken = {cell: turns.get(cell, [0] * len(self.cells)) for cell in self.cells}
        self._impossible: dict[CaptionEdits, dict[Cell, str | None]] = {}
        self._turns: dict[CaptionEdits, dict[Cell, int]] = {}

    def note(self, draft: CaptionEdits) -> None:
        """Keeps which cells a draft's caption allows, or why not, before filters take edits out."""
        able = self._edits(draft)
        self._impossible[draft] = {one: None if one in able else _why_impossible(draft, *one) for one in self.cells}

    def plan(self, draft: CaptionEdits) -> list[tuple[Edit, ...]]:
        """The sets of edits that a source's variants begin with, each of the least number of edits."""
        request, by_cell, size, turn = self._request, self._edits(draft), self._request.edits[0], draft.source.turn
        if not self.cells and turn is not None:
            every = (Edit(one.type, one.keyword, new) for one in draft.choices for new in one.alternatives)
            by_cell = {(edit.type, edit.alternative): [edit] for edit in every}
        key = choice_key(draft.source.key, request.task, request.seed)
        luck = dict(zip(by_cell, generator(key, "matrix").random(len(by_cell)), strict=True))
        order = [] if turn is None else in_turn(list(by_cell), turn)
        left = set(by_cell).difference(order)
        while left:
            turn = len(order) // size
            rest = ((0 if request.has_room else self._taken[cell][turn], luck[cell], cell) for cell in left)
            order.append(min(rest)[2])
            left.discard(order[-1])
        choices = [choice for choice in draft.choices if choice.alternatives]
        sets = cover_cells(choices, {cell: by_cell[cell] for cell in order}, size, draft.exclusive)
        turns: dict[Cell, int] = {}
        for turn, edits in enumerate(sets):
            for cell in self._brought(edits):
                turns.setdefault(cell, turn)
        for cell, first in turns.items():
            self._taken[cell] = [count + (at >= first) for at, count in enumerate(self._taken[cell])]
        self._turns[draft] = turns
        return sets[: request.sets]

    def outcomes(self, draft: CaptionEdits, variants: Sequence[Variant]) -> dict[Cell, CellPlan]:
        """What each cell of a source comes to, by its variants, those that are dropped among them."""
        filled = {cell for one in variants if one.dropped is None for cell in self._brought(one.edits)}
        tried = {cell for one in variants for cell in self._brought(one.edits)}
        left, turns = self._edits(draft), self._turns[draft]

        def why(cell: Cell) -> str | None:
            if cell in filled:
                return None
            if cell in tried:
                return DROPPED
            if cell not in left:
                return FILTERED
            return FEWER if cell in turns else NO_PARTNER

        return {
            cell: CellPlan(impossible is None, impossible or why(cell), turns.get(cell))
            for cell, impossible in self._impossible[draft].items()
        }

    def _edits(self, draft: CaptionEdits) -> dict[Cell, list[Edit]]:
        """The edits of a draft's choices that bring each value."""
        by_cell: dict[Cell, list[Edit]] = {}
        for choice in draft.choices if self.cells else ():
            for alternative in choice.alternatives:
                edit = Edit(choice.type, choice.keyword, alternative)
                for cell in self._brought([edit]):
                    by_cell.setdefault(cell, []).append(edit)
        return by_cell

    def _brought(self, edits: Sequence[Edit]) -> list[Cell]:
        named = self._request.interventions
        if named is None:
            return []
        values = [(edit.type, value_of_edit(edit, named.values(edit.type))) for edit in edits]
        return [(type_, value) for type_, value in values if value is not None]


def count_cells(cells: Sequence[Cell], plans: Mapping[str, Mapping[Cell, CellPlan]]) -> tuple[ValueCells, ...]:
    """The cells of sources, by their names, value by value; none is accepted yet."""
    counted = []
    for cell in cells:
        empty: dict[str, list[str]] = {}
        of_cell = {source: plan[cell] for source, plan in plans.items()}
        for source, plan in of_cell.items():
            if plan.reason is not None:
                empty.setdefault(plan.reason, []).append(source)
        turns = Counter(plan.turn for plan in of_cell.values())
        counted.append(
            ValueCells(
                *cell,
                possible=sum(plan.allowed for plan in of_cell.values()),
                painted=sum(plan.reason is None for plan in of_cell.values()),
                accepted=0,
                empty={reason: tuple(sources) for reason, sources in empty.items()},
                turns=tuple(turns[turn] for turn in range(len(cells))),
            )
        )
    return tuple(counted)


def _why_impossible(draft: CaptionEdits, type_: str, value: str) -> str:
    """Why a caption allows no edit to a value: a few words, the same for all captions of which it is true."""
    if not allowed_values([value], draft.caption, ()):
        return SAID
    if type_ in draft.withheld or any(changed_protected_word("", value, (word,)) for word in draft.keep):
        return KEPT
    if draft.problem and draft.problem.startswith("its caption"):
        return draft.problem.partition(" (")[0].partition(":")[0].partition(",")[0]
    return draft.unread or NO_WORDS
