"""Facts of street scenes changed, one by one: what may be asked of a scene, the scene that comes of it, and whether a
referee sees it in a picture.

What can change is the weather, the time, the material of walls, and colours of vehicles.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterfactory.engine.edit import Edit
from counterfactory.engine.pocket.captions import read_facts
from counterfactory.engine.pocket.judges import Finding
from counterfactory.engine.pocket.world import COLOURS, KINDS, MATERIALS, TIMES, WEATHERS, Scene

# What changes are drawn of: attributes of the scene, the colour of the nearest vehicle, that of one behind it.
GROUPS = ("weather", "time", "material", "colour", "second colour")
_WORDS = {"weather": WEATHERS, "time": TIMES, "material": MATERIALS}
# What an edit of each type says of the whole scene. Edits of "background" are of walls.
_EDITS = {"weather": "weather", "time": "time", "background": "material"}


@dataclass(frozen=True)
class Change:
    """One fact that becomes `value`.

    `name` is an attribute of the scene ("weather"), or "colour", of the vehicle of that `number`, nearest first.
    """

    name: str
    value: str
    number: int | None = None


def draw_change(scene: Scene, group: str, rng: np.random.Generator) -> Change | None:
    """A change of one of `GROUPS` to a value that the scene does not have; None where it has no second vehicle."""
    if group in _WORDS:
        free = [value for value in _WORDS[group] if value != getattr(scene, group)]
        return Change(group, free[int(rng.integers(len(free)))])
    if group == "second colour" and len(scene.vehicles) < 2:
        return None
    number = 1 + int(rng.integers(len(scene.vehicles) - 1)) if group == "second colour" else 0
    # Captions tell vehicles apart by colour and kind.
    taken = {v.colour for v in scene.vehicles if v.kind == scene.vehicles[number].kind}
    free = [colour for colour in COLOURS if colour not in taken]
    return Change("colour", free[int(rng.integers(len(free)))], number)


def apply_changes(scene: Scene, changes: Sequence[Change]) -> Scene:
    for change in changes:
        words: dict[str, Any] = {change.name: change.value}
        if change.number is not None:
            vehicles = list(scene.vehicles)
            vehicles[change.number] = replace(vehicles[change.number], colour=change.value)
            words = {"vehicles": tuple(vehicles)}
        scene = replace(scene, **words)
    return scene


def is_seen(change: Change, finding: Finding, objects: NDArray[np.uint8]) -> bool | None:
    """Whether the referee sees a change; None of walls, for which it has no word, and of a vehicle without a pixel.

    `objects` uint8 [128, 128] holds at each pixel the number of a vehicle plus 1, 0 where there is none.
    """
    if change.number is None:
        return finding.scene[change.name] == change.value if change.name in finding.scene else None
    where = objects == change.number + 1
    return finding.object(where)[change.name] == change.value if where.any() else None


def check_caption(caption: str, scene: Scene) -> list[tuple[str, bool]]:
    """Of each of the scene's facts, by its kind, whether a caption states it rightly; what is unsaid is wrong."""
    stated = read_facts(caption)
    checked = [(name, getattr(stated, name) == getattr(scene, name)) for name in _WORDS]
    checked.append(("people", stated.people == min(len(scene.pedestrians), 3)))
    for i, vehicle in enumerate(scene.vehicles):
        colour, kind = stated.vehicles[i] if i < len(stated.vehicles) else ("", "")
        checked += [("colour", colour == vehicle.colour), ("kind", kind == vehicle.kind)]
    return checked


def read_edit(scene: Scene, edit: Edit) -> tuple[Change, ...]:
    """What an edit of a scene's caption asks for; nothing where it is not of the world or not of the scene."""

    def word(text: str, words: Sequence[str]) -> str | None:
        return next((w for w in words if re.search(rf"\b{w}\b", text)), None)

    if (name := _EDITS.get(edit.type)) and (value := word(edit.alternative, _WORDS[name])):
        return (Change(name, value),)
    if edit.type == "colour" and (colour := word(edit.alternative, COLOURS)):
        named = (word(edit.keyword, COLOURS), word(edit.keyword, KINDS))
        which = [i for i, v in enumerate(scene.vehicles) if (v.colour, v.kind) == named]
        return (Change("colour", colour, which[0]),) if which else ()
    return ()
