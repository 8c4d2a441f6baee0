"""What can be changed in the street world of the embedded models: weather, time, walls, and colours of vehicles."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from counterfactory.engine.pocket.captions import read_facts
from counterfactory.engine.pocket.world import COLOURS, MATERIALS, TIMES, WEATHERS, Scene

from .changes import Change, Counterfacts, draw_colour, one_of, replaced, with_word

_SCENE = {"weather": WEATHERS, "time": TIMES, "material": MATERIALS}


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


def _check(caption: str, scene: Scene) -> list[tuple[str, bool | None]]:
    """Captions of the streets state every fact: what is unsaid is wrong."""
    stated = read_facts(caption)
    checked: list[tuple[str, bool | None]] = [(name, getattr(stated, name) == getattr(scene, name)) for name in _SCENE]
    checked.append(("people", stated.people == min(len(scene.pedestrians), 3)))
    for i, vehicle in enumerate(scene.vehicles):
        colour, kind = stated.vehicles[i] if i < len(stated.vehicles) else ("", "")
        checked += [("colour", colour == vehicle.colour), ("kind", kind == vehicle.kind)]
    return checked


STREET_COUNTERFACTS = Counterfacts(
    groups=("weather", "time", "material", "colour", "second colour"),
    draw=_draw,
    apply=_apply,
    seen=lambda scene: scene,
    contradicts=_contradicts,
    check=_check,
)
