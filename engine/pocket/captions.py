"""Describes a scene in one of several phrasings, and reads the facts back from a caption.

`describe` and `read_facts` check each other: whatever phrasing was drawn, the facts read from the text are those of the
scene. `read_facts` also measures generated captions, so it is strict: a caption that names no weather states none.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from .world import COLOURS, KINDS, MATERIALS, TIMES, WEATHERS, Scene

_COUNTS = ("nobody", "one person", "two people", "three people")
TIME_PHRASES = {"day": "during the day", "sunset": "at sunset", "night": "at night"}


@dataclass(frozen=True)
class Facts:
    """The facts in a caption. One that is missing is None or empty; vehicles are (colour, kind), nearest first."""

    weather: str | None
    time: str | None
    vehicles: tuple[tuple[str, str], ...]
    material: str | None
    trees: bool
    people: int | None


def describe(scene: Scene, rng: np.random.Generator) -> str:
    """Three sentences that state every fact of the scene; `rng` chooses the phrasing."""

    def a(words: str) -> str:
        return f"{'an' if words[0] in 'aeiou' else 'a'} {words}"

    *others, last = (a(f"{vehicle.colour} {vehicle.kind}") for vehicle in scene.vehicles)
    vehicles = f"{', '.join(others)} and {last}" if others else last
    sky, when = a(scene.weather), TIME_PHRASES[scene.time]
    first = (
        f"{vehicles} on {sky} street {when}.",
        f"{sky} street {when} with {vehicles}.",
        f"{when} {vehicles} {'are' if others else 'is'} on {sky} road.",
    )[int(rng.integers(3))]
    second = (
        f"{scene.material} buildings {'and trees ' if scene.trees else ''}stand along the road.",
        f"there are {scene.material} buildings {'with trees ' if scene.trees else ''}on both sides.",
    )[int(rng.integers(2))]
    several = len(scene.pedestrians) > 1
    verb = (("are", "walk") if several else ("is", "walks"))[int(rng.integers(2))]
    return f"{first} {second} {_COUNTS[min(len(scene.pedestrians), 3)]} {verb} on the sidewalk."


def read_facts(caption: str) -> Facts:
    """Read the facts in a caption. Takes any text and skips what it does not recognise."""
    text = caption.lower()

    def first(values: tuple[str, ...]) -> str | None:
        match = re.search(rf"\b({'|'.join(values)})\b", text)
        return match.group(1) if match else None

    people = [i for i, words in enumerate(_COUNTS) if re.search(rf"\b{words}\b", text)]
    return Facts(
        weather=first(WEATHERS),
        time=first(TIMES),
        vehicles=tuple(re.findall(rf"\b({'|'.join(COLOURS)}) ({'|'.join(KINDS)})\b", text)),
        material=first(MATERIALS),
        trees=bool(re.search(r"\btrees\b", text)),
        people=people[0] if people else None,
    )
