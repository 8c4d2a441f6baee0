"""Evaluations as tables: which column says what, and that one table serves one model and several."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from picture_rows import control_row, original_row, picture_row

from counterfactory.engine.edit import Edit
from counterfactory.engine.judging.compare import compare
from counterfactory.engine.judging.evaluate import evaluate_labels, evaluate_masks
from counterfactory.engine.judging.evaluation import Evaluation, StrangeAnswer
from counterfactory.engine.report.effects_text import (
    answer_lines,
    comparison_tables,
    effects_table,
    evaluation_tables,
    headline,
    note_lines,
    other_table,
    sides_table,
)
from counterfactory.engine.suite import PictureRow

FOG, RED = Edit("weather", "clear", "foggy"), Edit("colour", "blue", "red")
ROWS: list[PictureRow] = [row for g in range(6) for row in (original_row(g), control_row(g), picture_row(3 * g))]


def answered(*right: str) -> Evaluation:
    """What comes of a model that is right on the kinds in `right`, and on every second source whatever the kind."""
    return evaluate_labels(ROWS, ["bus" if row.kind in right or i // 3 % 2 else "car" for i, row in enumerate(ROWS)])


def test_an_effect_stands_with_its_chance_its_sources_and_what_was_rejected() -> None:
    found = answered("original", "control")
    table = effects_table(found.effects, found.rejections)
    assert table.title == "What edits do to accuracy, in points against the controls"
    columns = ("edit", "accuracy", "95 % interval", "q", "turned wrong", "sources", "rejected")
    assert table.columns == columns
    painter, weather = table.rows
    assert (painter[0], painter[1], painter[3:]) == ("painting alone", "0.0", ("1.000  ", "0.0 %", "6", "-"))
    assert (weather[0], weather[1], weather[3:]) == ("weather", "−50.0", ("0.076  ", "50.0 %", "6", "0.0 %"))
    assert " … " in weather[2]
    painter, weather = effects_table(answered("original").effects).rows
    assert [(row[0], row[1], *row[4:]) for row in (painter, weather)] == [
        ("painting alone", "−50.0", "50.0 %", "6"),
        ("weather", "0.0", "0.0 %", "6"),
    ]


def mixed(single: int, several: int) -> Evaluation:
    """Of so many sources with a variant of one edit, which do nothing, and so many with two, which fail."""
    rows = [row for g in range(single) for row in (control_row(g), picture_row(3 * g, edits=(FOG,)))]
    rows += [control_row(g) for g in range(single, several)]
    rows += [picture_row(3 * g + 1, edits=(FOG, RED)) for g in range(several)]
    rows += [picture_row(3 * g + 2, edits=(RED,)) for g in range(single)]
    return evaluate_labels(rows, ["car" if len(row.edits) > 1 and row.kind == "variant" else "bus" for row in rows])


def test_one_edit_alone_stands_first_and_the_average_over_the_mix_beside_it() -> None:
    result = mixed(14, 14)
    first, second, *_ = evaluation_tables(result)
    assert (first.title.partition(" to ")[0], first.rows[1][:2]) == ("What one edit alone does", ("weather", "0.0"))
    assert (second.title.partition(":")[0], second.rows[1][0]) == ("Average over this suite's mix of edits", "weather")
    assert float(second.rows[1][1].replace("−", "-")) < -30
    assert "turned wrong" in first.columns
    assert "turned wrong" not in second.columns
    (note,) = (note for note in second.notes if "mix of edits" in note)
    assert note not in first.notes


def test_without_enough_single_edits_the_average_over_the_mix_leads() -> None:
    result = mixed(5, 40)
    assert not result.effects.leads_alone
    first, second, *_ = evaluation_tables(result)
    assert (first.title.partition(" to ")[0], second.title.partition(":")[0]) == ("What edits do", "One edit alone")
    assert first.rows[1][-2] == "40"
    assert second.rows[1][-1] == "5"
    assert other_table(result.effects) == replace(second, notes=())


def test_a_clear_effect_is_marked_by_its_own_rule() -> None:
    rows = [r for g in range(20) for r in (control_row(g), picture_row(3 * g), picture_row(3 * g + 1, edits=(RED,)))]
    found = evaluate_labels(rows, ["car" if i % 3 == 1 and i % 9 else "bus" for i in range(60)])
    assert {effect.name: effect.clear for effect in found.effects.by_type} == {"weather": True, "colour": False}
    for table in evaluation_tables(found)[:2]:
        marked = {row[0].partition(":")[0]: row[table.columns.index("q")].endswith(" *") for row in table.rows}
        assert marked == {"weather": True, "colour": False}, table.title


def test_masks_have_no_answers_that_turn_wrong_and_two_names_for_two_mious() -> None:
    rows = [row for g in range(3) for row in (control_row(g), picture_row(3 * g))]
    found = evaluate_masks(rows, [np.array([[3, 1], [0, 4]], np.int64)] * 6, ("sky", "road"))
    (table, *_, answered) = evaluation_tables(found)
    assert table.columns == ("edit", "picture mIoU", "95 % interval", "q", "sources", "rejected")
    assert table.rows[0][0::4] == ("weather", "3")
    assert answered.columns == ("pictures", "count", "pooled mIoU")
    assert headline(found)[0] == "pooled mIoU, controls to variants"
    as_json = found.to_json()
    assert (as_json["measure"], as_json["effects"]["measure"]) == ("pooled_miou", "picture mIoU")


def test_effects_that_do_not_add_are_said_with_the_pair() -> None:
    """Either edit costs all, both together no more."""
    rows, right = [], []
    for g in range(30):
        rows.append(control_row(g))
        rows += [picture_row(3 * g + i, edits=edits) for i, edits in enumerate(((FOG,), (RED,), (FOG, RED)))]
        right += [True, False, False, False]
    found = evaluate_labels(rows, ["bus" if answer else "car" for answer in right])
    assert [pair["name"] for pair in found.to_json()["effects"]["interactions"]] == ["colour with weather"]
    (warning,) = [note for note in note_lines(found) if note.startswith("EFFECTS DO NOT ADD")]
    assert "colour with weather costs 100.0 points less than the sum of the two" in warning
    adding = evaluate_labels(rows, ["car" if row.edits and row.edits[0] == FOG else "bus" for row in rows])
    assert not [note for note in note_lines(adding) if note.startswith("EFFECTS DO NOT ADD")]


def test_what_would_have_to_be_among_the_rejected_is_said_of_small_effects_and_of_losses() -> None:
    """Of 100 sources every tenth fails anyway. Fog's variants are rejected 40 times, colour's never."""
    rows = [row for g in range(100) for row in (control_row(g), picture_row(3 * g, edits=(FOG,)))]
    rows += [picture_row(3 * g + 1, edits=(RED,)) for g in range(100)]
    rows = [
        replace(row, reason="dark") if FOG in row.edits and row.kind == "variant" and int(row.source[4:]) < 40 else row
        for row in rows
    ]

    def lines(fails: int) -> list[str]:
        said = ["car" if int(row.source[4:]) % 10 == 3 else "bus" for row in rows]
        said = [
            "car" if FOG in r.edits and r.kind == "variant" and int(r.source[4:]) >= 100 - fails else s
            for r, s in zip(rows, said, strict=True)
        ]
        return [line for line in note_lines(evaluate_labels(rows, said)) if "reject so many" in line]

    # 6 of 60 fail: of a loss of 5 points 15 of 100 would, so 9 of 15 are missing.
    (hidden,) = lines(0)
    assert "weather 60.0 % (of all 40.0 %)" in hidden
    assert "colour" not in hidden
    # 27 of 60 are right: of no loss 90 of 100 would be, but only 40 can be missing.
    assert lines(30) == []
    # 54 - 9 of 60: of 90 right ones 45 would have to be missing.
    assert lines(10) == []


def test_checks_that_reject_what_the_model_fails_on_are_named() -> None:
    def lines(rejected: set[int], failing: set[int]) -> list[str]:
        rows = [
            row
            for g in range(60)
            for row in (control_row(g), picture_row(3 * g, reason="x" if g in rejected else None))
        ]
        said = ["car" if int(row.source[4:]) in failing else "bus" for row in rows]
        return [line for line in note_lines(evaluate_labels(rows, said)) if "reject more" in line]

    (line,) = lines(set(range(12)), set(range(15)))
    assert "weather 80.0 % against 0.0 %" in line
    assert lines(set(range(12)), set(range(10, 25))) == []
    assert lines(set(range(12)), set()) == lines(set(), set(range(12))) == []
    assert lines(set(range(12, 60)), set(range(12))) == [], "what is easy is rejected"


def test_of_nothing_accepted_there_is_no_table_of_effects() -> None:
    rows = [original_row(), picture_row(reason="dark")]
    (table,) = evaluation_tables(evaluate_labels(rows, ["bus", None]))
    assert table.title == "How pictures are answered"


def test_several_models_stand_side_by_side() -> None:
    good, bad = answered("original", "control", "variant"), answered("original")
    sides = (("originals", "100.0 %"), ("controls", "50.0 %"), ("variants", "50.0 %"))
    rows = tuple((kind, "6", "100.0 %", second) for kind, second in sides)
    assert sides_table({"a": good, "b": bad}).rows == rows
    rows = [control_row(g) for g in range(4)] + [picture_row(3 * g) for g in range(4)]
    first = {row.file_name: 1.0 for row in rows}
    second = {row.file_name: float(row.kind == "control") for row in rows}
    gaps, breaks = comparison_tables(compare(rows, first, second, ("old", "new")))
    assert [row[:4] for row in gaps.rows] == [
        ("controls", "100.0 %", "100.0 %", "0.0"),
        ("variants", "100.0 %", "0.0 %", "\N{MINUS SIGN}100.0"),
        ("weather", "100.0 %", "0.0 %", "\N{MINUS SIGN}100.0"),
    ]
    assert breaks.rows[0][:2] == ("weather", "\N{MINUS SIGN}100.0")


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
    *_, values, classes, _, turned, answered = evaluation_tables(found, everything=True)
    assert turned.rows == (("weather", "0.0 %", "18", "-", "0"),)
    assert (values.title, len(values.rows)) == ("By value, certain harm first", 9)
    assert (classes.title, len(classes.rows)) == ("By class, certain harm first", 9)
    assert (answered.title, len(answered.rows)) == ("How classes are answered (right)", 9)
    assert answered.rows[0] == ("0", "-", "100.0 %", "100.0 %")


def test_answers_turn_both_ways_and_classes_are_confused() -> None:
    rows = [control_row(g) for g in range(4)] + [picture_row(3 * g) for g in range(4)]
    answers = ["bus", "bus", "car", "car", "bus", "car", "bus", "car"]
    *_, turned, answered = evaluation_tables(evaluate_labels(rows, answers), everything=True)
    assert turned.columns == ("edit", "turned wrong", "of right", "turned right", "of wrong")
    assert turned.rows == (("weather", "50.0 %", "2", "50.0 %", "2"),)
    assert answered.title == "How classes are answered (right)", "one class is confused with none"
    rows += [picture_row(3 * g + 1, label="car") for g in range(4)]
    *_, confused = evaluation_tables(evaluate_labels(rows, [*answers, "car", "car", "car", "bus"]), everything=True)
    assert confused.rows == (("bus", "50.0 %", "50.0 %"), ("car", "25.0 %", "75.0 %"))


def test_shares_of_sources_that_fail_are_said_where_sources_have_several_variants() -> None:
    rows = [control_row(g) for g in range(4)] + [picture_row(i) for i in range(8)]
    answers = ["bus"] * 4 + ["car", "car", "car", "car", "bus", "bus", "bus", "bus"]
    notes = note_lines(evaluate_labels(rows, answers))
    assert "of 3 sources the model fails on variants: 33.3 % on all, 33.3 % on some, 33.3 % on none" in notes


def test_notes_say_what_is_compared_and_what_is_left_out() -> None:
    def notes(rows: list[PictureRow], answers: list[str | None], **measures: list[float | None]) -> list[str]:
        return note_lines(evaluate_labels(rows, answers, measures))

    rows = [original_row(), control_row(), picture_row()]
    compared = [
        "* is clear: q below 0.05",
        "turned wrong: of variants with one edit whose control is right, and of controls whose original is",
    ]
    assert notes(rows, ["bus"] * 3) == compared
    assert notes(rows, [None, "bus", "bus"]) == [
        "no original has an answer: what painting does by itself is not known",
        compared[0],
        "turned wrong: of variants with one edit whose control is right",
    ]
    against = "has an answer: effects are against originals, with what painting does"
    of_originals = [compared[0], "turned wrong: of variants with one edit whose original is right"]
    assert notes(rows, ["bus", None, "bus"]) == [f"no control {against}", *of_originals]
    rejected = [original_row(), control_row(reason="dark"), picture_row()]
    rejected += [picture_row(number, reason="dark") for number in (1, 2)]
    assert notes(rejected, ["bus"] * 5) == [
        f"no accepted control {against}",
        *of_originals,
        "2 rejected variants are not counted",
        "1 rejected control is not counted",
    ]
    copied = [original_row(), control_row(sha256=original_row().sha256), picture_row()]
    assert notes(copied, ["bus"] * 3) == [
        "the controls are their originals again, byte for byte: what painting does was not measured, and is in every "
        "effect, which is against originals",
        *of_originals,
    ]
    assert notes(rows, [None, None, "bus"]) == ["effects need answers to the controls, or to the originals, as well"]
    assert notes(rows, ["Bus", "bus", "bus"])[2:] == ["answers that are no label of this suite count as wrong: 'Bus'"]
    assert notes(rows, ["bus"] * 3, confidence=[0.5] * 3)[2:] == [
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
    titles = [f"What edits do to {name}, in points against the controls" for name in ("top-5 accuracy", "confidence")]
    assert [table.title for table in tables[1:3]] == titles
    assert [table.rows[0][1] for table in tables[1:3]] == ["0.0", "\N{MINUS SIGN}30.0"]
    assert tables[-1].columns == ("pictures", "count", "accuracy", "top-5 accuracy", "confidence")
    means = [("controls", "6", *["100.0 %"] * 2, "90.0 %"), ("variants", "6", *["100.0 %"] * 2, "60.0 %")]
    assert list(tables[-1].rows[1:]) == means
