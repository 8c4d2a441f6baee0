"""Rows about images: tables with the columns image, label and mask, checked row by row.

Of the columns only image is needed; the names that Hugging Face's image folders and others have for them are taken
too. What the paths mean is `listing`'s business.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..files.tables import read_table

# A column's name, and others that mean the same; of several in one row the first counts.
COLUMNS = {
    "image": ("image", "file_name", "filename"),
    "label": ("label", "class"),
    "mask": ("mask", "mask_file_name"),
}


def read_image_rows(table: Path) -> Iterator[tuple[str, dict[str, str] | str, list[str]]]:
    """("file:line", row, other columns) for each row: the columns that are not empty under their own names, "image"
    always among them; or, for a row that cannot be used, the reason.

    Raises CounterfactoryError for a table that is wrong as a whole; see `read_table`.
    """
    for line, row in read_table(table, required=[COLUMNS["image"]]):
        if isinstance(row, str):
            yield f"{table.name}:{line}", row, []
            continue
        used = {column: next((name for name in names if name in row), None) for column, names in COLUMNS.items()}
        values = _check_values({column: row[name] for column, name in used.items() if name is not None})
        yield f"{table.name}:{line}", values, [name for name in row if name not in used.values()]


def _check_values(row: dict[str, Any]) -> dict[str, str] | str:
    """The row's values as text, without the empty ones, or why they cannot be used."""
    for column, value in row.items():
        if type(value) not in (str, int, type(None)):
            return f"column {column!r} holds {value!r}; text is needed"
    stripped = {column: str(value).strip() for column, value in row.items() if value is not None}
    values = {column: value for column, value in stripped.items() if value}
    if "image" not in values:
        return "names no image"
    if unprintable("".join(values.values())):
        return "holds control characters or half a surrogate pair"
    return values


def unprintable(text: str) -> bool:
    """Whether text holds what metadata cannot store or a terminal would obey. (A file's non-UTF-8 bytes are such.)"""
    return any(unicodedata.category(character) in ("Cc", "Cs") for character in text)
