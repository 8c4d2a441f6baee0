"""Which words an edit may replace and by what, and which rewritten captions are taken, as tables."""

from __future__ import annotations

import pytest

from counterfactory.engine.edit import Edit
from counterfactory.engine.english.edit_scope import check_edited_caption
from counterfactory.engine.english.mentions import distinct
from counterfactory.engine.english.words import (
    allowed_alternatives,
    allowed_proposals,
    allowed_values,
    drop_overlapping,
    kept_words,
    phrases,
    removable,
    says_again,
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
        ("the blue bus in night", None),
        ("a blue bus at bright night", "the edited caption adds 'bright', which no edit says"),
        ("a blue bus at", "the edited caption lacks 'night', which no edit changes"),
        ("night at a blue bus", "the edited caption adds 'night', which no edit says"),
        ("a red blue bus at night", "the edited caption still says 'red' of the edit 'red' -> 'blue'"),
        ("red, a blue bus at night", "the edited caption still says 'red' of the edit 'red' -> 'blue'"),
    ],
)
def test_rewritten_captions_that_are_taken_and_refused(edited: str, problem: str | None) -> None:
    edits = [Edit("colour", "red", "blue")]
    keep = ("bus",) if edited.startswith("the blue") else ("at", "bus")
    assert check_edited_caption("a red bus at night", edited, edits, keep) == problem


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


TWICE = "a brown dog and a brown cat. the brown dog sits, a dog is a dog."


@pytest.mark.parametrize(
    ("caption", "edit", "edited", "problem"),
    [
        # What is said of the same thing changes wherever it is said; of another thing it may.
        (TWICE, ("brown", "black"), TWICE.replace("brown dog", "black dog"), None),
        (TWICE, ("brown", "black"), TWICE.replace("brown", "black"), None),
        (TWICE, ("brown", "black"), TWICE.replace("brown", "black", 1), "still says 'brown'"),
        (TWICE, ("brown", "black"), TWICE.replace("brown dog", "black dog").replace("sits", "lies"), "adds 'lies'"),
        ("grass, dry grass. grass is grass", ("grass", "sand"), "sand, dry sand. sand is sand", None),
        ("grass, dry grass. grass is grass", ("grass", "sand"), "sand, dry sand. sand is grass", "still says 'grass'"),
        ("grass, dry grass. grass is grass", ("grass", "sand"), "sand, dry grass. sand is sand", "still says 'grass'"),
        # An alternative that has its keyword's words is seen by the words beside them.
        ("a dog on grass", ("grass", "snowy grass"), "a dog on snowy grass", None),
        ("a dog on grass. grass", ("grass", "snowy grass"), "a dog on snowy grass. grass", "still says 'grass'"),
        ("a dog on grass. a dog", ("dog", "dog in the snow"), "a dog in the snow on grass. a dog", None),
        ("a dog on grass. a dog", ("dog", "dog in snow"), "a dog on in snow grass. a dog", "still says 'dog'"),
        ("a dog on grass. a dog", ("grass", "snowy grass"), "a snowy dog on grass. a dog", "still says 'grass'"),
        ("a big dog on grass", ("big dog", "dog, big"), "a dog, big on grass", None),
        ("a dog on grass", ("dog", "old dog"), "an old dog on grass", None),
        ("a dog. a dog", ("dog", "old dog"), "an old dog. the dog", "still says 'dog'"),
        ("grass grows", ("grass", "the grass"), "the grass grows", None),
        # The words of a keyword, not the small ones before it.
        ("an old dog", ("old", "old old"), "a old old dog", None),
        ("in the park", ("park", "big city"), "at the park, a big city", "still says 'park'"),
        ("a half-lit room, a lit hall", ("lit", "dark"), "a half-lit room, a dark hall", None),
        ("it's lit", ("lit", "dark"), "it\u2019s dark", None),
    ],
)
def test_what_an_edit_changes_changes_wherever_it_is_said(
    caption: str, edit: tuple[str, str], edited: str, problem: str | None
) -> None:
    found = check_edited_caption(caption, edited, [Edit("other", *edit)], ())
    assert (found is None) if problem is None else (problem in (found or "")), found


def test_two_edits_are_each_looked_for_where_they_are() -> None:
    caption = "a red car by red walls at night"
    edits = [Edit("colour", "red car", "blue car"), Edit("colour", "red", "green"), Edit("time", "night", "noon")]
    assert check_edited_caption(caption, "a blue car by green walls at noon", edits, ("car",)) is None
    assert (
        check_edited_caption(caption, "a blue car by red green walls at noon", edits, ("car",))
        == "the edited caption still says 'red' of the edit 'red' -> 'green'"
    )


