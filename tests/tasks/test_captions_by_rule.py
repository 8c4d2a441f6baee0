"""Captions written by rule: words in the place of others, articles that agree."""

from __future__ import annotations

import pytest

from counterfactory.engine.english.replacing import agree, write_by_rule


@pytest.mark.parametrize(
    ("caption", "changes", "edited"),
    [
        ("A dog on grass.", [("dog", "old dog")], "An old dog on grass."),
        ("an old dog", [("old", "big")], "a big dog"),
        ("Dog on grass", [("Dog", "wet dog")], "Wet dog on grass"),
        ("a dog. the dog sits", [("dog", "wet dog")], "a wet dog. the wet dog sits"),
        ("a dog on grass", [("on grass", "in a desert"), ("dog", "old dog")], "an old dog in a desert"),
        ("a brown dog and a brown cat", [("brown", "red")], "a red dog and a brown cat"),
        ("a dog", [("dog", "dog in the snow")], "a dog in the snow"),
        ("a dog, the dog", [("dog", "dog in the snow")], "a dog in the snow, the dog"),
        ("a cat.", [], "a cat."),
        ("dog on grass", [("dog", "wet dog")], "wet dog on grass"),
        ("a Red car", [("Red", "blue")], "a blue car"),
    ],
)
def test_replacements(caption: str, changes: list[tuple[str, str]], edited: str) -> None:
    assert write_by_rule(caption, changes) == edited


def test_words_that_are_not_there_are_refused() -> None:
    with pytest.raises(ValueError, match="does not stand in"):
        write_by_rule("a dog", [("cat", "dog")])


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        ("a ", "old", "an "),
        ("An ", "big", "A "),
        ("see a ", "unicycle", "see a "),
        ("an ", "hour", "an "),
        ("a ", "hour", "an "),
        ("the ", "old", "the "),
        ("a ", "e-bike", "an "),
        ("a ", "12", "a "),
        ("a ", "", "a "),
        ("banana ", "old", "banana "),
        ("", "old", ""),
    ],
)
def test_articles_agree(before: str, after: str, found: str) -> None:
    assert agree(before, after) == found
