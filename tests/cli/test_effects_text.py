"""Evaluations as tables: which column says what, and that one table serves one model and several."""

from __future__ import annotations

from picture_rows import control_row, original_row, picture_row

from counterfactory.engine.cli.effects_text import effects_table, sides_table
from counterfactory.engine.judging.evaluate import Evaluation, evaluate_labels
from counterfactory.engine.suite import PictureRow

ROWS: list[PictureRow] = [row for g in range(6) for row in (original_row(g), control_row(g), picture_row(3 * g))]


def answered(*right: str) -> Evaluation:
    """What comes of a model that is right on the kinds in `right`, and on every second source whatever the kind."""
    return evaluate_labels(ROWS, ["bus" if row.kind in right or i // 3 % 2 else "car" for i, row in enumerate(ROWS)])


def test_one_measure_says_how_often_answers_turned_wrong_and_of_how_many_sources() -> None:
    table = effects_table({"accuracy": answered("original", "control").effects})
    assert table.title == "What edits do, in points against the controls"
    assert table.columns == ("edit", "accuracy", "95 % interval", "turned wrong", "sources")
    painter, weather = table.rows
    assert (painter[0], painter[1], painter[3:]) == ("painting alone", "0.0", ("-", "6"))
    assert (weather[0], weather[1], weather[3:]) == ("weather", "\N{MINUS SIGN}50.0", ("50.0 %", "6"))
    assert " \N{HORIZONTAL ELLIPSIS} " in weather[2]


def test_several_measures_stand_side_by_side() -> None:
    good, bad = answered("original", "control", "variant"), answered("original")
    table = effects_table({"accuracy": good.effects, "mIoU": bad.effects})
    assert table.columns == ("edit", "accuracy", "95 % interval", "mIoU", "95 % interval")
    assert [(row[0], row[1], row[3]) for row in table.rows] == [
        ("painting alone", "0.0", "\N{MINUS SIGN}50.0"),
        ("weather", "0.0", "0.0"),
    ]
    assert sides_table({"a": good, "b": bad}).rows == (
        ("originals", "6", "100.0 %", "100.0 %"),
        ("controls", "6", "100.0 %", "50.0 %"),
        ("variants", "6", "100.0 %", "50.0 %"),
    )
