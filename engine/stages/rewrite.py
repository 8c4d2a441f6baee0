"""Rewrites captions: which edits each variant gets, and its edited caption.

From a shard's captions, a task and the settings of a run it makes the variants of each source. The language model
answers three questions (language/questions.py) within grammars (language/grammar.py); between the second and the third
the engine chooses the edits (tasks/choose.py). Words that may not change are checked at the end, whatever the model
says (tasks/words.py): a variant that breaks them is dropped with the reason. Where answers come from and where they are
kept is the caller's: `ask` is given all the requests of a question at once, none of them twice.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass

from ..edit import EDIT_TYPES, Edit
from ..language.grammar import alternatives_grammar, edited_grammar, keywords_grammar, text_grammar, values_grammar
from ..language.questions import AnswerError, Prompts, clean_text, read_alternatives, read_caption, read_keywords
from ..language.request import Request
from ..recipes import choice_key, variant_key
from ..sources.source import Problem, Source
from ..tasks.choose import Choice, choose_edits
from ..tasks.grounding import Protection, protect
from ..tasks.settings import JourneySettings
from ..tasks.task import Task
from ..tasks.words import allowed_alternatives, allowed_values, check_edited_caption, distinct, drop_overlapping, spans
from ..variant import Variant
from .desk import Desk

KEYWORDS, ALTERNATIVES, REWRITE = "keywords", "alternatives", "rewrite"
# What `ask` takes and gives: a question's name and its requests, no two alike; their answers in order.
Ask = Callable[[str, Sequence[Request]], Sequence[str]]


@dataclass(frozen=True)
class RewriteSettings:
    """The types of edits, and bounds: keywords of a caption, alternatives and words of a keyword, characters of a
    caption.

    `verbatim` holds the model to the caption's own words wherever no edit touches them, by grammar; without it the
    model writes the whole caption anew.
    """

    types: tuple[str, ...]
    max_keywords: int
    max_alternatives: int
    max_words_keyword: int
    max_chars_caption: int
    verbatim: bool

    def __post_init__(self) -> None:
        unknown = [type_ for type_ in self.types if type_ not in EDIT_TYPES]
        if unknown or not self.types or len(set(self.types)) < len(self.types):
            raise ValueError(f"types are some of {', '.join(EDIT_TYPES)}, each once; found {', '.join(self.types)}")
        for name in ("max_keywords", "max_alternatives", "max_words_keyword", "max_chars_caption"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, found {getattr(self, name)}")


@dataclass(frozen=True)
class Rewritten:
    """The variants of a shard: those to paint, a source's controls before its variants, and those to drop since their
    text breaks the task's rules; and why sources have fewer variants than wanted.
    """

    variants: tuple[Variant, ...]
    dropped: tuple[Variant, ...]
    shortfalls: tuple[Problem, ...]


@dataclass(frozen=True)
class SourceVariants:
    """A source's controls and variants, fewer than wanted when its caption allows no more: `shortfall` then says why.

    Controls are there to be compared with variants: a source without any to paint has none.
    """

    variants: tuple[Variant, ...]
    shortfall: str | None


@dataclass
class _Draft:
    """What is known of one source on its way through the questions."""

    source: Source
    caption: str
    protection: Protection
    sentence: str
    keywords: list[tuple[str, str]]
    choices: list[Choice]
    problem: str | None = None
    unread: str | None = None

    @property
    def keep(self) -> tuple[str, ...]:
        return self.protection.keep


def run(
    desk: Desk,
    captions: Mapping[Source, str],
    settings: RewriteSettings,
    asked_for: JourneySettings,
    prompts: Prompts,
) -> Rewritten:
    """The variants that captioned sources are to have; questions that are on record are not put again."""

    def ask(question: str, requests: Sequence[Request]) -> list[str]:
        keys = {request: desk.recipes.answer_key(question, request.content) for request in requests}
        answers = desk.recorded("rewrite", keys, lambda todo: _answers(desk, todo))
        return [answers[request] for request in requests]

    with desk.meter.stage("rewrite"):
        results = rewrite(list(captions), list(captions.values()), settings, asked_for, ask, prompts)
        desk.meter.advance("rewrite", len(captions), desk.sources, made=len(captions))
    variants = [variant for result in results for variant in result.variants]
    return Rewritten(
        variants=tuple(variant for variant in variants if variant.dropped is None),
        dropped=tuple(variant for variant in variants if variant.dropped is not None),
        shortfalls=tuple(
            Problem(source.name, result.shortfall)
            for source, result in zip(captions, results, strict=True)
            if result.shortfall
        ),
    )


def _answers(desk: Desk, requests: Sequence[Request]) -> Generator[dict[Request, str], None, None]:
    llm = desk.models.llm()
    before, began = llm.usage, time.perf_counter()
    texts = llm.generate(requests)
    # Its running batch is the runtime's own affair: no capacity, so it does not count for the fill.
    desk.meter.work("rewrite", "llm").add(len(requests), 0, time.perf_counter() - began)
    used = llm.usage - before
    desk.meter.tokens("rewrite", used.prompt_tokens, used.generated_tokens)
    yield dict(zip(requests, texts, strict=True))


def rewrite(
    sources: Sequence[Source],
    captions: Sequence[str],
    settings: RewriteSettings,
    wanted: JourneySettings,
    ask: Ask,
    prompts: Prompts,
) -> list[SourceVariants]:
    """The variants of each source, in order; they depend on no other source. `prompts` puts the questions."""
    drafts = [_draft(source, clean_text(text), wanted.task) for source, text in zip(sources, captions, strict=True)]
    _find_keywords(drafts, settings, wanted, ask, prompts)
    _find_alternatives(drafts, settings, wanted, ask, prompts)
    chosen = [_chosen(draft, wanted) for draft in drafts]
    return _written(drafts, chosen, settings, wanted, ask, prompts)


def _draft(source: Source, caption: str, task: Task) -> _Draft:
    protection = protect(task, source.label, source.classes, caption)
    return _Draft(source, caption, protection, task.sentence_for(source.label), [], [])


def _why_not(draft: _Draft, free: Sequence[str], settings: RewriteSettings, wanted: JourneySettings) -> str | None:
    """Why a source has no variants, as far as its caption says; `free` are the spans of it that may change."""
    caption, label = draft.caption, draft.source.label
    if len(caption) > settings.max_chars_caption:
        return (
            f"its caption has {len(caption)} characters, and captions of at most {settings.max_chars_caption} are "
            "rewritten; raise [rewrite].max_chars_caption"
        )
    if not free:
        return "its caption has no words that may change"
    if not draft.protection.grounded and not wanted.allow_ungrounded:
        shown = ", ".join(map(repr, draft.source.classes)) if label is None else repr(label)
        return (
            f"its caption names nothing that it is labelled with ({shown}), so that no word of it would hold the label "
            f"true; --allow-ungrounded makes variants all the same: {caption!r}"
        )
    return None


def _asked(ask: Ask, question: str, requests: Sequence[Request]) -> dict[Request, str]:
    once = list(dict.fromkeys(requests))
    return dict(zip(once, ask(question, once), strict=True)) if once else {}


def _find_keywords(
    drafts: Sequence[_Draft], settings: RewriteSettings, wanted: JourneySettings, ask: Ask, prompts: Prompts
) -> None:
    types = wanted.interventions.types if wanted.interventions else settings.types
    requests: list[Request | None] = []
    for draft in drafts:
        free = spans(draft.caption, settings.max_words_keyword, draft.keep)
        draft.problem = _why_not(draft, free, settings, wanted)
        if draft.problem:
            requests.append(None)
            continue
        prompt = prompts.keywords(draft.sentence, types, draft.protection.told, draft.caption)
        requests.append(Request(prompt, keywords_grammar(types, free, settings.max_keywords)))
    answers = _asked(ask, KEYWORDS, [request for request in requests if request])
    for draft, request in zip(drafts, requests, strict=True):
        if request is None:
            continue
        try:
            draft.keywords = drop_overlapping(draft.caption, read_keywords(answers[request]))
        except AnswerError as error:
            draft.problem = str(error)
        if not draft.keywords and not draft.problem:
            draft.problem = f"the language model found nothing in its caption that may change: {draft.caption!r}"


def _find_alternatives(
    drafts: Sequence[_Draft], settings: RewriteSettings, wanted: JourneySettings, ask: Ask, prompts: Prompts
) -> None:
    asked: list[tuple[_Draft, str, str, bool, Request]] = []
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
    answers = _asked(ask, ALTERNATIVES, [request for *_, request in asked])
    for draft, type_, keyword, given, request in asked:
        try:
            found = read_alternatives(answers[request])
        except AnswerError as error:
            draft.unread = str(error)  # a keyword without alternatives is not edited
            continue
        usable = distinct(found) if given else allowed_alternatives(found, keyword, draft.keep)
        draft.choices.append(Choice(type_, keyword, usable))


def _chosen(draft: _Draft, wanted: JourneySettings) -> list[tuple[Edit, ...]]:
    key = choice_key(draft.source.key, wanted.task, wanted.seed)
    chosen = choose_edits(draft.choices, wanted.variants, wanted.edits, key)
    if len(chosen) < wanted.variants and not draft.problem:
        low, high = wanted.edits
        draft.problem = draft.unread or (
            f"its caption allows {len(chosen)} different sets of {low} to {high} edits, and {wanted.variants} variants "
            f"are wanted: {draft.caption!r}"
        )
    return chosen


def _written(
    drafts: Sequence[_Draft],
    chosen: Sequence[Sequence[tuple[Edit, ...]]],
    settings: RewriteSettings,
    wanted: JourneySettings,
    ask: Ask,
    prompts: Prompts,
) -> list[SourceVariants]:
    def request(draft: _Draft, edits: tuple[Edit, ...]) -> Request:
        changes = [(edit.keyword, edit.alternative) for edit in edits]
        letters = draft.caption + "".join(edit.alternative for edit in edits)
        prompt = prompts.rewrite(draft.sentence, draft.protection.told, draft.caption, changes)
        if settings.verbatim:
            return Request(prompt, edited_grammar(draft.caption, changes))
        return Request(prompt, text_grammar(settings.max_chars_caption, letters))

    requests = [[request(draft, edits) for edits in sets] for draft, sets in zip(drafts, chosen, strict=True)]
    answers = _asked(ask, REWRITE, [request for row in requests for request in row])
    rewritten = []
    for draft, sets, row in zip(drafts, chosen, requests, strict=True):
        pairs = enumerate(zip(sets, row, strict=True))
        variants = tuple(_variant(draft, i, edits, answers[asked], wanted.seed) for i, (edits, asked) in pairs)
        painted = any(variant.dropped is None for variant in variants)
        controls = [_control(draft, i, wanted.seed) for i in range(wanted.controls if painted else 0)]
        rewritten.append(SourceVariants((*controls, *variants), draft.problem))
    return rewritten


def _control(draft: _Draft, number: int, seed: int) -> Variant:
    key = variant_key(draft.source.key, draft.caption, number, draft.caption, seed)
    return Variant(
        key, draft.source, number, draft.caption, (), draft.caption, seed, None, "control", draft.protection.named
    )


def _variant(draft: _Draft, index: int, edits: tuple[Edit, ...], answer: str, seed: int) -> Variant:
    try:
        edited = read_caption(answer)
        dropped = check_edited_caption(draft.caption, edited, edits, draft.keep)
    except AnswerError as error:
        edited, dropped = "", str(error)
    key = variant_key(draft.source.key, draft.caption, edits, edited, seed)
    named = draft.protection.named
    return Variant(key, draft.source, index, draft.caption, edits, edited, seed, dropped, protected=named)
