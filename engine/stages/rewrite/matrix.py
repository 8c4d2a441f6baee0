"""The plan of a suite whose user names values: every source has each value once, as far as its caption allows, before
any is repeated.

A cell is a source and a value. Where a source has fewer variants than cells, it takes the values that the sources
before it took least often, so that each comes about equally often; of equal ones a draw by the source's key decides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ...content_keys import choice_key
from ...edit import Edit
from ...english.mentions import changed_protected_word
from ...english.words import allowed_values
from ...keys import generator
from ...request import SuiteRequest
from ...suite.cells import FEWER, Cell, ValueCells, value_of_edit
from ...tasks.choose import cover_cells
from ...tasks.user_task import Interventions
from ...variant import Variant
from .caption_edits import CaptionEdits

SAID, KEPT = "the caption says it already", "it names what may not change"
NO_WORDS, FILTERED = "the caption has no words of its type", "the text filters refuse it"
NO_PARTNER, UNUSABLE = "no other edit goes with it", "its edited caption could not be used"
# Whether the caption allows each cell of a source, and why the cell is empty; None where it is not.
CellReasons = Mapping[Cell, tuple[bool, str | None]]


@dataclass
class Matrix:
    """The cells of a shard's sources. `taken` counts how many of all sources so far have each."""

    request: SuiteRequest
    taken: Counter[Cell] = field(default_factory=Counter)
    _allowed: dict[CaptionEdits, dict[Cell, str | None]] = field(default_factory=dict)
    _planned: dict[CaptionEdits, set[Cell]] = field(default_factory=dict)

    @property
    def cells(self) -> list[Cell]:
        """All cells of a source, in the order of the user's values."""
        named = self.request.interventions
        return [] if named is None else [(type_, value) for type_, values in named.axes for value in values]

    def note(self, draft: CaptionEdits) -> None:
        """Keeps which cells a draft's caption allows, or why not, before filters take edits out."""
        by_cell = _edits_by_cell(draft, self.request.interventions)
        self._allowed[draft] = {cell: None if cell in by_cell else _why_impossible(draft, *cell) for cell in self.cells}

    def plan(self, draft: CaptionEdits) -> list[tuple[Edit, ...]]:
        """The sets of edits that a source's variants begin with, each of the least number of edits."""
        request, by_cell = self.request, _edits_by_cell(draft, self.request.interventions)
        luck = generator(choice_key(draft.source.key, request.task, request.seed), "matrix").random(len(by_cell))
        order = sorted(zip(by_cell, luck, strict=True), key=lambda pair: (self.taken[pair[0]], pair[1]))
        choices = [choice for choice in draft.choices if choice.alternatives]
        sets = cover_cells(choices, {cell: by_cell[cell] for cell, _ in order}, request.edits[0])
        self._planned[draft] = {cell for edits in sets for cell in self._brought(edits)}
        sets = sets[: request.sets]
        self.taken.update({cell for edits in sets for cell in self._brought(edits)})
        return sets

    def outcomes(self, draft: CaptionEdits, variants: Sequence[Variant]) -> CellReasons:
        """What each cell of a source comes to, by its variants, those that are dropped among them."""
        filled = {cell for one in variants if one.dropped is None for cell in self._brought(one.edits)}
        tried = {cell for one in variants for cell in self._brought(one.edits)}
        left = _edits_by_cell(draft, self.request.interventions)

        def why(cell: Cell) -> str | None:
            if cell in filled:
                return None
            if cell in tried:
                return UNUSABLE
            if cell not in left:
                return FILTERED
            return FEWER if cell in self._planned.get(draft, ()) else NO_PARTNER

        return {
            cell: (impossible is None, impossible or why(cell)) for cell, impossible in self._allowed[draft].items()
        }

    def _brought(self, edits: Sequence[Edit]) -> list[Cell]:
        return [cell for edit in edits if (cell := _cell_of(edit, self.request.interventions)) is not None]


def count_cells(cells: Sequence[Cell], outcomes: Mapping[str, CellReasons]) -> tuple[ValueCells, ...]:
    """The cells of sources, by their names, value by value; none is accepted yet."""
    counted = []
    for cell in cells:
        empty: dict[str, list[str]] = {}
        for source, of_source in outcomes.items():
            if (reason := of_source[cell][1]) is not None:
                empty.setdefault(reason, []).append(source)
        possible = sum(of_source[cell][0] for of_source in outcomes.values())
        painted = len(outcomes) - sum(map(len, empty.values()))
        named = {reason: tuple(sources) for reason, sources in empty.items()}
        counted.append(ValueCells(*cell, possible, painted, 0, named))
    return tuple(counted)


def _edits_by_cell(draft: CaptionEdits, named: Interventions | None) -> dict[Cell, list[Edit]]:
    """The edits of a draft's choices that bring each value."""
    by_cell: dict[Cell, list[Edit]] = {}
    for choice in draft.choices:
        for alternative in choice.alternatives:
            edit = Edit(choice.type, choice.keyword, alternative)
            if (cell := _cell_of(edit, named)) is not None:
                by_cell.setdefault(cell, []).append(edit)
    return by_cell


def _cell_of(edit: Edit, named: Interventions | None) -> Cell | None:
    value = None if named is None else value_of_edit(edit, named.values(edit.type))
    return None if value is None else (edit.type, value)


def _why_impossible(draft: CaptionEdits, type_: str, value: str) -> str:
    """Why a caption allows no edit to a value: a few words, the same for all captions of which it is true."""
    if not allowed_values([value], draft.caption, ()):
        return SAID
    if any(changed_protected_word("", value, (word,)) for word in draft.keep):
        return KEPT
    if draft.problem and draft.problem.startswith("its caption"):
        return draft.problem.partition(" (")[0].partition(":")[0].partition(",")[0]
    return draft.unread or NO_WORDS
