"""Where a caption says a phrase, by tables."""

from __future__ import annotations

import pytest

from counterfactory.engine.language.phrases import find_mentions, goes_on, phrase_class


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
