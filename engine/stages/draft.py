"""A source on its way through the questions of rewriting, and how those are put: each once, whoever asks it too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..edit import EDIT_TYPES
from ..language.request import Request
from ..sources.source import Source
from ..tasks.choose import Choice
from ..tasks.grounding import Protection, protect
from ..tasks.settings import JourneySettings
from ..tasks.task import Task

# What `ask` takes and gives: a question's name and its requests, no two alike; their answers in order.
Ask = Callable[[str, Sequence[Request]], Sequence[str]]


@dataclass(frozen=True)
class RewriteSettings:
    """The types of edits, and bounds: keywords of a caption, alternatives and words of a keyword, characters of a
    caption.

    `verbatim` holds the model to the caption's own words wherever no edit touches them, by grammar; without it the
    model writes the whole caption anew. With `menus` it proposes nothing in its own words: it chooses among phrases of
    ours, which are put into the caption by rule (tasks/menus.py). `perplexity` has the model read edited captions, as a
    score (text_filters.py). `edits` are the least and the most of a variant where nobody asks for others.
    """

    types: tuple[str, ...]
    max_keywords: int
    max_alternatives: int
    max_words_keyword: int
    max_chars_caption: int
    verbatim: bool
    menus: bool = False
    perplexity: bool = False
    edits: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        unknown = [type_ for type_ in self.types if type_ not in EDIT_TYPES]
        if unknown or not self.types or len(set(self.types)) < len(self.types):
            raise ValueError(f"types are some of {', '.join(EDIT_TYPES)}, each once; found {', '.join(self.types)}")
        for name in ("max_keywords", "max_alternatives", "max_words_keyword", "max_chars_caption"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, found {getattr(self, name)}")
        if self.edits is not None and not 1 <= self.edits[0] <= self.edits[1]:
            raise ValueError(f"edits are the least, from 1, and the most of a variant, found {list(self.edits)}")


@dataclass
class Draft:
    """What is known of one source on its way through the questions; its caption is `silent` of types of edits."""

    source: Source
    caption: str
    protection: Protection
    sentence: str
    keywords: list[tuple[str, str]]
    choices: list[Choice]
    problem: str | None = None
    unread: str | None = None
    silent: tuple[str, ...] = ()

    @property
    def keep(self) -> tuple[str, ...]:
        """The words that no edit may touch."""
        return self.protection.keep


def draft_of(source: Source, caption: str, task: Task, pointed: str | None) -> Draft:
    """What is known of a source before edits are asked for; `pointed` are words of its caption that name its label
    although no table knows it.
    """
    protection = protect(task, source.label, source.classes, caption, pointed)
    return Draft(source, caption, protection, task.sentence_for(source.label), [], [])


def why_not(draft: Draft, free: Sequence[object], settings: RewriteSettings, wanted: JourneySettings) -> str | None:
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


def ask_once(ask: Ask, question: str, requests: Sequence[Request]) -> dict[Request, str]:
    """The answers by their requests; a request that stands there twice is put once."""
    once = list(dict.fromkeys(requests))
    return dict(zip(once, ask(question, once), strict=True)) if once else {}
