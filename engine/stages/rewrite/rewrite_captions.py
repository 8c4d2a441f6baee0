"""Rewrites captions: which edits each variant gets, and its edited caption.

The language model answers questions (language/questions.py) within grammars (language/grammar.py): which words may
change and what else they could be (keywords.py), or type by type what could change or be added (proposals.py). The
engine chooses the edits (tasks/choose.py); where different ones run out, the same are painted again from other noise.
The last question is the caption with the words that are replaced; a rule adds and removes words
(english/additions.py). Words that may not change are checked at the end, whatever the model says
(english/edit_scope.py): a variant that breaks this rule is dropped with the reason.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from ...content_keys import choice_key, variant_key
from ...edit import Edit
from ...english.additions import apply_by_rule, count_links, phrase_of
from ...english.edit_scope import TextLimit, check_edited_caption, cut_edit, fit_caption
from ...english.replacing import write_by_rule
from ...errors import list_some
from ...language.chat import ChatPrompts, prompts_of
from ...language.grammar import edited_grammar, text_grammar
from ...language.llm_request import LlmRequest
from ...language.phrases import phrase_class
from ...language.questions import AnswerError, clean_text, read_caption, write_answer
from ...request import SuiteRequest
from ...sources.source import Problem, Source
from ...suite.cells import Cell, ValueCells
from ...tasks.choose import choose_edits
from ...variant import Variant
from ..run import Run
from . import given_variants, keywords, label_grounding, menu_edits, proposals, random_words
from .caption_edits import CaptionEdits, Questions, draft_of
from .matrix import CellPlan, Matrix, count_cells
from .text_filters import TextFilter, perplexities, similarities

REWRITE = "rewrite"
# Gives drafts their choices, or the problem why they have none.
Find = Callable[[Sequence[CaptionEdits]], None]
# The sets of edits of a source.
EditSets = Sequence[tuple[Edit, ...]]


@dataclass(frozen=True)
class ShardVariants:
    """The variants of a shard: those to paint, a source's controls before its variants, and those to drop since their
    text breaks the task's rules or fails the filters; why sources have fewer variants than wanted; and what was
    measured of edited captions as texts, those of dropped variants included. `cells` say what becomes of the user's
    values, where there are any.
    """

    variants: tuple[Variant, ...]
    dropped: tuple[Variant, ...]
    shortfalls: tuple[Problem, ...]
    scores: Mapping[Variant, Mapping[str, float]] = field(default_factory=dict)
    cells: tuple[ValueCells, ...] = ()


@dataclass(frozen=True)
class SourceVariants:
    """A source's controls and variants, fewer than wanted when its caption allows no more: `shortfall` then says why.

    Controls are there to be compared with variants: a source without any to paint has none. `cells` say what becomes of
    the user's values.
    """

    variants: tuple[Variant, ...]
    shortfall: str | None
    cells: Mapping[Cell, CellPlan] = field(default_factory=dict)


@dataclass(frozen=True)
class Limits:
    """What limits edits and captions in addition to the task. `pointed` are words of captions that name their source's
    label although no table knows it; `text_limit` says how many characters of a caption the painter reads; `filters`
    take out edits whose words fail, and drop captions that fail. `find` gives drafts their choices in place of the
    language model, and captions are then written by rule. `before` are the cells
    of the sources before these.
    """

    pointed: Mapping[Source, str] = field(default_factory=dict)
    text_limit: TextLimit = len
    filters: TextFilter | None = None
    find: Find | None = None
    before: Sequence[ValueCells] = ()


_NO_LIMITS = Limits()


def rewrite_captions(run: Run, captions: Mapping[Source, str], before: Sequence[ValueCells] = ()) -> ShardVariants:
    """The variants that captioned sources are to have; questions that are on record are not put again. `before` are the
    cells of the sources before these. Where pictures are given, their edits are, too, and no question is put.

    With [grounding] the model is asked which words name a label that no known word names, and what it writes freely has
    to keep the caption's meaning. Edited captions are scored as texts, and those that fail are dropped. With
    [random_words] edits are a masked language model's, and the language model is not asked for any.
    """
    with run.meter.stage("rewrite"):
        filters = _filters(run)
        if run.profile.given:
            results = [_of_given(source, text, run.request) for source, text in captions.items()]
        else:
            results = _chosen(run, captions, filters, before)
        scores = filters.scores(variant for result in results for variant in result.variants)
        run.advance("rewrite", len(captions), computed=len(captions))
    variants = [variant for result in results for variant in result.variants]
    of_sources = [(source.name, result) for source, result in zip(captions, results, strict=True)]
    return ShardVariants(
        variants=tuple(variant for variant in variants if variant.dropped is None),
        dropped=tuple(variant for variant in variants if variant.dropped is not None),
        shortfalls=tuple(Problem(name, result.shortfall) for name, result in of_sources if result.shortfall),
        scores=scores,
        cells=count_cells(Matrix(run.request).cells, {name: result.cells for name, result in of_sources}),
    )


def _of_given(source: Source, text: str, wanted: SuiteRequest) -> SourceVariants:
    variants = tuple(given_variants.given_variants(source, text, wanted))
    painted = any(variant.kind == "variant" for variant in variants)
    return SourceVariants(variants if painted else (), None if painted else "it has no edited picture that can be used")


def _chosen(
    run: Run, captions: Mapping[Source, str], filters: TextFilter, before: Sequence[ValueCells]
) -> list[SourceVariants]:
    """The variants of each source whose edits are chosen here."""

    def ask(question: str, requests: Sequence[LlmRequest]) -> list[str]:
        contents = {request: request.content for request in requests}
        answers = run.answered(question, contents, partial(_answers, run), str)
        return [answers[request] for request in requests]

    questions = Questions(run.profile.rewrite, run.request, ask, prompts_of(run.profile.llm.style))
    pointed = label_grounding.point_at_labels(run, captions, questions)
    find: Find | None = None
    if run.profile.by_rule:
        find = partial(menu_edits.find_choices, questions=questions, painter=run.profile.painter_kind)
    if (settings := run.profile.random_words) is not None:
        fill = partial(random_words.fill_blanks, run)
        find = partial(random_words.find_choices, questions=questions, settings=settings, fill=fill)
    room = len if run.profile.by_rule else run.models.caption_room()
    limits = Limits(pointed, room, filters, find, before)
    return rewrite(list(captions), list(captions.values()), questions, limits)


def _filters(run: Run) -> TextFilter:
    grounding, settings = run.profile.grounding, run.profile.rewrite
    by_rule = settings.verbatim or run.profile.random_words is not None
    return TextFilter(
        run.profile.check,
        None if grounding is None else partial(similarities, run),
        partial(perplexities, run) if settings.perplexity else None,
        None if grounding is None or by_rule else grounding.min_meaning,
    )


def _answers(run: Run, requests: Sequence[LlmRequest]) -> Sequence[str]:
    llm = run.models.llm()
    before, began = llm.usage, time.perf_counter()
    texts = llm.generate(requests)
    # Its running batch is the runtime's own affair: no capacity, so it does not count for the fill.
    run.meter.work("rewrite", "llm").add(len(requests), 0, time.perf_counter() - began)
    used = llm.usage - before
    run.meter.tokens("rewrite", used.prompt_tokens, used.generated_tokens)
    return texts


def rewrite(
    sources: Sequence[Source], captions: Sequence[str], questions: Questions, limits: Limits = _NO_LIMITS
) -> list[SourceVariants]:
    """The variants of each source, in order; they depend on no other source."""
    request = questions.request
    drafts = []
    for source, text in zip(sources, captions, strict=True):
        draft = draft_of(source, clean_text(text), request.task, limits.pointed.get(source))
        draft.caption = fit_caption(draft.caption, draft.keep, limits.text_limit)
        drafts.append(draft)
    if limits.find is not None:
        limits.find(drafts)
    elif isinstance(questions.prompts, ChatPrompts):
        proposals.find_choices(drafts, questions)
    else:
        keywords.find_choices(drafts, questions)
    matrix = Matrix(request, limits.before)
    for draft in drafts:
        draft.choices = [choice for choice in draft.choices if choice.type not in draft.withheld]
        matrix.note(draft)
    if limits.filters is not None:
        limits.filters.keep_passing(drafts)
    chosen = [_choose(draft, request, matrix.plan(draft)) for draft in drafts]
    results = zip(drafts, _write_variants(drafts, chosen, questions, limits), strict=True)
    return [replace(result, cells=matrix.outcomes(draft, result.variants)) for draft, result in results]


def _choose(draft: CaptionEdits, wanted: SuiteRequest, first: EditSets) -> EditSets:
    key = choice_key(draft.source.key, wanted.task, wanted.seed)
    chosen = choose_edits(draft.choices, wanted.sets, wanted.edits, key, first, draft.exclusive)
    if not chosen and not draft.problem:
        low, high = wanted.edits
        never = list_some(sorted(" and ".join(sorted(pair)) for pair in draft.exclusive), 3)
        why = f"never together are {never}" if never else repr(draft.caption)
        draft.problem = draft.unread or f"its caption allows no set of {low} to {high} edits: {why}"
    return chosen


def _write_variants(
    drafts: Sequence[CaptionEdits], chosen: Sequence[EditSets], questions: Questions, limits: Limits
) -> list[SourceVariants]:
    request = questions.request
    by_rule = limits.find is not None or questions.settings.menus
    texts = _edited_texts(drafts, chosen, questions, by_rule=by_rule)

    def usable(draft: CaptionEdits, edits: tuple[Edit, ...], answer: str) -> tuple[str, str | None]:
        try:
            edited = apply_by_rule(read_caption(answer), edits)
            dropped = check_edited_caption(draft.caption, edited, edits, draft.keep)
            return edited, dropped or cut_edit(draft.caption, edited, limits.text_limit)
        except AnswerError as error:
            return "", str(error)

    def spoilt(draft: CaptionEdits, edits: tuple[Edit, ...], answer: str) -> bool:
        edited, dropped = usable(draft, edits, answer)
        room = sum(max(0, count_links(edit.alternative) - count_links(edit.keyword)) for edit in edits)
        return dropped is not None or count_links(edited) > count_links(draft.caption) + room  # "are on forest houses"

    if request.interventions is not None and not by_rule:  # a cell is not lost for a caption that the model spoils
        texts = [
            [
                rule if spoilt(draft, edits, text) and (rule := _by_rule(draft.caption, edits)) else text
                for edits, text in zip(sets, answers, strict=True)
            ]
            for draft, sets, answers in zip(drafts, chosen, texts, strict=True)
        ]

    def variant(draft: CaptionEdits, index: int, edits: tuple[Edit, ...], answer: str) -> Variant:
        edited, dropped = usable(draft, edits, answer)
        source, caption, seed = draft.source, draft.caption, request.seed
        key = variant_key(source.key, caption, edits, edited, seed)
        return Variant(key, source, index, caption, edits, edited, seed, dropped, protected=draft.protection.named)

    written = [
        [variant(draft, i, edits, text) for i, (edits, text) in enumerate(zip(sets, answers, strict=True))]
        for draft, sets, answers in zip(drafts, chosen, texts, strict=True)
    ]
    if limits.filters is not None:
        written = limits.filters.drop_failing(limits.filters.drop_changed(written, texts))
    rewritten = []
    for draft, row in zip(drafts, written, strict=True):
        again = _repeats(row, request.sets, draft.still)
        variants = list(at_levels([*row, *again], request))
        painted = any(variant.dropped is None for variant in variants)
        controls = [_control(draft, i, request.seed) for i in range(request.controls if painted else 0)]
        short = None if painted else next((f"no edited caption could be used: {v.dropped}" for v in row), None)
        if painted and len(row) + len(again) < request.sets:
            short = (
                f"its values make {len(row) + len(again)} different pictures of a level, fewer than --variants asks for"
            )
        rewritten.append(SourceVariants((*controls, *variants), draft.problem or short))
    return rewritten


def _edited_texts(
    drafts: Sequence[CaptionEdits], chosen: Sequence[EditSets], questions: Questions, *, by_rule: bool
) -> list[list[str]]:
    """The captions with what is replaced of each set of edits, as the model answers, or as a rule writes them."""
    settings = questions.settings

    def changes(edits: tuple[Edit, ...]) -> list[tuple[str, str]]:
        return [(edit.keyword, edit.alternative) for edit in edits if edit.kind == "replace"]

    def request(draft: CaptionEdits, edits: tuple[Edit, ...]) -> LlmRequest | None:
        if by_rule or not changes(edits):
            return None
        letters = draft.caption + "".join(edit.alternative for edit in edits)
        prompt = questions.prompts.rewrite(draft.sentence, draft.protection.told, draft.caption, changes(edits))
        if settings.verbatim:
            return LlmRequest(prompt, edited_grammar(draft.caption, changes(edits)))
        return LlmRequest(prompt, text_grammar(settings.max_chars_caption, letters))

    requests = [[request(draft, edits) for edits in sets] for draft, sets in zip(drafts, chosen, strict=True)]
    answers = questions.answers(REWRITE, [request for row in requests for request in row if request])
    return [
        [
            answers[question] if question else write_answer(write_by_rule(draft.caption, changes(edits)))
            for edits, question in zip(sets, row, strict=True)
        ]
        for draft, sets, row in zip(drafts, chosen, requests, strict=True)
    ]


def _by_rule(caption: str, edits: Sequence[Edit]) -> str | None:
    """The answer that a rule writes in the model's place: with the small word that an alternative needs, and the noun
    that a keyword of several words keeps; None where edits share words.
    """
    changes = []
    for edit in edits:
        old, new = edit.keyword, edit.alternative
        if edit.kind == "replace" and phrase_class(old) == "place":
            new = phrase_of(edit.type, new)
        elif edit.kind == "replace" and " " in old and phrase_class(old) == phrase_class(new) == "bare":
            noun = old.rpartition(" ")[2]
            new = new if noun.casefold() in new.casefold().split() else f"{new} {noun}"
        changes += [(old, new)] * (edit.kind == "replace")
    try:
        return write_answer(write_by_rule(caption, changes))
    except ValueError:
        return None


def _repeats(variants: Sequence[Variant], wanted: int, still: frozenset[str]) -> list[Variant]:
    """Variants for the numbers below `wanted` that have none: earlier ones of other noise, the least repeated first,
    but for those of `still` alternatives alone.
    """
    usable = [one for one in variants if one.dropped is None and not still.issuperset(e.alternative for e in one.edits)]
    times = Counter(variant.edits for variant in usable)
    repeats = []
    for index in range(wanted if usable else 0):
        if index < len(variants) and variants[index].dropped is None:
            continue
        before = [variant for variant in usable if variant.index < index] or usable
        original = min(before, key=lambda variant: times[variant.edits])
        repeat = times[original.edits]
        repeats.append(replace(original, key=_key(original, repeat), index=index, repeat=repeat))
        times[original.edits] += 1
    return repeats


def at_levels(variants: Sequence[Variant], wanted: SuiteRequest) -> Iterator[Variant]:
    """Each variant at all levels, from the faintest, as far as variants are wanted; one that is dropped once."""
    chosen, levels = wanted.painted_levels
    for variant in variants:
        for place, level in enumerate(chosen if variant.dropped is None else chosen[:1]):
            index = variant.index * len(chosen) + place
            if index >= wanted.variants:
                break
            graded = replace(variant, index=index, level=level, levels=levels, series=variant.key)
            if level < levels and variant.dropped is None:
                graded = replace(graded, key=_key(variant, variant.repeat, (level, levels)))
            yield graded if levels > 1 else variant


def _key(of: Variant, repeat: int, level: tuple[int, int] | None = None) -> str:
    return variant_key(of.source.key, of.caption, of.edits, of.edited_caption, of.seed, repeat, level)


def _control(draft: CaptionEdits, number: int, seed: int) -> Variant:
    source, caption = draft.source, draft.caption
    key = variant_key(source.key, caption, number, caption, seed)
    return Variant(key, source, number, caption, (), caption, seed, None, "control", draft.protection.named)
