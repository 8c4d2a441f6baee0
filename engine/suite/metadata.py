"""metadata.parquet: the suite as a table, one row per picture: originals, controls and variants.

Rows in the table's order (see `row_spool`) become bytes that depend on the rows alone: on no time, machine or size of
chunks. `datasets.load_dataset("imagefolder", data_dir=suite)` finds this file at the suite's root and takes from it
alone which images exist; `file_name` becomes its column `image`, decoded, and each other `…_file_name` a column of
decoded pictures too.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from ..edit import Edit
from ..errors import CounterfactoryError
from ..files.tables import open_parquet
from .contents import AGAIN, NEXT_TABLE, TABLE, read_table, unfinished
from .paths import Folder
from .picture_row import AFTER_SCORES, BEFORE_SCORES, COLUMNS, PAINTING, PictureRow

_NULLABLE = ("label", "mask_file_name", "control_file_name", *PAINTING, "painter", "scores", "reason")
# Readers take a group at a time, `datasets` one batch of it. A group is 2,000 rows, so that writing one holds little.
_ROWS_PER_PART = 1_000
_PARTS_PER_GROUP = 2
_ROW_BYTES = 32  # of a content key, which no two rows share, in a file


def schema(score_names: Sequence[str]) -> pa.Schema:
    """The table's schema; `scores` is a struct of the named floats, or null where no row was scored."""
    # Parquet cannot hold a struct without fields.
    scores = pa.struct([(name, pa.float64()) for name in score_names]) if score_names else pa.null()
    fields = (*BEFORE_SCORES, ("scores", scores), *AFTER_SCORES)
    return pa.schema([pa.field(name, kind, nullable=name in _NULLABLE) for name, kind in fields])


def write_table(rows: Iterable[Mapping[str, Any]], score_names: Sequence[str], file: BinaryIO) -> None:
    """Writes rows, as `PictureRow.to_json` gives them, to `file` as Parquet, in the order given.

    A group of them is held at a time. The bytes follow from the rows and `score_names` (what `scores` may hold; one
    that a row lacks is null).
    """
    columns, line = schema(score_names), iter(rows)
    # Arrow is compact where Python's rows are not: a group is made of parts.
    lists = iter(lambda: list(islice(line, _ROWS_PER_PART)), [])
    parts = (pa.RecordBatch.from_pylist(part, schema=columns) for part in lists)
    with pq.ParquetWriter(file, columns, compression="zstd", write_page_checksum=True) as writer:
        while group := list(islice(parts, _PARTS_PER_GROUP)):
            writer.write_table(pa.Table.from_batches(group), row_group_size=_PARTS_PER_GROUP * _ROWS_PER_PART)


def write_parts(table: pa.Table, file: BinaryIO) -> None:
    """Writes a table of `schema` that is held whole: the bytes are those that `write_table` makes of its rows."""
    with pq.ParquetWriter(file, table.schema, compression="zstd", write_page_checksum=True) as writer:
        step = _PARTS_PER_GROUP * _ROWS_PER_PART
        for start in range(0, table.num_rows, step):
            parts = table.slice(start, step).to_batches(max_chunksize=_ROWS_PER_PART)
            writer.write_table(pa.Table.from_batches(parts), row_group_size=step)


def require_finished(suite: Path) -> None:
    """Raises CounterfactoryError where the folder holds no finished suite."""
    if not any((suite / name).is_file() for name in (TABLE, NEXT_TABLE)):
        raise unfinished(suite)


def accepted_edits(suite: Path) -> Iterator[Edit]:
    """The edits of a suite's accepted variants, of a table that this process wrote; a part of it is held at a time."""
    with open_parquet(suite / TABLE) as table:
        for part in table.iter_batches(_ROWS_PER_PART, columns=["kind", "verdict", "edits"], use_threads=False):
            for row in part.to_pylist():
                if (row["kind"], row["verdict"]) == ("variant", "accepted"):
                    for edit in row["edits"]:
                        yield Edit(edit["type"], edit["keyword"], edit["alternative"])


def open_table(suite: Path) -> pa.Table:
    """A suite's table as Arrow has it; takes no lock. Its rows are not checked. Raises CounterfactoryError for a table
    that is missing, damaged, a link out of the suite, or without our columns.
    """
    with _open_parts(suite) as (columns, parts):
        return pa.Table.from_batches(parts, columns)


@contextmanager
def _open_parts(suite: Path) -> Iterator[tuple[pa.Schema, Iterator[pa.RecordBatch]]]:
    """The schema of a suite's table and its rows, few at a time: to read all at once takes four times their memory.
    Raises CounterfactoryError as `open_table` does.
    """
    path, data = suite / TABLE, read_table(suite)
    try:
        with open_parquet(data, _ROW_BYTES) as file:
            columns = file.schema_arrow
            if missing := [name for name in COLUMNS if name not in columns.names]:
                advice = "name a suite that this Counterfactory made"
                raise CounterfactoryError(f"{path} lacks {', '.join(missing)}: {advice}")
            yield columns, map(_checked, file.iter_batches(_ROWS_PER_PART, use_threads=False))
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        fault = str(error).splitlines()[0]
        raise CounterfactoryError(f"{path} cannot be read ({fault}): {AGAIN}") from error


def _checked(part: pa.RecordBatch) -> pa.RecordBatch:
    part.validate(full=True)  # texts are UTF-8
    return part


def read_metadata(suite: Path) -> list[PictureRow]:
    """A suite's rows, in the file's order; takes no lock. Raises as `iter_metadata` does."""
    return list(iter_metadata(suite))


def iter_metadata(suite: Path) -> Iterator[PictureRow]:
    """The same, few of them held at a time. Raises CounterfactoryError for a table that is missing, damaged or
    another's, and for one that names a file outside of the suite, be it through a link.
    """
    path, folder = suite / TABLE, Folder(suite)
    shared = dict[Hashable, Any]()
    with _open_parts(suite) as (_, parts):
        for number, line in enumerate(_lines(parts), start=1):
            row = PictureRow.from_json(line, f"{path}, row {number}", AGAIN, shared)
            for name in row.files:
                folder.path(name)
            yield row


def _lines(parts: Iterable[pa.RecordBatch]) -> Iterator[dict[str, Any]]:
    """The table's rows; what pictures of a source have in common is held once."""
    for batch in parts:
        words: dict[str, str] = {}
        for line in batch.to_pylist():
            yield {k: words.setdefault(value, value) if isinstance(value, str) else value for k, value in line.items()}
