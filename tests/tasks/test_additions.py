"""What is added to captions and taken out of them by rule, and how a user's values are said."""

from __future__ import annotations

import pytest

from counterfactory.engine.edit import Edit
from counterfactory.engine.english.additions import (
    apply_by_rule,
    has_known_words,
    is_silent,
    medium_of,
    phrase_of,
    speaking,
    undo_by_rule,
)
from counterfactory.engine.english.edit_scope import check_edited_caption

ADDED = [
    ("a dog on grass", "in the rain", "a dog on grass in the rain"),
    ("a dog on grass. a man sits.", "in the rain", "a dog on grass in the rain. a man sits."),
    ("a dog costs 3.5 coins ! yes", "at night", "a dog costs 3.5 coins at night ! yes"),
    ("a dog; a cat", "at night", "a dog at night; a cat"),
    ("a dog?", "mountains behind it", "a dog, mountains behind it?"),
    ("a dog. ", "at night", "a dog at night. "),
    ("a dog", "a painting of", "a painting of a dog"),
    ("", "at night", " at night"),
]


@pytest.mark.parametrize(("caption", "phrase", "edited"), ADDED)
def test_additions_stand_where_the_rule_says_and_can_be_undone(caption: str, phrase: str, edited: str) -> None:
    edit = Edit("other", "", phrase)
    assert edit.kind == "add"
    assert apply_by_rule(caption, [edit]) == edited
    assert undo_by_rule(edited, edit) == caption


@pytest.mark.parametrize(
    ("caption", "keyword", "edited"),
    [
        ("a dog with a ball, on grass", "with a ball", "a dog, on grass"),
        ("a dog with a ball", "with a ball", "a dog"),
        ("Red bus, red bus", "red", "bus, bus"),
        ("with a ball, a dog", "with a ball", "a dog"),
        ("with a ball, X marks the spot", "with a ball", "X marks the spot"),
    ],
)
def test_what_is_removed_goes_wherever_it_is_said(caption: str, keyword: str, edited: str) -> None:
    edit = Edit("object", keyword, "")
    assert edit.kind == "remove"
    assert apply_by_rule(caption, [edit]) == edited
    assert undo_by_rule(edited, edit) == edited


@pytest.mark.parametrize(
    ("caption", "after"),
    [
        ("A toad sits on stones.", "a toad that sits on stones."),
        ("the old toad with red eyes looks up at a fly", "the old toad with red eyes that looks up at a fly"),
        ("two dogs stand next to a car", "two dogs that stand next to a car"),
        ("a dog is lying on grass that lies in a park", "a dog lying on grass that lies in a park"),
        # No sentences, or more than a rule can tell.
        ("two stands on a table", "two stands on a table"),
        ("a stand by a road", "a stand by a road"),
        ("a row of stands on grass", "a row of stands on grass"),
        ("two wooden stands on a table", "two wooden stands on a table"),
        ("a dog that sits on grass", "a dog that sits on grass"),
        ("a dog, it sits on grass", "a dog, it sits on grass"),
        ("a dog sits", "a dog sits"),
        ("toads sit on stones", "toads sit on stones"),
    ],
)
def test_a_painting_is_of_a_thing_and_not_of_a_sentence(caption: str, after: str) -> None:
    edit = Edit("domain", "", "a painting of")
    edited = apply_by_rule(caption, [edit])
    assert edited.casefold() == f"a painting of {after}"
    assert check_edited_caption(caption, edited, [edit], ()) is None
    assert apply_by_rule(caption, [Edit("time", "", "at night")]).count("that") == caption.count("that")


def test_edits_are_applied_in_order_and_what_is_replaced_is_left() -> None:
    edits = [Edit("time", "", "at night"), Edit("colour", "dog", "cat"), Edit("domain", "", "a sketch of")]
    assert edits[1].kind == "replace"
    edited = apply_by_rule(
        "a dog with a ball", [*edits, Edit("object", "with a ball", ""), Edit("weather", "", "in fog")]
    )
    assert edited == "a sketch of a dog at night in fog"
    assert undo_by_rule(edited, edits[0]) == "a sketch of a dog in fog"
    assert undo_by_rule(edited, edits[1]) == edited
    assert undo_by_rule("A sketch of a dog", edits[2]) == "a dog"
    assert undo_by_rule("a dog at nightfall at night at night", edits[0]) == "a dog at nightfall at night"


@pytest.mark.parametrize(
    ("type_", "value", "said"),
    [
        ("time", "night", "at night"),
        ("time", "Evening", "in the Evening"),
        ("time", "day", "during the day"),
        ("time", "five", "at five"),
        ("time", "at noon", "at noon"),
        ("weather", "rain", "in the rain"),
        ("weather", "storm", "in a storm"),
        ("weather", "Rainy", "in Rainy weather"),
        ("weather", "stormy", "in stormy weather"),
        ("weather", "warm", "in warm weather"),
        ("light", "soft", "in soft light"),
        ("light", "Sunlight", "in Sunlight"),
        ("background", "mountains", "with mountains in the background"),
        ("object", "a ball", "with a ball"),
        ("camera", "above", "above"),
        ("camera", "a roof", "seen from a roof"),
        ("domain", "sketch", "a sketch of"),
        ("domain", "Oil painting", "an Oil painting of"),
        ("domain", "the sketch", "the sketch of"),
        ("domain", "a statue of", "a statue of"),
        ("mood", "gloom", "gloom"),
    ],
)
def test_a_user_s_values_become_phrases(type_: str, value: str, said: str) -> None:
    assert phrase_of(type_, value) == said


def test_captions_speak_of_a_type_by_known_words() -> None:
    assert is_silent("a dog", "time")
    assert not is_silent("a dog at NIGHT.", "time")
    assert not is_silent("a foggy street", "weather")
    assert is_silent("a foggy street", "time")
    assert speaking(["on the grass", "in bright light", "red"], "light") == ["in bright light"]
    assert speaking(["a close-up", "red wall"], "camera") == ["a close-up"]
    assert speaking(["a close-up", "red wall"], "colour") == ["red wall"]
    assert speaking(["x", "y"], "mood") == ["x", "y"]
    assert [has_known_words(type_) for type_ in ("time", "colour", "background")] == [True, True, False]


@pytest.mark.parametrize(
    ("caption", "medium"),
    [
        ("a photo of a dog", "a photo"),
        ("An old Photograph of a dog", "An old Photograph"),
        ("the painting of a dog", "the painting"),
        ("a photo", None),
        ("a dog in a photo of a dog", None),
    ],
)
def test_what_a_caption_calls_its_picture(caption: str, medium: str | None) -> None:
    assert medium_of(caption) == medium


@pytest.mark.parametrize(
    ("caption", "edited"),
    [
        ("A dog is lying on grass. A cat is sitting", "A painting of a dog lying on grass. A cat is sitting"),
        ("a dog is lying", "a painting of a dog lying"),
        ("Boston is shown at night", "a painting of Boston is shown at night"),
        ("Two dogs", "A painting of two dogs"),
    ],
)
def test_a_medium_takes_the_capital_and_the_verb(caption: str, edited: str) -> None:
    assert apply_by_rule(caption, [Edit("domain", "", "a painting of")]) == edited
