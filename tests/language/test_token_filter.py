"""Token filters against a slow oracle: which tokens of a small vocabulary some answer of the grammar goes on with."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import regex
from tiny_llama import byte_level
from tokenizers import Tokenizer, decoders, models, normalizers, trainers

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.language.grammar import (
    Grammar,
    alternatives_grammar,
    edited_grammar,
    keywords_grammar,
    text_grammar,
    values_grammar,
)
from counterfactory.engine.language.token_filter import TokenFilter, TokenVocabulary, allowed, read_vocabulary

KEYWORDS = keywords_grammar(("weather", "colour"), ("foggy", "red car", "café"), 2)
ALTERNATIVES = alternatives_grammar("at night", 3)
VALUES = values_grammar(("rainy", "Snowy", "very (very) dark"))
TEXT = text_grammar(12, "un été")
EDITED = edited_grammar("a red car on a street at sunset.", [("at sunset", "night"), ("red car", "orange car")])
ANSWERS = [
    (KEYWORDS, '[["weather","foggy"],["colour","red car"]]'),
    (KEYWORDS, '[["weather","café"]]'),
    (KEYWORDS, '[["none","none"]]'),
    (ALTERNATIVES, '["during the day","in bright light","dawn"]'),
    (ALTERNATIVES, '["at-nigh"]'),
    (alternatives_grammar("dusk", 1), '["dawn"]'),
    (VALUES, '["rainy","very (very) dark"]'),
    (TEXT, '"un été, oui"'),
    (EDITED, '"an orange car on a street at night."'),
    (EDITED, '"orange car on a street during night."'),
]
TEXTS = [answer for _, answer in ANSWERS] * 9 + ["brick buildings stand along the road."] * 5


def sentence_piece() -> Tokenizer:
    """As LLaMA's: a space is a letter, one stands before every text, and what has no token is said byte by byte."""
    made = Tokenizer(models.BPE(byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    made.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    made.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    special = ["<unk>", "<s>", "</s>"]
    bytes_ = [f"<0x{byte:02X}>" for byte in range(256)]
    plain = [text.replace("é", "e") for text in TEXTS]  # so that é has no token of its own
    made.train_from_iterator(
        plain, trainers.BpeTrainer(vocab_size=360, special_tokens=special + bytes_, show_progress=False)
    )
    read = json.loads(made.to_str())
    read["added_tokens"] = [token for token in read["added_tokens"] if token["content"] in special]
    return Tokenizer.from_str(json.dumps(read))


KINDS = {
    "byte_level": lambda: byte_level(TEXTS, 330, ["<s>", "</s>"]),
    "spaced": lambda: byte_level(TEXTS, 330, ["<s>", "</s>"], space_before=True),
    "sentence_piece": sentence_piece,
}


@pytest.fixture(scope="module", params=KINDS)
def vocabulary(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> TokenVocabulary:
    tokenizer = KINDS[request.param]()
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    tokenizer.save(str(path))
    return read_vocabulary(path, tokenizer.token_to_id("</s>"))


def pieces(vocabulary: TokenVocabulary) -> list[bytes]:
    """What each token says; the special ones nothing."""
    of = vocabulary.tokens
    return [b"" if of.is_special_token(t) else bytes(of.decode_bytes([t])) for t in range(vocabulary.size)]


def may_begin(grammar: Grammar, said: bytes) -> bool:
    """Whether some answer of the grammar begins so; a character that is cut in two counts by every way to close it."""
    try:
        return regex.fullmatch(grammar.pattern, said.decode(), partial=True) is not None
    except UnicodeDecodeError:
        beyond = [c.encode() for c in sorted(set(grammar.pattern)) if not c.isascii()]
        return any(
            regex.fullmatch(grammar.pattern, (said[:-cut] + c).decode(), partial=True) is not None
            for cut in range(1, 4)
            for c in beyond
            if c[:cut] == said[-cut:] and len(c) > cut and _is_text(said[:-cut])
        )


def _is_text(said: bytes) -> bool:
    try:
        said.decode()
    except UnicodeDecodeError:
        return False
    return True


def oracle(grammar: Grammar, said: bytes, vocabulary: TokenVocabulary) -> set[int]:
    """The tokens that some answer goes on with, every one of them asked."""
    going_on = {t for t, piece in enumerate(pieces(vocabulary)) if piece and may_begin(grammar, said + piece)}
    ends = _is_text(said) and grammar.allows(said.decode())
    return going_on | ({vocabulary.end} if ends else set())


@pytest.mark.parametrize(("grammar", "answer"), ANSWERS)
def test_masks_are_the_oracles_along_every_answer(grammar: Grammar, answer: str, vocabulary: TokenVocabulary) -> None:
    answer_filter = TokenFilter(vocabulary, grammar)
    free = 0
    spelled = pieces(vocabulary)
    for token in vocabulary.tokens.tokenize_str(answer):
        said = b"".join(spelled[t] for t in answer_filter.tokens)
        mask = set(allowed(answer_filter.mask(), vocabulary.size).nonzero()[0].tolist())
        possible = oracle(grammar, said, vocabulary)
        forced = answer_filter.forced()
        if forced:
            # One way to go on in bytes; of its spellings one.
            assert mask == {forced[0]} <= possible
            run = b"".join(spelled[t] for t in forced)
            assert all(run.startswith(spelled[t]) or spelled[t].startswith(run) for t in possible)
        else:
            assert mask == possible
            free += 1
        answer_filter.accept(token if token in mask else forced[0])
        if answer_filter.closed or not answer.encode().startswith(b"".join(spelled[t] for t in answer_filter.tokens)):
            break
    assert free
    assert answer.startswith(answer_filter.text)


SAID_TWICE = [
    KEYWORDS,
    keywords_grammar(("a/b",), ("and/or", "w (x)", "isn't", "100 %", "…"), 1),
    ALTERNATIVES,
    alternatives_grammar("t-shirt", 1),
    EDITED,
    edited_grammar("Un été à l'ombre (50 %); rien/tout?", [("été", "hiver (froid)")]),
    TEXT,
]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("grammar", [*SAID_TWICE, VALUES])
def test_every_way_through_the_masks_is_an_answer_and_a_schema_says_what_the_expression_says(
    grammar: Grammar, seed: int, vocabulary: TokenVocabulary
) -> None:
    assert (grammar.schema is None) == (grammar is VALUES)
    by_schema, whole = (TokenFilter(vocabulary, one) for one in (grammar, replace(grammar, schema=None)))
    drawn = random.Random(seed)
    enders = [t for t, piece in enumerate(pieces(vocabulary)) if piece[-1:] in (b'"', b"]")]
    while not whole.closed:
        mask = whole.mask()
        assert np.array_equal(by_schema.mask(), mask)
        assert by_schema.forced() == whole.forced()
        choices = allowed(mask, vocabulary.size).nonzero()[0].tolist()
        if len(whole.tokens) > 40:  # letters are not counted: go where it ends
            choices = [t for t in choices if t in enders] or choices
        token = drawn.choice(choices)
        for one in (by_schema, whole):
            one.accept(token)
    assert by_schema.closed
    assert grammar.allows(whole.text)
    assert json.loads(whole.text)
    assert whole.forced() == (vocabulary.end,)


def test_forced_tokens_lead_to_the_first_choice_and_no_further(vocabulary: TokenVocabulary) -> None:
    answer_filter = TokenFilter(vocabulary, Grammar(r'"the car is (?:red|blue) and stands here"', 40))
    assert answer_filter.follow_forced(40) == answer_filter.tokens
    assert not answer_filter.forced()
    assert '"the car is '.startswith(answer_filter.text)
    assert len(answer_filter.text) >= len('"the car')
    whole = TokenFilter(vocabulary, Grammar('"one way to say it"', 19))
    assert vocabulary.text(whole.follow_forced(4)) == '"one way to say it"'[: len(whole.text)]
    assert len(whole.tokens) == 4
    whole.follow_forced(40)
    assert whole.text == '"one way to say it"'
    assert vocabulary.end not in whole.tokens


def test_what_no_answer_holds_is_refused(vocabulary: TokenVocabulary) -> None:
    answer_filter = TokenFilter(vocabulary, VALUES)
    wrong = next(t for t, piece in enumerate(pieces(vocabulary)) if piece == b"q")
    with pytest.raises(ValueError, match="cannot follow ''"):
        answer_filter.accept(wrong)
    with pytest.raises(ValueError, match="grammar"):
        TokenFilter(vocabulary, Grammar("(?:a", 1))
    with pytest.raises(ValueError, match="grammar"):
        TokenFilter(vocabulary, Grammar("a", 1, '{"type": "none such"}'))


def test_a_wide_head_has_tokens_that_are_never_allowed() -> None:
    mask = np.array([0b101, 1 << 31 - 1], np.int32)
    assert allowed(mask, 64).nonzero()[0].tolist() == [0, 2, 62]
    assert allowed(mask, 70).nonzero()[0].tolist() == [0, 2, 62]
    assert allowed(mask, 70).shape == (70,)
    assert allowed(mask, 2).tolist() == [True, False]


def test_a_missing_or_broken_tokenizer_is_named(tmp_path: Path) -> None:
    with pytest.raises(CounterfactoryError, match=r"tokenizer\.json is missing"):
        read_vocabulary(tmp_path / "tokenizer.json", 2)
    for text in ("{", "[]", "{}", '{"model": 3}'):
        (tmp_path / "tokenizer.json").write_text(text)
        with pytest.raises(CounterfactoryError, match="no tokenizer of the tokenizers library"):
            read_vocabulary(tmp_path / "tokenizer.json", 2)
    # Rust's panics are no Exception: of a token of 2,000 letters llguidance makes one.
    read = json.loads(KINDS["byte_level"]().to_str())
    read["model"]["vocab"]["a" * 2000] = len(read["model"]["vocab"])
    (tmp_path / "tokenizer.json").write_text(json.dumps(read))
    with pytest.raises(CounterfactoryError, match=r"tokenizer\.json is no tokenizer of .*: assertion failed"):
        read_vocabulary(tmp_path / "tokenizer.json", 1)
