"""What edited captions say beside their edits, by tables."""

from __future__ import annotations

import pytest

from counterfactory.engine.edit import Edit
from counterfactory.engine.tasks.beside import misplaced, plain_words, set_back
from counterfactory.engine.tasks.words import check_edited_caption

RED, BENCH = Edit("colour", "red", "blue"), "two men on a red bench"
TWICE = "a brown dog. the brown dog and a brown cat"


def edit(keyword: str, alternative: str) -> Edit:
    return Edit("other", keyword, alternative)


@pytest.mark.parametrize(
    ("caption", "edits", "edited"),
    [
        (BENCH, [RED], "Two men, on a blue bench."),
        ("a red car at noon.", [edit("red car", "orange"), edit("noon", "night")], "An orange car at night"),
        ("a street during the day", [edit("day", "night")], "a street at night"),
        ("a dog on grass", [edit("dog", "dog in the snow")], "a dog in the snow on grass"),
        ("a dog on grass", [edit("dog", "small dog")], "a small dog on grass"),
        ("a dog on grass", [edit("grass", "grass, wet")], "a dog on grass, wet"),
        ("a small brown dog on grass", [edit("small brown dog", "dog")], "a dog on grass"),
        ("a dog on the grass", [edit("on the grass", "on the beach")], "a dog on the beach"),
        (TWICE, [edit("brown", "black")], "a black dog. the black dog and a brown cat"),
        (TWICE, [edit("brown", "black")], "a black dog. the black dog and a black cat"),
        ("grass", [edit("grass", "tall snow")], "tall snow"),
        ("red cars stand", [edit("red cars", "shiny red cars")], "shiny red cars stand"),
        ("dogs run", [edit("dogs", "wet dogs")], "the wet dogs run"),
    ],
)
def test_captions_that_changed_nothing_else_say_the_same(caption: str, edits: list[Edit], edited: str) -> None:
    assert misplaced(caption, edited, edits) is None
    assert set_back(caption, edited, edits) == plain_words(caption)
    assert check_edited_caption(caption, edited, edits, ()) is None


@pytest.mark.parametrize(
    ("caption", "edits", "edited", "word", "beside"),
    [
        # Words of an edit elsewhere: instead of its place, beside it, behind a kept word, at the end.
        ("a red car by a bus", [RED], "a car by a Blue bus", "Blue", "a red car by a blue bus"),
        ("a red car by a bus", [RED], "a blue car by a blue bus", "blue", "a red car by a blue bus"),
        ("a red car by a bus", [RED], "a blue car by a bus, blue", "blue", "a red car by a bus blue"),
        ("a dog on the grass", [edit("the grass", "sand")], "sand, a dog on", "sand", "sand a dog on the grass"),
        (
            "red cars by grass",
            [RED, edit("grass", "tall walls")],
            "blue tall cars by walls",
            "tall",
            "red tall cars by grass",
        ),
        ("a dog sits", [edit("dog", "dog in snow")], "a dog sits in snow", "snow", "a dog sits in snow"),
        # Small words may change anywhere; they stay in what is said beside the edits.
        (BENCH, [RED], "two men by the blue bench", None, "two men by a red bench"),
        ("two men are on a red bench", [RED], "two men on a blue bench", None, "two men on a red bench"),
        ("the men on a red bench", [RED], "men were on a blue bench", None, "men were on a red bench"),
        ("the car on grass", [edit("car", "bus")], "the bus by grass", None, "the car by grass"),
        ("wet is red", [RED], "wet the blue", None, "wet the red"),
        ("cars is red", [RED], "cars blue", None, "cars red"),
        ("red on walls", [edit("red", "x")], "in x at walls", None, "red at walls"),
    ],
)
def test_what_else_changed_is_seen(caption: str, edits: list[Edit], edited: str, word: str | None, beside: str) -> None:
    assert misplaced(caption, edited, edits) == word
    assert set_back(caption, edited, edits) == beside


def test_what_is_added_or_removed_by_rule_may_stand_anywhere() -> None:
    rain, ball = Edit("weather", "", "in the rain"), Edit("object", "with a ball", "")
    caption, edited = "a red dog with a ball. a man sits", "a blue dog in the rain. a man sits"
    assert misplaced(caption, edited, [RED, rain, ball]) is None
    assert misplaced(caption, edited, [RED, ball]) == "rain"
    assert misplaced(caption, "a blue dog. a rain man sits", [RED, rain, ball]) is None


def test_a_caption_with_words_of_an_edit_elsewhere_is_dropped() -> None:
    found = check_edited_caption("a red car by a bus", "a car by a blue bus", [RED], ())
    assert found == "the edited caption says 'blue' where no edit puts it"


def test_words_are_compared_without_marks_and_capitals() -> None:
    assert plain_words("A dog\u2019s (old) Ball-game, 2.") == "a dog's old ball-game 2"
    with pytest.raises(ValueError, match="does not stand in"):
        set_back("a dog", "a cat", [RED])
