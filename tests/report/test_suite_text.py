"""A suite in words: what has to be known of it, why variants were rejected, the spread of edits; and curves."""

from __future__ import annotations

from dataclasses import replace

from picture_rows import control_row, original_row, picture_row

from counterfactory.engine.edit import Edit
from counterfactory.engine.judging.threshold_curve import Point, ThresholdCurve
from counterfactory.engine.report.curves import Curve
from counterfactory.engine.report.suite_text import (
    coverage_data,
    coverage_table,
    edit_table,
    reason_table,
    skew_notes,
    spread_data,
    suite_notes,
)
from counterfactory.engine.suite.cells import ValueCells
from counterfactory.engine.tasks.spread import TypeSpread

COLOURS = TypeSpread("colour", 1_500, 0.75, (("red", 1_200), ("a very very long value of colour", 200), ("blue", 100)))
TIMES = TypeSpread(
    "time", 500, 0.25, (("night at the old harbour of the town", 20), *((f"v{i}", 16) for i in range(30)))
)


def test_a_row_per_type_names_as_many_of_its_most_frequent_values_as_fit() -> None:
    table = edit_table([COLOURS, TIMES])
    assert (table.title, table.columns) == ("Edits", ("type", "edits", "share", "values", "most often"))
    assert table.rows == (
        ("colour", "1,500", "75 %", "3", "red 80 %, a very very long value… 13 %"),
        ("time", "500", "25 %", "31", "night at the old harbou… 4 %, v0 3 %"),
    )
    assert edit_table([]).rows == ()
    row = edit_table([TypeSpread("x", 100, 1.0, tuple((f"value{i}", 10) for i in range(10)))]).rows[0]
    assert row[-1] == "value0 10 %, value1 10 %, value2 10 %"
    exact = TypeSpread("x", 2, 1.0, (("a" * 13, 1), ("b" * 17, 1)))
    assert len(edit_table([exact]).rows[0][-1]) == 42
    over = TypeSpread("x", 2, 1.0, (("a" * 14, 1), ("b" * 17, 1)))
    assert edit_table([over]).rows[0][-1] == "a" * 14 + " 50 %"


CELLS = (
    ValueCells("weather", "rainy", 20, 18, 18, {"in the caption already": ("x",) * 4, "odd": ("y", "z")}, ()),
    ValueCells("background", "a market place in the rain", 24, 24, 6, {}, ()),
    ValueCells("time", "night", 12_000, 12_000, 12_000, {}, ()),
)


def test_a_row_per_value_says_how_many_cells_there_are_and_why_others_are_empty() -> None:
    table = coverage_table(CELLS)
    assert table.title == "Coverage: 12,024 of 12,044 possible cells have an accepted picture"
    assert table.columns == ("value", "possible", "painted", "accepted", "empty", "mostly as")
    assert table.rows == (
        ("weather: rainy", "20", "18", "18", "6", "in the caption already"),
        ("background: a marke…", "24", "24", "6", "0", "picture was rejected"),
        ("time: night", "12,000", "12,000", "12,000", "0", "-"),
    )
    long = replace(CELLS[0], value="v" * 60, empty={"why " * 20: ("x",)})
    widths = [max(map(len, column)) for column in zip(table.columns, *coverage_table([*CELLS, long]).rows, strict=True)]
    assert sum(widths) + 2 * (len(widths) - 1) <= 80
    planned = coverage_table(CELLS, planned=True)
    assert planned.title == "Coverage: 12,042 of 12,044 possible cells are planned"
    assert planned.rows[1] == ("background: a marke…", "24", "24", "0", "-")
    assert coverage_data(CELLS)["coverage"] == 12_024 / 12_044
    assert coverage_data(CELLS)["cells"][0]["empty"]["odd"] == ("y", "z")
    assert coverage_data(None) == {}


def test_the_spread_as_data_and_in_a_sentence_where_one_value_prevails() -> None:
    colours, times = spread_data([COLOURS, TIMES])
    most = {"red": 1_200, "a very very long value of colour": 200, "blue": 100}
    assert colours == {"type": "colour", "edits": 1_500, "share": 0.75, "values": 3, "most_often": most}
    assert (times["values"], len(times["most_often"])) == (31, 10)
    said = "80 % of the 1,500 edits of type colour bring 'red': the type's effect on a model is that of one value"
    assert skew_notes([COLOURS, TIMES]) == [said]
    night = TypeSpread("time", 40, 1.0, (("night", 40),))
    assert skew_notes([night], ["time"]) == []
    assert skew_notes([night]) == [
        "100 % of the 40 edits of type time bring 'night': the type's effect on a model is that of one value"
    ]


