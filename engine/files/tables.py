"""Tables that users bring: CSV with a header or JSONL with one object per line, read row by row.

A file and the names of its columns give numbered rows, each a mapping or, if that row alone is broken, the reason. What
the columns mean is the caller's business.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ..errors import CounterfactoryError
from .reading import number_lines, read_text

SUFFIXES = (".csv", ".jsonl")

Row = dict[str, Any]


def read_table(path: Path, required: Sequence[str | tuple[str, ...]]) -> Iterator[tuple[int, Row | str]]:
    """(line number, row) for each row that is not blank; a row that cannot be used is a sentence's end, the reason.

    A row maps columns to values: stripped text from CSV, any JSON value from JSONL. Columns may be missing from a row;
    only a CSV's header is held to `required`: columns, or several names for one. Raises CounterfactoryError for a table
    that is wrong as a whole: another suffix than .csv and .jsonl, unreadable, not UTF-8, not CSV, without a header,
    with a column twice or without a required one.
    """
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise CounterfactoryError(f"{path} is no table that is read; tables are .csv and .jsonl files")
    read = _csv_rows if suffix == ".csv" else _jsonl_rows
    return read(read_text(path), path, required)


def _csv_rows(text: str, path: Path, required: Sequence[str | tuple[str, ...]]) -> Iterator[tuple[int, Row | str]]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        header = [name.strip() for name in next(reader, [])]
        _check_header(header, path, required)
        for row in reader:
            if len(row) > len(header):
                yield reader.line_num, f"has {len(row)} fields where the first line names {len(header)}"
            elif any(field.strip() for field in row):
                yield reader.line_num, dict(zip(header, map(str.strip, row), strict=False))
    except csv.Error as error:
        raise CounterfactoryError(f"{path}:{reader.line_num} is not valid CSV: {error}") from error


def _check_header(header: Sequence[str], path: Path, required: Sequence[str | tuple[str, ...]]) -> None:
    wanted = [(names,) if isinstance(names, str) else names for names in required]
    if not any(header):
        columns = ",".join(names[0] for names in wanted)
        raise CounterfactoryError(f"{path} is empty; its first line names the columns: {columns}")
    for names in wanted:
        if not any(name in header for name in names):
            called = " or ".join(map(repr, names))
            raise CounterfactoryError(f"{path} has no column {called} (found: {', '.join(header)})")
    if len(set(header)) < len(header):
        raise CounterfactoryError(f"{path} names a column twice: {', '.join(header)}")


def _jsonl_rows(text: str, path: Path, required: Sequence[str | tuple[str, ...]]) -> Iterator[tuple[int, Row | str]]:
    for number, line in number_lines(text):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            yield number, f"is not valid JSON: {error}"
            continue
        yield number, row if isinstance(row, dict) else "is not a JSON object"
