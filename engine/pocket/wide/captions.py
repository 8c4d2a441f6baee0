"""Describes a scene: in other words, orders and detail each time.

What is drawn is chosen by `rng` alone. Every caption names the vehicles and, unless it is a photograph, the domain;
anything else may be left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from . import words
from .facts import Facts
from .words import Phrases


@dataclass(frozen=True)
class _Voice:
    """Chooses words, and what to speak of."""

    rng: np.random.Generator
    share: float

    def one(self, values: Sequence[str]) -> str:
        # The plainest word is half of all, so that it is known best.
        return values[0] if self.rng.random() < 0.4 else values[int(self.rng.integers(len(values)))]

    def of(self, table: Phrases, value: str) -> str:
        return self.one(table[value])

    def speaks(self) -> bool:
        return bool(self.rng.random() < self.share)

    def coin(self) -> bool:
        return bool(self.rng.random() < 0.5)


def article(word: str) -> str:
    """The indefinite article for a word of this world's vocabulary."""
    return "an" if word[0] in "aeiou" else "a"


def _with_article(phrase: str) -> str:
    return f"{article(phrase)} {phrase}"


def _listed(items: Sequence[str]) -> str:
    return items[0] if len(items) == 1 else ", ".join(items[:-1]) + " and " + items[-1]


def describe(scene_facts: Facts, rng: np.random.Generator, share: float | None = None) -> str:
    """One to five sentences that state facts of a scene; `share` of them (1 all), else as `rng` decides.

    Raises nothing: what is None or empty in the facts is not spoken of, but for people, who are "nobody" if empty.
    """
    voice = _Voice(rng, float(rng.choice([0.35, 0.6, 0.8, 1.0])) if share is None else share)
    told = _opening(voice, scene_facts)
    rest = [
        part for part in (_houses(voice, scene_facts), _people(voice, scene_facts), _things(voice, scene_facts)) if part
    ]
    order = rng.permutation(len(rest)) if voice.coin() else range(len(rest))
    return " ".join([told, *(rest[int(i)] for i in order)])


def _opening(voice: _Voice, facts: Facts) -> str:
    vehicles = _vehicles(voice, facts)
    weather_word, after = "", []
    if facts.weather and voice.speaks():
        if voice.coin():
            weather_word = voice.of(words.WEATHER_WORDS, facts.weather) + " "
        else:
            after.append(voice.of(words.WEATHER_PHRASES, facts.weather))
    if facts.time and voice.speaks():
        after.append(voice.of(words.TIME_PHRASES, facts.time))
    if facts.background and voice.speaks():
        after.append(voice.of(words.BACKGROUND_PHRASES, facts.background))
    after = [after[int(i)] for i in voice.rng.permutation(len(after))]
    bend = f" {voice.of(words.BEND_PHRASES, facts.bend)}" if facts.bend and voice.speaks() else ""
    street = f"{article(weather_word or 'street')} {weather_word}{voice.one(('street', 'road'))}{bend}"
    camera = f", {voice.of(words.CAMERA_PHRASES, facts.camera)}" if facts.camera and voice.speaks() else ""
    domain = ""
    if facts.domain and (facts.domain != "photo" or voice.speaks()):
        domain = voice.of(words.DOMAIN_PHRASES, facts.domain) + " "
    where = "".join(f" {phrase}" for phrase in after)
    if voice.coin():
        return f"{domain}{vehicles} on {street}{where}{camera}."
    return f"{domain}{street}{where} with {vehicles}{camera}."


def _vehicles(voice: _Voice, facts: Facts) -> str:
    named = []
    for size, colour, kind in facts.vehicles:
        said = [voice.of(words.VEHICLE_WORDS, kind)]
        if colour and (voice.speaks() or voice.speaks()):  # colours are what captions speak of most
            said.insert(0, colour)
        if size and words.SIZE_WORDS[size] and voice.speaks():
            said.insert(0, voice.of(words.SIZE_WORDS, size))
        named.append(_with_article(" ".join(said)))
    if len(named) == 2 and voice.coin():
        near, far = named
        return f"{far} behind {near}" if voice.coin() else f"{near} in front of {far}"
    return _listed(named)


def _houses(voice: _Voice, facts: Facts) -> str | None:
    line = voice.one(("stand along the road", "line the street", "stand beside the road"))
    material = voice.of(words.MATERIAL_WORDS, facts.material) if facts.material and voice.speaks() else None
    buildings = f"{material} {voice.one(('buildings', 'houses'))}" if material else None
    trees = "trees" if facts.trees and voice.speaks() else None
    grown = [part for part in (buildings, trees) if part]
    return f"{' and '.join(grown)} {line}." if grown else None


def _people(voice: _Voice, facts: Facts) -> str | None:
    if facts.people is None or not voice.speaks():
        return None
    if not facts.people:
        return f"{voice.one(words.NOBODY)} is on the sidewalk."
    named = []
    for colour, kind, pose in facts.people:
        person, said = voice.of(words.PERSON_WORDS, kind), pose and voice.speaks()
        posed = voice.of(words.POSE_WORDS, pose) if pose and said else ""
        dressed = f" in {colour}" if colour and voice.speaks() else ""
        if posed and voice.coin():
            named.append(f"{_with_article(f'{posed} {person}')}{dressed}")
        else:
            named.append(f"{_with_article(person)}{dressed}{f' {posed}' if posed else ''}")
    verb = "is" if len(named) == 1 else "are"
    return f"{_listed(named)} {verb} on the sidewalk." if voice.coin() else f"on the sidewalk {verb} {_listed(named)}."


def _things(voice: _Voice, facts: Facts) -> str | None:
    if not facts.things or not voice.speaks():
        return None
    named = []
    for colour, kind in facts.things:
        said = voice.of(words.THING_WORDS, kind)
        named.append(_with_article(f"{colour} {said}" if colour and voice.speaks() else said))
    verb = "is" if len(named) == 1 else "are"
    if voice.coin():
        return f"there {verb} {_listed(named)} {voice.one(('beside the road', 'by the road', 'at the kerb'))}."
    return f"beside the road {verb} {_listed(named)}."
