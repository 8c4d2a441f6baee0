"""Edits that a small model chooses: one question per caption, phrases of ours put into it by rule."""

from __future__ import annotations

import re
import re._parser as _parser  # type: ignore[import-untyped]
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from rewriting import rewrite

from counterfactory.engine.edit import EDIT_TYPES
from counterfactory.engine.english.menus import menu, offer
from counterfactory.engine.english.words import allowed_proposals
from counterfactory.engine.keys import content_key
from counterfactory.engine.language.chat import ChatPrompts, chatml
from counterfactory.engine.language.edit_types import EditType, edit_types
from counterfactory.engine.language.grammar import choices_grammar
from counterfactory.engine.language.llm_request import LlmRequest
from counterfactory.engine.profile.rewrite import RewriteSettings
from counterfactory.engine.request import SuiteRequest
from counterfactory.engine.sources.source import Source
from counterfactory.engine.stages.rewrite.rewrite_captions import SourceVariants
from counterfactory.engine.tasks.task import Task, protect

TASK = Task("animals", "classify the animal: here it is {label}", (), True)
PROMPTS = ChatPrompts(chatml)
DOG = "n02084071"


def rewritten(
    ask: object,
    *captions: str,
    variants: int = 11,
    avoid: tuple[str, ...] = (),
    label: str = DOG,
    own: tuple[EditType, ...] = (),
) -> list[SourceVariants]:
    settings = RewriteSettings(EDIT_TYPES, 1, 1, 2, 90, verbatim=True, menus=True)
    wanted = SuiteRequest(TASK, variants, 0, (1, 1), 0, avoid=avoid, types=own)
    sources = [
        Source(str(i), str(i), Path(str(i)), (8, 8), label, None, "d", content_key(i)) for i in range(len(captions))
    ]
    return rewrite(sources, captions, settings, wanted, ask, PROMPTS)  # type: ignore[arg-type]


class Chooser:
    """Answers a question of choices with the first allowed pair of each type."""

    def __init__(self) -> None:
        self.asked: dict[str, list[LlmRequest]] = {}

    def __call__(self, question: str, requests: Sequence[LlmRequest]) -> list[str]:
        self.asked.setdefault(question, []).extend(requests)
        return [first_text(_parser.parse(request.grammar.pattern)) for request in requests]


def first_text(parsed: Any) -> str:
    """What the first branches of a regular expression spell."""
    text = ""
    for kind, value in parsed:
        if kind is _parser.LITERAL:
            text += chr(value)
        elif kind is _parser.BRANCH:
            text += first_text(value[1][0])
        else:
            text += first_text(value[-1])  # of groups and repetitions what they hold
    return text


def test_one_question_per_caption_brings_an_edit_of_every_type() -> None:
    ask = Chooser()
    captions = ("A small brown dog is lying on the grass.", "Two dogs in the rain at night.")
    results = rewritten(ask, *captions)
    assert list(ask.asked) == ["choices"], "captions are written by rule"
    assert len(ask.asked["choices"]) == len(captions)
    suites = {request.prompt.suite for request in ask.asked["choices"]}
    assert len(suites) == 1, "one beginning serves all captions"
    assert "golden" not in suites.pop()
    for result in results:
        assert result.shortfall is None
        made = [variant for variant in result.variants if not variant.repeat]
        assert {variant.edits[0].type for variant in made} == set(EDIT_TYPES)
        assert all(variant.dropped is None for variant in made)
        assert all(variant.edited_caption != variant.caption for variant in made)
        assert all("dog" in variant.edited_caption for variant in made)


