"""The verdicts of metadata.parquet by themselves: their columns are read, derived anew elsewhere, and written back.

The rest of the table stays as it is, and no picture is touched: ten thousand verdicts are replayed within a second,
where reading and writing whole rows takes several.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from ..edit import Edit
from ..errors import CounterfactoryError
from ..variant import KINDS, Kind
from .contents import TABLE
from .metadata import open_table, schema
from .paths import checked_name

_READ = ("file_name", "kind", "source", "label", "edits", "scores", "verdict", "reason")
_FILES = ("file_name", "mask_file_name", "original_file_name", "control_file_name")


@dataclass(frozen=True, slots=True)
class ScoredRow:
    """A row of the table as far as its verdict is concerned; the fields are those of `PictureRow`."""

    file_name: str
    kind: Kind
    label: str | None
    edits: tuple[Edit, ...]
    scores: Mapping[str, float]
    edit_scores: tuple[float, ...]
    reason: str | None
    source: str = ""

    @property
    def accepted(self) -> bool:
        """Whether the picture counts."""
        return self.reason is None


@dataclass(frozen=True)
class VerdictTable:
    """A suite's `table` and its `rows` in the same order."""

    table: pa.Table
    rows: Sequence[ScoredRow]

    def with_verdicts(self, rows: Sequence[ScoredRow]) -> pa.Table | None:
        """The table with the verdicts and scores of `rows` in the place of its own; None where they are the same."""
        columns, pairs = dict[str, pa.Array](), list(zip(rows, self.rows, strict=True))
        if any(row.reason != old.reason for row, old in pairs):
            verdicts = ["accepted" if row.accepted else "rejected" for row in rows]
            columns["verdict"] = pa.array(verdicts, pa.string())
            columns["reason"] = pa.array([row.reason for row in rows], pa.string())
        if any(row.scores is not old.scores and dict(row.scores) != dict(old.scores) for row, old in pairs):
            names = sorted({name for row in rows for name in row.scores})
            columns["scores"] = pa.array([dict(row.scores) or None for row in rows], schema(names).field("scores").type)
        table = self.table
        for name, values in columns.items():
            field = table.schema.field(name).with_type(values.type)
            table = table.set_column(table.schema.get_field_index(name), field, values)
        return table.combine_chunks() if columns else None

    @property
    def files(self) -> list[str]:
        """Every file that the table names, sorted."""
        names = {name for column in _FILES for name in self.table.column(column).unique().to_pylist()}
        return sorted(names - {None})


def read_verdicts(suite: Path) -> VerdictTable:
    """The verdicts of a suite and the columns that they are derived from; takes no lock. Raises CounterfactoryError for
    a table that is missing, damaged or another's, and for one that names a file outside of the suite.
    """
    table = open_table(suite)
    path = suite / TABLE
    for column in _FILES:
        for number, name in enumerate(table.column(column).to_pylist(), start=1):
            if name is not None:
                checked_name(name, f"{path}, row {number}: {column!r}")
    kind = table.schema.field("scores").type
    ours = schema([field.name for field in kind] if pa.types.is_struct(kind) else [])
    if not table.schema.equals(ours):
        raise CounterfactoryError(f"{path} has other columns than ours: name a suite that this Counterfactory made")
    table = table.cast(ours)  # Parquet calls the items of lists otherwise, which would show in the bytes
    parts = table.select(_READ).to_batches()
    lines = enumerate((line for part in parts for line in part.to_pylist()), start=1)
    shared = dict[Any, Any]()
    return VerdictTable(table, [_row(line, f"{path}, row {number}", shared) for number, line in lines])


def _row(line: Mapping[str, Any], where: str, shared: dict[Any, Any]) -> ScoredRow:
    """The row that a line of the table is; what it has in common with others is that in `shared`."""

    def once(value: Any) -> Any:
        return shared.setdefault(value, value)

    edits, scores = line["edits"], line["scores"] or {}
    edit_scores = [edit["score"] for edit in edits if edit["score"] is not None]
    rejected = line["reason"] is not None
    sound = line["kind"] in KINDS and line["verdict"] == ("rejected" if rejected else "accepted")
    if not sound or len(edit_scores) not in (0, len(edits)):
        raise CounterfactoryError(
            f"{where} is of kind {line['kind']!r} and {line['verdict']!r} for the reason {line['reason']!r}, with "
            f"scores of {len(edit_scores)} of {len(edits)} edits, which no row of ours is: run the `counterfactory "
            "generate` that made it again, which writes it anew and repaints nothing"
        )
    kind, label, reason, source = (once(line[name]) for name in ("kind", "label", "reason", "source"))
    named = once(tuple(Edit(edit["type"], edit["keyword"], edit["alternative"]) for edit in edits))
    known = {once(name): value for name, value in scores.items() if value is not None}
    return ScoredRow(line["file_name"], kind, label, named, known, tuple(edit_scores), reason, source)
