"""Tables that users bring: CSV with a header (commas, tabs or semicolons), JSONL with one object per line, or
Parquet, read row by row.

A file and the names of its columns give numbered rows, each a mapping or, if that row alone is broken, the reason. What
the columns mean is the caller's business.
"""

from __future__ import annotations

import csv
import io
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import CounterfactoryError, list_some
from .parquet_footer import chunk_sizes, footer_bytes
from .reading import number_lines, open_file, parse_json, read_text

if TYPE_CHECKING:
    import pyarrow.parquet as pq

SUFFIXES = (".csv", ".tsv", ".jsonl")
PARQUET = ".parquet"

# Rows of Parquet that are in memory together.
_AT_ONCE = 4096
# What a file of Parquet may hold, whatever its size: rows, and bytes in memory; and how much larger it may grow there.
_FEW_ROWS, _FEW_BYTES, _GROWTH = 10_000, 1 << 26, 100
# Of a header that lacks something, so many columns are named.
_NAMED = 20

Row = dict[str, Any]


def read_table(path: Path, required: Sequence[str | tuple[str, ...]]) -> Iterator[tuple[int, Row | str]]:
    """(line number, row) for each row that is not blank; a row that cannot be used is a sentence's end, the reason.

    A row maps columns to values: stripped text from CSV, any value from JSONL and Parquet. Columns may be missing from
    a row; only a header is held to `required`: columns, or several names for one. Raises CounterfactoryError for a
    table that is wrong as a whole: another suffix than .csv, .tsv, .jsonl and .parquet, unreadable, not UTF-8, not CSV,
    without a header, with a column twice or without a required one.
    """
    suffix = path.suffix.lower()
    if suffix == PARQUET:
        return _parquet_rows(path, required)
    if suffix not in SUFFIXES:
        raise CounterfactoryError(f"{path} is no table that is read; tables are .csv, .tsv, .jsonl and .parquet files")
    return _jsonl_rows(read_text(path)) if suffix == ".jsonl" else _csv_rows(read_text(path), path, required)


def _csv_rows(text: str, path: Path, required: Sequence[str | tuple[str, ...]]) -> Iterator[tuple[int, Row | str]]:
    names = {name for group in required for name in ((group,) if isinstance(group, str) else group)}
    first = text.partition("\n")[0]
    mark = next((mark for mark in ",\t;" if names & {name.strip(' "') for name in first.split(mark)}), ",")
    reader = csv.reader(io.StringIO(text, newline=""), strict=True, delimiter=mark)
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
            raise CounterfactoryError(f"{path} has no column {called} (found: {list_some(header, _NAMED)})")
    if len(set(header)) < len(header):
        twice = [name for name, count in Counter(header).items() if count > 1]
        raise CounterfactoryError(f"{path} names a column twice: {list_some(twice, _NAMED)}")


@contextmanager
def open_parquet(of: Path | bytes, row_bytes: int = 1) -> Iterator[pq.ParquetFile]:
    """Parquet, a file or its bytes, to be read. It holds a value that recurs once, so that kilobytes can be gigabytes
    of rows or text: refused is what has less than `row_bytes` for each row, or would take too much memory for its size.

    To be read with `use_threads=False`, and nothing is read ahead: a thread of pyarrow's that is left where the process
    ends makes it abort. Raises OSError, and ArrowException for what cannot be read and for what is refused.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    opening = pa.BufferReader(of) if isinstance(of, bytes) else open_file(of)
    with opening as opened, pq.ParquetFile(opened, pre_buffer=False, page_checksum_verification=True) as file:
        facts, size = file.metadata, len(of) if isinstance(of, bytes) else os.fstat(opened.fileno()).st_size
        try:
            groups = chunk_sizes(_footer(opened, size))
        except ValueError as error:
            raise pa.ArrowInvalid(str(error)) from error
        leaves = [facts.schema.column(j) for j in range(facts.num_columns)]
        if [len(group) for group in groups] != [len(leaves)] * facts.num_row_groups:
            raise pa.ArrowInvalid("its groups of rows have other columns than the file")
        chunks = [(i, chunk) for i, group in enumerate(groups) for chunk in group]
        if facts.num_rows > _FEW_ROWS + size // row_bytes:
            raise pa.ArrowInvalid(f"{facts.num_rows:,} rows in {size:,} bytes are no table's")
        room = _FEW_BYTES + _GROWTH * size
        # No value is longer than its chunk. Where that says too little, the lengths of the values do.
        doubtful = {i for i, chunk in chunks if chunk.values * chunk.bytes > _FEW_BYTES}
        texts = [leaf.path for leaf in leaves if leaf.physical_type == "BYTE_ARRAY"]
        many = sum(max(8 * chunk.values, chunk.bytes) for _, chunk in chunks) > room
        try:
            with pq.ParquetFile(opened, read_dictionary=texts, metadata=facts, pre_buffer=False) as lengths:
                parts = (lengths.read_row_group(i, texts, use_threads=False) for i in doubtful if not many)
                grown = sum(map(_decoded_bytes, parts))
        except KeyError as error:
            raise pa.ArrowInvalid(f"its parts disagree on the column {error}") from error
        if many or grown > room:
            raise pa.ArrowInvalid(f"values that recur make {size:,} bytes more than memory should hold")
        yield file


def _footer(opened: Any, size: int) -> bytes:
    """The end of a file of `size` bytes with its footer."""
    opened.seek(size - min(size, 8))
    opened.seek(size - min(size, footer_bytes(opened.read())))
    return bytes(opened.read())


def _decoded_bytes(column: Any) -> int:
    """What the texts of a column, of dictionaries, come to when each is written out."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if isinstance(column, pa.Table):
        return sum(_decoded_bytes(chunk) for whole in column.columns for chunk in whole.chunks)
    if pa.types.is_dictionary(column.type):
        return pc.sum(pc.binary_length(column.dictionary).take(column.indices)).as_py() or 0
    if pa.types.is_nested(column.type):
        inner = column.flatten()
        return sum(map(_decoded_bytes, inner if isinstance(inner, list) else [inner]))
    return int(column.nbytes)


def _parquet_rows(path: Path, required: Sequence[str | tuple[str, ...]]) -> Iterator[tuple[int, Row | str]]:
    import pyarrow as pa

    try:
        with open_parquet(path) as file:
            _check_header(file.schema_arrow.names, path, required)
            rows = (row for batch in file.iter_batches(_AT_ONCE, use_threads=False) for row in batch.to_pylist())
            yield from ((number, row) for number, row in enumerate(rows, start=1))
    except (OSError, pa.ArrowException, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else f"it is no Parquet ({error})"
        raise CounterfactoryError(f"cannot read {path}: {' '.join(str(reason).split())}") from error


def _jsonl_rows(text: str) -> Iterator[tuple[int, Row | str]]:
    for number, line in number_lines(text):
        if not line.strip():
            continue
        try:
            row = parse_json(line, float)
        except ValueError as error:
            yield number, f"is not valid JSON: {error}"
            continue
        yield number, row if isinstance(row, dict) else "is not a JSON object"