def test_phrases_stand_alone_and_hold_no_word_to_keep() -> None:
    assert phrases("a red bus and the Dog on the grass.", 3, ("bus",)) == [
        *("a red", "red", "the Dog", "Dog", "on the grass", "the grass", "grass"),
    ]
    assert phrases("is of a", 2, ()) == []


def test_words_that_stay_are_those_of_the_caption() -> None:
    assert kept_words("A Bus, two buses by a fire truck. bus", ("bus", "fire truck", "car")) == (
        *("Bus", "buses", "fire", "truck"),
    )


def test_what_may_go_leaves_a_sentence() -> None:
    caption = "a dog with a ball on the green grass, by a wall and a man near a tree"
    found = [
        "with a ball",
        "with a",
        "on the green",
        "on the green grass",
        "by a wall",
        "near a tree",
        "a tree",
        "near a",
    ]
    assert removable(caption, found) == ["with a ball", "on the green grass", "by a wall", "near a tree"]
    assert removable("up on (a) b", ["on (a)"]) == []


@pytest.mark.parametrize(
    ("pair", "taken"),
    [
        (("red", "blue"), True),
        (("red", "Red"), False),
        (("red", "the red"), False),
        (("red", "dark red"), True),
        (("red", "red and blue"), True),
        (("red", "with a red"), False),
        (("red", "in red"), False),
        (("red", "wall"), True),
        (("wall", "behind brick wall"), False),
        (("wall", "the brick wall"), False),
        (("by a wall", "trees by a wall"), True),
        (("red", "blue bus"), False),
        (("red", "very very blue"), False),
        (("red", "the one of the sea"), True),
        (("red", "Stylish blue"), False),
        (("bus", "small bus"), True),
        (("bus", "red bus"), False),
        (("bus", "bus by a wall"), False),
        (("bus", "bus by water"), True),
        (("bus", "car"), False),
        (("bus", "bus with a bus"), False),
        (("by a wall", ""), True),
        (("", "in the rain"), True),
        (("", "by a red wall"), False),
        (("", "with a bus"), False),
        (("", "in stylish rain"), False),
    ],
)
def test_proposals_that_may_be_made(pair: tuple[str, str], taken: bool) -> None:
    found = allowed_proposals([pair], "a red bus by a wall", ("bus",), ("stylish",))
    assert found == ([pair] if taken else [])


def test_a_proposal_is_taken_once() -> None:
    assert allowed_proposals(
        [(" red", "blue "), ("Red", "BLUE"), ("", "at night"), ("", "At night")], "red", (), ()
    ) == [
        ("red", "blue"),
        ("", "at night"),
    ]


def test_no_alternative_says_a_word_to_avoid() -> None:
    assert allowed_alternatives(["Stylish blue", "blue", "stylishly red"], "old", (), ("stylish",)) == (
        "blue",
        "stylishly red",
    )


@pytest.mark.parametrize(
    ("edited", "problem"),
    [
        ("a dog on sand in the rain", None),
        ("a painting of a dog on sand in the rain", "the edited caption adds 'painting', which no edit says"),
        ("a dog on sand in the", "the edited caption lacks 'rain' of the edit '' -> 'in the rain'"),
        ("a dog on grass in the rain", "the edited caption lacks 'sand' of the edit 'grass' -> 'sand'"),
    ],
)
def test_additions_are_looked_for_too(edited: str, problem: str | None) -> None:
    edits = [Edit("weather", "", "in the rain"), Edit("background", "grass", "sand")]
    assert check_edited_caption("a dog on grass", edited, edits, ("dog",)) == problem


def test_what_an_edit_removes_is_gone() -> None:
    edits = [Edit("object", "with a ball", "")]
    assert check_edited_caption("a dog with a ball", "a dog", edits, ("dog",)) is None
    assert "lacks 'dog'" in (check_edited_caption("a dog with a ball", "a", edits, ()) or "")


@pytest.mark.parametrize(
    ("old", "new", "again"),
    [
        ("", "above a satellite dish", True),
        ("boy", "a Dish", True),
        ("boy", "old boy", False),
        ("", "at night", False),
        ("in front of", "of", False),
        ("a large satellite dish", "a small dish", False),
    ],
)
def test_a_thing_said_again(old: str, new: str, again: bool) -> None:
    assert says_again(old, new, "A boy stands in front of a large satellite dish.") == again
