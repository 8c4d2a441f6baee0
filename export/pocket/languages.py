"""What the pocket language model of each world is trained on, asked and measured by."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType

from counterfactory.engine.edit import STREET_TYPES
from counterfactory.engine.stages.draft import RewriteSettings

from . import questions, wide_questions
from .exercises import Exercise
from .worlds import STREETS, WIDE, World

_STREET_SETTINGS = RewriteSettings(
    STREET_TYPES, max_keywords=6, max_alternatives=4, max_words_keyword=3, max_chars_caption=400, verbatim=True
)


@dataclass(frozen=True)
class Language:
    """A world's captions as exercises: `exercise(kind of question, stream, number)`; `settings` bound their answers."""

    world: World
    exercise: Callable[[str, int, int], Exercise]
    settings: RewriteSettings


LANGUAGES = MappingProxyType(
    {
        STREETS.name: Language(STREETS, questions.exercise, _STREET_SETTINGS),
        WIDE.name: Language(WIDE, wide_questions.exercise, wide_questions.SETTINGS),
    }
)
