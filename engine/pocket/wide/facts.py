"""The facts of a scene, and those that a caption states.

Reading is strict: a caption that names no weather states none. It takes any text and skips what it does not recognise.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from itertools import pairwise

from . import words
from .scene import COLOURS, Scene

_THING_COLOURS = (*COLOURS, "brown")


@dataclass(frozen=True)
class Facts:
    """Facts of a scene or a caption; what is not known is None or left out.

    `vehicles` are (size, colour, kind), nearest first; `people` (colour, kind, pose), empty where nobody is;
    `things` (colour, kind).
    """

    domain: str | None = None
    background: str | None = None
    weather: str | None = None
    time: str | None = None
    material: str | None = None
    trees: bool = False
    camera: str | None = None
    bend: str | None = None
    vehicles: tuple[tuple[str | None, str | None, str], ...] = ()
    people: tuple[tuple[str | None, str, str | None], ...] | None = None
    things: tuple[tuple[str | None, str], ...] = ()


def facts_of(scene: Scene, seen: bool = False) -> Facts:
    """All facts of a scene; those only that its picture shows, if `seen`: a pencil has no colours and no sunsets."""
    grey = seen and scene.domain == "sketch"
    return Facts(
        domain=scene.domain,
        background=scene.background,
        weather=scene.weather,
        time=None if grey and scene.time != "night" else scene.time,
        material=scene.material if scene.houses and not grey else None,
        trees=scene.trees,
        camera=scene.camera,
        bend=scene.bend,
        vehicles=tuple((v.size, None if grey else v.colour, v.kind) for v in scene.vehicles),
        people=tuple((None if grey else p.colour, p.kind, p.pose) for p in scene.people),
        things=tuple((None if grey else t.colour, t.kind) for t in scene.things),
    )


def read_facts(caption: str) -> Facts:
    """The facts that a caption states."""
    text = " ".join(caption.lower().split())
    return Facts(
        domain=words.find_value(text, words.DOMAIN_PHRASES),
        background=words.find_value(text, words.BACKGROUND_PHRASES),
        weather=_weather(text),
        time=words.find_value(text, words.TIME_PHRASES),
        material=_material(text),
        trees=bool(re.search(r"\btrees\b", text)),
        camera=words.find_value(text, words.CAMERA_PHRASES),
        bend=words.find_value(text, words.BEND_PHRASES),
        vehicles=_vehicles(text),
        people=_people(text),
        things=_things(text),
    )


def _weather(text: str) -> str | None:
    called = words.values_of(words.WEATHER_WORDS)
    found = re.search(rf"\b({words.either(tuple(called))}) (?:street|road)\b", text)
    return called[found.group(1)] if found else words.find_value(text, words.WEATHER_PHRASES)


def _material(text: str) -> str | None:
    called = words.values_of(words.MATERIAL_WORDS)
    found = re.search(rf"\b({words.either(tuple(called))}) (?:buildings|houses)\b", text)
    return called[found.group(1)] if found else None


def vehicles_said(text: str) -> list[re.Match[str]]:
    """Where a caption in small letters names vehicles, nearest first; groups `size`, `colour` and `kind`."""
    kinds, sizes = words.values_of(words.VEHICLE_WORDS), words.values_of(words.SIZE_WORDS)
    found = list(
        re.finditer(
            rf"\b(?:(?P<size>{words.either(tuple(sizes))}) )?(?:(?P<colour>{words.either(COLOURS)}) )?"
            rf"(?P<kind>{words.either(tuple(kinds))})\b",
            text,
        )
    )
    named = list(found)
    for i, (one, other) in enumerate(pairwise(found)):
        if re.fullmatch(r" behind an? ", text[one.end() : other.start()]):  # the nearer comes first
            named[i], named[i + 1] = named[i + 1], named[i]
    return named


def people_said(text: str) -> list[re.Match[str]]:
    """Where a caption in small letters names people; groups `posed` or `pose`, `kind` and `colour`."""
    kinds, poses = words.values_of(words.PERSON_WORDS), words.values_of(words.POSE_WORDS)
    pose = words.either(tuple(poses))
    pattern = (
        rf"\b(?:(?P<posed>{pose}) )?(?P<kind>{words.either(tuple(kinds))})\b"
        rf"(?: in (?P<colour>{words.either(COLOURS)})\b)?(?: (?:is )?(?P<pose>{pose})\b)?"
    )
    return list(re.finditer(pattern, text))


def things_said(text: str) -> list[re.Match[str]]:
    """Where a caption in small letters names small things; groups `colour` and `kind`."""
    kinds = words.values_of(words.THING_WORDS)
    pattern = rf"\b(?:(?P<colour>{words.either(_THING_COLOURS)}) )?(?P<kind>{words.either(tuple(kinds))})\b"
    return list(re.finditer(pattern, text))


def _vehicles(text: str) -> tuple[tuple[str | None, str | None, str], ...]:
    kinds, sizes = words.values_of(words.VEHICLE_WORDS), words.values_of(words.SIZE_WORDS)
    return tuple((sizes.get(f["size"] or ""), f["colour"], kinds[f["kind"]]) for f in vehicles_said(text))


def _people(text: str) -> tuple[tuple[str | None, str, str | None], ...] | None:
    kinds, poses = words.values_of(words.PERSON_WORDS), words.values_of(words.POSE_WORDS)
    named = tuple((f["colour"], kinds[f["kind"]], poses.get(f["posed"] or f["pose"] or "")) for f in people_said(text))
    if not named and not re.search(rf"\b({words.either(words.NOBODY)})\b", text):
        return None
    return named


def _things(text: str) -> tuple[tuple[str | None, str], ...]:
    kinds = words.values_of(words.THING_WORDS)
    return tuple((f["colour"], kinds[f["kind"]]) for f in things_said(text))


def contradicted(stated: Facts, truth: Facts) -> tuple[str, ...]:
    """The names of the facts that are stated and not true, in the order of `Facts`; a detail left out is no error.

    What is listed must be listed as often and in the same order as it is there, people and things in any; a fact that
    the truth does not know contradicts whatever is stated of it.
    """
    wrong = []
    for field in fields(Facts):
        said, true = getattr(stated, field.name), getattr(truth, field.name)
        if field.name == "vehicles":
            right = not said or _agree(said, true)
        elif field.name in ("people", "things"):
            right = not said or (true is not None and _agree(_sorted(said, true), true))
            right = right and not (field.name == "people" and said == () and true)
        else:
            right = not said or said == true
        if not right:
            wrong.append(field.name)
    return tuple(wrong)


Row = tuple[str | None, ...]


def _fits(said: Row, true: Row) -> bool:
    return all(word is None or word == fact for word, fact in zip(said, true, strict=True))


def _agree(said: tuple[Row, ...], true: tuple[Row, ...]) -> bool:
    return len(said) == len(true) and all(map(_fits, said, true))


def _sorted(said: tuple[Row, ...], true: tuple[Row, ...]) -> tuple[Row, ...]:
    """What is said in the order of what it may be about, as far as it fits."""
    left, placed = sorted(said, key=lambda row: row.count(None)), []
    for fact in true:
        fitting = next((row for row in left if _fits(row, fact)), None)
        if fitting is not None:
            left.remove(fitting)
            placed.append(fitting)
    return (*placed, *left)
