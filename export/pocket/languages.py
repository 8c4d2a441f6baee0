"""What the pocket language model of each world is trained on, asked and measured by."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from counterfactory.engine.edit import STREET_TYPES
from counterfactory.engine.pocket import captions, world
from counterfactory.engine.pocket.wide import facts, words
from counterfactory.engine.pocket.wide.scene import COLOURS
from counterfactory.engine.pocket.worlds import STREETS, WIDE, World
from counterfactory.engine.profile.llm import Style
from counterfactory.engine.profile.rewrite import RewriteSettings

from . import questions, wide_questions
from .exercises import Exercise

Row = tuple[str | None, ...]
_STREET_SETTINGS = RewriteSettings(
    STREET_TYPES, max_keywords=6, max_alternatives=4, max_words_keyword=3, max_chars_caption=400, verbatim=True
)
_TABLES = (
    *(words.WEATHER_WORDS, words.WEATHER_PHRASES, words.TIME_PHRASES, words.BACKGROUND_PHRASES, words.DOMAIN_PHRASES),
    *(words.MATERIAL_WORDS, words.BEND_PHRASES, words.CAMERA_PHRASES, words.VEHICLE_WORDS, words.SIZE_WORDS),
    *(words.PERSON_WORDS, words.POSE_WORDS, words.THING_WORDS),
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
        WIDE.name: Language(
            world=WIDE,
            style="wide",
            exercise=wide_questions.exercise,
            settings=wide_questions.SETTINGS,
            apply=wide_questions.apply,
            read=facts.read_facts,
            types=MappingProxyType(
                {
                    **{name: name for name in ("weather", "time", "background", "domain", "camera")},
                    "bend": "other",
                    "material": "adjective",
                    "vehicles 0": "adjective",
                    "vehicles 1": "colour",
                    "people 0": "colour",
                    "people 1": "subject",
                    "people 2": "subject",
                    "things 0": "colour",
                    "things 1": "object",
                    "things": "object",
                }
            ),
            vocabulary=frozenset(
                {*COLOURS, "brown", "in"}.union(
                    word for table in _TABLES for some in table.values() for phrase in some for word in phrase.split()
                )
            ),
        ),
    }
)
