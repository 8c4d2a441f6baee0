"""The spread of edits in words."""

from __future__ import annotations

from counterfactory.engine.report.suite_text import edit_table, skew_notes, spread_data
from counterfactory.engine.tasks.spread import TypeSpread

COLOURS = TypeSpread("colour", 1_500, 0.75, (("red", 1_200), ("a very very long value of colour", 200), ("blue", 100)))
TIMES = TypeSpread(
    "time", 500, 0.25, (("night at the old harbour of the town", 20), *((f"v{i}", 16) for i in range(30)))
)


def test_a_row_per_type_with_its_most_frequent_values() -> None:
    table = edit_table([COLOURS, TIMES])
    assert (table.title, table.columns) == ("Edits", ("type", "edits", "share", "values", "most often"))
    assert table.rows == (
        ("colour", "1,500", "75 %", "3", "red 80 %, a very very long value… 13 %"),
        ("time", "500", "25 %", "31", "night at the old harbou… 4 %, v0 3 %"),
    )
    assert edit_table([]).rows == ()


def test_as_many_values_are_named_as_fit() -> None:
    row = edit_table([TypeSpread("x", 100, 1.0, tuple((f"value{i}", 10) for i in range(10)))]).rows[0]
    assert row[-1] == "value0 10 %, value1 10 %, value2 10 %"
    exact = TypeSpread("x", 2, 1.0, (("a" * 13, 1), ("b" * 17, 1)))
    assert len(edit_table([exact]).rows[0][-1]) == 42
    over = TypeSpread("x", 2, 1.0, (("a" * 14, 1), ("b" * 17, 1)))
    assert edit_table([over]).rows[0][-1] == "a" * 14 + " 50 %"


def test_the_spread_as_data() -> None:
    colours, times = spread_data([COLOURS, TIMES])
    assert colours == {
        "type": "colour",
        "edits": 1_500,
        "share": 0.75,
        "values": 3,
        "most_often": {"red": 1_200, "a very very long value of colour": 200, "blue": 100},
    }
    assert (times["values"], len(times["most_often"])) == (31, 10)


def test_a_sentence_where_one_value_prevails() -> None:
    said = "80 % of the 1,500 edits of type colour bring 'red': the type's effect on a model is that of one value"
    assert skew_notes([COLOURS, TIMES]) == [said]
    night = TypeSpread("time", 40, 1.0, (("night", 40),))
    assert skew_notes([night], ["time"]) == []
    assert skew_notes([night]) == [
        "100 % of the 40 edits of type time bring 'night': the type's effect on a model is that of one value"
    ]
