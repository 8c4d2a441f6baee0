"""Where a caption says a phrase, by tables, and as one regular expression has it."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterfactory.engine.language.phrases import HEADS, _places, find_mentions, goes_on, phrase_class


@pytest.mark.parametrize(
    ("caption", "keywords", "expected"),
    [
        ("a red car", ["red"], [["+a red"]]),
        ("in the grass", ["grass", "in"], [["+grass"], ["+in"]]),
        ("in the grass", ["in", "grass"], [["+in"], ["+grass"]]),
        ("red cars, red bus, red, red is the red car", ["red"], [["+red", "-red", "+red", "+red", "-the red"]]),
        ("red cars are red", ["red cars", "red"], [["+red cars"], ["+red"]]),
        ("red cars are red", ["red", "cars"], [["+red", "+red"], ["+cars"]]),
        ("red-hot, red's, x_red, RED", ["red"], [["+red", "+RED"]]),
        ("\u00e9red a red", ["red"], [["+a red"]]),
        ("a dog at the dog", ["dog"], [["+a dog", "+at the dog"]]),
    ],
)
def test_mentions(caption: str, keywords: list[str], expected: list[list[str]]) -> None:
    found = find_mentions(caption, keywords)
    assert [["-+"[m.same] + caption[m.start : m.end] for m in some] for some in found] == expected


def test_a_keyword_without_a_place_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^'red' does not stand in 'red-hot red cars' beside the other keywords$"):
        find_mentions("red-hot red cars", ["red cars", "red"])


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("in the rain", "place"),
        ("With a dog", "place"),
        ("Its tail", "article"),
        ("inner city", "bare"),
        ("dogs", "bare"),
    ],
)
def test_what_a_phrase_begins_with(words: str, expected: str) -> None:
    assert phrase_class(words) == expected


def test_an_alternative_that_goes_on_has_the_whole_keyword_first() -> None:
    assert goes_on("Dog", "dog in the snow")
    assert not goes_on("dog", "dog")
    assert not goes_on("dog", "doghouse in the snow")
    assert not goes_on("dog", "a dog in the snow")


def places_by_one_expression(caption: str, keyword: str) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """The same as a regular expression has it, which is slow to make for every keyword."""
    before, after = r"(?<![^\W_])(?<![^\W_]['\u2019-])", r"(?![^\W_])(?!['\u2019-][^\W_])"
    place = rf"{before}(?:(?:{'|'.join(HEADS)}) )?({re.escape(keyword)}){after}"
    return [(found.span(), found.span(1)) for found in re.finditer(place, caption, re.IGNORECASE)]


WORDS = ["a", "A", "an", "The", "in the", "during the", "at", "red", "Red", "redder", "bus", "a red", "on", "d'or", "_"]
JOINTS = [" ", " ", " ", "-", "'", ", ", ""]
pieces = st.lists(st.tuples(st.sampled_from(WORDS), st.sampled_from(JOINTS)), min_size=1, max_size=9)


@settings(max_examples=200)
@given(pieces, st.sampled_from(["red", "a", "the", "in the", "red bus", "RED", "bus", "a red", "at", "or"]))
def test_places_are_those_of_the_expression(parts: list[tuple[str, str]], keyword: str) -> None:
    caption = "".join(word + joint for word, joint in parts)
    assert _places(caption, keyword) == places_by_one_expression(caption, keyword)


@given(st.text(st.sampled_from("aİßǅ red'-bus"), max_size=24), st.sampled_from(["red", "ß", "a", "İ"]))
def test_places_of_odd_letters_are_within_the_caption(caption: str, keyword: str) -> None:
    for headed, bare in _places(caption, keyword):
        assert 0 <= headed[0] <= bare[0] < bare[1] == headed[1] <= len(caption)
        assert caption[slice(*bare)].casefold() == keyword.casefold()
