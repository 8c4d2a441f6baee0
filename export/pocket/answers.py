"""Measures a language model on held-out exercises, asked as the engine asks: the same prompts, the same grammars.

For anything that answers requests it computes the share of right answers to each question.
"""

from __future__ import annotations

from counterfactory.engine.english.words import spans
from counterfactory.engine.language.grammar import (
    alternatives_grammar,
    edited_grammar,
    keywords_grammar,
    values_grammar,
)
from counterfactory.engine.language.llm_request import Llm, LlmRequest
from counterfactory.engine.language.questions import AnswerError, read_caption
from counterfactory.engine.pocket.tasks import street_task

from .data import HELD_OUT
from .exercises import KINDS_OF_QUESTION, Exercise
from .languages import Language


def request_of(language: Language, kind: str, drawn: Exercise) -> LlmRequest:
    """The request by which the engine would ask this exercise."""
    bounds, case = language.settings, drawn.case
    if kind == "keywords":
        free = spans(case.caption, bounds.max_words_keyword, case.protected)
        form = keywords_grammar(case.types, free, bounds.max_keywords)
    elif kind == "rewrite":
        form = edited_grammar(case.caption, [(old, new) for _, old, new in drawn.changes])
    elif drawn.values:
        form = values_grammar(drawn.values)
    else:
        form = alternatives_grammar(drawn.changes[0][1], bounds.max_alternatives)
    return LlmRequest(drawn.prompt, form)


def built_in(language: Language, drawn: Exercise) -> bool:
    """Whether it is one of the two built-in tasks, with all types of edit and values that the world knows."""
    words = {word for *_, value in drawn.changes for word in value.split()}
    sentences = [street_task(name).sentence for name in ("classification", "segmentation")]
    whole = drawn.case.types == language.settings.types and not drawn.values
    return whole and drawn.case.task in sentences and words <= language.vocabulary


def same_facts(language: Language, answer: str, wanted: str) -> bool:
    """Whether an answer to question 3 states the facts of the right answer."""
    try:
        return bool(language.read(read_caption(answer)) == language.read(read_caption(wanted)))
    except AnswerError:
        return False


def language_scores(llm: Llm, language: Language, count: int) -> dict[str, float]:
    """Shares of right answers among `count` held-out exercises a question.

    `<question>_exact` is over all exercises, users' tasks and made-up words among them; `<question>_built_in` over
    those of the built-in tasks; `rewrite_facts` is the share of those whose caption states just the facts it should.
    """
    scores: dict[str, float] = {}
    for kind in KINDS_OF_QUESTION:
        drawn = [language.exercise(kind, HELD_OUT, i) for i in range(count)]
        answers = llm.generate([request_of(language, kind, e) for e in drawn])
        right = [answer == e.answer for answer, e in zip(answers, drawn, strict=True)]
        known = [i for i, e in enumerate(drawn) if built_in(language, e)]
        scores[f"{kind}_exact"] = sum(right) / len(right)
        scores[f"{kind}_built_in"] = sum(right[i] for i in known) / max(1, len(known))
        if kind == "rewrite":
            facts_right = [same_facts(language, answers[i], drawn[i].answer) for i in known]
            scores["rewrite_facts"] = sum(facts_right) / max(1, len(known))
    return scores
