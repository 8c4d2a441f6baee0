"""Captions within the text encoder's room."""

from __future__ import annotations

from pathlib import Path

import pytest
from tokenizers import Tokenizer

from counterfactory.engine.english.edit_scope import cut_edit, fit_caption
from counterfactory.engine.models.clip import read_chars

POCKET = Path(__file__).parents[2] / "engine" / "pocket" / "weights" / "clip_tokenizer.json"
CAPTION = "a sky. a dog on a lawn. grass is green."


def first(count: int, text: str) -> int:
    return min(count, len(text))


@pytest.mark.parametrize(
    ("room", "fitted"),
    [
        (39, CAPTION),
        (38, CAPTION),  # a full stop is no loss
        (37, "a sky. a dog on a lawn."),
        (22, "a sky. a dog on a lawn."),
        (21, "a dog on a lawn."),
        (3, "a dog on a lawn."),
    ],
)
def test_the_least_useful_sentence_goes_first(room: int, fitted: str) -> None:
    assert fit_caption(CAPTION, ("dog",), lambda text: first(room, text)) == fitted


def test_sentences_with_more_words_to_keep_stay() -> None:
    assert fit_caption("up. a dog! a dog and a cat", ("dog", "cat"), lambda text: first(20, text)) == "a dog and a cat"


def test_an_edit_that_is_not_read_is_a_reason() -> None:
    edited = "a dog on sand in the rain"
    assert cut_edit("a dog on grass", edited, lambda text: first(25, text)) is None
    assert cut_edit("a dog on grass", edited, lambda text: first(24, text)) == (
        "the text encoder reads the first 24 of its 25 characters, and 'rain' is behind"
    )
    assert cut_edit("a dog on grass in the rain", edited, lambda text: first(13, text)) is None


def test_the_encoder_s_own_tokenizer_says_what_is_read() -> None:
    tokenizer = Tokenizer.from_str(POCKET.read_text(encoding="utf-8"))
    assert read_chars(tokenizer, "a red bus") == 9
    long = " ".join(["bus"] * 100)
    # 64 tokens, of which one begins the text and one ends it.
    assert read_chars(tokenizer, long) == len(" ".join(["bus"] * 62))
