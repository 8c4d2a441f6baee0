"""The caption round trip: the captioner looks at a painted picture, and says how likely it would write the words that
were painted where the edited caption has them.

    said_edits     the share of the words that an edit brought, against those in whose place they are; of the worst edit
    said_TYPE      the same of the worst edit of a type ("said_colour")
    said_label     the probability of the words that name the label                 of sources whose caption names it

A probability is the geometric mean of those of the words' tokens, each after the text before it, so that a phrase is
not the less likely for being long. A share is that of the edited caption's words in the sum with the probability of the
words that they replace, in the same caption with this edit undone: a captioner that would rather begin another way
doubts both alike. Words that were only added have their own probability, those that were only taken away one less
theirs. The captioner has no part in painting: what it reads is no echo of the caption. Reading a given text costs less
than writing one, since it ends with the last word that is asked for. [check] recaption asks for it, and
recaption_of says for which types of edits, and whether for the label.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...english.difference import Word, compare, words_of
from ...english.mentions import normalise
from ...english.names import ground, names_of
from ...english.undo import undo_edits
from ...models.blip2 import Reading
from ...profile.caption import LABEL
from ...schedule.overlap import in_chunks, prefetch
from ...suite import PaintedRow
from ...variant import Variant
from ..run import Run

Pixels = NDArray[np.uint8]
Span = tuple[int, int]
# Whether the captioner is to look for edits of a type, or for the "label".
Wanted = Callable[[str], bool]
# Words of a phrase that a caption may put otherwise.
_PLACES = ("in", "on", "at", "of", "by", "to", "from", "with", "during")
_SMALL = frozenset({*("a", "an", "the", "its", "it", "is", "are", "and"), *_PLACES})
# Words that are both less likely than this are as likely as each other to nobody: their share is 0.
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
class Question:
    """The words that a picture should show, and those that it showed before; one of both may be None."""

    shown: Words | None
    gone: Words | None = None


@dataclass(frozen=True)
class Asked:
    """What is asked of a picture: of each edit, None where all of its words are small ones; and of the label, None
    where no caption names it. None of what nobody wants to know, too.
    """

    edits: tuple[Question | None, ...]
    label: Question | None

    @property
    def questions(self) -> tuple[Question | None, ...]:
        """The edits' and the label's."""
        return (*self.edits, self.label)

    @property
    def words(self) -> list[Words]:
        """All that is read."""
        return [words for one in self.questions if one for words in (one.shown, one.gone) if words]


def recaption(run: Run, painted: Mapping[Variant, PaintedRow]) -> dict[Variant, dict[str, float]]:
    """The scores of painted pictures by the captioner's second look; controls have no edit."""
    settings = run.profile.caption
    # A prefix that names the label is a part of the captions themselves.
    prefix = "" if LABEL in settings.prefix else settings.prefix
    room = settings.decoding.max_tokens
    asked = {variant: ask(variant, run.profile.check.reads) for variant in painted}
    keys = {
        variant: run.keys.recaption_key(row.image.sha256, prefix, room, asked[variant].questions)
        for variant, row in painted.items()
    }

    def load(variant: Variant) -> Pixels:
        return run.suite.load_image(painted[variant])

    def make(todo: list[Variant]) -> Generator[dict[Variant, list[float | None]], None, None]:
        some = [variant for variant in todo if asked[variant].words]
        yield {variant: answers(asked[variant], []) for variant in todo if not asked[variant].words}
        for part in in_chunks(prefetch(some, load, _AHEAD), settings.batch * _TOGETHER):
            shown = {variant: _loaded(found) for variant, found in part}
            readings = [Reading(i, w.text, w.spans) for i, variant in enumerate(shown) for w in asked[variant].words]
            found = iter(run.models.blip2().read(list(shown.values()), readings, prefix, room))
            yield {v: answers(asked[v], [next(found) for _ in asked[v].words]) for v in shown}

    with run.meter.stage("check"):
        # Among the captions, so that the captioner's stage makes room for it.
        found: Mapping[Variant, Sequence[float | None]] = run.recorded("caption", keys, make)
    return {variant: said(variant, of_it) for variant, of_it in found.items()}


def ask(variant: Variant, wanted: Wanted = lambda what: True) -> Asked:
    """What a variant's or control's picture is asked."""
    edits: list[Question | None] = [None] * len(variant.edits)
    if any(wanted(edit.type) for edit in variant.edits):
        pairs = undo_edits(variant.caption, variant.edited_caption, variant.edits)
        edits = [_edit_words(*pair) if wanted(e.type) else None for e, pair in zip(variant.edits, pairs, strict=True)]
    return Asked(tuple(edits), _label_words(variant.source.label, variant) if wanted("label") else None)


def answers(asked: Asked, read: Sequence[Sequence[float | None]]) -> list[float | None]:
    """The answers to the questions by the probabilities that were read of the spans of `asked.words`; None to what was
    not asked, and where a span was not read.
    """
    found = dict(zip(map(id, asked.words), read, strict=True))
    return [None if one is None else _answer(one, found) for one in asked.questions]


def _answer(asked: Question, read: Mapping[int, Sequence[float | None]]) -> float | None:
    spans = [read[id(words)] if words else () for words in (asked.shown, asked.gone)]
    if None in (*spans[0], *spans[1]):
        return None
    # Of several places the worst counts.
    shown = min((span for span in spans[0] if span is not None), default=None)
    gone = max((span for span in spans[1] if span is not None), default=None)
    if shown is None or gone is None:
        return round(shown if shown is not None else 1 - (gone or 0.0), 6)
    return round(shown / max(shown + gone, _NOTHING), 6)


def said(variant: Variant, answers: Sequence[float | None]) -> dict[str, float]:
    """The scores of a picture by the answers to what it was asked: the edits', and the label's."""
    *edits, label = answers
    found: dict[str, float] = {}
    for edit, answer in zip(variant.edits, edits, strict=True):
        if answer is not None:
            for name in ("said_edits", f"said_{edit.type}"):
                found[name] = min(answer, found.get(name, 1.0))
    return found if label is None else found | {"said_label": label}


def _edit_words(made: str, kept: str) -> Question | None:
    """The words that an edit brought to the text `made`, and those of the text without it that it took."""
    changes = compare(kept, made).changes
    brought, taken = (
        _spans([change.added for change in changes]),
        _spans([change.removed for change in changes]),
    )
    if not brought and not taken:
        return None
    return Question(Words(made, brought) if brought else None, Words(kept, taken) if taken else None)


def _spans(phrases: Sequence[Sequence[Word]]) -> tuple[Span, ...]:
    """Where phrases lie, from their first to their last word that is no small one."""
    found = []
    for phrase in phrases:
        said = [word for word in phrase if word.same not in _SMALL]
        if said:
            found.append((said[0].start, said[-1].end))
    return tuple(found)


def _label_words(label: str | None, variant: Variant) -> Question | None:
    """Where the edited caption first names the label."""
    if label is None or not ground(variant.caption, names_of(label)):
        return None
    text = variant.edited_caption
    named, words = ground(text, names_of(label)), words_of(text)
    for i, first in enumerate(words):
        for last in words[i : i + max((len(name.split()) for name in named), default=0)]:
            if normalise(text[first.start : last.end]) in named:
                return Question(Words(text, ((first.start, last.end),)))
    return None


def _loaded(found: Pixels | Exception) -> Pixels:
    if isinstance(found, Exception):
        raise found
    return found
