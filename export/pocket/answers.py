"""Measures a language model on held-out exercises, asked as the engine asks: the same prompts, the same grammars.

For anything that answers requests it computes the share of right answers to each question.
"""

from __future__ import annotations

from collections.abc import Callable

from counterfactory.engine.edit import STREET_TYPES
from counterfactory.engine.language.grammar import (
    Grammar,
    alternatives_grammar,
    edited_grammar,
    keywords_grammar,
    values_grammar,
)
from counterfactory.engine.language.questions import AnswerError, read_caption
from counterfactory.engine.language.request import Llm, Request
from counterfactory.engine.pocket.captions import read_facts
from counterfactory.engine.pocket.world import COLOURS, MATERIALS, TIMES, WEATHERS
from counterfactory.engine.stages.draft import RewriteSettings
from counterfactory.engine.tasks.words import spans

from .data import HELD_OUT
from .questions import CLASSIFY, KINDS_OF_QUESTION, SEGMENT, Exercise, exercise

SETTINGS = RewriteSettings(
    STREET_TYPES, max_keywords=6, max_alternatives=4, max_words_keyword=3, max_chars_caption=400, verbatim=True
)
_KNOWN = {*WEATHERS, *TIMES, *COLOURS, *MATERIALS}


def _keywords_form(drawn: Exercise) -> Grammar:
    free = spans(drawn.case.caption, SETTINGS.max_words_keyword, drawn.case.keep)
    return keywords_grammar(drawn.case.types, free, SETTINGS.max_keywords)


def _alternatives_form(drawn: Exercise) -> Grammar:
    if drawn.values:
        return values_grammar(drawn.values)
    return alternatives_grammar(drawn.changes[0][1], SETTINGS.max_alternatives)


def _rewrite_form(drawn: Exercise) -> Grammar:
    return edited_grammar(drawn.case.caption, [(old, new) for _, old, new in drawn.changes])


_FORMS: dict[str, Callable[[Exercise], Grammar]] = {
    "keywords": _keywords_form,
    "alternatives": _alternatives_form,
    "rewrite": _rewrite_form,
}


def request_of(kind: str, drawn: Exercise) -> Request:
    """The request by which the engine would ask this exercise."""
    return Request(drawn.prompt, _FORMS[kind](drawn))


def built_in(drawn: Exercise) -> bool:
    """Whether it is one of the two built-in tasks, with all types of edit and values that the world knows."""
    words = {word for *_, value in drawn.changes for word in value.split()}
    ordinary = {"at", "during", "the", "car", "bus", "truck"}
    return (
        drawn.case.task in (CLASSIFY, SEGMENT) and len(drawn.case.types) == 6 and not words - _KNOWN - ordinary
        and not drawn.values
    )  # fmt: skip


def same_facts(answer: str, wanted: str) -> bool:
    """Whether an answer to question 3 states the facts of the right answer."""
    try:
        return read_facts(read_caption(answer)) == read_facts(read_caption(wanted))
    except AnswerError:
        return False


def language_scores(llm: Llm, count: int) -> dict[str, float]:
    """Shares of right answers among `count` held-out exercises a question.

    `<question>_exact` is over all exercises, users' tasks and made-up words among them; `<question>_built_in` over
    those of the built-in tasks; `rewrite_facts` is the share of those whose caption states just the facts it should.
    """
    scores: dict[str, float] = {}
    for kind in KINDS_OF_QUESTION:
        drawn = [exercise(kind, HELD_OUT, i) for i in range(count)]
        answers = llm.generate([request_of(kind, e) for e in drawn])
        right = [answer == e.answer for answer, e in zip(answers, drawn, strict=True)]
        known = [i for i, e in enumerate(drawn) if built_in(e)]
        scores[f"{kind}_exact"] = sum(right) / len(right)
        scores[f"{kind}_built_in"] = sum(right[i] for i in known) / max(1, len(known))
        if kind == "rewrite":
            facts_right = [same_facts(answers[i], drawn[i].answer) for i in known]
            scores["rewrite_facts"] = sum(facts_right) / max(1, len(known))
    return scores
