"""What a caption's words could be instead, asked as DILLEMA does (arXiv 2502.04378): which words may change, of any
type; then what else each of them could be.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...english.additions import phrase_of, speaking
from ...english.mentions import distinct
from ...english.words import allowed_alternatives, allowed_values, drop_overlapping, spans
from ...language.chat import ChatPrompts
from ...language.grammar import (
    Grammar,
    alternatives_grammar,
    keywords_grammar,
    values_grammar,
)
from ...language.llm_request import LlmRequest
from ...language.questions import AnswerError, PlainPrompts, read_alternatives, read_keywords
from ...tasks.choose import Choice
from ...tasks.user_task import Interventions
from .caption_edits import CaptionEdits, Questions, why_not

KEYWORDS, ALTERNATIVES = "keywords", "alternatives"
# What can be added to a caption that is silent of it, whatever the language model was trained on.
_ADDED_BY_RULE = ("weather", "time")


def find_choices(drafts: Sequence[CaptionEdits], questions: Questions) -> None:
    """Gives each draft its choices, or the problem why it has none."""
    _find_keywords(drafts, questions)
    _find_alternatives(drafts, questions)


def _find_keywords(drafts: Sequence[CaptionEdits], questions: Questions) -> None:
    settings, interventions, prompts = questions.settings, questions.request.interventions, _prompts(questions)
    types = interventions.types if interventions else settings.types
    requests: list[LlmRequest | None] = []
    for draft in drafts:
        free = spans(draft.caption, settings.max_words_keyword, draft.keep)
        draft.problem = why_not(draft, free, questions)
        if draft.problem:
            requests.append(None)
            continue
        prompt = prompts.keywords(draft.sentence, types, draft.protection.told, draft.caption)
        requests.append(LlmRequest(prompt, keywords_grammar(types, free, settings.max_keywords)))
    answers = questions.answers(KEYWORDS, [request for request in requests if request])
    for draft, request in zip(drafts, requests, strict=True):
        if request is None:
            continue
        try:
            draft.keywords = drop_overlapping(draft.caption, read_keywords(answers[request]))
        except AnswerError as error:
            draft.problem = str(error)
        if interventions and not draft.problem:
            draft.choices = _added_by_rule(draft, interventions)
        if not (draft.keywords or draft.choices or draft.problem):
            draft.problem = f"the language model found nothing in its caption that may change: {draft.caption!r}"


def _added_by_rule(draft: CaptionEdits, values: Interventions) -> list[Choice]:
    """A user's values as additions, where the caption says nothing of the weather or the time of day."""
    spoken = {type_ for type_, _ in draft.keywords}
    choices = []
    for type_ in (type_ for type_ in _ADDED_BY_RULE if not speaking([draft.caption], type_)):
        allowed = allowed_values(values.values(type_), "", draft.keep)
        if allowed and type_ not in spoken:
            choices.append(Choice(type_, "", tuple(phrase_of(type_, value) for value in allowed)))
    return choices


def _prompts(questions: Questions) -> PlainPrompts:
    assert not isinstance(questions.prompts, ChatPrompts), "models that converse are asked type by type"
    return questions.prompts


class _AlternativesQuestion(NamedTuple):
    """A question for the alternatives of a keyword; `given` where they are a user's."""

    draft: CaptionEdits
    type: str
    keyword: str
    given: bool
    request: LlmRequest


def _find_alternatives(drafts: Sequence[CaptionEdits], questions: Questions) -> None:
    settings, wanted, prompts = questions.settings, questions.request, _prompts(questions)
    open_questions: list[_AlternativesQuestion] = []

    def add(draft: CaptionEdits, edited: tuple[str, str], values: tuple[str, ...], grammar: Grammar) -> None:
        prompt = prompts.alternatives(draft.sentence, draft.protection.told, draft.caption, *edited, values)
        open_questions.append(_AlternativesQuestion(draft, *edited, bool(values), LlmRequest(prompt, grammar)))

    for draft in drafts:
        for type_, keyword in draft.keywords:
            values: tuple[str, ...] = ()
            if wanted.interventions:
                values = allowed_values(wanted.interventions.values(type_), keyword, draft.keep)
                if not values:
                    continue
                grammar = values_grammar(values)
            else:
                grammar = alternatives_grammar(keyword, settings.max_alternatives)
            add(draft, (type_, keyword), values, grammar)
    answers = questions.answers(ALTERNATIVES, [question.request for question in open_questions])
    for draft, type_, keyword, given, request in open_questions:
        try:
            alternatives = read_alternatives(answers[request])
        except AnswerError as error:
            draft.unread = str(error)  # a keyword without alternatives is not edited
            continue
        usable = (
            distinct(alternatives) if given else allowed_alternatives(alternatives, keyword, draft.keep, wanted.avoid)
        )
        draft.choices.append(Choice(type_, keyword, usable))
