"""Grammars, and where captions say phrases, against tables, slow oracles, and the other engine that reads grammars."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from counterfactory.engine.language.grammar import (
    Grammar,
    alternatives_grammar,
    edited_grammar,
    keywords_grammar,
    place_grammar,
    proposals_grammar,
    text_grammar,
    values_grammar,
)
from counterfactory.engine.language.phrases import HEADS, _places, find_mentions, goes_on, phrase_class

KEYWORDS = keywords_grammar(("weather", "colour"), ("foggy", "red car", "it's 3.5 (a+b)", "café"), 2)
ALTERNATIVES = alternatives_grammar("at night", 3)
VALUES = values_grammar(("rainy", "Snowy", "very (very) dark"))
TEXT = text_grammar(12, "an été")
EDITED = edited_grammar("a red car on a street at sunset.", [("at sunset", "night"), ("red car", "orange car")])
TWICE = edited_grammar("A red car by a red bus. the red car, red", [("red", "orange")])
ONCE = edited_grammar("a dog. a dog by old grass", [("dog", "dog in the snow"), ("grass", "snowy grass")])
PROPOSALS = proposals_grammar(["dog", "on the grass", "a dog"], ["red bus"], ["on the grass"], "end", 2)
MEDIUM = proposals_grammar([], [], [], "medium", 1)
FRONT = proposals_grammar([], [], [], "front", 1)
WORD = proposals_grammar(["dog"], [], [], "word", 1)
PLACE = place_grammar(["dog", "on the grass"], optional=True)
MOVED = edited_grammar("On grass a dog", [("on grass", "above a red roof")])

# What each grammar takes, and what it does not; every one is asked of llguidance, too.
ACCEPTED: dict[Grammar, tuple[str, ...]] = {
    MOVED: ('"Above a red roof a dog"', '"above a red roof a dog"'),
    PROPOSALS: (
        *('[["dog","caf\u00e9 owner\'s 1950s Dog"]]', '[["on the grass",""]]', '[["dog","a b c d e f g h"]]'),
        *('[["on the grass","in a 1950s kitchen on Mars"],["","in the rain"]]', '[["a dog","an old half-blind one"]]'),
        *('[["red bus","small old red bus"],["red bus","red bus in the snow"]]', f'[["dog","{"x" * 14}-{"y" * 14}"]]'),
    ),
    FRONT: ('[["","a painting of"]]', '[["","an old pencil sketch of"]]'),
    MEDIUM: ('[["","a painting of"]]', '[["","a pencil sketch of"]]'),
    WORD: ('[["dog","cat"]]',),
    PLACE: ('"dog"', '""'),
    TWICE: (
        '"An orange car by an orange bus. the orange car, orange"',
        '"Orange car by a red bus. orange car, the orange"',
    ),
    ONCE: ('"a dog in the snow. a dog by old snowy grass"',),
    EDITED: (
        *('"an orange car on a street at night."', '"the orange car on a street during night."'),
        '"orange car on a street at the night."',
    ),
    KEYWORDS: (
        *('[["none","none"]]', '[["weather","foggy"]]', '[["weather","foggy"],["colour","red car"]]'),
        *('[["colour","it\'s 3.5 (a+b)"]]', '[["weather","café"]]'),
    ),
    ALTERNATIVES: ('["at noon"]', '["at"]', '["at night time"]', '["during the day","in bright light","dawn"]'),
    VALUES: (*('["rainy"]', '["Snowy"]', '["rainy","very (very) dark"]', '["rainy","Snowy","very (very) dark"]'),),
    TEXT: ('"a red car."', '"un été, oui"', '"x"'),
}
REJECTED: dict[Grammar, tuple[str, ...]] = {
    MOVED: ('"On above a red roof a dog"', '"above a red roof grass a dog"'),
    PROPOSALS: (
        *("[]", '[["dog",""]]', '[["dog","a b c d e f g h i"]]', '[["on the grass","the grass"]]', '[["","rainy"]]'),
        *('[["on the grass","in"]]', '[["a dog","dog"]]', '[["red bus","blue bus"]]', '[["red bus","red bus"]]'),
        *('[["red bus","one two three four red bus"]]', '[["","a painting of"]]', '[["cat","dog"]]'),
        *('[["dog","cat"],["dog","cat"],["dog","cat"]]', f'[["dog","{"x" * 15}"]]', '[["dog","12345"]]'),
    ),
    MEDIUM: ('[["","a dog on the of"]]', '[["","an old pencil sketch of"]]', '[["","painting of"]]'),
    FRONT: ('[["","painting of"]]', '[["","a painting"]]', '[["","in the rain"]]'),
    WORD: ('[["","in the rain"]]',),
    PLACE: ('"grass"',),
    place_grammar(["dog"], optional=False): ('""',),
    TWICE: (
        *('"An orange car by an orange bus. the red car, orange"', '"A red car by a red bus. the orange car, orange"'),
        '"An orange car by an orange bus. the orange car, red"',
    ),
    ONCE: (
        '"a dog in the snow. a dog in the snow by old snowy grass"',
        '"a dog. a dog in the snow by old snowy grass"',
    ),
    EDITED: (
        *('"a red car on a street at night."', '"a orange car on a street at night."'),
        *('"an orange car on the street at night."', '"an orange car car on a street at night."'),
        *('"an orange bus on a street at night."', '"an orange car on a street at night. snow falls."'),
    ),
    KEYWORDS: (
        *(
            "[]",
            '[["weather","fog"]]',
            '[["place","foggy"]]',
            '[["weather","it\'s 3x5 (a+b)"]]',
            '[["weather","foggy"],]',
        ),
        *('[["weather", "foggy"]]', '[["weather","foggy"],["weather","foggy"],["weather","foggy"]]'),
        '[["weather","foggy"]',
    ),
    ALTERNATIVES: (
        *('["at night"]', '["at noon","at night"]', '["at night "]', '["At Night"]', "[]", '[""]', '["a","b","c","d"]'),
        *('["a  b"]', '["-a"]', '["a1"]'),
    ),
    VALUES: ("[]", '["rainy","rainy"]', '["Snowy","rainy"]', '["snowy"]'),
    TEXT: (*('""', '"a red car is"'[:-1], '"thirteen char"', '"a "b" c"', '"a\\nb"', '"na\u00efve"', "a red car"),),
}


def accepted_by_llguidance(grammar: Grammar, text: str) -> bool:
    llguidance = pytest.importorskip("llguidance")
    tokenizer = llguidance.LLTokenizer("byte")
    matcher = llguidance.LLMatcher(tokenizer, llguidance.LLMatcher.grammar_from_regex(grammar.pattern))
    assert not matcher.get_error(), matcher.get_error()
    tokens = list(text.encode())
    return matcher.try_consume_tokens(tokens) == len(tokens) and bool(matcher.is_accepting())


@pytest.mark.parametrize(("grammar", "answers"), ACCEPTED.items())
def test_accepts(grammar: Grammar, answers: tuple[str, ...]) -> None:
    for answer in answers:
        assert grammar.allows(answer), answer
        assert accepted_by_llguidance(grammar, answer), answer
        json.loads(answer)
        assert len(answer.encode()) <= grammar.longest_bytes


@pytest.mark.parametrize(("grammar", "answers"), REJECTED.items())
def test_rejects(grammar: Grammar, answers: tuple[str, ...]) -> None:
    for answer in answers:
        assert not grammar.allows(answer), answer
        assert not accepted_by_llguidance(grammar, answer), answer


words = st.text("abc", min_size=1, max_size=3)
phrases = st.lists(words, min_size=1, max_size=3).flatmap(
    lambda parts: st.lists(st.sampled_from(" -"), min_size=len(parts) - 1, max_size=len(parts) - 1).map(
        lambda joins: parts[0] + "".join(j + p for j, p in zip(joins, parts[1:], strict=True))
    )
)


@settings(max_examples=100)
@given(phrases, phrases)
@example("a", "a a")
@example("a a", "a")
@example("ab", "ab-c")
@example("a-b", "a b")
def test_an_alternative_is_any_phrase_but_the_keyword(keyword: str, value: str) -> None:
    assert alternatives_grammar(keyword, 1).allows(f'["{value}"]') == (value != keyword)


@settings(max_examples=40)
@given(st.text(max_size=12).filter(lambda k: k.strip()), st.data())
def test_no_answer_repeats_the_keyword_whatever_its_letters(keyword: str, data: st.DataObject) -> None:
    grammar = alternatives_grammar(keyword, 2)
    answer = data.draw(st.from_regex(grammar.pattern, fullmatch=True))
    for value in json.loads(answer):
        assert value.strip().casefold() != keyword.strip().casefold()
        assert re.fullmatch("[a-z]+([ -][a-z]+)*", value)
    # Room is for words of up to 14 letters: longer ones are cut off, and such an answer is not read.
    if max(map(len, re.findall("[a-z]+", answer))) <= 14:
        assert len(answer.encode()) <= grammar.longest_bytes


plain_text = st.text(st.characters(exclude_characters='"\\', exclude_categories=["C", "Z"]), min_size=1, max_size=8)


REFUSED = [
    *((keywords_grammar, ([], ["a"], 1)), (keywords_grammar, (["a"], [], 1)), (keywords_grammar, (["a"], ["b"], 0))),
    *((keywords_grammar, (["a"], ['b"'], 1)), (keywords_grammar, (["a"], ["b\\"], 1)), (place_grammar, ([], True))),
    *((proposals_grammar, ([], [], [], "word", 1)), (proposals_grammar, (["a"], [], [], "end", 0))),
    *((alternatives_grammar, (" ", 1)), (alternatives_grammar, ("a", 0)), (values_grammar, ([],))),
    *((values_grammar, (["a\nb"],)), (text_grammar, (0,))),
]


@pytest.mark.parametrize(("make", "asked"), REFUSED)
def test_what_cannot_be_answered_is_refused(make: Callable[..., Grammar], asked: tuple[object, ...]) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        make(*asked)


choices = st.text("ab -'(|)", min_size=1, max_size=5) | plain_text


@settings(max_examples=100)
@given(st.lists(choices, min_size=1, max_size=5), st.integers(0, 9))
def test_a_choice_is_each_of_its_texts_and_nothing_else(texts: list[str], at: int) -> None:
    grammar = keywords_grammar(["x"], texts, 1)
    for text in [*texts, texts[at % len(texts)] + "a", texts[at % len(texts)][:-1]]:
        answer = f'[["x","{text}"]]'
        assert grammar.allows(answer) == (text in texts)
        assert text not in texts or len(answer.encode()) <= grammar.longest_bytes


def test_mentions() -> None:
    for caption, keywords, expected in (
        ("a red car", ["red"], [["+a red"]]),
        ("in the grass", ["grass", "in"], [["+grass"], ["+in"]]),
        ("in the grass", ["in", "grass"], [["+in"], ["+grass"]]),
        ("red cars, red bus, red, red is the red car", ["red"], [["+red", "-red", "+red", "+red", "-the red"]]),
        ("red cars are red", ["red cars", "red"], [["+red cars"], ["+red"]]),
        ("red cars are red", ["red", "cars"], [["+red", "+red"], ["+cars"]]),
        ("red-hot, red's, x_red, RED", ["red"], [["+red", "+RED"]]),
        ("\u00e9red a red", ["red"], [["+a red"]]),
        ("a dog at the dog", ["dog"], [["+a dog", "+at the dog"]]),
    ):
        found = find_mentions(caption, keywords)
        assert [["-+"[m.same] + caption[m.start : m.end] for m in some] for some in found] == expected


def test_a_keyword_without_a_place_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^'red' does not stand in 'red-hot red cars' beside the other keywords$"):
        find_mentions("red-hot red cars", ["red cars", "red"])


def test_what_a_phrase_begins_with_and_an_alternative_that_goes_on_has_the_whole_keyword_first() -> None:
    kinds = {"in the rain": "place", "With a dog": "place", "Its tail": "article", "inner city": "bare", "dogs": "bare"}
    assert {words: phrase_class(words) for words in kinds} == kinds
    assert goes_on("Dog", "dog in the snow")
    assert not goes_on("dog", "dog")
    assert not goes_on("dog", "doghouse in the snow")
    assert not goes_on("dog", "a dog in the snow")


def places_by_one_expression(caption: str, keyword: str) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """The same as a regular expression has it, which is slow to make for every keyword."""
    before, after = r"(?<![^\W_])(?<![^\W_]['\u2019-])", r"(?![^\W_])(?!['\u2019-][^\W_])"
    place = rf"{before}(?:(?:{'|'.join(HEADS)}) )?({re.escape(keyword)}){after}"
    return [(found.span(), found.span(1)) for found in re.finditer(place, caption, re.IGNORECASE)]


WORDS = ["a", "A", "an", "The", "in the", "during the", "at", "red", "Red", "redder", "bus", "a red", "on", "d'or", "_"]
JOINTS = [" ", " ", " ", "-", "'", ", ", ""]
pieces = st.lists(st.tuples(st.sampled_from(WORDS), st.sampled_from(JOINTS)), min_size=1, max_size=9)


@settings(max_examples=200)
@given(pieces, st.sampled_from(["red", "a", "the", "in the", "red bus", "RED", "bus", "a red", "at", "or"]))
def test_places_are_those_of_the_expression(parts: list[tuple[str, str]], keyword: str) -> None:
    caption = "".join(word + joint for word, joint in parts)
    assert _places(caption, keyword) == places_by_one_expression(caption, keyword)


@given(st.text(st.sampled_from("aİßǅ red'-bus"), max_size=24), st.sampled_from(["red", "ß", "a", "İ"]))
def test_places_of_odd_letters_are_within_the_caption(caption: str, keyword: str) -> None:
    for headed, bare in _places(caption, keyword):
        assert 0 <= headed[0] <= bare[0] < bare[1] == headed[1] <= len(caption)
        assert caption[slice(*bare)].casefold() == keyword.casefold()
