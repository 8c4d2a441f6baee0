"""metadata.parquet: the suite as a table, one row a variant that has an image.

Rows arrive as mappings with the columns below and leave as bytes that depend on nothing but the rows: no time, no
machine, no order of arrival. `datasets.load_dataset("imagefolder", data_dir=suite)` finds this file at the suite's
root and takes from it alone which images exist; `file_name` becomes its column `image`, decoded.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

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
# Readers take a group at a time, `datasets` one batch of it.
_ROWS_A_GROUP = 10_000


def schema(score_names: Sequence[str]) -> pa.Schema:
    """The table's schema; `scores` is a struct of the named floats, or null where no row was scored."""
    # Parquet cannot hold a struct without fields.
    scores = pa.struct([(name, pa.float64()) for name in score_names]) if score_names else pa.null()
    fields = (*_BEFORE_SCORES, ("scores", scores), *_AFTER_SCORES)
    return pa.schema([pa.field(name, kind, nullable=name in _NULLABLE) for name, kind in fields])


def encode_metadata(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """Parquet bytes of the rows, sorted by (source, variant).

    A row has every column of `COLUMNS`, where `edit_types` may be left out (it follows from `edits`); `edits` are
    `Edit`s or mappings of their fields; `scores` maps names to numbers (a score that a row lacks is null). Raises
    ValueError for a missing or unknown column, an unknown verdict, or two rows of one file.
    """
    plain = sorted((_plain(row) for row in rows), key=lambda row: (row["source"], row["variant"], row["file_name"]))
    files = Counter(row["file_name"] for row in plain)
    if len(files) < len(plain):
        raise ValueError(f"two rows name {files.most_common(1)[0][0]}")
    names = sorted({name for row in plain for name in row["scores"] or {}})
    table = pa.Table.from_pylist(plain, schema=schema(names))
    sink = io.BytesIO()
    pq.write_table(table, sink, compression="zstd", row_group_size=_ROWS_A_GROUP)
    return sink.getvalue()


def _plain(row: Mapping[str, Any]) -> dict[str, Any]:
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
