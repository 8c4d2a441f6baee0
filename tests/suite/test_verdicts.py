"""Verdicts as columns: the table comes out as if its rows had been written, and what is no row of ours is refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from picture_rows import control_row, original_row, picture_row, written
from refusing import refusal

from counterfactory.engine.edit import Edit
from counterfactory.engine.suite import PictureRow, metadata
from counterfactory.engine.suite.verdicts import read_verdicts

NAMES = ("file_name", "kind", "label", "edits", "scores", "edit_scores", "reason", "accepted")
REASON = "edit 0.100 is below 0.500"


def write(folder: Path, rows: Sequence[PictureRow]) -> bytes:
    return (written(folder, rows) / "metadata.parquet").read_bytes()


def some_rows(count: int) -> list[PictureRow]:
    found = [original_row(), control_row()]
    for i in range(count):
        scored = {"edits": (Edit("weather", "dry", f"wet {i}"),), "edit_scores": (i / 10,)} if i % 3 else {"edits": ()}
        found.append(picture_row(i, reason=REASON if i % 2 else None, label=None if i % 4 else "bus", **scored))
    return found


def test_a_row_is_what_its_verdict_is_made_of_and_without_changes_the_table_stays(tmp_path: Path) -> None:
    rows = [original_row(), control_row(), picture_row(0), picture_row(1, reason=REASON, label=None, edits=())]
    write(tmp_path, rows)
    found = read_verdicts(tmp_path).rows
    for row, one in zip(rows, found, strict=True):
        assert {name: getattr(one, name) for name in NAMES} == {name: getattr(row, name) for name in NAMES}
    write(tmp_path, some_rows(4))
    table = read_verdicts(tmp_path)
    assert table.with_verdicts(table.rows) is None
    write(tmp_path, [original_row()])
    assert [row.scores for row in read_verdicts(tmp_path).rows] == [{}]


@pytest.mark.parametrize(("count", "scored"), [(1, False), (5, False), (9, False), (9, True)])
def test_the_bytes_are_those_of_the_rows_written_whole(
    count: int, scored: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the parts and groups that the table is written in."""
    monkeypatch.setattr(metadata, "_ROWS_PER_PART", 2)
    monkeypatch.setattr(metadata, "_PARTS_PER_GROUP", 2)
    rows = some_rows(count)
    before = write(tmp_path / "suite", rows)
    table = read_verdicts(tmp_path / "suite")
    turned = [row if row.kind == "original" else replace(row, reason=None if row.reason else "new") for row in rows]
    if scored:
        turned = [replace(row, scores={**row.scores, "valid": 0.5}) if row.kind == "variant" else row for row in turned]
    by_name = {row.file_name: row for row in turned}
    reasons = [by_name[row.file_name].reason for row in table.rows]
    pairs = [(row, by_name[row.file_name]) for row in table.rows]
    turned_table = table.with_verdicts([replace(row, reason=one.reason, scores=one.scores) for row, one in pairs])
    with (tmp_path / "suite" / "metadata.parquet").open("wb") as file:
        metadata.write_parts(turned_table, file)
    written = (tmp_path / "suite" / "metadata.parquet").read_bytes()
    assert written != before
    assert written == write(tmp_path / "other", turned)
    assert read_verdicts(tmp_path / "suite").table.column("verdict").to_pylist() == [
        "rejected" if reason else "accepted" for reason in reasons
    ]


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("kind", "picture"),
        ("verdict", "rejected"),
        ("reason", "none"),
        ("edits", [{"type": "a", "keyword": "b", "alternative": "c", "score": s} for s in (None, 0.5)]),
        ("mine", 1),
    ],
)
def test_a_row_that_is_none_of_ours_is_refused(column: str, value: Any, tmp_path: Path) -> None:
    write(tmp_path, [picture_row(0)])
    table = pq.read_table(tmp_path / "metadata.parquet")
    if column in table.column_names:
        field = table.schema.field(column)
        table = table.set_column(table.schema.get_field_index(column), field, pa.array([value], field.type))
        told = r"metadata\.parquet, row 1 is of kind .*, which no row of ours is"
    else:
        table, told = table.append_column(column, pa.array([value])), "has other columns than ours"
    pq.write_table(table, tmp_path / "metadata.parquet")
    with refusal(told):
        read_verdicts(tmp_path)
