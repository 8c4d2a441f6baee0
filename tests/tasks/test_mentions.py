"""Which words of a caption say how many there are of something."""

from __future__ import annotations

import pytest

from counterfactory.engine.english.mentions import quantities


@pytest.mark.parametrize(
    ("caption", "places"),
    [
        ("two cars", {0}),
        ("two large old red cars", {0}),
        ("two large old mud-covered dark red cars", {0}),
        ("two very large old mud-covered dark red cars", set()),
        ("two dogs and old red cars", set()),
        ("cars seen by two", set()),
        ("a few cars, several men and 3 cars", {2, 28}),
    ],
)
def test_a_number_is_looked_for_in_the_seven_words_before(caption: str, places: set[int]) -> None:
    assert quantities(caption, ["car"]) == places
