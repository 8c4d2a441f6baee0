"""Random edits replace words that are pictured, none that names the label, by words that rules allow."""

from __future__ import annotations

import pytest

from counterfactory.engine.english.words import blank, random_alternatives, random_words

CAPTION = "Two brown dogs sit on the wet grass, by it a man-made pond."


def test_stop_words_short_ones_joined_ones_and_the_label_s_are_left_out() -> None:
    assert random_words(CAPTION, ()) == ["brown", "dogs", "sit", "wet", "grass", "pond"]
    assert random_words(CAPTION, ("dog",)) == ["brown", "sit", "wet", "grass", "pond"]
    assert random_words("The cat and the CAT is on 3 ox by me", ()) == ["cat", "CAT"]
    assert random_words("an ox is up", ()) == []


def test_a_blank_is_what_stands_around_a_word_where_it_stands_first() -> None:
    assert blank("a cat, a Cat and a cat.", "cat") == ("a ", ", a Cat and a cat.")
    assert blank("a catfish by a cat", "cat") == ("a catfish by a ", "")
    with pytest.raises(ValueError, match="'a dog' has no word 'cat'"):
        blank("a dog", "cat")


def test_words_in_the_place_of_one_are_new_and_allowed() -> None:
    found = ["brown", "grass", "the", "ox", "Two", "old", "stylish", "ol-d", "old", "browner", "wild", "puppy"]
    assert random_alternatives(found, "brown", CAPTION, ("dog", "puppy"), ("stylish",)) == ("old", "wild")
