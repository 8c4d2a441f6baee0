"""A suite in words: what readers have to know of it, why variants were rejected, and the spread of its edits.

Sentences are the first lines of the page, of the sheet and of `evaluate`; tables are for the terminal and the page.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from ..edit import Edit
from ..stages.check.verdict import check_meaning, failed_check
from ..suite import PictureRow, caution, count_outside
from ..suite.by_hand import HandVerdict
from ..suite.cells import ValueCells, coverage
from ..tasks.spread import TypeSpread, skewed
from .table import Table, percent

# Characters of the values that a row names, so that the table fits 80 columns; and of one of them.
_WIDTH, _LONGEST = 42, 24
# The same of a named value, and of why its cells are empty.
_VALUE, _REASON = 20, 22
_NAMED = 10


def suite_notes(rows: Sequence[PictureRow]) -> tuple[str, ...]:
    """What a suite's rows say about all that is read off them; empty where all is as it should be."""
    first = tuple(filter(None, [caution(*count_outside(rows))]))
    variants = [row for row in rows if row.kind == "variant"]
    if variants and not any(row.accepted for row in variants):
        return (*first, "no variant was accepted: there is nothing to compare")
    varied = {row.source for row in variants if row.accepted}
    painted = {row.source for row in rows if row.kind == "control"}
    bare = varied - {row.source for row in rows if row.kind == "control" and row.accepted}
    if not painted or not bare:
        return first
    lack = (
        f"{len(bare)} of {len(varied)} sources have no accepted control: their variants are compared with one another"
    )
    none = "no control was accepted: what painting does by itself cannot be told from what edits do"
    return (*first, none if bare == varied else f"{lack} only")


def reason_table(rows: Sequence[PictureRow]) -> Table | None:
    """The rejected variants by the check that each failed first, most often first; None where none was rejected."""
    variants = [row for row in rows if row.kind == "variant"]
    counts = Counter((_why(row, row.reason), failed_check(row.reason)) for row in variants if row.reason is not None)
    if not counts:
        return None
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    lines = tuple((why, name, f"{count:,}", percent(count / len(variants))) for (why, name), count in ordered)
    return Table("Rejected variants", ("why", "check", "variants", "of all"), lines)


def _why(row: PictureRow, reason: str) -> str:
    """What it means that a check failed; of "valid", to which all checks come, what was doubted most."""
    name = failed_check(reason)
    doubted = reason.rpartition(f": {name} ")[0] if name == "valid" else ""
    shown = [edit.type for edit in row.edits if doubted.startswith(repr(edit.alternative or edit.keyword))]
    if shown:
        return f"an edit of {shown[0]} does not show"
    return doubted or check_meaning(name) or name


def edit_table(spreads: Sequence[TypeSpread]) -> Table:
    """Each type with its edits, their share of all, how many values they have and the most frequent ones' shares."""
    rows = [
        (s.type, f"{s.edits:,}", f"{100 * s.share:.0f} %", f"{len(s.values):,}", _most_frequent(s)) for s in spreads
    ]
    return Table("Edits", ("type", "edits", "share", "values", "most often"), tuple(rows))


def _most_frequent(spread: TypeSpread) -> str:
    shown = ""
    for value, count in spread.values:
        named = f"{_cut(value, _LONGEST)} {100 * count / spread.edits:.0f} %"
        longer = f"{shown}, {named}" if shown else named
        if len(longer) > _WIDTH:
            break
        shown = longer
    return shown


def coverage_table(cells: Sequence[ValueCells], planned: bool = False) -> Table:
    """What became of each value that the user names: sources whose caption allows it, with a picture of it, with an
    accepted one; those without a picture, and why most of what is missing is. Before painting, pictures are `planned`.
    """
    columns = ("value", "possible", *(("planned",) if planned else ("painted", "accepted")), "empty", "mostly as")
    rows = []
    for one in cells:
        counts = (one.possible, one.painted, *(() if planned else (one.accepted,)), sum(map(len, one.empty.values())))
        value, reason = _cut(f"{one.type}: {one.value}", _VALUE), one.commonest(rejected=not planned) or "-"
        rows.append((value, *(f"{count:,}" for count in counts), _cut(reason, _REASON)))
    possible = sum(one.possible for one in cells)
    filled = sum(one.painted if planned else one.accepted for one in cells)
    kind = "are planned" if planned else "have an accepted picture"
    return Table(f"Coverage: {filled:,} of {possible:,} possible cells {kind}", columns, tuple(rows))


def coverage_data(cells: Sequence[ValueCells] | None) -> dict[str, Any]:
    """The cells as plain data, every empty one by its source, with the share of the possible ones that count; nothing
    where no values were named.
    """
    return {"coverage": coverage(cells), "cells": [asdict(one) for one in cells]} if cells else {}


def uncovered(cells: Sequence[ValueCells], least: float) -> str:
    """The sentence for a suite that covers less than it has to."""
    return (
        f"{percent(coverage(cells))} of the possible cells have an accepted picture, and {100 * least:g} % are required"
    )


def hand_note(by_hand: Mapping[str, HandVerdict]) -> tuple[str, ...]:
    """A sentence on what people decided; none where they decided nothing."""
    counts = Counter[str](one.verdict for one in by_hand.values())
    if not counts:
        return ()
    words = (("exclude", "excluded"), ("accept", "accepted"))
    parts = [f"{counts[verdict]} {word}" for verdict, word in words if counts[verdict]]
    return (f"by hand: {', '.join(parts)}, whatever the scores say",)


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1].rstrip()}…"


def spread_data(spreads: Iterable[TypeSpread]) -> list[dict[str, Any]]:
    """The spread as plain data, with the most frequent values."""
    return [
        {**asdict(spread), "values": len(spread.values), "most_often": dict(spread.values[:_NAMED])}
        for spread in spreads
    ]


def skew_notes(spreads: Iterable[TypeSpread], single: Sequence[str] = ()) -> list[str]:
    """A sentence for each type whose edits nearly always bring the same value; `single` as in `skewed`."""
    return [
        f"{100 * spread.most:.0f} % of the {spread.edits:,} edits of type {spread.type} bring {spread.values[0][0]!r}: "
        "the type's effect on a model is that of one value"
        for spread in skewed(spreads, single)
    ]


def describe(edit: Edit) -> str:
    """An edit in a few words: "weather: sunny -> rainy", "weather: + in the rain", "object: - with a ball"."""
    shown = {"replace": f"{edit.keyword} -> {edit.alternative}", "add": f"+ {edit.alternative}"}
    return f"{edit.type}: {shown.get(edit.kind, f'- {edit.keyword}')}"
