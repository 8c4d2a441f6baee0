"""A small table of words, for the terminal and for the page alike."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    """Every row has one cell per column, and the first column names the row. Raises ValueError otherwise.

    The page shows `notes` below it; rows that are `of` "type", "value" or "class" link to their pictures, and cells of
    a `confusion` to those that were called so.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()
    of: str = ""
    confusion: bool = False

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(
                    f"table {self.title!r} has {len(self.columns)} columns, got a row of {len(row)}: {row}"
                )


def percent(value: float | None) -> str:
    """A share as a person reads it."""
    return "-" if value is None else f"{100 * value:.1f} %"
