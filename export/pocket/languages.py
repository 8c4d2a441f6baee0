"""What the pocket language model is trained on, asked and measured by."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from counterfactory.engine.edit import STREET_TYPES
from counterfactory.engine.pocket import captions, world
from counterfactory.engine.pocket.worlds import STREETS, World
from counterfactory.engine.profile.llm import Style
from counterfactory.engine.profile.rewrite import RewriteSettings

from . import questions
from .exercises import Exercise

Row = tuple[str | None, ...]
_STREET_SETTINGS = RewriteSettings(
    STREET_TYPES, max_keywords=6, max_alternatives=4, max_words_keyword=3, max_chars_caption=400, verbatim=True
)


@dataclass(frozen=True)
class Language:
    """A world's captions as exercises: `exercise(kind of question, stream, number)`; `settings` bound their answers.

    `style` is how the engine puts the questions. `apply` makes (type, keyword, alternative) replacements by rule,
    `read` gives a caption's facts, each of which has the `types` of edits that it is of: by its name, or by that of a
    list with a column of its rows. `vocabulary` are the words of the world.
    """

    world: World
    style: Style
    exercise: Callable[[str, int, int], Exercise]
    settings: RewriteSettings
    apply: Callable[[str, Sequence[tuple[str, str, str]]], str]
    read: Callable[[str], Any]
    types: MappingProxyType[str, str]
    vocabulary: frozenset[str]


LANGUAGES = MappingProxyType(
    {
        STREETS.name: Language(
            world=STREETS,
            style="pocket",
            exercise=questions.exercise,
            settings=_STREET_SETTINGS,
            apply=questions.apply,
            read=captions.read_facts,
            types=MappingProxyType(
                {"weather": "weather", "time": "time", "material": "background", "vehicles 0": "colour"}
            ),
            vocabulary=frozenset(
                (*world.WEATHERS, *world.TIMES, *world.COLOURS, *world.MATERIALS, *world.KINDS, "at", "during", "the")
            ),
        ),
    }
)
