"""What edited captions say beside their edits, by tables."""

from __future__ import annotations

import pytest

from counterfactory.engine.edit import Edit
from counterfactory.engine.english.edit_scope import check_edited_caption, plain_words, set_back, written_by_rule

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
    assert set_back(caption, edited, edits) == plain_words(caption)
    assert check_edited_caption(caption, edited, edits, ()) is None


@pytest.mark.parametrize(
    ("caption", "edits", "edited", "problem", "beside"),
    [
        # Words of an edit elsewhere: instead of its place, beside it, behind a kept word, at the end.
        ("a red car by a bus", [RED], "a car by a Blue bus", "Blue' where no edit puts it", "a red car by a blue bus"),
        (
            "a red car by a bus",
            [RED],
            "a blue car by a blue bus",
            "blue' where no edit puts it",
            "a red car by a blue bus",
        ),
        (
            "a red car by a bus",
            [RED],
            "a blue car by a bus, blue",
            "blue' where no edit puts it",
            "a red car by a bus blue",
        ),
        (
            "a dog on the grass",
            [edit("the grass", "sand")],
            "sand, a dog on",
            "sand' where no edit puts it",
            "sand a dog on the grass",
        ),
        (
            "red cars by grass",
            [RED, edit("grass", "tall walls")],
            "blue tall cars by walls",
            "tall' where no edit puts it",
            "red tall cars by grass",
        ),
        (
            "a dog sits",
            [edit("dog", "dog in snow")],
            "a dog sits in snow",
            "still says 'dog' of the edit",
            "a dog sits in snow",
        ),
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
def test_what_else_changed_is_seen(
    caption: str, edits: list[Edit], edited: str, problem: str | None, beside: str
) -> None:
    found = check_edited_caption(caption, edited, edits, ())
    assert (found is None) if problem is None else (problem in (found or "")), found
    assert set_back(caption, edited, edits) == beside


def test_what_is_added_or_removed_by_rule_may_stand_anywhere() -> None:
    rain, ball = Edit("weather", "", "in the rain"), Edit("object", "with a ball", "")
    caption, edited = "a red dog with a ball. a man sits", "a blue dog in the rain. a man sits"
    assert check_edited_caption(caption, edited, [RED, rain, ball], ()) is None
    assert check_edited_caption(caption, "a blue dog. a in the rain man sits", [RED, rain, ball], ()) is None


def test_words_are_compared_without_marks_and_capitals() -> None:
    assert plain_words("A dog\u2019s (old) Ball-game, 2.") == "a dog's old ball-game 2"
    with pytest.raises(ValueError, match="does not stand in"):
        set_back("a dog", "a cat", [RED])


COAST = "a photo of a blue van on a street that runs straight after dark by the sea. a man in red is on the sidewalk."
STRAIGHT = edit("that runs straight", "that bends to the right")


@pytest.mark.parametrize(
    ("edits", "edited"),
    [
        # Neighbours and edits share small words: "by", "the", "a".
        ([edit("after dark", "by day")], COAST.replace("after dark", "by day")),
        ([edit("by the sea", "in the dark wood")], COAST.replace("by the sea", "in the dark wood")),
        (
            [STRAIGHT, edit("by the sea", "in a forest")],
            COAST.replace("runs straight", "bends to the right").replace("by the sea", "in a forest"),
        ),
        # The noun or the small word of a keyword stays beside its alternative.
        ([edit("blue van", "dark blue")], COAST.replace("blue", "dark blue")),
        (
            [edit("in red", "white"), STRAIGHT],
            COAST.replace("in red", "in white").replace("runs straight", "bends to the right"),
        ),
        (
            [edit("a photo", "etching"), edit("after dark", "by day")],
            COAST.replace("a photo", "an etching").replace("after dark", "by day"),
        ),
        # What is added and removed goes where rules put it, capitals and marks aside.
        (
            [edit("after dark", "by day"), edit("", "a sketch of")],
            "A sketch of " + COAST.replace("after dark", "by day"),
        ),
        ([edit("after dark", "by day"), edit("by the sea", "")], COAST.replace("after dark by the sea", "by day")),
    ],
)
def test_what_rules_write_is_in_order_whatever_words_are_shared(edits: list[Edit], edited: str) -> None:
    assert written_by_rule(COAST, edited, edits)
    assert check_edited_caption(COAST, edited, edits, ("van", "street")) is None
    for wrong in (f"{edited} quite", edited.replace("sidewalk", "bench"), edited.replace("van", "car")):
        assert not written_by_rule(COAST, wrong, edits)
        assert check_edited_caption(COAST, wrong, edits, ()) is not None


def test_rules_bring_no_other_words_than_a_keyword_s_own() -> None:
    day = edit("after dark", "by day")
    assert not written_by_rule(COAST, COAST.replace("after dark", "by day dark"), [day])
    assert not written_by_rule("a red car", "a blue red car", [edit("red car", "blue")])
    assert not written_by_rule("a red car", "a blue car car", [edit("red car", "blue car")])
    assert not written_by_rule("a car in red", "a car the white", [edit("in red", "white")])
    assert not written_by_rule("a red car", "a blue car", [edit("grey", "blue")]), "no such words"
