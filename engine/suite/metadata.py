"""metadata.parquet: the suite as a table, one row per variant that has an image.

Rows arrive as mappings with the columns below, sorted (see `draft`), and leave as bytes that depend on nothing but
the rows: no time, no machine, no chunks in which they came. `datasets.load_dataset("imagefolder", data_dir=suite)`
finds this file at the suite's root and takes from it alone which images exist; `file_name` becomes its column `image`,
decoded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from ..edit import Edit
from ..errors import CounterfactoryError

FILE = "metadata.parquet"
VERDICTS = ("accepted", "rejected")
_EDIT = pa.struct([("type", pa.string()), ("keyword", pa.string()), ("alternative", pa.string())])
_BEFORE_SCORES = (
    ("file_name", pa.string()),
    ("source", pa.string()),
    ("label", pa.string()),
    ("mask", pa.string()),
    ("caption", pa.string()),
    ("edited_caption", pa.string()),
    ("edits", pa.list_(_EDIT)),
    ("edit_types", pa.list_(pa.string())),
    ("variant", pa.int64()),
    ("seed", pa.int64()),
    ("steps", pa.int64()),
    ("guidance_scale", pa.float64()),
)
_AFTER_SCORES = (
    ("verdict", pa.string()),
    ("reason", pa.string()),
    ("source_key", pa.string()),
    ("variant_key", pa.string()),
)
COLUMNS = tuple(name for name, _ in (*_BEFORE_SCORES, ("scores", None), *_AFTER_SCORES))
_NULLABLE = ("label", "mask", "scores", "reason")
# Readers take a group at a time, `datasets` one batch of it. A group is 10,000 rows.
_ROWS_A_PART = 1_000
_PARTS_A_GROUP = 10


def schema(score_names: Sequence[str]) -> pa.Schema:
    """The table's schema; `scores` is a struct of the named floats, or null where no row was scored."""
    # Parquet cannot hold a struct without fields.
    scores = pa.struct([(name, pa.float64()) for name in score_names]) if score_names else pa.null()
    fields = (*_BEFORE_SCORES, ("scores", scores), *_AFTER_SCORES)
    return pa.schema([pa.field(name, kind, nullable=name in _NULLABLE) for name, kind in fields])


def write_table(rows: Iterable[Mapping[str, Any]], score_names: Sequence[str], file: BinaryIO) -> None:
    """Writes checked rows to `file` as Parquet, in the order given, holding a group of them at a time.

    The bytes follow from the rows and `score_names` (what `scores` may hold; one that a row lacks is null).
    """
    columns = schema(score_names)
    line = iter(rows)
    with pq.ParquetWriter(file, columns, compression="zstd") as writer:
        while True:
            # Arrow is compact where Python's rows are not: a group is made of parts.
            parts = [
                pa.RecordBatch.from_pylist(part, schema=columns)
                for _ in range(_PARTS_A_GROUP)
                if (part := list(islice(line, _ROWS_A_PART)))
            ]
            if not parts:
                return
            writer.write_table(pa.Table.from_batches(parts), row_group_size=_PARTS_A_GROUP * _ROWS_A_PART)


def checked(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row as plain data, complete.

    It has every column of `COLUMNS`, where `edit_types` may be left out (it follows from `edits`); `edits` are
    `Edit`s or mappings of their fields; `scores` maps names to numbers. Raises ValueError for a missing or unknown
    column and an unknown verdict.
    """
    edits = [asdict(edit) if isinstance(edit, Edit) else dict(edit) for edit in row.get("edits", ())]
    full = {"edit_types": [edit["type"] for edit in edits], **row, "edits": edits}
    full["scores"] = full.get("scores") or None  # no scores and an empty mapping are one thing to a struct
    missing, unknown = set(COLUMNS) - set(row) - {"edit_types"}, set(row) - set(COLUMNS)
    if missing or unknown:
        raise ValueError(f"metadata row lacks {sorted(missing)} and has unknown {sorted(unknown)}")
    empty = [name for name in COLUMNS if full[name] is None and name not in _NULLABLE]
    if empty:
        raise ValueError(f"metadata row of {row['file_name']} has no {', '.join(empty)}")
    if full["verdict"] not in VERDICTS:
        raise ValueError(f"a verdict is one of {', '.join(VERDICTS)}, got {full['verdict']!r}")
    return full


def read_metadata(suite: Path) -> list[dict[str, Any]]:
    """A suite's rows as plain data, in the file's order; takes no lock. Raises CounterfactoryError."""
    path = suite / FILE
    if not path.is_file():
        raise CounterfactoryError(f"{suite} holds no finished suite ({FILE} is missing): run `counterfactory generate`")
    try:
        table = pq.read_table(path)
    except (pa.ArrowException, OSError) as error:
        found = str(error).splitlines()[0]
        raise CounterfactoryError(
            f"{path} cannot be read ({found}): run the `counterfactory generate` that made it again, which writes it "
            "anew and repaints nothing"
        ) from error
    missing = [name for name in COLUMNS if name not in table.column_names]
    if missing:
        raise CounterfactoryError(f"{path} lacks {', '.join(missing)}: name a suite that this Counterfactory made")
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows
