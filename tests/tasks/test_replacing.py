"""Captions written by rule: words added, removed and in the place of others, articles that agree, and edits undone."""

from __future__ import annotations

import pytest

from counterfactory.engine.edit import Edit
from counterfactory.engine.english import additions
from counterfactory.engine.english.edit_scope import check_edited_caption
from counterfactory.engine.english.replacing import agree, undo_edits, write_by_rule


def test_what_a_rule_adds_it_can_undo_and_what_it_removes_goes_wherever_it_is_said() -> None:
    for caption, keyword, alternative, edited in (
        ("a dog on grass. a man sits.", "", "in the rain", "a dog on grass in the rain. a man sits."),
        ("a dog costs 3.5 coins ! yes", "", "at night", "a dog costs 3.5 coins at night ! yes"),
        ("a dog?", "", "mountains behind it", "a dog, mountains behind it?"),
        ("a dog. ", "", "at night", "a dog at night. "),
        ("a dog", "", "a painting of", "a painting of a dog"),
        ("", "", "at night", " at night"),
        ("a dog with a ball, on grass", "with a ball", "", "a dog, on grass"),
        ("Red bus, red bus", "red", "", "bus, bus"),
        ("with a ball, a dog", "with a ball", "", "a dog"),
        ("with a ball, X marks the spot", "with a ball", "", "X marks the spot"),
    ):
        edit = Edit("other", keyword, alternative)
        assert edit.kind == ("remove" if keyword else "add")
        assert additions.apply_by_rule(caption, [edit]) == edited
        assert additions.undo_by_rule(edited, edit) == (edited if keyword else caption)


def test_a_painting_is_of_a_thing_and_not_of_a_sentence() -> None:
    for caption, after in (
        ("A toad sits on stones.", "A painting of a toad that sits on stones."),
        ("A dog is lying on grass. A cat is sitting", "A painting of a dog lying on grass. A cat is sitting"),
        ("a dog is lying", "a painting of a dog lying"),
        ("Boston is shown at night", "a painting of Boston is shown at night"),
        ("Two dogs", "A painting of two dogs"),
        ("the old toad with red eyes looks up at a fly", "the old toad with red eyes that looks up at a fly"),
        ("two dogs stand next to a car", "two dogs that stand next to a car"),
        ("a dog is lying on grass that lies in a park", "a dog lying on grass that lies in a park"),
        # No sentences, or more than a rule can tell.
        ("two stands on a table", "two stands on a table"),
        ("a row of stands on grass", "a row of stands on grass"),
        ("a dog that sits on grass", "a dog that sits on grass"),
        ("a dog, it sits on grass", "a dog, it sits on grass"),
    ):
        edit = Edit("domain", "", "a painting of")
        edited = additions.apply_by_rule(caption, [edit])
        assert edited == (after if "painting" in after else f"a painting of {after}")
        assert check_edited_caption(caption, edited, [edit], ()) is None
        assert additions.apply_by_rule(caption, [Edit("time", "", "at night")]).count("that") == caption.count("that")


def test_edits_are_applied_in_order_and_what_is_replaced_is_left() -> None:
    edits = [Edit("time", "", "at night"), Edit("colour", "dog", "cat"), Edit("domain", "", "a sketch of")]
    assert edits[1].kind == "replace"
    edited = additions.apply_by_rule(
        "a dog with a ball", [*edits, Edit("object", "with a ball", ""), Edit("weather", "", "in fog")]
    )
    assert edited == "a sketch of a dog at night in fog"
    assert additions.undo_by_rule(edited, edits[0]) == "a sketch of a dog in fog"
    assert additions.undo_by_rule(edited, edits[1]) == edited
    assert additions.undo_by_rule("A sketch of a dog", edits[2]) == "a dog"
    assert additions.undo_by_rule("a dog at nightfall at night at night", edits[0]) == "a dog at nightfall at night"


SAID = {
    "time": {"night": "at night", "Evening": "in the Evening", "five": "at five", "at noon": "at noon"},
    "weather": {"rain": "in the rain", "storm": "in a storm", "Rainy": "in Rainy weather", "warm": "in warm weather"},
    "light": {"soft": "in soft light", "Sunlight": "in Sunlight"},
    "background": {"mountains": "with mountains in the background"},
    "object": {"a ball": "with a ball"},
    "camera": {"above": "above", "a roof": "seen from a roof"},
    "domain": {
        "sketch": "a sketch of",
        "Oil painting": "an Oil painting of",
        "the sketch": "the sketch of",
        "a statue of": "a statue of",
    },
    "mood": {"gloom": "gloom"},
}


@pytest.mark.parametrize(("type_", "said"), SAID.items())
def test_a_user_s_values_become_phrases(type_: str, said: dict[str, str]) -> None:
    assert {value: additions.phrase_of(type_, value) for value in said} == said


@pytest.mark.parametrize(
    ("caption", "type_", "said"),
    [
        ("At night a bus in the rain on a rainy road at night", "time", ["At night"]),
        ("At night a bus in the rain on a rainy road at night", "weather", ["in the rain", "rainy"]),
        ("a bus in rainy weather under the night sky", "weather", ["rainy"]),
        ("a bus in rainy weather under the night sky", "time", ["night"]),
        ("a red car, a Blue bus and a red van", "colour", ["red", "Blue"]),
        ("a bright lamp at noon", "light", []),
    ],
)
def test_a_rule_knows_what_a_caption_says_of_weather_time_and_colours(
    caption: str, type_: str, said: list[str]
) -> None:
    words = caption.replace(",", "").split()
    assert additions.said_of(caption, type_, words) == said
    assert additions.said_of(caption, type_, []) == [], "what may not change is no words of it"


def test_words_for_where_and_when_are_counted() -> None:
    assert additions.count_links("At noon, in the fog, on a road during rain by an inn of one's own") == 5


def test_captions_speak_of_a_type_by_known_words() -> None:
    assert additions.speaking(["a dog", "a dog at NIGHT.", "a foggy street"], "time") == ["a dog at NIGHT."]
    assert additions.speaking(["a foggy street"], "weather") == ["a foggy street"]
    assert additions.speaking(["on the grass", "in bright light", "red"], "light") == ["in bright light"]
    assert additions.speaking(["a close-up", "red wall"], "camera") == ["a close-up"]
    assert additions.speaking(["a close-up", "red wall"], "colour") == ["red wall"]
    assert additions.speaking(["x", "y"], "mood") == ["x", "y"]
    assert [additions.has_known_words(type_) for type_ in ("time", "colour", "background")] == [True, True, False]
    for medium in ("a photo", "An old Photograph", "the painting"):
        assert additions.medium_of(f"{medium} of a dog") == medium
    assert additions.medium_of("a photo") is additions.medium_of("a dog in a photo of a dog") is None


def test_replacements() -> None:
    for caption, changes, edited in (
        ("A dog on grass.", [("dog", "old dog")], "An old dog on grass."),
        ("Dog on grass", [("Dog", "wet dog")], "Wet dog on grass"),
        ("a dog. the dog sits", [("dog", "wet dog")], "a wet dog. the wet dog sits"),
        ("a brown dog and a brown cat", [("brown", "red")], "a red dog and a brown cat"),
        ("a dog, the dog", [("dog", "dog in the snow")], "a dog in the snow, the dog"),
        ("dog on grass", [("dog", "wet dog")], "wet dog on grass"),
        ("a Red car", [("Red", "blue")], "a blue car"),
    ):
        assert write_by_rule(caption, changes) == edited


def test_articles_agree() -> None:
    assert [agree("a ", word) for word in ("old", "hour", "12")] == ["an ", "an ", "a "]
    assert (agree("An ", "big"), agree("see a ", "unicycle")) == ("A ", "see a ")
    assert [agree(before, "old") for before in ("the ", "banana ")] == ["the ", "banana "]


