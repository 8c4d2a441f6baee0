"""Grammars against tables, against slow oracles, and against the other engine that reads them (llguidance)."""

from __future__ import annotations

import json
import re

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

ACCEPTED = [
    (MOVED, '"Above a red roof a dog"'),
    (MOVED, '"above a red roof a dog"'),
    (PROPOSALS, '[["dog","caf\u00e9 owner\'s 1950s Dog"]]'),
    (PROPOSALS, '[["on the grass","in a 1950s kitchen on Mars"],["","in the rain"]]'),
    (PROPOSALS, '[["on the grass",""]]'),
    (PROPOSALS, '[["a dog","an old half-blind one"]]'),
    (PROPOSALS, '[["red bus","small old red bus"],["red bus","red bus in the snow"]]'),
    (PROPOSALS, '[["dog","a b c d e f g h"]]'),
    (PROPOSALS, f'[["dog","{"x" * 14}-{"y" * 14}"]]'),
    (FRONT, '[["","a painting of"]]'),
    (FRONT, '[["","an old pencil sketch of"]]'),
    (MEDIUM, '[["","a painting of"]]'),
    (MEDIUM, '[["","a pencil sketch of"]]'),
    (WORD, '[["dog","cat"]]'),
    (PLACE, '"dog"'),
    (PLACE, '""'),
    (TWICE, '"An orange car by an orange bus. the orange car, orange"'),
    (TWICE, '"Orange car by a red bus. orange car, the orange"'),
    (ONCE, '"a dog in the snow. a dog by old snowy grass"'),
    (KEYWORDS, '[["none","none"]]'),
    (EDITED, '"an orange car on a street at night."'),
    (EDITED, '"the orange car on a street during night."'),
    (EDITED, '"orange car on a street at the night."'),
    (KEYWORDS, '[["weather","foggy"]]'),
    (KEYWORDS, '[["weather","foggy"],["colour","red car"]]'),
    (KEYWORDS, '[["colour","it\'s 3.5 (a+b)"]]'),
    (KEYWORDS, '[["weather","café"]]'),
    (ALTERNATIVES, '["at noon"]'),
    (ALTERNATIVES, '["at"]'),
    (ALTERNATIVES, '["at nigh"]'),
    (ALTERNATIVES, '["at nights"]'),
    (ALTERNATIVES, '["at night time"]'),
    (ALTERNATIVES, '["at-night"]'),
    (ALTERNATIVES, '["during the day","in bright light","dawn"]'),
    (VALUES, '["rainy"]'),
    (VALUES, '["Snowy"]'),
    (VALUES, '["rainy","very (very) dark"]'),
    (VALUES, '["rainy","Snowy","very (very) dark"]'),
    (TEXT, '"a red car."'),
    (TEXT, '"un été, oui"'),
    (TEXT, '"x"'),
]
REJECTED = [
    (MOVED, '"On above a red roof a dog"'),
    (MOVED, '"above a red roof grass a dog"'),
    (PROPOSALS, "[]"),
    (PROPOSALS, '[["dog",""]]'),
    (PROPOSALS, '[["dog","a b c d e f g h i"]]'),
    (PROPOSALS, '[["on the grass","the grass"]]'),
    (PROPOSALS, '[["on the grass","in"]]'),
    (PROPOSALS, '[["a dog","dog"]]'),
    (PROPOSALS, '[["red bus","blue bus"]]'),
    (PROPOSALS, '[["red bus","red bus"]]'),
    (PROPOSALS, '[["red bus","one two three four red bus"]]'),
    (PROPOSALS, '[["","rainy"]]'),
    (PROPOSALS, '[["","a painting of"]]'),
    (PROPOSALS, '[["cat","dog"]]'),
    (PROPOSALS, '[["dog","cat"],["dog","cat"],["dog","cat"]]'),
    (PROPOSALS, f'[["dog","{"x" * 15}"]]'),
    (PROPOSALS, '[["dog","12345"]]'),
    (MEDIUM, '[["","a dog on the of"]]'),
    (MEDIUM, '[["","an old pencil sketch of"]]'),
    (MEDIUM, '[["","painting of"]]'),
    (FRONT, '[["","painting of"]]'),
    (FRONT, '[["","a painting"]]'),
    (FRONT, '[["","in the rain"]]'),
    (WORD, '[["","in the rain"]]'),
    (PLACE, '"grass"'),
    (place_grammar(["dog"], optional=False), '""'),
    (TWICE, '"An orange car by an orange bus. the red car, orange"'),
    (TWICE, '"An orange car by an orange bus. the orange car, red"'),
    (TWICE, '"A red car by a red bus. the orange car, orange"'),
    (ONCE, '"a dog in the snow. a dog in the snow by old snowy grass"'),
    (ONCE, '"a dog. a dog in the snow by old snowy grass"'),
    (KEYWORDS, "[]"),
    (EDITED, '"a red car on a street at night."'),
    (EDITED, '"a orange car on a street at night."'),
    (EDITED, '"an orange car on the street at night."'),
    (EDITED, '"an orange car car on a street at night."'),
    (EDITED, '"an orange bus on a street at night."'),
    (EDITED, '"an orange car on a street at night. snow falls."'),
    (KEYWORDS, '[["weather","fog"]]'),
    (KEYWORDS, '[["place","foggy"]]'),
    (KEYWORDS, '[["weather","it\'s 3x5 (a+b)"]]'),
    (KEYWORDS, '[["weather", "foggy"]]'),
    (KEYWORDS, '[["weather","foggy"],["weather","foggy"],["weather","foggy"]]'),
    (KEYWORDS, '[["weather","foggy"]'),
    (KEYWORDS, '[["weather","foggy"],]'),
    (ALTERNATIVES, '["at night"]'),
    (ALTERNATIVES, '["at noon","at night"]'),
    (ALTERNATIVES, '["at night "]'),
    (ALTERNATIVES, '["At Night"]'),
    (ALTERNATIVES, "[]"),
    (ALTERNATIVES, '[""]'),
    (ALTERNATIVES, '["a","b","c","d"]'),
    (ALTERNATIVES, '["a  b"]'),
    (ALTERNATIVES, '["-a"]'),
    (ALTERNATIVES, '["a1"]'),
    (VALUES, "[]"),
    (VALUES, '["rainy","rainy"]'),
    (VALUES, '["Snowy","rainy"]'),
    (VALUES, '["snowy"]'),
    (TEXT, '""'),
    (TEXT, '"a red car is"'[:-1]),
    (TEXT, '"thirteen char"'),
    (TEXT, '"a "b" c"'),
    (TEXT, '"a\\nb"'),
    (TEXT, '"na\u00efve"'),
    (TEXT, "a red car"),
]


