"""The caption round trip: the captioner looks at a painted picture, and says how likely it would write the words that
were painted where the edited caption has them.

    said_edits     the share of the words that an edit brought, against those in whose place they are; of the worst edit
    said_TYPE      the same of the worst edit of a type ("said_colour")
    said_label     the probability of the words that name the label                 of sources whose caption names it

A probability is the geometric mean of those of the words' tokens, each after the text before it, so that a phrase is
not the less likely for being long. A share is that of the edited caption's words in the sum with the probability of the
words that they replace, in the same caption with this edit undone: a captioner that would rather begin another way
doubts both alike. Words that were only added have their own probability, those that were only taken away one less
theirs. The captioner has no part in painting: what it reads is no echo of the caption. [check] recaption asks for it,
and recaption_of says for which types of edits, and whether for the label.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from ...english.difference import Word, compare, words_of
from ...english.label_names import ground, names_of
from ...english.mentions import normalise
from ...english.replacing import undo_edits
from ...files.fill import fits
from ...models.blip2 import Reading
from ...profile.caption import LABEL
from ...schedule.overlap import in_chunks
from ...variant import Variant
from ..run import Painted, Recipe, Run, load_ahead

Span = tuple[int, int]
# Words of a phrase that a caption may put otherwise.
_PLACES = ("in", "on", "at", "of", "by", "to", "from", "with", "during")
_SMALL = frozenset({*("a", "an", "the", "its", "it", "is", "are", "and"), *_PLACES})
# Where the words and those that they replace are both less likely than this, their share is 0.
_NOTHING = 1e-12
# Batches of pictures whose texts are read together: those that are edited at about the same place share runs.
_TOGETHER = 4
# Pictures that are read ahead of the network.
_AHEAD = 8


@dataclass(frozen=True)
class Words:
    """Words of a text: characters [start, end) of each of the `spans`."""

    text: str
    spans: tuple[Span, ...]


@dataclass(frozen=True)
class WordsQuestion:
    """The words that a picture should show, and those that it showed before; one of both may be None."""

    shown: Words | None
    gone: Words | None = None


# About a picture: one for each edit, None where all of its words are small ones, and last one for the label, None where
# no caption names it. Questions that are not wanted are None as well.
PictureQuestions = tuple[WordsQuestion | None, ...]


def recaption(run: Run, painted: Painted) -> dict[Variant, dict[str, float]]:
    """The scores of painted pictures by the captioner's second look; controls have no edit."""
    settings = run.profile.caption
    # A prefix that names the label is a part of the captions themselves.
    prefix = "" if LABEL in settings.prefix else settings.prefix
    room = settings.decoding.max_tokens
    questions = {variant: ask(variant, run.profile.check.reads) for variant in painted}
    keys = {v: run.keys.recaption_key(row.image.sha256, prefix, room, questions[v]) for v, row in painted.items()}

    def make(todo: list[Variant]) -> Generator[dict[Variant, list[float | None]], None, None]:
        readable = [variant for variant in todo if words_to_read(questions[variant])]
        yield {variant: answers(questions[variant], []) for variant in todo if not words_to_read(questions[variant])}
        pictures = load_ahead(readable, lambda variant: run.suite.load_image(painted[variant]), _AHEAD)
        for part in in_chunks(pictures, settings.batch * _TOGETHER):
            shown = dict(part)
            readings = [
                Reading(i, words.text, words.spans)
                for i, variant in enumerate(shown)
                for words in words_to_read(questions[variant])
            ]
            probabilities = iter(run.models.blip2().read(list(shown.values()), readings, prefix, room))
            yield {variant: answers(questions[variant], probabilities) for variant in shown}

    def sound(variant: Variant, row: object) -> bool:
        return fits(tuple[float | None, ...], row) and len(cast("list[object]", row)) == len(questions[variant])

    with run.meter.stage("check"):
        # Among the captions, so that the captioner's stage makes room for it.
        rows: Mapping[Variant, Sequence[float | None]] = run.recorded("caption", keys, Recipe(make, sound))
    return {variant: recaption_scores(variant, row) for variant, row in rows.items()}


def ask(variant: Variant, wanted: Callable[[str], bool] = lambda what: True) -> PictureQuestions:
    """The questions about a picture, for edits of the types, and for the "label", that are `wanted`."""
    edits: list[WordsQuestion | None] = [None] * len(variant.edits)
    if any(wanted(edit.type) for edit in variant.edits):
        pairs = undo_edits(variant.caption, variant.edited_caption, variant.edits)
        edits = [_edit_words(*pair) if wanted(e.type) else None for e, pair in zip(variant.edits, pairs, strict=True)]
    return (*edits, _label_words(variant.source.label, variant) if wanted("label") else None)


def words_to_read(questions: PictureQuestions) -> list[Words]:
    """All that is read for the questions about a picture, in the order in which `answers` takes it."""
    return [words for question in questions if question for words in (question.shown, question.gone) if words]


def answers(questions: PictureQuestions, read: Iterable[Sequence[float | None]]) -> list[float | None]:
    """The answers by the probabilities `read` of the words' spans; None without a question, or a span that was read."""
    reading = iter(read)
    return [
        None if one is None else _answer(*(next(reading) if words else () for words in (one.shown, one.gone)))
        for one in questions
    ]


def _answer(shown_spans: Sequence[float | None], gone_spans: Sequence[float | None]) -> float | None:
    if None in (*shown_spans, *gone_spans):
        return None
    # Of several places the worst counts.
    shown = min((span for span in shown_spans if span is not None), default=None)
    gone = max((span for span in gone_spans if span is not None), default=None)
    if shown is None or gone is None:
        return round(shown if shown is not None else 1 - (gone or 0.0), 6)
    return round(shown / max(shown + gone, _NOTHING), 6)


def recaption_scores(variant: Variant, answers: Sequence[float | None]) -> dict[str, float]:
    """The scores of a picture by the answers to its questions: those of its edits, and the label's."""
    *edits, label = answers
    scores: dict[str, float] = {}
    for edit, answer in zip(variant.edits, edits, strict=True):
        if answer is not None:
            for name in ("said_edits", f"said_{edit.type}"):
                scores[name] = min(answer, scores.get(name, 1.0))
    return scores if label is None else scores | {"said_label": label}


def _edit_words(edited: str, undone: str) -> WordsQuestion | None:
    """The words that an edit brought to the text `edited`, and those of the text without it that it took."""
    changes = compare(undone, edited).changes
    brought, taken = _spans([change.added for change in changes]), _spans([change.removed for change in changes])
    if not brought and not taken:
        return None
    return WordsQuestion(Words(edited, brought) if brought else None, Words(undone, taken) if taken else None)


def _spans(phrases: Sequence[Sequence[Word]]) -> tuple[Span, ...]:
    """Where phrases lie, from their first to their last word that is no small one."""
    contents = [[word for word in phrase if word.same not in _SMALL] for phrase in phrases]
    return tuple((content[0].start, content[-1].end) for content in contents if content)


def _label_words(label: str | None, variant: Variant) -> WordsQuestion | None:
    """Where the edited caption first names the label."""
    if label is None or not ground(variant.caption, names_of(label)):
        return None
    text = variant.edited_caption
    named, words = ground(text, names_of(label)), words_of(text)
    for i, first in enumerate(words):
        for last in words[i : i + max((len(name.split()) for name in named), default=0)]:
            if normalise(text[first.start : last.end]) in named:
                return WordsQuestion(Words(text, ((first.start, last.end),)))
    return None