CAPTION = "a red car on a foggy street during the day. brick walls stand there."
NIGHT, ORANGE = Edit("time", "day", "night"), Edit("colour", "red car", "orange")
RAIN = Edit("weather", "foggy", "rainy")
WALLS, HERE, BLACK = "brick walls stand", Edit("object", "there", "here"), Edit("colour", "brown", "black")
THREE = f"an orange car on a rainy street at night. {WALLS} there."
ENDS = f"an orange car on a foggy street during the day. {WALLS} here."
DOG = "a brown dog on grass. the brown dog and a brown cat."
BLACK_DOG = "a black dog on grass. the black dog and a brown cat."
SNOW, IN_SNOW = Edit("background", "dog", "dog in the snow"), Edit("weather", "", "in the snow")
SNOWY_DOG = "a black dog in the snow on grass. the black dog and a brown cat."
BUS, AT_NIGHT, SKETCH = Edit("object", "car", "bus"), Edit("time", "", "at night"), Edit("domain", "", "a sketch of")
TWO_REDS = "a red car and a red bus."
ALL = "a sketch of a red bus in the snow at night."


@pytest.mark.parametrize(
    ("caption", "edits", "edited", "undone"),
    [
        # Words that the edits changed around themselves go with them, whatever order the edits are in.
        (CAPTION, (NIGHT, ORANGE, RAIN), THREE, [THREE.replace("at night", "during the day"),
         THREE.replace("an orange", "a red"), THREE.replace("rainy", "foggy")]),
        # At both ends.
        (CAPTION, (HERE, ORANGE), ENDS, [ENDS.replace("here", "there"), ENDS.replace("an orange", "a red")]),
        # A thing that is named twice is undone twice.
        (DOG, (BLACK,), BLACK_DOG, [DOG]),
        (DOG, (BLACK, SNOW), SNOWY_DOG, [SNOWY_DOG.replace("black", "brown"), BLACK_DOG]),
        # Capitals and words around an edit are its own; marks of expressions are words like others.
        ("Red cars stand.", (Edit("colour", "Red", "blue"),), "Blue cars stand.", ["Red cars stand."]),
        (TWO_REDS, (Edit("colour", "red", "orange"),), "an orange car and a red bus.", [TWO_REDS]),
        ("a street at night.", (Edit("time", "night", "day"),), "a street during the day.", ["a street at night."]),
        ("a (red) car. what?", (Edit("colour", "red", "blue"),), "a (blue) car. what?", ["a (red) car. what?"]),
        # Edits that cannot be told apart are undone together, and so is what is beside words that are removed.
        ("a red car.", (Edit("colour", "red car", "blue"), BUS), "a blue bus.", ["a red car."] * 2),
        ("a red car.", (Edit("colour", "red", ""), BUS), "a bus.", ["a red car."] * 2),
        ("a red car.", (Edit("colour", "red", ""), BUS, IN_SNOW), "a bus in the snow.",
         ["a red car in the snow."] * 2 + ["a bus."]),
        ("a red car.", (), "a red car.", []),
        # What is added is taken out alone.
        ("a red car.", (IN_SNOW,), "a red car in the snow.", ["a red car."]),
        ("a red car.", (IN_SNOW, BUS, AT_NIGHT, SKETCH), ALL, [ALL.replace(" in the snow", ""),
         ALL.replace("bus", "car"), ALL.replace(" at night", ""), ALL.removeprefix("a sketch of ")]),
    ],
)  # fmt: skip
def test_each_edit_is_undone_alone(caption: str, edits: tuple[Edit, ...], edited: str, undone: list[str]) -> None:
    assert undo_edits(caption, edited, edits) == [(edited, text) for text in undone]


def test_a_caption_written_anew_is_compared_by_the_words_of_the_old_one() -> None:
    made = f"a orange on a foggy street during the night. {WALLS} there."
    assert undo_edits(CAPTION, "At night an orange car stands there.", (NIGHT, ORANGE)) == [
        (made, made.replace("night", "day")),
        (made, made.replace("a orange", "a red car")),
    ]
    # What the language model changed beside an edit is no part of it; made by half, it counts as made.
    for free in ("a black dog lies on grass. the black dog and a brown cat.", DOG.replace("brown", "black", 1)):
        assert undo_edits(DOG, free, (BLACK,)) == [(BLACK_DOG, DOG)]