def accepted_by_llguidance(grammar: Grammar, text: str) -> bool:
    llguidance = pytest.importorskip("llguidance")
    tokenizer = llguidance.LLTokenizer("byte")
    matcher = llguidance.LLMatcher(tokenizer, llguidance.LLMatcher.grammar_from_regex(grammar.pattern))
    assert not matcher.get_error(), matcher.get_error()
    tokens = list(text.encode())
    return matcher.try_consume_tokens(tokens) == len(tokens) and bool(matcher.is_accepting())


@pytest.mark.parametrize(("grammar", "answer"), ACCEPTED)
def test_accepts(grammar: Grammar, answer: str) -> None:
    assert grammar.allows(answer)
    assert accepted_by_llguidance(grammar, answer)
    json.loads(answer)
    assert len(answer.encode()) <= grammar.longest_bytes


@pytest.mark.parametrize(("grammar", "answer"), REJECTED)
def test_rejects(grammar: Grammar, answer: str) -> None:
    assert not grammar.allows(answer)
    assert not accepted_by_llguidance(grammar, answer)


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


@pytest.mark.parametrize(
    "make",
    [
        lambda: keywords_grammar([], ["a"], 1),
        lambda: keywords_grammar(["a"], [], 1),
        lambda: proposals_grammar([], [], [], "word", 1),
        lambda: proposals_grammar(["a"], [], [], "end", 0),
        lambda: place_grammar([], optional=True),
        lambda: keywords_grammar(["a"], ["b"], 0),
        lambda: keywords_grammar(["a"], ['b"'], 1),
        lambda: keywords_grammar(["a"], ["b\\"], 1),
        lambda: alternatives_grammar(" ", 1),
        lambda: alternatives_grammar("a", 0),
        lambda: values_grammar([]),
        lambda: values_grammar(["a\nb"]),
        lambda: text_grammar(0),
    ],
)
def test_what_cannot_be_answered_is_refused(make: object) -> None:
    assert callable(make)
    with pytest.raises(ValueError, match=r"\w"):
        make()


choices = st.text("ab -'(|)", min_size=1, max_size=5) | plain_text


@settings(max_examples=100)
@given(st.lists(choices, min_size=1, max_size=5), st.integers(0, 9))
def test_a_choice_is_each_of_its_texts_and_nothing_else(texts: list[str], at: int) -> None:
    grammar = keywords_grammar(["x"], texts, 1)
    for text in [*texts, texts[at % len(texts)] + "a", texts[at % len(texts)][:-1]]:
        answer = f'[["x","{text}"]]'
        assert grammar.allows(answer) == (text in texts)
        assert text not in texts or len(answer.encode()) <= grammar.longest_bytes
