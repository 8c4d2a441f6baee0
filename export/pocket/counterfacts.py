"""What can be changed in the street world of the embedded models: weather, time, walls, and colours of vehicles."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from counterfactory.engine.edit import Edit
from counterfactory.engine.pocket.captions import read_facts
from counterfactory.engine.pocket.world import COLOURS, KINDS, MATERIALS, TIMES, WEATHERS, Scene
from counterfactory.engine.pocket.worlds import STREETS

from .changes import Change, Counterfacts, draw_colour, one_of, replaced, with_word

_SCENE = {"weather": WEATHERS, "time": TIMES, "material": MATERIALS}

# What an edit of each type says of the whole scene. Edits of "background" are of walls.
_EDITS = {"weather": "weather", "time": "time", "background": "material"}


def _draw(scene: Scene, group: str, rng: np.random.Generator) -> Change | None:
    if group in _SCENE:
        return Change(group, one_of(_SCENE[group], getattr(scene, group), rng))
    return draw_colour(scene, group == "second colour", COLOURS, rng)


def _apply(scene: Scene, change: Change) -> Scene:
    if change.name == "colour" and change.number is not None:
        return replace(scene, vehicles=replaced(scene.vehicles, change.number, colour=change.value))
    return with_word(scene, change.name, change.value)


def _contradicts(caption: str, scene: Scene) -> bool:
    stated = read_facts(caption)
    whole = any(getattr(stated, name) not in (None, getattr(scene, name)) for name in _SCENE)
    return whole or stated.vehicles != tuple((v.colour, v.kind) for v in scene.vehicles)


def _check(caption: str, scene: Scene) -> list[tuple[str, bool]]:
    """Captions of the streets state every fact: what is unsaid is wrong."""
    stated = read_facts(caption)
    checked = [(name, getattr(stated, name) == getattr(scene, name)) for name in _SCENE]
    checked.append(("people", stated.people == min(len(scene.pedestrians), 3)))
    for i, vehicle in enumerate(scene.vehicles):
        colour, kind = stated.vehicles[i] if i < len(stated.vehicles) else ("", "")
        checked += [("colour", colour == vehicle.colour), ("kind", kind == vehicle.kind)]
    return checked


def _read(scene: Scene, caption: str, edit: Edit) -> tuple[Change, ...]:
    if name := _EDITS.get(edit.type):
        value = _word(edit.alternative, _SCENE[name])
        return (Change(name, value),) if value else ()
    if edit.type == "colour" and (colour := _word(edit.alternative, COLOURS)):
        was, kind = _word(edit.keyword, COLOURS), _word(edit.keyword, KINDS)
        which = [i for i, v in enumerate(scene.vehicles) if (v.colour, v.kind) == (was, kind)]
        return (Change("colour", colour, which[0]),) if which else ()
    return ()


def _word(text: str, words: Sequence[str]) -> str | None:
    found = [w for w in words if re.search(rf"\b{w}\b", text)]
    return found[0] if found else None


STREET_COUNTERFACTS = Counterfacts(
    groups=("weather", "time", "material", "colour", "second colour"),
    draw=_draw,
    apply=_apply,
    seen=lambda scene: scene,
    contradicts=_contradicts,
    check=_check,
    read=_read,
)
COUNTERFACTS: Mapping[str, Counterfacts] = MappingProxyType({STREETS.name: STREET_COUNTERFACTS})
