"""What the words of a wide caption say: spans that an edit may replace, with their type, their value and its fact.

Words are found by the tables by which captions are written and read (engine/pocket/wide/words.py). Of what may not
change, the task is judge (wide_questions.py). Kinds of vehicles are what pictures are labelled with: no span is of them
alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from counterfactory.engine.english.words import allowed_alternatives, allowed_proposals
from counterfactory.engine.language.grammar import alternatives_grammar
from counterfactory.engine.language.phrases import phrase_class
from counterfactory.engine.pocket.wide import words
from counterfactory.engine.pocket.wide.facts import Facts, people_said, read_facts, things_said, vehicles_said
from counterfactory.engine.pocket.wide.scene import COLOURS, THING_COLOURS, THING_KINDS, VEHICLE_KINDS
from counterfactory.engine.pocket.wide.words import Phrases

# Types of edits as engine/language/edit_types.py has them, with the facts that they are of.
WIDE_TYPES = (
    *("weather", "time", "colour", "background", "object", "subject", "adjective", "domain", "camera", "other"),
)
# Facts of the whole caption; what says the domain ends before its "of".
_WHOLE: tuple[tuple[str, str, Phrases], ...] = (
    ("weather", "weather", words.WEATHER_PHRASES),
    ("time", "time", words.TIME_PHRASES),
    ("background", "background", words.BACKGROUND_PHRASES),
    ("camera", "camera", words.CAMERA_PHRASES),
    ("other", "bend", words.BEND_PHRASES),
    (
        "domain",
        "domain",
        {value: tuple(said.removesuffix(" of") for said in some) for value, some in words.DOMAIN_PHRASES.items()},
    ),
)

_COLUMNS = {"vehicles": ("size", "colour", "kind"), "people": ("colour", "kind", "pose"), "things": ("colour", "kind")}

# What can be added: at the end of the first sentence, or before the caption.
_ADDED: dict[str, tuple[str, ...]] = {
    "weather": tuple(some[0] for some in words.WEATHER_PHRASES.values()),
    "time": tuple(some[0] for some in words.TIME_PHRASES.values()),
    "background": tuple(some[0] for some in words.BACKGROUND_PHRASES.values()),
    "camera": tuple(some[0] for some in words.CAMERA_PHRASES.values()),
    "object": tuple(f"beside a {kind}" for kind in THING_KINDS),
    "domain": tuple(some[0] for value, some in words.DOMAIN_PHRASES.items() if value != "photo"),
}


@dataclass(frozen=True)
class Span:
    """Words of a caption from character `start` on. They say `value`, one of `phrases`, of a fact: of the field, or of
    a list's row in its `column`.
    """

    type: str
    keyword: str
    start: int
    value: str
    phrases: Phrases
    field: str
    row: int = 0
    column: int | None = None

    @property
    def says(self) -> str:
        """What it speaks of, and in which form of words: "people pose", or "weather phrase" for "in the rain"."""
        if self.column is not None:
            return f"{self.field} {_COLUMNS[self.field][self.column]}"
        return f"{self.field} phrase" if phrase_class(self.keyword) == "place" else self.field


def read_spans(caption: str) -> list[Span]:
    """The spans of a caption of the wider world, in its order.

    What it says twice is left out, since it would be unclear of which of both an edit is.
    """
    found = [*_whole(caption), *_vehicles(caption), *_people(caption), *_things(caption)]
    return sorted((span for span in found if times(span.keyword, caption) == 1), key=lambda span: span.start)


def times(phrase: str, caption: str) -> int:
    """How often a caption says a phrase, as whole words."""
    return len(re.findall(rf"(?<![\w-]){re.escape(phrase)}(?![\w-])", caption))


def _whole(caption: str) -> list[Span]:
    found = []
    for before, type_, field, table in (
        (" (?:street|road)", "weather", "weather", words.WEATHER_WORDS),
        (" (?:buildings|houses)", "adjective", "material", words.MATERIAL_WORDS),
    ):
        called = words.values_of(table)
        if said := re.search(rf"\b({words.either(tuple(called))}){before}\b", caption):
            found.append(Span(type_, said[1], said.start(1), called[said[1]], table, field))
    for type_, field, table in _WHOLE:
        called = words.values_of(table)
        after = " of " if type_ == "domain" else r"\b"
        if said := re.search(rf"\b({words.either(tuple(called))}){after}", caption):
            found.append(Span(type_, said[1], said.start(1), called[said[1]], table, field))
    return found


def _vehicles(caption: str) -> list[Span]:
    found, sizes = [], words.values_of(words.SIZE_WORDS)
    for row, said in enumerate(vehicles_said(caption)):
        if size := said["size"]:
            found.append(Span("adjective", size, said.start("size"), sizes[size], words.SIZE_WORDS, "vehicles", row, 0))
        if colour := said["colour"]:
            phrases = {other: (f"{other} {said['kind']}",) for other in COLOURS}
            found.append(Span("colour", *phrases[colour], said.start("colour"), colour, phrases, "vehicles", row, 1))
    return found


def _people(caption: str) -> list[Span]:
    found, kinds, poses = [], words.values_of(words.PERSON_WORDS), words.values_of(words.POSE_WORDS)
    for row, said in enumerate(people_said(caption)):
        kind = said["kind"]
        found.append(Span("subject", kind, said.start("kind"), kinds[kind], words.PERSON_WORDS, "people", row, 1))
        if colour := said["colour"]:
            phrases = {other: (f"in {other}",) for other in COLOURS}
            start = said.start("colour") - len("in ")
            found.append(Span("colour", *phrases[colour], start, colour, phrases, "people", row, 0))
        for group in ("posed", "pose"):
            if pose := said[group]:
                start = said.start(group)
                found.append(Span("subject", pose, start, poses[pose], words.POSE_WORDS, "people", row, 2))
                break
    return found


def _things(caption: str) -> list[Span]:
    found, kinds = [], words.values_of(words.THING_WORDS)
    for row, said in enumerate(things_said(caption)):
        kind, colour = kinds[said["kind"]], said["colour"]
        # Nobody has seen an orange dog.
        alike = {
            k: p for k, p in words.THING_WORDS.items() if colour is None or colour in THING_COLOURS[k] or k == kind
        }
        found.append(Span("object", said["kind"], said.start("kind"), kind, alike, "things", row, 1))
        if colour:
            phrases = {other: (other,) for other in dict.fromkeys((*THING_COLOURS[kind], colour))}
            found.append(Span("colour", colour, said.start("colour"), colour, phrases, "things", row, 0))
    return found


def others(span: Span, caption: str, keep: Sequence[str], most: int) -> list[str]:
    """Up to `most` other phrases for a span: of the values after its own in the world's cycle, in its own form of words
    if there is one, else in the plainest that an answer has room for.

    Out are those that would change a word to keep, and what the caption says already.
    """
    values = list(span.phrases)
    at = values.index(span.value)
    form, found = span.phrases[span.value].index(span.keyword), list[str]()
    for value in (*values[at + 1 :], *values[:at]):
        said = span.phrases[value]
        for phrase in (*said[form : form + 1], *said):
            if _has_room(span.keyword, phrase) and not times(phrase, caption):
                found += allowed_alternatives([phrase], span.keyword, keep)
                break
        if len(found) == most:
            break
    return found


@lru_cache(maxsize=1 << 12)
def _has_room(keyword: str, phrase: str) -> bool:
    return alternatives_grammar(keyword, 1).allows(json.dumps([phrase]))


def additions(type_: str, caption: str, keep: Sequence[str], most: int) -> list[str]:
    """Up to `most` phrases of a type that can be added to a caption which says nothing of it; none where it does.

    The world's cycle of values begins where the kind of the nearest vehicle says, so that all values occur.
    """
    facts = read_facts(caption)
    if type_ not in _ADDED or getattr(facts, "things" if type_ == "object" else type_):
        return []
    phrases = _ADDED[type_]
    first = VEHICLE_KINDS.index(facts.vehicles[0][2]) % len(phrases) if facts.vehicles else 0
    pairs = [("", phrase) for phrase in (*phrases[first:], *phrases[:first])]
    return [phrase for _, phrase in allowed_proposals(pairs, caption, keep, ())][:most]


def value_of(span: Span, phrase: str) -> str | None:
    """The value that a phrase in the place of a span says, if the world has it."""
    own = {said: value for value, some in span.phrases.items() for said in some}
    return own.get(phrase)


def edited(facts: Facts, changes: Sequence[tuple[Span, str | None]]) -> Facts:
    """The facts with other values in the place of those that spans say."""
    for span, value in changes:
        changed: Any = value
        if span.column is not None:
            rows = list(getattr(facts, span.field))
            row = rows[span.row]
            rows[span.row] = (*row[: span.column], value, *row[span.column + 1 :])
            changed = tuple(rows)
        named: dict[str, Any] = {span.field: changed}
        facts = replace(facts, **named)
    return facts
