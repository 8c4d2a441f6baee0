"""Captions that were cut end with a clause, and long ones are shortened, never dropped."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterfactory.engine.models.clauses import shorten, to_clause

CUT = [
    ("The image shows a black car. It is parked on the", "The image shows a black car."),
    (
        "The image shows a street with cars. There is a tree, a man with a",
        "The image shows a street with cars. There is a tree",
    ),
    ("a man in a hat, a dog and a", "a man in a hat"),
    (
        "The image shows a black car parked on a wide road and a stop",
        "The image shows a black car parked on a wide road",
    ),
    ("a sign says 1,000 people live here near 2.5 lakes in the", "a sign says 1,000 people live here"),
    ("a very long line of words that go", "a very long line of words"),
    ("a red bus on the wet", "a red bus"),
    ('a sign that says "stop here." and a man', 'a sign that says "stop here.'),
    ("red bus", "red bus"),
    ("", ""),
]


@pytest.mark.parametrize(("text", "wanted"), CUT)
def test_what_ran_out_of_tokens_ends_with_a_clause(text: str, wanted: str) -> None:
    assert to_clause(text) == wanted


words = st.lists(
    st.sampled_from(["a", "red", "bus", "and", "street,", "rain.", "with", "the", "1,000", "x" * 30]), max_size=40
)


@given(words=words, most=st.integers(1, 120))
def test_a_shortened_text_fits_and_begins_as_the_whole_does(words: list[str], most: int) -> None:
    text = " ".join(words)
    found = shorten(text, most)
    assert len(found) <= most
    assert text.startswith(found)
    assert (found == text) == (len(text) <= most)
    assert bool(found) == bool(text)
    assert found == found.strip()


@given(words=words)
def test_cutting_back_twice_changes_nothing_that_ended_with_a_mark(words: list[str]) -> None:
    found = to_clause(" ".join(words))
    assert " ".join(words).startswith(found)
    if found.endswith("."):
        assert to_clause(found) == found


def test_sentences_that_fit_are_kept_whole() -> None:
    text = "A man rides a horse. The sky is blue, and the grass is wet. A dog runs."
    assert shorten(text, 60) == "A man rides a horse. The sky is blue, and the grass is wet."
    assert shorten(text, 59) == "A man rides a horse. The sky is blue, and the grass is wet."
    assert shorten(text, 50) == "A man rides a horse. The sky is blue"
    assert shorten(text, len(text)) == text
