"""Words before a thing stand in English's order, whatever stood there."""

from __future__ import annotations

import pytest

from counterfactory.engine.edit import Edit
from counterfactory.engine.english.edit_scope import check_edited_caption
from counterfactory.engine.english.replacing import write_by_rule
from counterfactory.engine.english.words import in_order


@pytest.mark.parametrize(
    ("caption", "word", "edited"),
    [
        ("a brown dog on grass", "small", "a small brown dog on grass"),
        ("a brown dog on grass", "old", "an old brown dog on grass"),
        ("a light brown dog", "spotted", "a spotted light brown dog"),
        ("a brown and white dog", "big", "a big brown and white dog"),
        ("a brown, white dog", "big", "a big brown, white dog"),
        ("Brown dog on grass", "small", "Small brown dog on grass"),
        ("an old brown dog", "mud-covered", "an old mud-covered brown dog"),
        ("a leather dog", "red", "a red leather dog"),
        ("a silver dog. the dog sits", "dusty", "a dusty silver dog. the dog sits"),
        # What stands there comes first in English, or is not known.
        ("a small dog", "brown", "a small brown dog"),
        ("a small old dog", "wet", "a small old wet dog"),
        ("a brown dog", "red", "a brown red dog"),
        ("a brown dog", "wooden", "a brown wooden dog"),
        ("a brown dog", "clever", "a brown clever dog"),
        ("a tall-brown dog", "small", "a tall-brown small dog"),
        ("a friendly dog", "small", "a friendly small dog"),
        # Another thing's colour.
        ("a dog and a brown dog", "small", "a small dog and a brown small dog"),
        ("a brown cat, a dog", "small", "a brown cat, a small dog"),
    ],
)
def test_words_before_a_thing_are_in_their_order(caption: str, word: str, edited: str) -> None:
    old, new = in_order(caption, "dog", f"{word} dog")
    assert write_by_rule(caption, [(old, new)]) == edited
    assert check_edited_caption(caption, edited, [Edit("adjective", old, new)], ("dog",)) is None


@pytest.mark.parametrize("pair", [("", "small dog"), ("dog", "dog in snow"), ("dog", "cat"), ("brown", "black")])
def test_other_edits_are_left(pair: tuple[str, str]) -> None:
    assert in_order("a brown dog", *pair) == pair
