"""What a caption's words could be instead, asked as DILLEMA does (arXiv 2502.04378): which words may change, of any
type; then what else each of them could be.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...english.additions import phrase_of, speaking
from ...english.mentions import distinct
from ...english.words import allowed_alternatives, allowed_values, drop_overlapping, spans
from ...language.chat import ChatPrompts
from ...language.grammar import alternatives_grammar, keywords_grammar, values_grammar
from ...language.llm_request import LlmRequest
from ...language.questions import AnswerError, PlainPrompts, read_alternatives, read_keywords
from ...tasks.choose import Choice
from .caption_edits import CaptionEdits, Questions, why_not

KEYWORDS, ALTERNATIVES = "keywords", "alternatives"
# A user's values of these are added to a caption that is silent of it, whatever the language model was trained on.
_ADDED_BY_RULE = ("weather", "time")


def find_choices(drafts: Sequence[CaptionEdits], questions: Questions) -> None:
    """Gives each draft its choices, or the problem why it has none."""
    assert not isinstance(questions.prompts, ChatPrompts), "models that converse are asked type by type"
    _find_keywords(drafts, questions, questions.prompts)
    _find_alternatives(drafts, questions, questions.prompts)


def _find_keywords(drafts: Sequence[CaptionEdits], questions: Questions, prompts: PlainPrompts) -> None:
    settings, interventions = questions.settings, questions.request.interventions
    types = interventions.types if interventions else settings.types
    requests: dict[CaptionEdits, LlmRequest] = {}
    for draft in drafts:
        free = spans(draft.caption, settings.max_words_keyword, draft.keep)
        draft.problem = why_not(draft, free, questions)
        if not draft.problem:
            prompt = prompts.keywords(draft.sentence, types, draft.protection.told, draft.caption)
            requests[draft] = LlmRequest(prompt, keywords_grammar(types, free, settings.max_keywords))
    answers = questions.answers(KEYWORDS, list(requests.values()))
    for draft, request in requests.items():
        try:
            draft.keywords = drop_overlapping(draft.caption, read_keywords(answers[request]))
        except AnswerError as error:
            draft.problem = str(error)
        if interventions and not draft.problem:
            spoken = {type_ for type_, _ in draft.keywords}
            for type_ in _ADDED_BY_RULE:
                allowed = allowed_values(interventions.values(type_), "", draft.keep)
                if allowed and type_ not in spoken and not speaking([draft.caption], type_):
                    added = tuple(phrase_of(type_, value) for value in allowed)
                    draft.choices.append(Choice(type_, "", added))
        if not (draft.keywords or draft.choices or draft.problem):
            draft.problem = f"the language model found nothing in its caption that may change: {draft.caption!r}"


def _find_alternatives(drafts: Sequence[CaptionEdits], questions: Questions, prompts: PlainPrompts) -> None:
    settings, wanted, given = questions.settings, questions.request, questions.request.interventions
    asked: list[tuple[CaptionEdits, str, str, LlmRequest]] = []
    for draft in drafts:
        for type_, keyword in draft.keywords:
            values = allowed_values(given.values(type_), keyword, draft.keep) if given else ()
            if given and not values:
                continue
            grammar = values_grammar(values) if given else alternatives_grammar(keyword, settings.max_alternatives)
            told = draft.protection.told
            prompt = prompts.alternatives(draft.sentence, told, draft.caption, type_, keyword, values)
            asked.append((draft, type_, keyword, LlmRequest(prompt, grammar)))
    answers = questions.answers(ALTERNATIVES, [request for *_, request in asked])
    for draft, type_, keyword, request in asked:
        try:
            words = read_alternatives(answers[request])
        except AnswerError as error:
            draft.unread = str(error)  # a keyword without alternatives is not edited
            continue
        usable = distinct(words) if given else allowed_alternatives(words, keyword, draft.keep, wanted.avoid)
        draft.choices.append(Choice(type_, keyword, usable))
