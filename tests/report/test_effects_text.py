"""Evaluations as tables: which column says what, and that one table serves one model and several."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from picture_rows import control_row, original_row, picture_row

from counterfactory.engine.edit import Edit
from counterfactory.engine.judging.evaluate import evaluate_labels, evaluate_masks
from counterfactory.engine.judging.evaluation import Evaluation, StrangeAnswer
from counterfactory.engine.report.effects_text import (
    answer_lines,
    effects_table,
    evaluation_tables,
    note_lines,
    sides_table,
)
from counterfactory.engine.suite import PictureRow

FOG, RED = Edit("weather", "clear", "foggy"), Edit("colour", "blue", "red")
ROWS: list[PictureRow] = [row for g in range(6) for row in (original_row(g), control_row(g), picture_row(3 * g))]


def answered(*right: str) -> Evaluation:
    """What comes of a model that is right on the kinds in `right`, and on every second source whatever the kind."""
    return evaluate_labels(ROWS, ["bus" if row.kind in right or i // 3 % 2 else "car" for i, row in enumerate(ROWS)])


def test_one_measure_says_how_often_answers_turned_wrong_and_of_how_many_sources() -> None:
    table = effects_table({"accuracy": answered("original", "control").effects})
    assert table.title == "What edits do to accuracy, in points against the controls"
    assert table.columns == ("edit", "accuracy", "95 % interval", "turned wrong", "sources")
    painter, weather = table.rows
    assert (painter[0], painter[1], painter[3:]) == ("painting alone", "0.0", ("-", "6"))
    assert (weather[0], weather[1], weather[3:]) == ("weather", "\N{MINUS SIGN}50.0", ("50.0 %", "6"))
    assert " \N{HORIZONTAL ELLIPSIS} " in weather[2]


def test_masks_have_no_answers_that_turn_wrong() -> None:
    rows = [row for g in range(3) for row in (control_row(g), picture_row(3 * g))]
    found = evaluate_masks(rows, [np.array([[3, 1], [0, 4]], np.int64)] * 6, ("sky", "road"))
    (table, *_) = evaluation_tables(found)
    assert table.columns == ("edit", "mIoU", "95 % interval", "sources")
    assert table.rows[0][0::3] == ("weather", "3")


def test_of_nothing_accepted_there_is_no_table_of_effects() -> None:
    rows = [original_row(), picture_row(reason="dark")]
    assert [table.title for table in evaluation_tables(evaluate_labels(rows, ["bus", None]))] == [
        "How pictures are answered"
    ]


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


def test_values_are_ranked_by_what_they_cost_for_certain_and_some_left_out() -> None:
    """An estimate of two sources may be the lowest, and says the least."""
    often = [row for g in range(20) for row in (control_row(g), picture_row(3 * g, edits=(FOG,)))]
    rows = [*often, *(picture_row(3 * g + 1, edits=(RED,)) for g in range(2))]
    foggy = [row.edits == (FOG,) and i % 4 == 1 for i, row in enumerate(rows)]
    said = ["car" if wrong or row is rows[-1] else "bus" for wrong, row in zip(foggy, rows, strict=True)]
    tables = evaluation_tables(evaluate_labels(rows, said))
    (values,) = (table for table in tables if table.title.startswith("By value"))
    assert [row[0] for row in values.rows] == ["weather: foggy", "colour: red"]
    # One source says nothing of certainty, and its value is in no ranking.
    rows = [row for g in range(6) for row in (control_row(g), picture_row(3 * g, edits=(FOG if g else RED,)))]
    tables = evaluation_tables(evaluate_labels(rows, ["bus"] * 12))
    (values,) = (table for table in tables if table.title.startswith("By value"))
    assert values.title == "By value, certain harm first, 1 of 2"
    assert [row[0] for row in values.rows] == ["weather: foggy"]


def test_everything_is_shown_on_request() -> None:
    edits = [Edit("weather", "dry", f"value {i}") for i in range(9)]
    rows = [control_row(g, label=str(g % 9)) for g in range(18)]
    rows += [picture_row(3 * g, label=str(g % 9), edits=(edits[g // 2],)) for g in range(18)]
    found = evaluate_labels(rows, [row.label for row in rows])
    assert [table.title for table in evaluation_tables(found)] == [
        "What edits do to accuracy, in points against the controls",
        "By value, certain harm first, 8 of 9",
        "By class, certain harm first, 8 of 9",
        "How pictures are answered",
    ]
    *_, values, classes, _, answered = evaluation_tables(found, everything=True)
    assert (values.title, len(values.rows)) == ("By value, certain harm first", 9)
    assert (classes.title, len(classes.rows)) == ("By class, certain harm first", 9)
    assert (answered.title, len(answered.rows)) == ("How classes are answered (right)", 9)
    assert answered.rows[0] == ("0", "-", "100.0 %", "100.0 %")


def test_notes_say_what_is_compared_and_what_is_left_out() -> None:
    def notes(rows: list[PictureRow], answers: list[str | None], **measures: list[float | None]) -> list[str]:
        return note_lines(evaluate_labels(rows, answers, measures))

    rows = [original_row(), control_row(), picture_row()]
    compared = "effects: against the source's control, adjusted for the other edits beside"
    assert notes(rows, ["bus"] * 3) == [compared]
    assert notes(rows, [None, "bus", "bus"]) == [
        compared,
        "no original has an answer: what painting does by itself is not known",
    ]
    against = "has an answer: effects are against originals, with what painting does"
    assert notes(rows, ["bus", None, "bus"]) == [f"no control {against}"]
    rejected = [original_row(), control_row(reason="dark"), picture_row()]
    rejected += [picture_row(number, reason="dark") for number in (1, 2)]
    assert notes(rejected, ["bus"] * 5) == [
        f"no accepted control {against}",
        "2 rejected variants are not counted",
        "1 rejected control is not counted",
    ]
    assert notes(rows, [None, None, "bus"]) == ["effects need answers to the controls, or to the originals, as well"]
    assert notes(rows, ["Bus", "bus", "bus"])[1:] == ["answers that are no label of this suite count as wrong: 'Bus'"]
    assert notes(rows, ["bus"] * 3, confidence=[0.5] * 3)[1:] == [
        "confidence: what the model gives its own answer on average, right or wrong"
    ]
    many = [picture_row(i) for i in range(7)]
    assert notes(many, ["bus", *"abcdef"])[-1].endswith("'a', 'b', 'c', 'd', 'e' and so on")


def test_what_is_wrong_with_the_answers_is_said_before_any_figure() -> None:
    rows = [original_row(), *(control_row(i) for i in range(3)), *(picture_row(i) for i in range(4))]
    result = evaluate_labels(rows, ["bus", "bus", None, None, "Bus", "bus", "bus", None])
    assert answer_lines(replace(result, unanswered=())) == []
    assert answer_lines(result) == [
        f"judged on 3 of 4 variants: 1 has no answer, the first is {rows[-1].file_name}",
        f"judged on 1 of 3 controls: 2 have no answer, the first is {rows[2].file_name}; effects compare the sources "
        "that have both answers",
    ]
    strange = replace(result, unanswered=(), strange=(StrangeAnswer("Bus", 1, "bus"), StrangeAnswer("x" * 99, 2, None)))
    assert answer_lines(strange) == [
        "warning: answers that are no label and no known class count as wrong: 'Bus' (1 time, nearest label 'bus'), "
        f"'{'x' * 40}' (2 times, no label is near)"
    ]
    assert not any("Bus" in line for line in note_lines(strange)), "said once"


def test_further_measures_have_effects_and_means_of_their_own() -> None:
    rows = [row for g in range(6) for row in (control_row(g), picture_row(3 * g))]
    sure = [0.9 if row.kind == "control" else 0.6 for row in rows]
    tables = evaluation_tables(evaluate_labels(rows, ["bus"] * 12, {"top-5 accuracy": [1.0] * 12, "confidence": sure}))
    beside = tables[1]
    assert beside.title == "What edits do to top-5 accuracy and confidence, in points against the controls"
    assert beside.rows[0][1:4:2] == ("0.0", "\N{MINUS SIGN}30.0")
    assert tables[-1].columns == ("pictures", "count", "accuracy", "top-5 accuracy", "confidence")
    assert tables[-1].rows[1:] == (
        ("controls", "6", "100.0 %", "100.0 %", "90.0 %"),
        ("variants", "6", "100.0 %", "100.0 %", "60.0 %"),
    )