SOURCES = [row for g in range(3) for row in (original_row(g), picture_row(3 * g))]


def test_what_readers_have_to_know_of_a_suite() -> None:
    assert suite_notes([*SOURCES, *(control_row(g) for g in range(3))]) == ()
    some = [*SOURCES, control_row(0), control_row(1, reason="too dark"), control_row(2), control_row(2, reason="dark")]
    assert suite_notes(some) == (
        "1 of 3 sources have no accepted control: their variants are compared with one another only",
    )
    none = [*SOURCES, control_row(0, reason="too dark")]
    assert suite_notes(none) == (
        "no control was accepted: what painting does by itself cannot be told from what edits do",
    )
    rejected = [original_row(), control_row(reason="too dark"), picture_row(reason="too dark")]
    assert suite_notes(rejected) == ("no variant was accepted: there is nothing to compare",)
    assert suite_notes([original_row()]) == ()
    rejected = [picture_row(0, reason="too dark"), control_row(0, reason="too dark"), picture_row(3), control_row(1)]
    assert suite_notes(rejected) == ()
    assert suite_notes(SOURCES) == ()
    assert suite_notes([]) == ()


def test_rejected_variants_are_counted_by_what_failed_or_was_doubted_most() -> None:
    reasons = ["so: edit 0.1 is below 0.2", "layout 0.1 is below 0.2", "not: edit 0.0 is below 0.2", None, None]
    rows = [picture_row(i, reason=reason) for i, reason in enumerate([*reasons, "somebody's own"])]
    table = reason_table([original_row(), control_row(reason="layout 0.1 is below 0.2"), *rows])
    assert table.columns == ("why", "check", "variants", "of all")
    assert table.rows == (
        ("an edit does not show", "edit", "2", "33.3 %"),
        ("outlines have left the mask's", "layout", "1", "16.7 %"),
        ("somebody's own", "somebody's own", "1", "16.7 %"),
    )
    assert reason_table([original_row(), control_row(reason="layout 0.1 is below 0.2"), picture_row(0)]) is None
    edits = (Edit("weather", "dry", "snowy"), Edit("colour", "red: bus", "blue: bus"), Edit("object", "the dog", ""))
    reasons = [
        "'blue: bus' does not show in place of 'red: bus': valid 0.200 is below 0.750",
        "outlines have left the mask's: valid 0.300 is below 0.750",
        "'blue: bus' does not show in place of 'red: bus': valid 0.100 is below 0.750",
        "'the dog' still shows: valid 0.100 is below 0.750",
        "'blue: bus' does not show in place of 'red: bus': edit 0.100 is below 0.750",
    ]
    table = reason_table([picture_row(i, reason=reason, edits=edits) for i, reason in enumerate(reasons)])
    assert [row[:3] for row in table.rows] == [
        ("an edit of colour does not show", "valid", "2"),
        ("an edit does not show", "edit", "1"),
        ("an edit of object does not show", "valid", "1"),
        ("outlines have left the mask's", "valid", "1"),
    ]


def test_a_curve_is_drawn_across_its_limits() -> None:
    points = (Point(0.0, 4, 4, 2, 0.5), Point(0.5, 2, 2, 2, 1.0), Point(1.0, 0, 0, 0, None))
    sweep = ThresholdCurve("min_edit", 0.25, variants=4, judged=4, valid=2, points=points)
    curve = Curve(sweep)
    left, top, width, height = curve.frame
    middle, right = f"{left + width / 2}", f"{left + width}.0"
    assert curve.paths == (
        ("accepted", f"{left}.0,{top}.0 {middle},{top + height / 2} {right},{top + height}.0"),
        ("valid of them", f"{left}.0,{top + height / 2} {middle},{top}.0"),  # nothing has no share
        ("of all valid", f"{left}.0,{top + height / 2} {middle},{top}.0"),
    )
    assert curve.mark == left + width / 4
    assert (curve.width > left + width, curve.height > top + height) == (True, True)
    alone = Curve(replace(sweep, current=None, judged=0, points=points[:1]))
    assert (alone.mark, alone.paths) == (None, (("accepted", f"{left}.0,{top}.0"),))
