"""What can be changed in the wide world: what streets can, backgrounds, domains, vehicles, people and small things."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np

from counterfactory.engine.edit import Edit
from counterfactory.engine.pocket.wide import scene as wide
from counterfactory.engine.pocket.wide.facts import contradicted, facts_of, read_facts
from counterfactory.engine.pocket.wide.sampling import add_thing, visible
from counterfactory.engine.pocket.wide.scene import Scene
from counterfactory.engine.pocket.wide.words import find_value

from .changes import Change, Counterfacts, draw_colour, one_of, replaced, with_word
from .wide_spans import Span, read_spans

_SCENE = {
    "weather": wide.WEATHERS,
    "time": wide.TIMES,
    "background": wide.BACKGROUNDS,
    "domain": wide.DOMAINS,
    "material": wide.MATERIALS,
}
_TRIALS = 8
_PERSON = {"person": "kind", "pose": "pose", "clothes": "colour"}
# No caption speaks of a medium size.
_SUBJECT = {
    "kind": wide.VEHICLE_KINDS,
    "size": ("small", "large"),
    "person": wide.PERSON_KINDS,
    "pose": wide.POSES,
}


def _draw(scene: Scene, group: str, rng: np.random.Generator) -> Change | None:
    if group in _SCENE:
        return Change(group, one_of(_SCENE[group], getattr(scene, group), rng))
    if group in ("colour", "second colour"):
        return draw_colour(scene, group == "second colour", wide.COLOURS, rng)
    for _ in range(_TRIALS):
        change = _draw_subject(scene, rng) if group == "subject" else _draw_thing(scene, rng)
        after = _apply(scene, change)
        # What no longer fits into the picture, or finds no place, cannot be asked for.
        if after != scene and visible(after):
            return change
    return None


def _draw_subject(scene: Scene, rng: np.random.Generator) -> Change:
    names = ("kind", "size", "person", "pose") if scene.people else ("kind", "size")
    name = names[int(rng.integers(len(names)))]
    if name in ("kind", "size"):
        number = int(rng.integers(len(scene.vehicles)))
        return Change(name, one_of(_SUBJECT[name], getattr(scene.vehicles[number], name), rng), number)
    place = int(rng.integers(len(scene.people)))
    was = scene.people[place].kind if name == "person" else scene.people[place].pose
    return Change(name, one_of(_SUBJECT[name], was, rng), len(scene.vehicles) + place)


def _draw_thing(scene: Scene, rng: np.random.Generator) -> Change:
    there = {thing.kind for thing in scene.things}
    new = one_of([kind for kind in wide.THING_KINDS if kind not in there], "", rng)
    if not scene.things or rng.random() < 0.5:
        return Change("object", new)
    place = int(rng.integers(len(scene.things)))
    return Change("object", new, len(scene.placed) - len(scene.things) + place, scene.things[place].kind)


def _apply(scene: Scene, change: Change) -> Scene:
    name, value, number = change.name, change.value, change.number
    if name in _SCENE:
        return with_word(scene, name, value)
    if name == "object":
        return _with_thing(scene, change)
    assert number is not None
    person = number - len(scene.vehicles)
    if name in _PERSON:
        return replace(scene, people=replaced(scene.people, person, **{_PERSON[name]: value}))
    if name == "paint":
        return replace(scene, things=replaced(scene.things, person - len(scene.people), colour=value))
    return replace(scene, vehicles=replaced(scene.vehicles, number, **{name: value}))


def _with_thing(scene: Scene, change: Change) -> Scene:
    """A new thing finds its place, and its colour, by the layout; one in another's place has both from there."""
    rng = np.random.default_rng((scene.layout_seed, wide.THING_KINDS.index(change.value)))
    if change.number is None:
        return add_thing(scene, change.value, rng)
    colours = wide.THING_COLOURS[change.value]
    place = change.number - len(scene.vehicles) - len(scene.people)
    colour = colours[int(rng.integers(len(colours)))]
    return replace(scene, things=replaced(scene.things, place, kind=change.value, colour=colour))


def _contradicts(caption: str, scene: Scene) -> bool:
    return bool(contradicted(read_facts(caption), facts_of(scene, seen=True)))


def _check(caption: str, scene: Scene) -> list[tuple[str, bool | None]]:
    """Captions leave facts unsaid, but for the vehicles: of those a wrong number makes all wrong."""
    stated, true = read_facts(caption), facts_of(scene, seen=True)

    def agrees(said: Any, fact: Any) -> bool | None:
        return None if said is None else said == fact

    names = ("weather", "time", "background", "domain", "material")
    checked = [(name, agrees(getattr(stated, name), getattr(true, name))) for name in names]
    for i, (size, colour, kind) in enumerate(true.vehicles):
        if len(stated.vehicles) != len(true.vehicles):
            checked.append(("kind", False))
            continue
        said = stated.vehicles[i]
        checked += [("kind", said[2] == kind), ("colour", agrees(said[1], colour)), ("size", agrees(said[0], size))]
    checked.append(("people", None if stated.people is None else "people" not in contradicted(stated, true)))
    checked.append(("things", "things" not in contradicted(stated, true) if stated.things else None))
    return checked


def _read(scene: Scene, caption: str, edit: Edit) -> tuple[Change, ...]:
    """Edits of places, cameras and bends have no truth of the same outlines, what comes or goes has no place."""
    text = caption.lower()
    spans = [s for s in read_spans(text) if s.type == edit.type and s.keyword == edit.keyword.lower()]
    if len(spans) != 1 or edit.kind != "replace" or (value := _value(spans[0], edit.alternative.lower())) is None:
        return ()
    span = spans[0]
    if span.column is None:
        return (Change(span.field, value),) if span.field in _SCENE else ()
    number = _number(scene, text, span)
    if number is None:
        return ()
    name = _COLUMNS[span.field][span.column]
    return (Change(name, value, number, span.value if name == "object" else None),)


# What the columns of facts' rows are called as changes; clothes and paint have no judge.
_COLUMNS = {
    "vehicles": ("size", "colour", "kind"),
    "people": ("clothes", "person", "pose"),
    "things": ("paint", "object"),
}


def _value(span: Span, said: str) -> str | None:
    """What words in the place of a span say, if it is another value than the span's."""
    plain = next((value for value in span.phrases if re.search(rf"\b{value}\b", said)), None)
    value = plain or find_value(said, span.phrases)
    return None if value == span.value else value


def _number(scene: Scene, caption: str, span: Span) -> int | None:
    """The number of the object that a span is about: the one that fits what its row says; None for none or several."""
    said: tuple[str | None, ...] = getattr(read_facts(caption), span.field)[span.row]
    facts: tuple[tuple[str | None, ...], ...] = getattr(facts_of(scene), span.field)
    fits = [
        i
        for i, fact in enumerate(facts)
        if all(word is None or word == true for word, true in zip(said, fact, strict=True))
    ]
    if len(fits) != 1:
        return None
    first = {"vehicles": 0, "people": len(scene.vehicles), "things": len(scene.vehicles) + len(scene.people)}
    return first[span.field] + fits[0]


WIDE_COUNTERFACTS = Counterfacts(
    groups=("weather", "time", "background", "domain", "colour", "second colour", "object", "subject"),
    draw=_draw,
    apply=_apply,
    seen=lambda scene: facts_of(scene, seen=True),
    contradicts=_contradicts,
    check=_check,
    read=_read,
)
