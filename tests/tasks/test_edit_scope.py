"""What changed between captions, and which edited ones are taken for what they say of their edits and beside."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from counterfactory.engine.edit import Edit
from counterfactory.engine.english.difference import Change, Difference, Word, compare, words_of
from counterfactory.engine.english.edit_scope import (
    check_edited_caption,
    cut_edit,
    fit_caption,
    plain_words,
    set_back,
    written_by_rule,
)
from counterfactory.engine.models.clip import read_chars


def test_changes() -> None:
    for caption, edited, changes in (
        ("a dog on grass", "A dog, on GRASS!", []),
        ("a red bus at night", "a blue bus at night", [(1, "red", 1, "blue")]),
        ("a dog on grass", "a dog on snowy grass in the rain", [(3, "", 3, "snowy"), (4, "", 5, "in the rain")]),
        ("a dog on grass", "a painting of a dog on grass", [(1, "", 1, "painting of a")]),
        ("a red bus by a red wall", "a bus by a red wall", [(1, "red", 1, "")]),
        ("a red bus by a red wall", "a red bus by a wall", [(5, "red", 5, "")]),
        ("the dog's bowl", "the cat's bowl", [(1, "dog's", 1, "cat's")]),
        ("the dog\u2019s bowl", "the dog's bowl", []),
        ("", "a dog", [(0, "", 0, "a dog")]),
        ("a dog", "", [(0, "a dog", 0, "")]),
        ("a b", "b a", [(0, "a", 0, ""), (2, "", 1, "a")]),
    ):

        def said(words: tuple[Word, ...]) -> str:
            return " ".join(word.text for word in words)

        found = compare(caption, edited)
        assert [(c.at, said(c.removed), c.new_at, said(c.added)) for c in found.changes] == changes
        assert said(found.removed) == " ".join(gone for _, gone, _, _ in changes if gone)
        assert said(found.added) == " ".join(new for _, _, _, new in changes if new)


def test_words_know_their_places() -> None:
    places = [("It's", 0, 0, 4), ("a", 1, 5, 6), ("half-lit", 2, 7, 15), ("\u00c9t\u00e9", 3, 17, 20)]
    assert words_of("It's a half-lit, \u00c9t\u00e9") == tuple(Word(*place) for place in places)
    a, dog, cat = Word("a", 0, 0, 1), Word("dog", 1, 2, 5), Word("cat", 1, 2, 5)
    assert compare("a dog", "a cat") == Difference(((a, a),), (Change(1, (dog,), 1, (cat,)),))


@settings(max_examples=80)
@given(st.lists(st.sampled_from("abc"), max_size=6), st.lists(st.sampled_from("abc"), max_size=6))
def test_as_many_words_are_kept_as_can_be(old: list[str], new: list[str]) -> None:
    found = compare(" ".join(old), " ".join(new))

    def common(size: int) -> bool:
        return not {*itertools.combinations(old, size)}.isdisjoint(itertools.combinations(new, size))

    assert len(found.pairs) == max(size for size in range(7) if size == 0 or common(size))
    # Kept and removed words make the old caption, kept and added ones the new; both stay in order.
    assert sorted(w.at for w in (*(p for p, _ in found.pairs), *found.removed)) == [*range(len(old))]
    assert sorted(w.at for w in (*(q for _, q in found.pairs), *found.added)) == [*range(len(new))]
    assert all(p.text == q.text for p, q in found.pairs)
    for change in found.changes:
        assert change.removed or change.added
        assert all(word.at == change.at + i for i, word in enumerate(change.removed))
        assert all(word.at == change.new_at + i for i, word in enumerate(change.added))


RED, BENCH = Edit("colour", "red", "blue"), "two men on a red bench"
BUS = "a red bus at night"
TWICE = "a brown dog. the brown dog and a brown cat"
SITS = "a brown dog and a brown cat. the brown dog sits, a dog is a dog."
GRASS = "grass, dry grass. grass is grass"


def edit(keyword: str, alternative: str) -> Edit:
    return Edit("other", keyword, alternative)


WALLS = [RED, edit("grass", "tall walls")]
CARS = [edit("red car", "blue car"), RED]
RAIN = [edit("", "in the rain"), edit("grass", "sand")]


def test_edited_captions_that_are_taken_and_refused() -> None:
    for caption, edits, edited, problem in (
        (BUS, [RED], "A BLUE bus, at night.", None),
        (BUS, [RED], "the blue bus in night", None),
        (BUS, [RED], "a red bus at night", "says what the caption says"),
        (BUS, [RED], "A red BUS... at night", "says what the caption says"),
        (BUS, [RED], "a green bus at night", "lacks 'blue' of the edit 'red' -> 'blue'"),
        (BUS, [RED], "a bluish bus at night", "lacks 'blue' of the edit 'red' -> 'blue'"),
        (BUS, [RED], "a blue bus at bright night", "adds 'bright', which no edit says"),
        (BUS, [RED], "a blue bus at", "lacks 'night', which no edit changes"),
        (BUS, [RED], "night at a blue bus", "adds 'night', which no edit says"),
        (BUS, [RED], "red, a blue bus at night", "still says 'red' of the edit 'red' -> 'blue'"),
        ("dogs are by red walls", [edit("red walls", "the red walls")], "dogs is by the red walls", None),
        ("dogs are by red walls", [edit("red walls", "the red walls")], "dogs is by red walls", "lacks 'the'"),
        # What is said of the same thing changes wherever it is said; of another thing it may.
        (SITS, [edit("brown", "black")], SITS.replace("brown dog", "black dog"), None),
        (SITS, [edit("brown", "black")], SITS.replace("brown", "black", 1), "still says 'brown'"),
        (SITS, [edit("brown", "black")], SITS.replace("brown d", "black d").replace("sits", "lies"), "adds 'lies'"),
        (GRASS, [edit("grass", "sand")], "sand, dry sand. sand is sand", None),
        (GRASS, [edit("grass", "sand")], "sand, dry grass. sand is sand", "still says 'grass'"),
        # An alternative that has its keyword's words is seen by the words beside them.
        ("a dog on grass", [edit("grass", "snowy grass")], "a dog on snowy grass", None),
        ("a dog on grass. grass", [edit("grass", "snowy grass")], "a dog on snowy grass. grass", "still says 'grass'"),
        ("a dog on grass. a dog", [edit("dog", "dog in the snow")], "a dog in the snow on grass. the dog", None),
        ("a dog on grass. a dog", [edit("dog", "dog in snow")], "a dog on in snow grass. a dog", "still says 'dog'"),
        ("a dog on grass. a dog", [edit("grass", "snowy grass")], "a snowy dog on grass. a dog", "still says 'grass'"),
        ("a dog is on grass", [edit("dog", "old dog")], "an old dog is at grass", None),
        ("a dog. a dog", [edit("dog", "old dog")], "an old dog. the dog", "still says 'dog'"),
        # The words of a keyword, not the small ones before it.
        ("an old dog", [edit("old", "old old")], "a old old dog", None),
        ("in the park", [edit("park", "big city")], "at the park, a big city", "still says 'park'"),
        ("a half-lit room, a lit hall", [edit("lit", "dark")], "a half-lit room, a dark hall", None),
        ("it's lit", [edit("lit", "dark")], "it\u2019s dark", None),
        # Several edits are each looked for where they are; so are additions, and what is removed is gone.
        ("a red car by red walls", CARS, "a blue car by blue walls", None),
        ("a red car by red walls", CARS, "a blue car by red blue walls", "still says 'red' of the edit 'red' ->"),
        ("a dog on grass", RAIN, "a dog on sand in the", "lacks 'rain' of the edit '' -> 'in the rain'"),
        ("a dog with a ball", [edit("with a ball", "")], "a dog", None),
        ("a dog with a ball", [edit("with a ball", "")], "a", "lacks 'dog'"),
    ):
        found = check_edited_caption(caption, edited, edits, ())
        assert (found is None) if problem is None else (problem in (found or "")), found
        kept = "the edited caption changes 'bus', which may not change"
        assert check_edited_caption(BUS, "a blue truck at night", [RED], ("at", "bus")) == kept, "looked for first"


def test_what_is_said_beside_the_edits() -> None:
    for caption, edits, edited, problem, beside in (
        # Nothing else changed: with the edits set back it is the caption.
        (BENCH, [RED], "Two men, on a blue bench.", None, None),
        ("a red car at noon.", [edit("red car", "tan"), edit("noon", "night")], "A tan car at night", None, None),
        ("a dog on grass", [edit("dog", "dog in the snow")], "a dog in the snow on grass", None, None),
        ("a dog on grass", [edit("grass", "grass, wet")], "a dog on grass, wet", None, None),
        (TWICE, [edit("brown", "black")], "a black dog. the black dog and a black cat", None, None),
        ("red cars stand", [edit("red cars", "shiny red cars")], "shiny red cars stand", None, None),
        ("dogs run", [edit("dogs", "wet dogs")], "the wet dogs run", None, None),
        # Words of an edit elsewhere: instead of its place, beside it, behind a kept word, at the end.
        ("a red car by a bus", [RED], "a car by a Blue bus", "'Blue' where", "a red car by a blue bus"),
        ("a red car by a bus", [RED], "a blue car by a blue bus", "'blue' where", "a red car by a blue bus"),
        ("a red car by a bus", [RED], "a blue car by a bus, blue", "'blue' where", "a red car by a bus blue"),
        ("red cars by grass", WALLS, "blue tall cars by walls", "'tall' where", "red tall cars by grass"),
        ("a dog sits", [edit("dog", "dog in snow")], "a dog sits in snow", "still says 'dog'", "a dog sits in snow"),
        # Small words may change anywhere; they stay in what is said beside the edits.
        (BENCH, [RED], "two men by the blue bench", None, "two men by a red bench"),
        ("two men are on a red bench", [RED], "two men on a blue bench", None, "two men on a red bench"),
        ("the men on a red bench", [RED], "men were on a blue bench", None, "men were on a red bench"),
        ("the car on grass", [edit("car", "bus")], "the bus by grass", None, "the car by grass"),
        ("wet is red", [RED], "wet the blue", None, "wet the red"),
        ("cars is red", [RED], "cars blue", None, "cars red"),
        ("red on walls", [edit("red", "x")], "in x at walls", None, "red at walls"),
    ):
        found = check_edited_caption(caption, edited, edits, ())
        assert (found is None) if problem is None else (problem in (found or "")), found
        assert set_back(caption, edited, edits) == (plain_words(caption) if beside is None else beside)


def test_what_is_added_or_removed_by_rule_may_stand_anywhere_and_words_have_no_marks_or_capitals() -> None:
    assert plain_words("A dog\u2019s (old) Ball-game, 2.") == "a dog's old ball-game 2"
    with pytest.raises(ValueError, match="does not stand in"):
        set_back("a dog", "a cat", [RED])
    rain, ball = Edit("weather", "", "in the rain"), Edit("object", "with a ball", "")
    caption, edited = "a red dog with a ball. a man sits", "a blue dog in the rain. a man sits"
    assert check_edited_caption(caption, edited, [RED, rain, ball], ()) is None
    assert check_edited_caption(caption, "a blue dog. a in the rain man sits", [RED, rain, ball], ()) is None


COAST = "a photo of a blue van on a street that runs straight after dark by the sea. a man in red is on the sidewalk."
STRAIGHT, DAY = edit("that runs straight", "that bends to the right"), edit("after dark", "by day")
BENDS, BY_DAY = ("runs straight", "bends to the right"), ("after dark", "by day")


def test_what_rules_write_is_in_order_whatever_words_are_shared() -> None:
    for edits, changes in (
        # Neighbours and edits share small words: "by", "the", "a".
        ([DAY], [BY_DAY]),
        ([edit("by the sea", "in the dark wood")], [("by the sea", "in the dark wood")]),
        ([STRAIGHT, edit("by the sea", "in a forest")], [BENDS, ("by the sea", "in a forest")]),
        # The noun or the small word of a keyword stays beside its alternative.
        ([edit("blue van", "dark blue")], [("blue", "dark blue")]),
        ([edit("in red", "white"), STRAIGHT], [("in red", "in white"), BENDS]),
        ([edit("a photo", "etching"), DAY], [("a photo", "an etching"), BY_DAY]),
        # What is added and removed goes where rules put it, capitals and marks aside.
        ([DAY, edit("", "a sketch of")], [BY_DAY, ("a photo", "A sketch of a photo")]),
        ([DAY, edit("by the sea", "")], [("after dark by the sea", "by day")]),
    ):
        edited = COAST
        for old, new in changes:
            edited = edited.replace(old, new)
        assert written_by_rule(COAST, edited, edits)
        assert check_edited_caption(COAST, edited, edits, ("van", "street")) is None
        for wrong in (f"{edited} quite", edited.replace("sidewalk", "bench"), edited.replace("van", "car")):
            assert check_edited_caption(COAST, wrong, edits, ()) is not None


def test_the_noun_that_an_alternative_leaves_out_is_the_last_word() -> None:
    assert written_by_rule("a dark red car", "a bright red car", [edit("dark red car", "bright red")])
    assert not written_by_rule("a dark red car", "a bright red car red", [edit("dark red car", "bright red")])


def test_rules_bring_no_other_words_than_a_keyword_s_own() -> None:
    for caption, keyword, alternative, edited in (
        (COAST, "after dark", "by day", COAST.replace("after dark", "by day dark")),
        ("a red car", "red car", "blue car", "a blue car car"),
        ("a car in red", "in red", "white", "a car the white"),
        ("a red car", "grey", "blue", "a blue car"),
    ):
        assert not written_by_rule(caption, edited, [edit(keyword, alternative)])


POCKET = Path(__file__).parents[2] / "engine" / "pocket" / "weights" / "clip_tokenizer.json"
CAPTION = "a sky. a dog on a lawn. grass is green."


def test_the_least_useful_sentence_goes_first() -> None:
    for caption, keep, read, fitted in (
        (CAPTION, ("dog",), 38, CAPTION),  # a full stop is no loss
        (CAPTION, ("dog",), 37, "a sky. a dog on a lawn."),
        (CAPTION, ("dog",), 22, "a sky. a dog on a lawn."),
        (CAPTION, ("dog",), 21, "a dog on a lawn."),
        (CAPTION, ("dog",), 3, "a dog on a lawn."),
        ("up. a dog! a dog and a cat", ("dog", "cat"), 20, "a dog and a cat"),
    ):
        assert fit_caption(caption, keep, lambda text, read=read: min(read, len(text))) == fitted


def test_an_edit_that_is_not_read_is_a_reason_and_the_encoder_s_own_tokenizer_says_what_is_read() -> None:
    edited = "a dog on sand in the rain"
    reason = "the text encoder reads the first 24 of its 25 characters, and 'rain' is behind"
    for caption, read, expected in (
        ("a dog on grass", 25, None),
        ("a dog on grass", 24, reason),
        ("a dog on grass in the rain", 13, None),
    ):
        assert cut_edit(caption, edited, lambda _, read=read: read) == expected
    tokenizer = Tokenizer.from_str(POCKET.read_text(encoding="utf-8"))
    assert read_chars(tokenizer, "a red bus") == 9
    # 64 tokens, of which one begins the text and one ends it.
    assert read_chars(tokenizer, " ".join(["bus"] * 100)) == len(" ".join(["bus"] * 62))
