"""Tables of images: a CSV or JSONL file in, its rows out, each checked by itself.

The columns are image, label and mask, of which only image is needed. What the paths mean is `listing`'s business.
"""

from __future__ import annotations

import csv
import io
import json
import unicodedata
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ..errors import CounterfactoryError
from .fill import nearest

COLUMNS = ("image", "label", "mask")


def read_rows(table: Path) -> Iterator[tuple[str, dict[str, str] | str]]:
    """("file:line", row) for each row: the columns that say something, stripped, "image" always among them; or, for a
    row that cannot be used, the reason.

    Raises CounterfactoryError for a table that is wrong as a whole: unreadable, not UTF-8, not CSV, empty, with an
    unknown column or none named image.
    """
    try:
        text = table.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise CounterfactoryError(f"cannot read {table}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise CounterfactoryError(f"{table} is not UTF-8 text (byte {error.start}); save it as UTF-8") from error
    read = _csv_rows if table.suffix.lower() == ".csv" else _jsonl_rows
    for line, row in read(text, table):
        where = f"{table.name}:{line}"
        if isinstance(row, str):
            yield where, row
            continue
        _check_columns(row, table)
        odd = [column for column, value in row.items() if type(value) not in (str, int, type(None))]
        stripped = {column: str(value).strip() for column, value in row.items() if value is not None}
        said = {column: value for column, value in stripped.items() if value}
        if odd:
            yield where, f"column {odd[0]!r} holds {row[odd[0]]!r}; text is needed"
        elif "image" not in said:
            yield where, "names no image"
        elif unprintable("".join(said.values())):
            yield where, "holds control characters or half a surrogate pair"
        else:
            yield where, said


def unprintable(text: str) -> bool:
    """Whether text holds what metadata cannot store or a terminal would obey. (A file's non-UTF-8 bytes are such.)"""
    return any(unicodedata.category(character) in ("Cc", "Cs") for character in text)


def _csv_rows(text: str, table: Path) -> Iterator[tuple[int, dict[str, Any] | str]]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        header = [name.strip() for name in next(reader, [])]
        if not header:
            raise CounterfactoryError(f"{table} is empty; its first line names the columns: {','.join(COLUMNS)}")
        _check_columns(header, table)
        if "image" not in header:
            raise CounterfactoryError(f"{table} has no column 'image' (found: {', '.join(header)})")
        if len(set(header)) < len(header):
            raise CounterfactoryError(f"{table} names a column twice: {', '.join(header)}")
        for row in reader:
            if len(row) > len(header):
                yield reader.line_num, f"has {len(row)} fields where the first line names {len(header)}"
            elif any(field.strip() for field in row):
                yield reader.line_num, dict(zip(header, row, strict=False))
    except csv.Error as error:
        raise CounterfactoryError(f"{table}:{reader.line_num} is not valid CSV: {error}") from error


def _jsonl_rows(text: str, table: Path) -> Iterator[tuple[int, dict[str, Any] | str]]:
    # Not splitlines(): U+2028 and its like may stand inside a JSON string.
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                yield number, f"is not valid JSON: {error}"
                continue
            yield number, row if isinstance(row, dict) else "is not a JSON object"


def _check_columns(columns: Iterable[str], table: Path) -> None:
    for column in columns:
        if column not in COLUMNS:
            raise CounterfactoryError(f"{table} has an unknown column {column!r}; {nearest(column, COLUMNS)}")
