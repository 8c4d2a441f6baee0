"""Which words an edit may replace and by what, and which rewritten captions are taken, as tables."""

from __future__ import annotations

import pytest

from counterfactory.engine.edit import Edit
from counterfactory.engine.tasks.words import (
    allowed_alternatives,
    allowed_values,
    check_edited_caption,
    distinct,
    drop_overlapping,
    spans,
)

SPANS = [
    ("a red car.", 2, (), ["a", "a red", "red", "red car", "car"]),
    ("one, two. three", 3, (), ["one", "two", "three"]),
    ("a red car", 2, ("car",), ["a", "a red", "red", "red car"]),
    ("red cars", 1, ("car",), ["red"]),
    ("a fire truck", 3, ("fire truck",), ["a", "a fire", "a fire truck"]),
    ("it's half-lit", 1, (), ["it's", "half-lit"]),
    ("red red", 1, (), ["red"]),
    ("x" * 61, 1, (), []),
    ("x" * 60, 1, (), ["x" * 60]),
    ("a  red car", 3, (), ["a", "red", "red car", "car"]),
    ("a red car at night", 2, ("red car", "at"), ["a", "a red", "at night", "night"]),
    ("", 3, (), []),
]


@pytest.mark.parametrize(("caption", "most", "keep", "expected"), SPANS)
def test_spans(caption: str, most: int, keep: tuple[str, ...], expected: list[str]) -> None:
    assert spans(caption, most, keep) == expected


def test_keywords_stand_apart() -> None:
    pairs = [("time", "at night"), ("other", "night"), ("colour", "red car"), ("colour", "red"), ("weather", "Red Car")]
    assert drop_overlapping("a red car at night", pairs) == [("colour", "red car"), ("time", "at night")]
    assert drop_overlapping("a red car, red walls", [("colour", "red car"), ("other", "red")]) == [
        ("colour", "red car"),
        ("other", "red"),
    ]
    assert drop_overlapping("bored", [("colour", "red")]) == []


def test_values_and_alternatives_that_may_be_used() -> None:
    assert allowed_values(["night", "Dusk", "dusk", "at night"], "at night", ()) == ("Dusk",)
    assert allowed_values(["blue", "blue car", "two trucks"], "red car", ("car", "truck")) == ("blue", "blue car")
    found = ["blue car", "Blue car", "red car", "blue bus", " ", "green car "]
    assert allowed_alternatives(found, "red car", ("car", "bus")) == ("blue car", "green car")
    assert allowed_alternatives(["very foggy", "Foggy", "misty"], "foggy", ()) == ("misty",)


def test_a_keyword_is_found_where_it_stands_free() -> None:
    caption = "red car, red red wall, red car"
    assert drop_overlapping(caption, [("colour", "red car"), ("other", "car"), ("colour", "red")]) == [
        ("colour", "red car"),
        ("colour", "red"),
        ("other", "car"),
    ]
    # words that touch do not overlap; a keyword is used once, whatever its type and case
    assert drop_overlapping("red-car", [("colour", "red"), ("other", "car")]) == [("colour", "red"), ("other", "car")]
    assert drop_overlapping("red car", [("colour", "car"), ("other", "red")]) == [("other", "red"), ("colour", "car")]
    assert drop_overlapping("car car", [("colour", "car"), ("other", "CAR"), ("other", "car")]) == [("colour", "car")]
    assert drop_overlapping("red car", [("colour", "red"), ("colour", "Red"), ("other", "car")]) == [
        ("colour", "red"),
        ("other", "car"),
    ]
    touching = [("colour", "red!"), ("other", "?car")]
    assert drop_overlapping("red!?car", touching) == drop_overlapping("red!?car", touching[::-1]) == touching
    assert drop_overlapping("a.c abc", [("colour", "b"), ("other", "a.c"), ("time", "missing")]) == [("other", "a.c")]


def test_values_are_distinct_whatever_their_case() -> None:
    assert distinct(["Dusk", "dusk", "dawn", "DAWN", "dusk"]) == ("Dusk", "dawn")


def test_values_that_say_what_the_keyword_says_are_no_change() -> None:
    assert allowed_values(["night", "NIGHT", "nigh", "a night", ""], "At Night", ()) == ("nigh", "a night")
    assert allowed_values(["rain (wet)", "(wet)"], "x (wet) y", ()) == ("rain (wet)",)
    # A word to keep may be said again where the keyword says it, and nowhere else.
    assert allowed_values(["blue car", "two cars", "truck", "old car"], "red car", ("car",)) == (
        "blue car",
        "truck",
        "old car",
    )


@pytest.mark.parametrize(
    ("edited", "problem"),
    [
        ("a blue bus at night", None),
        ("A BLUE bus, at night.", None),
        ("a blue truck at night", "the edited caption changes 'bus', which may not change"),
        ("a red bus at night", "the edited caption says what the caption says"),
        ("A red BUS... at night", "the edited caption says what the caption says"),
        ("a green bus at night", "the edited caption lacks 'blue' of the edit 'red' -> 'blue'"),
        ("a bluish bus at night", "the edited caption lacks 'blue' of the edit 'red' -> 'blue'"),
    ],
)
def test_rewritten_captions_that_are_taken_and_refused(edited: str, problem: str | None) -> None:
    edits = [Edit("colour", "red", "blue")]
    assert check_edited_caption("a red bus at night", edited, edits, ("at", "bus")) == problem


def test_every_word_of_every_edit_is_looked_for() -> None:
    edits = [Edit("colour", "red", "Sky blue"), Edit("time", "at night", "at bright noon")]
    assert check_edited_caption("a red bus at night", "a sky blue bus at bright noon", edits, ()) is None
    assert (
        check_edited_caption("a red bus at night", "a sky blue bus at noon", edits, ())
        == "the edited caption lacks 'bright' of the edit 'at night' -> 'at bright noon'"
    )
    assert (
        check_edited_caption("a red bus at night", "a blue bus at noon", edits, ())
        == "the edited caption lacks 'Sky' of the edit 'red' -> 'Sky blue'"
    )
