"""What is known of a source's caption while its edits are asked for, and how questions are put: each one once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ...english.conditions import conditions_of
from ...language.chat import ChatPrompts
from ...language.llm_request import LlmRequest
from ...language.questions import PlainPrompts
from ...profile.rewrite import RewriteSettings
from ...request import SuiteRequest
from ...sources.source import Source
from ...tasks.choose import Choice, Exclusive
from ...tasks.task import Protection, Task, protect

# What `ask` takes and gives: a question's name and its requests, no two alike; their answers in order.
Ask = Callable[[str, Sequence[LlmRequest]], Sequence[str]]


@dataclass(frozen=True)
class Questions:
    """How captions are asked about: the bounds, the request that edits serve, who answers, and the prompts."""

    settings: RewriteSettings
    request: SuiteRequest
    ask: Ask
    prompts: PlainPrompts | ChatPrompts

    def answers(self, question: str, requests: Sequence[LlmRequest]) -> dict[LlmRequest, str]:
        """The answers by their requests; a request that stands there twice is put once."""
        once = list(dict.fromkeys(requests))
        return dict(zip(once, self.ask(question, once), strict=True)) if once else {}


@dataclass(eq=False)
class CaptionEdits:
    """What is known of one source on its way through the questions. A picture of `still` alternatives alone is the same
    however often it is painted.
    """

    source: Source
    caption: str
    protection: Protection
    sentence: str
    keywords: list[tuple[str, str]] = field(default_factory=list)
    choices: list[Choice] = field(default_factory=list)
    exclusive: Exclusive = frozenset()
    still: frozenset[str] = frozenset()
    problem: str | None = None
    unread: str | None = None

    @property
    def withheld(self) -> frozenset[str]:
        """The types of edits that would make the label, or a class that is shown, false."""
        labels = [label for label in (self.source.label, *self.source.classes) if label is not None]
        return frozenset(type_ for label in labels for type_ in conditions_of(label))

    @property
    def keep(self) -> tuple[str, ...]:
        """The words that no edit may touch."""
        return self.protection.keep


def draft_of(source: Source, caption: str, task: Task, pointed: str | None) -> CaptionEdits:
    """What is known of a source before edits are asked for; `pointed` words name its label, which no table knows."""
    protection = protect(task, source.label, source.classes, caption, pointed)
    return CaptionEdits(source, caption, protection, task.sentence_for(source.label))


def why_not(draft: CaptionEdits, free: Sequence[object], questions: Questions) -> str | None:
    """Why a source has no variants, as far as its caption says; `free` are the spans of it that may change."""
    caption, label = draft.caption, draft.source.label
    if not free:
        return "its caption has no words that may change"
    if not draft.protection.grounded and not questions.request.allow_ungrounded:
        shown = ", ".join(map(repr, draft.source.classes)) if label is None else repr(label)
        return (
            f"its caption names nothing that it is labelled with ({shown}), so that no word of it would hold the label "
            f"true; --allow-ungrounded makes variants all the same: {caption!r}"
        )
    return None
