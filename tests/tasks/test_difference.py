"""What changed between two captions, as tables and against a slow oracle."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterfactory.engine.english.difference import Change, Difference, Word, compare, words_of

# Old caption, new caption, and each change: place, words gone, place in the new one, words added.
CHANGES = [
    ("a dog on grass", "a dog on grass", []),
    ("a dog on grass", "A dog, on GRASS!", []),
    ("a red bus at night", "a blue bus at night", [(1, "red", 1, "blue")]),
    ("a dog on grass", "a dog on snowy grass in the rain", [(3, "", 3, "snowy"), (4, "", 5, "in the rain")]),
    ("a dog on grass", "a painting of a dog on grass", [(1, "", 1, "painting of a")]),
    ("a small dog on wet grass", "a dog on grass", [(1, "small", 1, ""), (4, "wet", 3, "")]),
    ("a red bus by a red wall", "a bus by a red wall", [(1, "red", 1, "")]),
    ("a red bus by a red wall", "a red bus by a wall", [(5, "red", 5, "")]),
    ("the dog's bowl", "the cat's bowl", [(1, "dog's", 1, "cat's")]),
    ("the dog\u2019s bowl", "the dog's bowl", []),
    ("a half-lit street", "a lit street", [(1, "half-lit", 1, "lit")]),
    ("", "a dog", [(0, "", 0, "a dog")]),
    ("a dog", "", [(0, "a dog", 0, "")]),
    ("a b", "b a", [(0, "a", 0, ""), (2, "", 1, "a")]),
]


@pytest.mark.parametrize(("caption", "edited", "changes"), CHANGES)
def test_changes(caption: str, edited: str, changes: list[tuple[int, str, int, str]]) -> None:
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
