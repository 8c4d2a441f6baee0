"""Edits undone one at a time."""

from __future__ import annotations

import pytest

from counterfactory.engine.edit import Edit
from counterfactory.engine.english.replacing import undo_edits

CAPTION = "a red car on a foggy street during the day. brick walls stand there."
NIGHT, ORANGE, RAIN = (
    Edit("time", "day", "night"),
    Edit("colour", "red car", "orange"),
    Edit("weather", "foggy", "rainy"),
)


@pytest.mark.parametrize(
    ("edits", "edited", "undone"),
    [
        # Words that the edits changed around themselves go with them, whatever order the edits are in.
        (
            (NIGHT, ORANGE, RAIN),
            "an orange car on a rainy street at night. brick walls stand there.",
            [
                "an orange car on a rainy street during the day. brick walls stand there.",
                "a red car on a rainy street at night. brick walls stand there.",
                "an orange car on a foggy street at night. brick walls stand there.",
            ],
        ),
        ((RAIN,), "a red car on a rainy street during the day. brick walls stand there.", [CAPTION]),
        # At both ends.
        (
            (Edit("object", "there", "here"), ORANGE),
            "an orange car on a foggy street during the day. brick walls stand here.",
            [
                "an orange car on a foggy street during the day. brick walls stand there.",
                "a red car on a foggy street during the day. brick walls stand here.",
            ],
        ),
    ],
)
def test_each_edit_is_undone_alone(edits: tuple[Edit, ...], edited: str, undone: list[str]) -> None:
    assert undo_edits(CAPTION, edited, edits) == [(edited, text) for text in undone]


def test_a_caption_written_anew_is_compared_by_the_words_of_the_old_one() -> None:
    edited = "At night an orange car stands there."
    made = "a orange on a foggy street during the night. brick walls stand there."
    assert undo_edits(CAPTION, edited, (NIGHT, ORANGE)) == [
        (made, "a orange on a foggy street during the day. brick walls stand there."),
        (made, "a red car on a foggy street during the night. brick walls stand there."),
    ]


def test_a_thing_that_is_named_twice_is_undone_twice() -> None:
    caption = "a brown dog on grass. the brown dog and a brown cat."
    black = Edit("colour", "brown", "black")
    edited = "a black dog on grass. the black dog and a brown cat."
    assert undo_edits(caption, edited, (black,)) == [(edited, caption)]
    # What the language model changed beside it is no part of the edit, nor is the cat.
    free = "a black dog lies on grass. the black dog and a brown cat."
    assert undo_edits(caption, free, (black,)) == [(edited, caption)]
    half = "a black dog on grass. the brown dog and a brown cat."
    assert undo_edits(caption, half, (black,)) == [(edited, caption)], "made by half, it counts as made"
    snow = Edit("background", "dog", "dog in the snow")
    both = "a black dog in the snow on grass. the black dog and a brown cat."
    without = "a brown dog in the snow on grass. the brown dog and a brown cat."
    assert undo_edits(caption, both, (black, snow)) == [(both, without), (both, edited)]


@pytest.mark.parametrize(
    ("caption", "edited", "edit"),
    [
        ("Red cars stand.", "Blue cars stand.", Edit("colour", "Red", "blue")),
        ("a red car and a red bus.", "an orange car and a red bus.", Edit("colour", "red", "orange")),
        ("a street at night.", "a street during the day.", Edit("time", "night", "day")),
    ],
)
def test_small_and_capital_letters_and_words_around_an_edit_are_its_own(caption: str, edited: str, edit: Edit) -> None:
    assert undo_edits(caption, edited, (edit,)) == [(edited, caption)]


def test_marks_of_expressions_are_words_like_others() -> None:
    caption, edited = "a (red) car. what?", "a (blue) car. what?"
    assert undo_edits(caption, edited, (Edit("colour", "red", "blue"),)) == [(edited, caption)]


def test_edits_that_cannot_be_told_apart_are_undone_together() -> None:
    edits = (Edit("colour", "red car", "blue"), Edit("object", "car", "bus"))
    assert undo_edits("a red car.", "a blue bus.", edits) == [("a blue bus.", "a red car.")] * 2
    assert undo_edits("a red car.", "a red car.", ()) == []


def test_beside_words_that_are_removed_edits_are_compared_with_the_caption() -> None:
    edits = (Edit("colour", "red", ""), Edit("object", "car", "bus"))
    assert undo_edits("a red car.", "a bus.", edits) == [("a bus.", "a red car.")] * 2
    snow = Edit("weather", "", "in the snow")
    assert undo_edits("a red car.", "a bus in the snow.", (*edits, snow)) == [
        *[("a bus in the snow.", "a red car in the snow.")] * 2,
        ("a bus in the snow.", "a bus."),
    ]


def test_what_is_added_is_taken_out_alone() -> None:
    snow, night, sketch = (
        Edit("weather", "", "in the snow"),
        Edit("time", "", "at night"),
        Edit("domain", "", "a sketch of"),
    )
    bus = Edit("object", "car", "bus")
    edited = "a sketch of a red bus in the snow at night."
    assert undo_edits("a red car.", edited, (snow, bus, night, sketch)) == [
        (edited, "a sketch of a red bus at night."),
        (edited, "a sketch of a red car in the snow at night."),
        (edited, "a sketch of a red bus in the snow."),
        (edited, "a red bus in the snow at night."),
    ]
    assert undo_edits("a red car.", "a red car in the snow.", (snow,)) == [("a red car in the snow.", "a red car.")]
