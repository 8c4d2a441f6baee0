"""The papers' tables, worked out by hand for four sources and two models."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from picture_rows import control_row, original_row, picture_row
from refusing import refusal

from counterfactory.engine.edit import Edit
from counterfactory.engine.judging.evaluate import evaluate_labels
from counterfactory.engine.report.paper_tables import NAMES, ModelResult, paper_tables
from counterfactory.engine.suite import PictureRow

LABELS = ("bus", "bus", "car", "car")


def rows_of(kind: str = "time") -> list[PictureRow]:
    """Of four sources an original, a control and two variants, of `kind` and of weather."""
    rows: list[PictureRow] = []
    types = (kind, "weather" if kind == "time" else kind)
    for source, label in enumerate(LABELS):
        rows += [original_row(source, label=label), control_row(source, label=label)]
        rows += [picture_row(3 * source + i, label=label, edits=(Edit(types[i], "", "night"),)) for i in (0, 1)]
    return rows


def result(name: str, wrong: Sequence[int], kind: str = "time", p: float = 0.25) -> ModelResult:
    """A model that errs on these rows, and gives the true label 1 on originals and controls and `p` on variants."""
    rows = rows_of(kind)
    other = {"bus": "car", "car": "bus"}
    answers = [other[str(row.label)] if i in wrong else str(row.label) for i, row in enumerate(rows)]
    top: list[float | None] = [1.0 if row.kind != "variant" else 0.5 for row in rows]
    true = [p if row.kind == "variant" else 1.0 for row in rows]
    return ModelResult(name, rows, evaluate_labels(rows, answers, {"top-5 accuracy": top}), true)


GOOD, BAD = result("good", [2]), result("bad", [0, 2, 3, 6, 7, 10], p=0.0)


def test_table_one_of_dillema() -> None:
    (table,) = paper_tables("dillema-table-1", [GOOD, BAD])
    assert table.columns == ("model", "originals", "controls", "generated", "all fail", "none fail")
    assert table.rows == (
        ("good", "0.0 %", "0.0 %", "12.5 %", "0.0 %", "75.0 %"),
        ("bad", "25.0 %", "0.0 %", "62.5 %", "50.0 %", "25.0 %"),
    )


def test_figure_six_of_dillema() -> None:
    first, second = paper_tables("dillema-figure-6", [GOOD, BAD])
    assert first.rows == (("bus", "75.0 %", "25.0 %"), ("car", "0.0 %", "100.0 %"))
    assert second.rows == (("bus", "0.0 %", "100.0 %"), ("car", "25.0 %", "75.0 %"))


def test_table_two_of_lance() -> None:
    (table,) = paper_tables("lance-table-2", [GOOD, BAD])
    assert table.columns == ("images", "good acc@1", "good acc@5", "bad acc@1", "bad acc@5")
    assert table.rows == (
        ("originals", "100.0 %", "100.0 %", "75.0 %", "100.0 %"),
        ("reconstructed", "100.0 %", "100.0 %", "100.0 %", "100.0 %"),
        ("LANCE", "87.5 %", "50.0 %", "37.5 %", "50.0 %"),
    )
    (of_random_words,) = paper_tables("lance-table-2", [result("good", [], kind="random")])
    assert of_random_words.rows[-1][0] == "LANCE-R"


@pytest.mark.parametrize(("name", "first"), [("lance-figure-3", "time"), ("lance-figure-9", "time: night")])
def test_delta_p_of_lance(name: str, first: str) -> None:
    (table,) = paper_tables(name, [GOOD, BAD])
    assert table.columns[1::2] == ("good", "bad")
    assert table.rows[0][0] == first
    assert table.rows[0][1::2] == ("+75.0", "+100.0")


def test_figure_eight_of_lance() -> None:
    (table,) = paper_tables("lance-figure-8", [BAD])
    assert table.rows == (("bus", "50.0 %", "0.0 %"), ("car", "100.0 %", "75.0 %"))


def test_figure_six_of_lance() -> None:
    """Of eight sources of a class four fail at night, and none in another weather."""
    rows = [row for index in range(8) for row in _of_source(index)]
    answers = ["car" if row.edits and row.edits[0].type == "time" and int(row.source) < 4 else "bus" for row in rows]
    (table,) = paper_tables("lance-figure-6", [ModelResult("one", rows, evaluate_labels(rows, answers))])
    assert [row[:4] for row in table.rows] == [
        ("bus", "day", "time: night", "\N{MINUS SIGN}50.0"),
        ("bus", "nothing like snowy", "weather: snowy", "0.0"),
    ]
    assert [row[6] for row in table.rows] == ["8", "8"]
    with refusal("a class with six sources"):
        paper_tables("lance-figure-6", [GOOD])


def _of_source(index: int) -> list[PictureRow]:
    edits = (Edit("time", "day", "night"), Edit("weather", "", "snowy"))
    variants = [picture_row(3 * index + number, source=str(index), edits=(edits[number],)) for number in range(2)]
    return [original_row(index, source=str(index)), *variants]


def test_what_answers_do_not_hold_is_refused() -> None:
    bare = ModelResult("bare", GOOD.rows, GOOD.evaluation, [None] * len(GOOD.rows))
    with refusal("bare does not say what it gives the true label"):
        paper_tables("lance-figure-3", [GOOD, bare])
    assert len(NAMES) == 7
