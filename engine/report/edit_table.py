"""The spread of edits in words: a table for the terminal and the page, and a sentence where one value prevails."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ..edit import Edit
from ..tasks.spread import TypeSpread, skewed
from .table import Table

# Characters of the values that a row names, so that the table fits 80 columns; and of one of them.
_WIDTH, _LONGEST = 42, 24
_NAMED = 10


def edit_table(spreads: Sequence[TypeSpread]) -> Table:
    """Each type with its edits, their share of all, how many values they have and the most frequent ones' shares."""
    rows = [
        (
            spread.type,
            f"{spread.edits:,}",
            f"{100 * spread.share:.0f} %",
            f"{len(spread.values):,}",
            _most_frequent(spread),
        )
        for spread in spreads
    ]
    return Table("Edits", ("type", "edits", "share", "values", "most often"), tuple(rows))


def _most_frequent(spread: TypeSpread) -> str:
    shown = ""
    for value, count in spread.values:
        named = f"{_short(value)} {100 * count / spread.edits:.0f} %"
        longer = f"{shown}, {named}" if shown else named
        if len(longer) > _WIDTH:
            break
        shown = longer
    return shown


def _short(value: str) -> str:
    return value if len(value) <= _LONGEST else f"{value[: _LONGEST - 1].rstrip()}…"


def spread_data(spreads: Iterable[TypeSpread]) -> list[dict[str, Any]]:
    """The spread as plain data, with the most frequent values."""
    return [
        {
            "type": s.type,
            "edits": s.edits,
            "share": s.share,
            "values": len(s.values),
            "most_often": dict(s.values[:_NAMED]),
        }
        for s in spreads
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
