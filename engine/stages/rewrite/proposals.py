"""The edits of each type that a caption could have, as a language model that converses proposes them: words replaced by
others, words put before others, or a phrase that the caption lacks. Every type is possible on every caption.

The model is asked once per type (LANCE, arXiv 2305.19164); of a user's values it is asked only where the caption speaks
of their type. A small one is asked once per caption, for one edit of each type's menu (english/menus.py). Its answers
are held to the rules of english/words.py, and the engine chooses among them.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from ...english.additions import has_known_words, medium_of, phrase_of, said_of, speaking
from ...english.difference import words_of
from ...english.label_names import named_alike, names_of
from ...english.menus import has_menu, kept_phrases, menu, offer
from ...english.words import allowed_proposals, allowed_values, in_order, phrases, removable, says_again, spans
from ...keys import content_key
from ...language.chat import ChatPrompts
from ...language.edit_types import EditType, edit_types
from ...language.grammar import choices_grammar, place_grammar, proposals_grammar
from ...language.llm_request import LlmRequest
from ...language.phrases import find_mentions, phrase_class
from ...language.questions import AnswerError, read_caption, read_proposals
from ...profile.rewrite import RewriteSettings
from ...tasks.choose import Choice
from ...tasks.user_task import Interventions
from .caption_edits import CaptionEdits, Questions, why_not

PROPOSALS, CHOICES, PLACE = "proposals", "choices", "place"
# A user's values of these types stand before the labelled thing where the caption says nothing of them.
_BEFORE_LABEL = ("colour", "adjective")
# Type, words of the caption, words in their place.
_Pair = tuple[str, str, str]
_Pairs = dict[CaptionEdits, list[_Pair]]


def find_choices(drafts: Sequence[CaptionEdits], questions: Questions) -> None:
    """Gives each draft its choices, in its caption's order, additions last, or the problem why it has none. Edits of
    equal or overlapping words share a slot, so that no variant has two of them.
    """
    settings, wanted = questions.settings, questions.request
    for draft in drafts:
        draft.problem = why_not(draft, words_of(draft.caption), questions)
    ready, values = [draft for draft in drafts if not draft.problem], wanted.interventions
    own = tuple(type_.name for type_ in wanted.types if type_.name not in settings.types)
    types = edit_types(values.types if values else (*settings.types, *own), wanted.types)
    if values:
        pairs = _place_values(ready, types, values, questions)
    else:
        offered = [t for t in types if settings.menus and has_menu(t.name) and t not in wanted.types]
        pairs = _propose(ready, [t for t in types if t not in offered], questions)
        for draft, chosen in _choose(ready, offered, questions).items():
            pairs[draft] += chosen
    for draft in ready:
        draft.choices = _choices(draft.caption, pairs[draft])


def _prompts(questions: Questions) -> ChatPrompts:
    assert isinstance(questions.prompts, ChatPrompts), "only models that converse are asked type by type"
    return questions.prompts


def _propose(drafts: Sequence[CaptionEdits], types: Sequence[EditType], questions: Questions) -> _Pairs:
    requests = [(draft, type_, question(draft, type_, questions)) for draft in drafts for type_ in types]
    answers = questions.answers(PROPOSALS, [request for *_, request in requests if request])
    pairs: _Pairs = {draft: [] for draft in drafts}
    for draft, type_, request in requests:
        proposed: list[tuple[str, str]] = []
        if request:
            with suppress(AnswerError):  # an answer that was cut off proposes nothing of its type
                proposed = read_proposals(answers[request])
        proposed = [(old, new) for old, new in proposed if not says_again(old, new, draft.caption)]
        if draft.source.label is not None:
            names = names_of(draft.source.label)
            proposed = [(old, new) for old, new in proposed if named_alike(old, new, names)]
        pairs[draft] += _allowed(type_, proposed, draft, questions.request.avoid)
    return pairs


def _choose(drafts: Sequence[CaptionEdits], types: Sequence[EditType], questions: Questions) -> _Pairs:
    """One edit of each type, which the model chooses from the type's menu; all types are asked in one question."""
    requests: dict[CaptionEdits, tuple[list[EditType], LlmRequest]] = {}
    for draft in drafts:
        offered: dict[EditType, list[tuple[str, str]]] = {}
        for type_ in types:
            pairs = menu(type_.name, draft.caption, draft.keep, draft.source.label)
            if allowed := allowed_proposals(pairs, draft.caption, draft.keep, questions.request.avoid):
                offered[type_] = offer(allowed, content_key(draft.caption, type_.name))
        if offered:
            prompt = _prompts(questions).choices(tuple(offered), draft.protection.told, draft.caption)
            requests[draft] = list(offered), LlmRequest(prompt, choices_grammar(list(offered.values())))
    answers = questions.answers(CHOICES, [request for _, request in requests.values()])
    chosen: _Pairs = {}
    for draft, (offered_types, request) in requests.items():
        with suppress(AnswerError):  # an answer that was cut off chooses nothing
            pairs = read_proposals(answers[request])
            chosen[draft] = [(type_.name, *pair) for type_, pair in zip(offered_types, pairs, strict=True)]
    return chosen


