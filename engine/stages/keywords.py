"""What a caption's words could be instead, asked as DILLEMA does (arXiv 2502.04378): which words may change, of any
type; then what else each of them could be.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..language.grammar import alternatives_grammar, keywords_grammar, values_grammar
from ..language.questions import AnswerError, SpanPrompts, read_alternatives, read_keywords
from ..language.request import Request
from ..tasks.additions import is_silent, phrase_of
from ..tasks.choose import Choice
from ..tasks.interventions import Interventions
from ..tasks.settings import JourneySettings
from ..tasks.words import allowed_alternatives, allowed_values, distinct, drop_overlapping, spans
from .draft import Ask, Draft, RewriteSettings, ask_once, why_not

KEYWORDS, ALTERNATIVES = "keywords", "alternatives"
# What can be added to a caption that is silent of it, whatever the language model was trained on.
_ADDED_BY_RULE = ("weather", "time")


def find_choices(
    drafts: Sequence[Draft], settings: RewriteSettings, wanted: JourneySettings, ask: Ask, prompts: SpanPrompts
) -> None:
    """Gives each draft its choices, or the problem why it has none."""
    _find_keywords(drafts, settings, wanted, ask, prompts)
    _find_alternatives(drafts, settings, wanted, ask, prompts)


def _find_keywords(
    drafts: Sequence[Draft], settings: RewriteSettings, wanted: JourneySettings, ask: Ask, prompts: SpanPrompts
) -> None:
    types = wanted.interventions.types if wanted.interventions else settings.types
    requests: list[Request | None] = []
    for draft in drafts:
        free = spans(draft.caption, settings.max_words_keyword, draft.keep)
        draft.problem = why_not(draft, free, settings, wanted)
        if draft.problem:
            requests.append(None)
            continue
        prompt = prompts.keywords(draft.sentence, types, draft.protection.told, draft.caption)
        requests.append(Request(prompt, keywords_grammar(types, free, settings.max_keywords)))
    answers = ask_once(ask, KEYWORDS, [request for request in requests if request])
    for draft, request in zip(drafts, requests, strict=True):
        if request is None:
            continue
        try:
            draft.keywords = drop_overlapping(draft.caption, read_keywords(answers[request]))
        except AnswerError as error:
            draft.problem = str(error)
        if wanted.interventions and not draft.problem:
            draft.choices = _added_by_rule(draft, wanted.interventions)
        if not draft.keywords and not draft.choices and not draft.problem:
            draft.problem = f"the language model found nothing in its caption that may change: {draft.caption!r}"


def _added_by_rule(draft: Draft, values: Interventions) -> list[Choice]:
    """A user's weather and time of day as additions, where the caption says nothing of them."""
    spoken = {type_ for type_, _ in draft.keywords}
    found = []
    for type_ in _ADDED_BY_RULE:
        allowed = allowed_values(values.values(type_), "", draft.keep)
        if allowed and type_ not in spoken and is_silent(draft.caption, type_):
            found.append(Choice(type_, "", tuple(phrase_of(type_, value) for value in allowed)))
    return found


def _find_alternatives(
    drafts: Sequence[Draft], settings: RewriteSettings, wanted: JourneySettings, ask: Ask, prompts: SpanPrompts
) -> None:
    asked: list[tuple[Draft, str, str, bool, Request]] = []
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
            prompt = prompts.alternatives(draft.sentence, draft.protection.told, draft.caption, type_, keyword, values)
            asked.append((draft, type_, keyword, bool(values), Request(prompt, grammar)))
    answers = ask_once(ask, ALTERNATIVES, [request for *_, request in asked])
    for draft, type_, keyword, given, request in asked:
        try:
            found = read_alternatives(answers[request])
        except AnswerError as error:
            draft.unread = str(error)  # a keyword without alternatives is not edited
            continue
        usable = distinct(found) if given else allowed_alternatives(found, keyword, draft.keep, wanted.avoid)
        draft.choices.append(Choice(type_, keyword, usable))
