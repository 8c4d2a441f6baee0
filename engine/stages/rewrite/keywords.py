"""What a caption's words could be instead, asked as DILLEMA does (arXiv 2502.04378): which words may change, of any
type; then what else each of them could be. A user's values are not asked about: each that a caption allows is a choice.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...english.additions import phrase_of, said_of, speaking
from ...english.difference import words_of
from ...english.words import allowed_alternatives, allowed_values, drop_overlapping, spans
from ...language.chat import ChatPrompts
from ...language.grammar import alternatives_grammar, keywords_grammar
from ...language.llm_request import LlmRequest
from ...language.questions import AnswerError, PlainPrompts, read_alternatives, read_keywords
from ...tasks.choose import Choice
from ...tasks.user_task import Interventions
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
            draft.problem, draft.unread = (None, str(error)) if interventions else (str(error), None)
        if interventions:
            _place_values(draft, interventions)
        if not (draft.keywords or draft.choices or draft.problem):
            nothing = f"the language model found nothing in its caption that may change: {draft.caption!r}"
            draft.problem = draft.unread or nothing


def _place_values(draft: CaptionEdits, interventions: Interventions) -> None:
    """Gives a draft every one of the user's values that its caption allows, whatever the model says of its words.

    Where a rule knows the caption's words of a type, the model's count if they are of that type, and the rule's are
    added where the model has none for them.
    """
    free = spans(draft.caption, 1, draft.keep)
    by_rule = {type_: said_of(draft.caption, type_, free) for type_ in interventions.types}
    by_model = {type_: [keyword for one, keyword in draft.keywords if one == type_] for type_ in interventions.types}

    def keywords(trusted: bool) -> list[tuple[str, str]]:
        pairs: list[tuple[str, str]] = []
        for type_ in sorted(interventions.types, key=lambda type_: not by_rule[type_]):
            own = by_model[type_] if trusted or not by_rule[type_] else []
            own = speaking(own, type_) if by_rule[type_] else own
            held = {word.same for keyword in own for word in words_of(keyword)}
            own += [phrase for phrase in by_rule[type_] if held.isdisjoint(word.same for word in words_of(phrase))]
            pairs += [(type_, keyword) for keyword in own]
        return drop_overlapping(draft.caption, pairs)

    draft.keywords = keywords(trusted=True)
    if not {type_ for type_ in by_rule if by_rule[type_]} <= {type_ for type_, _ in draft.keywords}:
        draft.keywords = keywords(trusted=False)  # the model's words of one type took another's
    spoken = {type_ for type_, _ in draft.keywords}
    for type_ in _ADDED_BY_RULE:
        allowed = allowed_values(interventions.values(type_), "", draft.keep)
        if allowed and type_ not in spoken and not speaking([draft.caption], type_):
            draft.choices.append(Choice(type_, "", tuple(phrase_of(type_, value) for value in allowed)))
    for type_, keyword in draft.keywords:
        if values := allowed_values(interventions.values(type_), keyword, draft.keep):
            draft.choices.append(Choice(type_, keyword, values))


def _find_alternatives(drafts: Sequence[CaptionEdits], questions: Questions, prompts: PlainPrompts) -> None:
    settings, avoid = questions.settings, questions.request.avoid
    asked: list[tuple[CaptionEdits, str, str, LlmRequest]] = []
    for draft in drafts if questions.request.interventions is None else ():
        for type_, keyword in draft.keywords:
            grammar, told = alternatives_grammar(keyword, settings.max_alternatives), draft.protection.told
            prompt = prompts.alternatives(draft.sentence, told, draft.caption, type_, keyword)
            asked.append((draft, type_, keyword, LlmRequest(prompt, grammar)))
    answers = questions.answers(ALTERNATIVES, [request for *_, request in asked])
    for draft, type_, keyword, request in asked:
        try:
            words = read_alternatives(answers[request])
        except AnswerError as error:
            draft.unread = str(error)  # a keyword without alternatives is not edited
            continue
        draft.choices.append(Choice(type_, keyword, allowed_alternatives(words, keyword, draft.keep, avoid)))
