"""Tokens of two captions aligned: against slow, obvious ways to say the same."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterfactory.engine.language.token_filter import load_tokenizer
from counterfactory.engine.models.alignment import CaptionTokens, align, follow_nobody, read_tokens
from counterfactory.engine.profile.profile import load_profile

SIZE, BEGIN, END = 12, 90, 91


def caption(*words: str) -> CaptionTokens:
    """Words of letters, each letter a token; padded with the end, as CLIP's tokenizer does."""
    inside = [(ord(letter), number) for number, word in enumerate(words) for letter in word]
    ids = [BEGIN, *(token for token, _ in inside), END]
    places = [None, *(number for _, number in inside), None]
    missing = SIZE - len(ids)
    return CaptionTokens((*ids, *[END] * missing), (*places, *[None] * missing))


WORDS = st.lists(st.text("abc", min_size=1, max_size=3), min_size=0, max_size=3)


def attention(tokens: CaptionTokens, seed: int = 0) -> np.ndarray:
    drawn = np.random.default_rng(seed).random(len(tokens.ids)).astype(np.float32) + 0.1
    return drawn / drawn.sum()


def edited_attention(old: CaptionTokens, new: CaptionTokens) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The source's attention, the row's own, and what the alignment makes of them."""
    found = align(old, new)
    source, own = attention(old, 1), attention(new, 2)
    return source, own, source @ found.cross_map + own * found.cross_own


def padding(tokens: CaptionTokens) -> list[int]:
    return list(range(tokens.ids.index(END), SIZE))


@settings(deadline=None)
@given(WORDS, WORDS)
def test_the_beginning_the_end_and_the_padding_follow_their_like(old: list[str], new: list[str]) -> None:
    a, b = caption(*old), caption(*new)
    source, own, found = edited_attention(a, b)
    assert found[0] == pytest.approx(source[0])
    ends, own_ends = padding(a), padding(b)
    for number, place in enumerate(own_ends):
        assert found[place] == pytest.approx(source[ends[number]] if number < len(ends) else own[place])


@settings(deadline=None)
@given(WORDS, WORDS)
def test_as_many_words_are_replaced_one_by_one(old: list[str], new: list[str]) -> None:
    size = min(len(old), len(new))
    old, new = old[:size], new[:size]
    a, b = caption(*old), caption(*new)
    source, _, found = edited_attention(a, b)
    at, into = 1, 1
    for before, after in zip(old, new, strict=True):
        whole = source[at : at + len(before)]
        wanted = whole if len(before) == len(after) else np.full(len(after), whole.sum() / len(after))
        assert found[into : into + len(after)] == pytest.approx(wanted, rel=1e-5)
        marks = align(a, b)
        assert marks.gone[at : at + len(before)].tolist() == [before != after] * len(before)
        assert marks.new[into : into + len(after)].tolist() == [before != after] * len(after)
        at, into = at + len(before), into + len(after)


@settings(deadline=None)
@given(WORDS, WORDS)
def test_other_numbers_of_words_keep_as_many_tokens_as_can_be(old: list[str], new: list[str]) -> None:
    if len(old) == len(new):
        old = old[1:] if old else ["a"]
    a, b = caption(*old), caption(*new)
    found = align(a, b)
    pairs = [(int(i), int(j)) for i, j in zip(*found.cross_map.nonzero(), strict=True)]
    inside = sorted((i, j) for i, j in pairs if a.words[i] is not None)
    assert all(found.cross_map[i, j] == 1 for i, j in pairs)
    assert all(a.ids[i] == b.ids[j] for i, j in inside)
    assert all(i < k and j < m for (i, j), (k, m) in pairwise(inside))
    letters, others = "".join(old), "".join(new)
    # The most letters that both have in their order, by trying every choice of them.
    chosen = ({"".join(c) for c in combinations(text, len(inside) + 1)} for text in (letters, others))
    assert not set.intersection(*chosen)
    kept = {j for _, j in inside}
    for place in b.inside:
        assert found.cross_own[place] == (place not in kept)
        assert found.new[place] == (place not in kept)
    assert found.gone.sum() == len(letters) - len(inside)


def test_of_equal_choices_the_earliest_tokens_stay() -> None:
    found = align(caption("a", "a"), caption("a"))
    assert found.cross_map[1, 1] == 1
    assert found.gone.nonzero()[0].tolist() == [2]


def test_what_the_edit_brought_is_looked_at_more() -> None:
    a, b = caption("ab", "c"), caption("ab", "d", "c")
    plain, more = align(a, b), align(a, b).reweighted(2.0)
    for place in range(SIZE):
        factor = 2 if place == 3 else 1
        assert np.array_equal(more.cross_map[:, place], factor * plain.cross_map[:, place])
        assert more.cross_own[place] == factor * plain.cross_own[place]
    assert plain.cross_own[3] == 1
    replaced = align(caption("ab"), caption("cd")).reweighted(0.5)
    assert replaced.cross_map[1, 1] == replaced.cross_map[2, 2] == 0.5


def test_a_row_that_follows_nobody_keeps_its_own() -> None:
    cross_map, cross_own = follow_nobody(3)
    assert (cross_map.dtype, cross_own.dtype) == (np.float32, np.float32)
    assert cross_map.tolist() == [[0, 0, 0]] * 3
    assert cross_own.tolist() == [1, 1, 1]


def test_other_numbers_of_places_are_refused() -> None:
    short = CaptionTokens((BEGIN, END), (None, None))
    with pytest.raises(ValueError, match="captions have 12 and 2 places: they are of different text encoders"):
        align(caption("a"), short)


def test_words_are_what_spaces_part() -> None:
    tokenizer = load_tokenizer(load_profile("pocket").models.path / "clip_tokenizer.json")
    text = " a red car,  on a foggy street."
    found = read_tokens(tokenizer, text)
    encoded = tokenizer.encode(text)
    assert found.ids == tuple(encoded.ids)
    words = text.split()
    for place in found.inside:
        start, end = encoded.offsets[place]
        word = found.words[place]
        assert word is not None
        assert text[start:end] in words[word]
    assert {word for word in found.words if word is not None} == set(range(len(words)))
    assert [found.words[place] for place in (0, -1)] == [None, None]
    foggy, snowy = (read_tokens(tokenizer, f"a red car on a {weather} street.") for weather in ("foggy", "snowy"))
    (place,) = align(foggy, snowy).new.nonzero()[0]
    assert tokenizer.id_to_token(snowy.ids[place]) == "snowy</w>"
