"""Rewrites captions: which edits each variant gets, and its edited caption.

From a shard's captions, a task and the settings of a run it makes the variants of each source. The language model
answers questions (language/questions.py) within grammars (language/grammar.py): which words may change and what else
they could be, or type by type what could change or be added (stages/proposals.py). The engine chooses the edits
(tasks/choose.py); where different ones run out, the same are painted again from other noise. The last question is the
caption with the words that are replaced; what is added or removed is put by rule (tasks/additions.py). Words that may
not change are checked at the end, whatever the model says (tasks/words.py): a variant that breaks them is dropped with
the reason. Where answers come from and where they are kept is the caller's: `ask` is given all the requests of a
question at once, none of them twice.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType

from ..edit import Edit
from ..language.chat import ChatPrompts
from ..language.grammar import edited_grammar, text_grammar
from ..language.questions import AnswerError, SpanPrompts, TypedPrompts, clean_text, read_caption, write_answer
from ..language.request import Request
from ..recipes import choice_key, variant_key
from ..sources.source import Problem, Source
from ..tasks.additions import apply_by_rule
from ..tasks.choose import choose_edits
from ..tasks.room import Room, cut_edit, fit_caption
from ..tasks.settings import JourneySettings
from ..tasks.words import check_edited_caption
from ..tasks.writing import write_by_rule
from ..variant import Variant
from . import keywords, pointing, proposals, random_words
from .desk import Desk
from .draft import Ask, Draft, RewriteSettings, ask_once, draft_of
from .meaning import MeaningCheck, similarities
from .pointing import GroundingSettings
from .random_words import RandomWordSettings
from .text_filters import TextFilter, TextThresholds, perplexities

REWRITE = "rewrite"
# Gives drafts their choices, or the problem why they have none.
Find = Callable[[Sequence[Draft]], None]


@dataclass(frozen=True)
class Rewritten:
    """The variants of a shard: those to paint, a source's controls before its variants, and those to drop since their
    text breaks the task's rules or fails the filters; why sources have fewer variants than wanted; and what was
    measured of edited captions as texts, those of dropped variants included.
    """

    variants: tuple[Variant, ...]
    dropped: tuple[Variant, ...]
    shortfalls: tuple[Problem, ...]
    scores: Mapping[Variant, Mapping[str, float]] = field(default_factory=dict)


@dataclass(frozen=True)
class SourceVariants:
    """A source's controls and variants, fewer than wanted when its caption allows no more: `shortfall` then says why.

    Controls are there to be compared with variants: a source without any to paint has none.
    """

    variants: tuple[Variant, ...]
    shortfall: str | None


def run(
    desk: Desk,
    captions: Mapping[Source, str],
    settings: RewriteSettings,
    asked_for: JourneySettings,
    prompts: SpanPrompts | TypedPrompts,
    grounding: GroundingSettings | None = None,
    thresholds: TextThresholds | None = None,
    random: RandomWordSettings | None = None,
) -> Rewritten:
    """The variants that captioned sources are to have; questions that are on record are not put again.

    With `grounding`, which goes with prompts that converse, the model is asked what names a label that no word does,
    and what it writes freely is held to what the caption means. With `thresholds` edited captions are scored as texts,
    as far as there is an encoder or [rewrite] wants perplexity, and those that fail are dropped. With `random` edits
    are a masked language model's, and the language model is not asked for any.
    """

    def ask(question: str, requests: Sequence[Request]) -> list[str]:
        keys = {request: desk.recipes.answer_key(question, request.content) for request in requests}
        answers = desk.recorded("rewrite", keys, lambda todo: _answers(desk, todo))
        return [answers[request] for request in requests]

    with desk.meter.stage("rewrite"):
        pointed: Mapping[Source, str] = {}
        meaning: MeaningCheck | None = None
        if grounding is not None:
            assert isinstance(prompts, ChatPrompts), "checked by the profile"
            pointed = pointing.run(desk, captions, asked_for.task, grounding, prompts, ask)
            if not settings.verbatim and random is None:
                meaning = MeaningCheck(partial(similarities, desk), grounding.min_meaning)
        filters = None if thresholds is None else _filter(desk, settings, grounding, thresholds)
        find = None if random is None else _random_finder(desk, random, settings, asked_for)
        room, texts = desk.models.caption_room(), list(captions.values())
        results = rewrite(
            list(captions), texts, settings, asked_for, ask, prompts, pointed, room, meaning, filters, find
        )
        scores = {} if filters is None else filters.scores(v for result in results for v in result.variants)
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
        scores=scores,
    )


def _filter(
    desk: Desk, settings: RewriteSettings, grounding: GroundingSettings | None, thresholds: TextThresholds
) -> TextFilter:
    """What can be measured of edited captions."""
    return TextFilter(
        thresholds,
        None if grounding is None else partial(similarities, desk),
        partial(perplexities, desk) if settings.perplexity else None,
    )


def _random_finder(desk: Desk, random: RandomWordSettings, settings: RewriteSettings, wanted: JourneySettings) -> Find:
    fill = partial(random_words.fill_blanks, desk)
    return lambda drafts: random_words.find_choices(drafts, random, settings, wanted, fill)


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
    prompts: SpanPrompts | TypedPrompts,
    pointed: Mapping[Source, str] = MappingProxyType({}),
    room: Room = len,
    meaning: MeaningCheck | None = None,
    filters: TextFilter | None = None,
    find: Find | None = None,
) -> list[SourceVariants]:
    """The variants of each source, in order; they depend on no other source. `prompts` puts the questions; `pointed`
    are words of captions that name their source's label although no table knows it; `room` says how many characters of
    a caption the painter reads; `meaning` holds rewritten captions to what they say beside their edits; `filters` keeps
    edits whose words fail from being chosen, and drops captions that fail. `find` gives drafts their choices in place
    of the language model; captions are then written by rule.
    """
    drafts = [
        draft_of(source, clean_text(text), wanted.task, pointed.get(source))
        for source, text in zip(sources, captions, strict=True)
    ]
    for draft in drafts:
        draft.caption = fit_caption(draft.caption, draft.keep, room)
    if find is not None:
        find(drafts)
    elif isinstance(prompts, TypedPrompts):
        proposals.find_choices(drafts, settings, wanted, ask, prompts)
    else:
        keywords.find_choices(drafts, settings, wanted, ask, prompts)
    if filters is not None:
        filters.keep_passing(drafts)
    chosen = [_chosen(draft, wanted) for draft in drafts]
    writer = None if find is not None or settings.menus else prompts
    return _written(drafts, chosen, settings, wanted, ask, writer, room, meaning, filters)


def _chosen(draft: Draft, wanted: JourneySettings) -> list[tuple[Edit, ...]]:
    key = choice_key(draft.source.key, wanted.task, wanted.seed)
    chosen = choose_edits(draft.choices, wanted.sets, wanted.edits, key)
    if not chosen and not draft.problem:
        low, high = wanted.edits
        draft.problem = draft.unread or f"its caption allows no set of {low} to {high} edits: {draft.caption!r}"
    return chosen


def _written(
    drafts: Sequence[Draft],
    chosen: Sequence[Sequence[tuple[Edit, ...]]],
    settings: RewriteSettings,
    wanted: JourneySettings,
    ask: Ask,
    writer: SpanPrompts | TypedPrompts | None,
    room: Room,
    meaning: MeaningCheck | None,
    filters: TextFilter | None,
) -> list[SourceVariants]:
    def request(draft: Draft, edits: tuple[Edit, ...]) -> Request | None:
        changes = [(edit.keyword, edit.alternative) for edit in edits if edit.kind == "replace"]
        if not changes or writer is None:
            return None
        letters = draft.caption + "".join(edit.alternative for edit in edits)
        prompt = writer.rewrite(draft.sentence, draft.protection.told, draft.caption, changes)
        if settings.verbatim:
            return Request(prompt, edited_grammar(draft.caption, changes))
        return Request(prompt, text_grammar(settings.max_chars_caption, letters))

    requests = [[request(draft, edits) for edits in sets] for draft, sets in zip(drafts, chosen, strict=True)]
    answers = ask_once(ask, REWRITE, [request for row in requests for request in row if request])
    texts = [
        [answers[asked] if asked else _by_rule(draft, edits) for edits, asked in zip(sets, row, strict=True)]
        for draft, sets, row in zip(drafts, chosen, requests, strict=True)
    ]
    written = [
        [
            _variant(draft, i, edits, text, wanted.seed, room)
            for i, (edits, text) in enumerate(zip(sets, said, strict=True))
        ]
        for draft, sets, said in zip(drafts, chosen, texts, strict=True)
    ]
    if meaning is not None:
        written = meaning.drop_changed(written, texts)
    if filters is not None:
        written = filters.drop_failing(written)
    rewritten = []
    for draft, made in zip(drafts, written, strict=True):
        variants = list(at_levels([*made, *_repeats(made, wanted.sets)], wanted))
        painted = any(variant.dropped is None for variant in variants)
        controls = [_control(draft, i, wanted.seed) for i in range(wanted.controls if painted else 0)]
        short = None if painted else next((f"no edited caption could be used: {v.dropped}" for v in made), None)
        rewritten.append(SourceVariants((*controls, *variants), draft.problem or short))
    return rewritten


def _by_rule(draft: Draft, edits: Sequence[Edit]) -> str:
    """What a model would answer that makes the replacements among the edits and nothing else."""
    changes = [(edit.keyword, edit.alternative) for edit in edits if edit.kind == "replace"]
    return write_answer(write_by_rule(draft.caption, changes))


def _repeats(made: Sequence[Variant], wanted: int) -> list[Variant]:
    """Variants for the numbers below `wanted` that are dropped, or for which there are no other edits: those made
    before, the least repeated first, from other noise.
    """
    usable = [variant for variant in made if variant.dropped is None]
    times = Counter(variant.edits for variant in usable)
    found = []
    for index in range(wanted if usable else 0):
        if index < len(made) and made[index].dropped is None:
            continue
        before = [variant for variant in usable if variant.index < index] or usable
        one = min(before, key=lambda variant: times[variant.edits])
        found.append(_again(one, index, times[one.edits]))
        times[one.edits] += 1
    return found


def at_levels(variants: Sequence[Variant], wanted: JourneySettings) -> Iterator[Variant]:
    """Each variant at all levels, from the faintest, as far as variants are wanted; one that is dropped once."""
    levels = wanted.levels
    for variant in variants:
        for level in range(1, levels + 1 if variant.dropped is None else 2):
            index = variant.index * levels + level - 1
            if index >= wanted.variants:
                break
            made = replace(variant, index=index, level=level, levels=levels, series=variant.key)
            if level < levels and variant.dropped is None:
                of = (variant.source.key, variant.caption, variant.edits, variant.edited_caption, variant.seed)
                made = replace(made, key=variant_key(*of, variant.repeat, (level, levels)))
            yield made if levels > 1 else variant


def _again(variant: Variant, index: int, repeat: int) -> Variant:
    key = variant_key(variant.source.key, variant.caption, variant.edits, variant.edited_caption, variant.seed, repeat)
    return replace(variant, key=key, index=index, repeat=repeat)


def _control(draft: Draft, number: int, seed: int) -> Variant:
    key = variant_key(draft.source.key, draft.caption, number, draft.caption, seed)
    return Variant(
        key, draft.source, number, draft.caption, (), draft.caption, seed, None, "control", draft.protection.named
    )


def _variant(draft: Draft, index: int, edits: tuple[Edit, ...], answer: str, seed: int, room: Room) -> Variant:
    try:
        edited = apply_by_rule(read_caption(answer), edits)
        dropped = check_edited_caption(draft.caption, edited, edits, draft.keep)
        dropped = dropped or cut_edit(draft.caption, edited, room)
    except AnswerError as error:
        edited, dropped = "", str(error)
    key = variant_key(draft.source.key, draft.caption, edits, edited, seed)
    named = draft.protection.named
    return Variant(key, draft.source, index, draft.caption, edits, edited, seed, dropped, protected=named)
