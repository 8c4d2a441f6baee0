"""Describes a scene in one of several phrasings, and reads the facts back from a caption.

`describe` and `read_facts` check each other: whatever phrasing was drawn, the facts read from the text are those of the
scene. `read_facts` also measures generated captions, so it is strict: a caption that names no weather states none.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from .world import COLOURS, KINDS, MATERIALS, TIMES, WEATHERS, Scene, Vehicle

_COUNTS = ("nobody", "one person", "two people", "three people")
_TIME_PHRASES = {"day": "during the day", "sunset": "at sunset", "night": "at night"}


@dataclass(frozen=True)
class Facts:
    """The facts in a caption. One that is missing is None or empty; vehicles are (colour, kind), nearest first."""

    weather: str | None
    time: str | None
    vehicles: tuple[tuple[str, str], ...]
    material: str | None
    trees: bool
    people: int | None


def article(word: str) -> str:
    """The indefinite article for a word of this world's vocabulary."""
    return "an" if word[0] in "aeiou" else "a"


def _vehicle_phrase(vehicle: Vehicle) -> str:
    return f"{article(vehicle.colour)} {vehicle.colour} {vehicle.kind}"


def _enumeration(items: list[str]) -> str:
    return items[0] if len(items) == 1 else ", ".join(items[:-1]) + " and " + items[-1]


def describe(scene: Scene, rng: np.random.Generator) -> str:
    """Two or three sentences that state every fact of the scene; `rng` chooses the phrasing."""
    vehicles = _enumeration([_vehicle_phrase(v) for v in scene.vehicles])
    sky = f"{article(scene.weather)} {scene.weather}"
    when = _TIME_PHRASES[scene.time]
    people = _COUNTS[min(len(scene.pedestrians), 3)]
    are = "are" if len(scene.vehicles) > 1 else "is"
    first = (
        f"{vehicles} on {sky} street {when}.",
        f"{sky} street {when} with {vehicles}.",
        f"{when} {vehicles} {are} on {sky} road.",
    )[int(rng.integers(3))]
    trees = scene.trees
    second = (
        f"{scene.material} buildings {'and trees ' if trees else ''}stand along the road.",
        f"there are {scene.material} buildings {'with trees ' if trees else ''}on both sides.",
    )[int(rng.integers(2))]
    verb = "are" if len(scene.pedestrians) > 1 else "is"
    walking = "walk" if len(scene.pedestrians) > 1 else "walks"
    third = (f"{people} {verb} on the sidewalk.", f"{people} {walking} on the sidewalk.")[int(rng.integers(2))]
    return " ".join((first, second, third))


def read_facts(caption: str) -> Facts:
    """Read the facts in a caption. Takes any text and skips what it does not recognise."""
    text = caption.lower()

    def first(values: tuple[str, ...]) -> str | None:
        match = re.search(rf"\b({'|'.join(values)})\b", text)
        return match.group(1) if match else None

    named = re.findall(rf"\b({'|'.join(COLOURS)}) ({'|'.join(KINDS)})\b", text)
    people = [i for i, words in enumerate(_COUNTS) if re.search(rf"\b{words}\b", text)]
    return Facts(
        weather=first(WEATHERS),
        time=first(TIMES),
        vehicles=tuple((colour, kind) for colour, kind in named),
        material=first(MATERIALS),
        trees=bool(re.search(r"\btrees\b", text)),
        people=people[0] if people else None,
    )