def _place_values(
    drafts: Sequence[CaptionEdits], types: Sequence[EditType], values: Interventions, questions: Questions
) -> _Pairs:
    """Edits to a user's values: each replaces the caption's words of its type, or is added where there are none."""
    requests: list[tuple[CaptionEdits, EditType, LlmRequest | None]] = []
    for draft in drafts:
        for type_ in types:
            request = None
            if spans := _spans(draft, type_, questions.settings):
                prompt = _prompts(questions).place(draft.sentence, type_, draft.protection.told, draft.caption)
                request = LlmRequest(prompt, place_grammar(spans, not has_known_words(type_.name)))
            requests.append((draft, type_, request))
    answers = questions.answers(PLACE, [request for *_, request in requests if request])
    pairs: _Pairs = {draft: [] for draft in drafts}
    for draft, type_, request in requests:
        try:
            old = read_caption(answers[request]) if request else ""
        except AnswerError:
            continue  # an answer that was cut off names no words
        named = allowed_values(values.values(type_.name), old, draft.keep)
        pairs[draft] += _elsewhere(draft, type_, old, [v for v in values.values(type_.name) if v not in named])
        if not old and type_.place == "word":
            old = next(iter(kept_phrases(draft.caption, draft.keep)), "") if type_.name in _BEFORE_LABEL else ""
            phrases_put = [f"{value} {old}" for value in named if old]
        else:
            phrase = not old or phrase_class(old) == "place"
            phrases_put = [phrase_of(type_.name, value) if phrase else value for value in named]
        pairs[draft] += _allowed(type_, [(old, new) for new in phrases_put], draft, ())
    return pairs


def _elsewhere(draft: CaptionEdits, type_: EditType, old: str, values: Sequence[str]) -> list[_Pair]:
    """Edits to the values that the words `old` say already, of other words that speak of their type: the other car."""
    free, taken = spans(draft.caption, 1, draft.keep), {word.same for word in words_of(old)}
    others = said_of(draft.caption, type_.name, free) if old else []
    pairs = [
        (other, value)
        for other in others
        if taken.isdisjoint(word.same for word in words_of(other))
        for value in allowed_values(values, other, draft.keep)
    ]
    put = [(old, phrase_of(type_.name, new) if phrase_class(old) == "place" else new) for old, new in pairs]
    return _allowed(type_, put, draft, ())


def _spans(draft: CaptionEdits, type_: EditType, settings: RewriteSettings) -> list[str]:
    """The words that an edit of a type may replace: those that speak of the type, where its words are known."""
    return [] if type_.place == "front" else speaking(_phrases(draft, settings), type_.name)


def _phrases(draft: CaptionEdits, settings: RewriteSettings) -> list[str]:
    """All phrases that an edit may replace, without the word for the medium ("photo")."""
    picture = (medium_of(draft.caption) or "").split()[-1:]
    return phrases(draft.caption, settings.max_words_keyword, (*draft.keep, *picture))


def question(draft: CaptionEdits, type_: EditType, questions: Questions) -> LlmRequest | None:
    """The question of a type; None where its edits have no place: no words to replace or to stand before (`hosts`)."""
    settings = questions.settings
    spans, hosts = _spans(draft, type_, settings), list[str]()
    if type_.place == "word":
        hosts = kept_phrases(draft.caption, draft.keep)
        spans = spans or ([] if hosts else _phrases(draft, settings))
        if not spans and not hosts:
            return None
    gone = removable(draft.caption, spans) if type_.name == "object" else ()
    # A small model has other phrases end in "of".
    addition = "medium" if type_.name == "domain" else type_.place
    grammar = proposals_grammar(spans, hosts, gone, addition, settings.max_alternatives)
    prompt = _prompts(questions).proposals(draft.sentence, type_, draft.protection.told, draft.caption)
    return LlmRequest(prompt, grammar)


def _allowed(
    type_: EditType, pairs: Sequence[tuple[str, str]], draft: CaptionEdits, avoid: Sequence[str]
) -> list[_Pair]:
    """The proposals that are allowed; where the caption names its medium ("a photo of"), the new one replaces it."""
    medium = medium_of(draft.caption) if type_.place == "front" else None
    if medium:
        pairs = [(medium, new.removesuffix(" of")) for _, new in pairs]
    return [(type_.name, old, new) for old, new in allowed_proposals(pairs, draft.caption, draft.keep, avoid)]


def _choices(caption: str, pairs: Sequence[_Pair]) -> list[Choice]:
    grouped: dict[tuple[str, str], list[str]] = {}
    for type_, *pair in pairs:
        old, new = in_order(caption, *pair)
        grouped.setdefault((type_, old), []).append(new)
    placed = sorted(
        (find_mentions(caption, [old])[0][0].start if old else len(caption), at, old, type_)
        for at, (type_, old) in enumerate(grouped)
    )
    choices, end, slot = list[Choice](), 0, -1
    for start, _, old, type_ in placed:
        news = tuple(grouped[type_, old])
        if not old:
            choices.append(Choice(type_, "", news))
            continue
        slot += start >= end
        end = max(end, find_mentions(caption, [old])[0][0].end)
        choices.append(Choice(type_, old, news, slot))
    return choices
