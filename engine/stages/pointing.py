"""Points at the words of a caption that name its label, where no word does that WordNet knows for it.

The language model is asked which span of the caption it is, within a grammar of the caption's own spans; what it points
at counts if the sentence encoder finds it like the label. A model alone would always point at something.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..language.chat import ChatPrompts
from ..language.grammar import NOTHING, one_of_grammar
from ..language.questions import AnswerError, clean_text, read_caption
from ..language.request import Request
from ..sources.source import Source
from ..tasks.grounding import protect
from ..tasks.names import label_words, names_of, short_name
from ..tasks.task import Task
from ..tasks.words import spans
from .desk import Desk
from .draft import Ask, ask_once
from .meaning import similarities

POINTING = "pointing"
_MAX_WORDS = 3


@dataclass(frozen=True)
class GroundingSettings:
    """The sentence encoder's `batch`, the least cosine of a label and the words that are taken to name it, and that of
    a caption and what a rewritten one says beside its edits (stages/meaning.py).
    """

    batch: int
    min_similarity: float
    min_meaning: float = 0.95

    def __post_init__(self) -> None:
        if self.batch < 1:
            raise ValueError(f"[grounding] needs a batch of at least 1, got {self.batch}")
        for name in ("min_similarity", "min_meaning"):
            if not -1 <= getattr(self, name) <= 1:
                raise ValueError(f"[grounding] {name} is a cosine, got {getattr(self, name):g}")


def run(
    desk: Desk,
    captions: Mapping[Source, str],
    task: Task,
    settings: GroundingSettings,
    prompts: ChatPrompts,
    ask: Ask,
) -> dict[Source, str]:
    """The words that name the label of each source whose caption has none by itself; sources without are left out.

    Call it inside the stage of rewriting.
    """
    asked: dict[Source, Request] = {}
    for source, caption in captions.items():
        text = clean_text(caption)
        if source.label is None or not label_words(source.label) or not task.protect_label:
            continue
        found = spans(text, _MAX_WORDS, ())
        if found and not protect(task, source.label, source.classes, text).grounded:
            prompt = prompts.pointing(short_name(source.label), names_of(source.label).definition, text)
            asked[source] = Request(prompt, one_of_grammar([*found, NOTHING]))
    answers = ask_once(ask, POINTING, list(asked.values()))
    pointed = {source: word for source, request in asked.items() if (word := _read(answers[request])) is not None}
    pairs = dict.fromkeys((short_name(source.label or ""), word) for source, word in pointed.items())
    alike = similarities(desk, list(pairs))
    return {
        source: word
        for source, word in pointed.items()
        if alike[short_name(source.label or ""), word] >= settings.min_similarity
    }


def _read(answer: str) -> str | None:
    try:
        word = read_caption(answer)
    except AnswerError:  # cut off: it names nothing
        return None
    return None if word == NOTHING else word