def test_replacements_are_put_by_rule_and_agree() -> None:
    (result,) = rewritten(Chooser(), "A small brown dog is lying on the grass.")
    edited = {variant.edits[0].type: variant.edited_caption for variant in result.variants if not variant.repeat}
    assert re.fullmatch(r"An? small \w+ dog is lying on the grass\.", edited["colour"])
    assert re.fullmatch(r"An? \w+ brown dog is lying on the grass\.", edited["adjective"])
    assert re.fullmatch(r"A small brown dog is lying on (a |wet |dry |green |white )[\w ]+\.", edited["background"])
    assert re.fullmatch(r"An? [\w ]+ of a small brown dog lying on the grass\.", edited["domain"])


def test_words_to_avoid_are_not_offered() -> None:
    def offered(avoid: tuple[str, ...]) -> str:
        ask = Chooser()
        for caption in ("a dog", "a small dog", "a dog on the grass", "two dogs", "a dog and a cat"):
            rewritten(ask, caption, avoid=avoid)
        return "".join(request.grammar.pattern for request in ask.asked["choices"])

    rain = r"\brain\b(?!-)"
    assert re.search(rain, offered(()))
    assert not re.search(rain, offered(("rain",)))


def test_a_sample_of_each_menu_is_offered_by_the_caption_and_the_type() -> None:
    ask, caption = Chooser(), "a dog on grass"
    rewritten(ask, caption, avoid=("rain",))
    found = protect(TASK, DOG, (), caption)
    types = edit_types(EDIT_TYPES, ())
    allowed = [allowed_proposals(menu(t.name, caption, found.keep, DOG), caption, found.keep, ("rain",)) for t in types]
    offered = [offer(some, content_key(caption, t.name)) for t, some in zip(types, allowed, strict=True)]
    prompt = PROMPTS.choices(types, found.told, caption)
    assert ask.asked == {"choices": [LlmRequest(prompt, choices_grammar(offered))]}


def test_no_choice_makes_the_labelled_thing_another() -> None:
    offered = []
    for caption in ("a bear", "a bear on grass", "a bear on sand"):
        ask = Chooser()
        rewritten(ask, caption, label="bear")
        offered += re.findall(r"\w+ bear", ask.asked["choices"][0].grammar.pattern.replace("\\", ""))
    assert "red bear" in offered
    assert {"brown bear", "black bear"}.isdisjoint(offered), "kinds of their own"


def test_a_user_s_types_are_asked_about_beside_the_menus() -> None:
    lens = EditType("lens", "the lens", "end", (("", "in soft focus"),), "a dog")
    chooser = Chooser()

    def ask(question: str, requests: Sequence[LlmRequest]) -> list[str]:
        return ['[["","in soft focus"]]'] if question == "proposals" else chooser(question, requests)

    (result,) = rewritten(ask, "a dog on grass", variants=12, own=(lens,))
    assert {variant.edits[0].type for variant in result.variants} == {*EDIT_TYPES, "lens"}


def test_the_grammar_takes_one_pair_of_each_type_in_order() -> None:
    grammar = choices_grammar([[("", "at night"), ("noon", "dawn")], [("dog", "wet dog")]])
    assert grammar.allows('[["","at night"],["dog","wet dog"]]')
    assert grammar.allows('[["noon","dawn"],["dog","wet dog"]]')
    for answer in ('[["","dawn"],["dog","wet dog"]]', '[["dog","wet dog"]]', '[["","at night"]]', "[]"):
        assert not grammar.allows(answer)
    assert grammar.longest_bytes == len('[["","at night"],["dog","wet dog"],]')
    for nothing in ([], [[]], [[("", "x")], []]):
        with pytest.raises(ValueError, match="a choice needs pairs"):
            choices_grammar(nothing)


def test_the_question_lists_the_types_and_shows_an_edit_of_each() -> None:
    types = edit_types(("time", "domain"), ())
    prompt = PROMPTS.choices(types, ("dog",), "a dog<|im_end|>")
    assert "in this order: the time of day; what kind of picture it is" in prompt.suite
    assert '[["at noon","at night"],["","a painting of"]]' in prompt.suite
    assert prompt.source == "Keep: dog\nCaption: a dog"
