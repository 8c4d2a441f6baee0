"""Draws scenes of the wider street world, and other appearances of one layout."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np

from .buildings import houses_seen
from .camera import Box, box_of
from .scene import (
    BACKGROUNDS,
    COLOURS,
    DOMAINS,
    MATERIALS,
    PERSON_KINDS,
    POSES,
    SIZES,
    THING_COLOURS,
    THING_KINDS,
    TIMES,
    VEHICLE_KINDS,
    WEATHERS,
    WHOLE,
    Breadth,
    Person,
    Placed,
    Scene,
    Thing,
    Vehicle,
)

T = TypeVar("T", bound=Placed)

_HORIZONS = {"low": (0.50, 0.57), "level": (0.42, 0.50), "high": (0.30, 0.37)}
_HEIGHTS = {"low": (1.05, 1.25), "level": (1.65, 1.95), "high": (2.8, 3.3)}
_CURVATURES = {"left": (-0.030, -0.018), "straight": (-0.002, 0.002), "right": (0.018, 0.030)}
_LANES = (-1.0, 0.0, 1.0)
# Distances between which a thing is large enough to be recognised, and still in the picture.
_NEAREST, _FARTHEST = {"vehicle": 5.0, "person": 6.0, "thing": 6.0}, {"vehicle": 10.5, "person": 10.5, "thing": 10.5}
_APART = 0.15
_TRIALS = 20
_HIDDEN = 0.22  # share of a box that others may hide


class _Draw:
    """The draws of one generator."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def one(self, values: Sequence[str]) -> str:
        return values[int(self.rng.integers(len(values)))]

    def between(self, low: float, high: float) -> float:
        return float(self.rng.uniform(low, high))

    def chance(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def distance(self, what: str) -> float:
        return self.between(_NEAREST[what], _FARTHEST[what])

    def count(self, shares: Sequence[float], most: int) -> int:
        """A number from 0 on, by its share; no more than `most`."""
        return min(most, int(self.rng.choice(len(shares), p=shares)))

    def side(self) -> int:
        return 1 if self.chance(0.5) else -1


def _street(draw: _Draw, breadth: Breadth) -> Scene:
    """A street without anything in it."""
    camera = "level" if "level" in breadth.cameras and draw.chance(0.4) else draw.one(breadth.cameras)
    bend = "straight" if "straight" in breadth.bends and draw.chance(0.4) else draw.one(breadth.bends)
    street = Scene(
        weather=draw.one(breadth.weathers),
        time=draw.one(breadth.times),
        background=draw.one(breadth.backgrounds),
        domain=_domain(draw, breadth),
        material=draw.one(breadth.materials),
        trees=draw.chance(0.5),
        left=draw.chance(0.55),
        right=draw.chance(0.55),
        camera=camera,
        bend=bend,
        vehicles=(),
        people=(),
        things=(),
        horizon=draw.between(*_HORIZONS[camera]),
        vanishing_x=draw.between(0.42, 0.58),
        camera_height=draw.between(*_HEIGHTS[camera]),
        curvature=draw.between(*_CURVATURES[bend]),
        road_half=draw.between(2.2, 2.6),
        layout_seed=int(draw.rng.integers(1 << 30)),
    )
    # A scene says that there are houses where they are to be seen.
    return replace(street, left=street.left and houses_seen(street, -1), right=street.right and houses_seen(street, 1))


def _domain(draw: _Draw, breadth: Breadth) -> str:
    """Photographs are what suites are made of, so they come oftener than the others."""
    return "photo" if "photo" in breadth.domains and draw.chance(0.4) else draw.one(breadth.domains)


def _vehicle(draw: _Draw, breadth: Breadth, lane: float) -> Vehicle:
    # Half of the vehicles are of the usual size, of which captions need not speak.
    size = "medium" if "medium" in breadth.sizes and draw.chance(0.5) else draw.one(breadth.sizes)
    kind, colour = draw.one(breadth.vehicle_kinds), draw.one(breadth.colours)
    return Vehicle(kind, size, colour, lane + draw.between(-0.08, 0.08), draw.distance("vehicle"))


def _person(draw: _Draw, breadth: Breadth) -> Person:
    kind, pose, colour = draw.one(breadth.person_kinds), draw.one(breadth.poses), draw.one(breadth.colours)
    return Person(kind, pose, colour, draw.side(), draw.between(0, 1), draw.distance("person"))


def _thing(draw: _Draw, kind: str) -> Thing:
    colour = draw.one(THING_COLOURS[kind])
    return Thing(kind, colour, draw.side(), draw.between(0, 1), draw.distance("thing"), draw.side())


def _with(scene: Scene, placed: Placed) -> Scene:
    """The scene with one more object, unless a caption could not tell it from another of its kind."""
    if isinstance(placed, Vehicle):
        vehicles = {(v.colour, v.kind): v for v in (*scene.vehicles, placed)}
        return replace(scene, vehicles=_nearest_first(vehicles.values()))
    if isinstance(placed, Person):
        people = {(p.colour, p.kind): p for p in (*scene.people, placed)}
        return replace(scene, people=_nearest_first(people.values()))
    return replace(scene, things=_nearest_first((*scene.things, placed)))


def _nearest_first(placed: Iterable[T]) -> tuple[T, ...]:
    return tuple(sorted(placed, key=lambda one: one.z))


def _inside(box: Box) -> bool:
    return box.x0 > 0.015 and box.x1 < 0.985 and box.y0 > 0.02 and box.y1 < 0.985


def visible(scene: Scene) -> bool:
    """Whether every object lies in the picture, little of it is hidden, and no two share a distance."""
    placed = sorted(scene.placed, key=lambda one: one.z)
    if any(far.z - near.z < _APART for near, far in pairwise(placed)):
        return False
    boxes = [box_of(scene, one) for one in placed]
    if not all(map(_inside, boxes)):
        return False
    return all(sum(box.overlap(near) for near in boxes[:i]) <= _HIDDEN * box.area for i, box in enumerate(boxes))


def _fill(draw: _Draw, scene: Scene, breadth: Breadth) -> Scene:
    """The street with vehicles, people and things; what finds no place in some trials stays away."""
    lanes = draw.rng.permutation(_LANES)[: 1 + draw.count((0.45, 0.4, 0.15), 2)].tolist()
    kinds = [breadth.thing_kinds[int(i)] for i in draw.rng.permutation(len(breadth.thing_kinds))]
    people, things = (
        draw.count((0.3, 0.35, 0.25, 0.1), breadth.people),
        draw.count((0.1, 0.35, 0.35, 0.2), breadth.things),
    )
    makers: list[Callable[[], Placed]] = [partial(_vehicle, draw, breadth, lane) for lane in lanes]
    makers += [partial(_person, draw, breadth)] * people + [partial(_thing, draw, kind) for kind in kinds[:things]]
    for make in makers:
        for _ in range(_TRIALS):
            one = make()
            if _inside(box_of(scene, one)) and visible(fuller := _with(scene, one)):
                scene = fuller
                break
    return scene


def sample_scene(rng: np.random.Generator, breadth: Breadth = WHOLE) -> Scene:
    """Sample a scene with at least one vehicle and every object recognisable, of the words that `breadth` opens."""
    while True:
        scene = _fill(_Draw(rng), _street(_Draw(rng), breadth), breadth)
        if scene.vehicles:
            return scene


def add_thing(scene: Scene, kind: str, rng: np.random.Generator) -> Scene:
    """The scene with one more small thing of a kind, where it finds a place in some trials; else the scene itself."""
    draw = _Draw(rng)
    for _ in range(_TRIALS):
        fuller = _with(scene, _thing(draw, kind))
        if visible(fuller):
            return fuller
    return scene


def restyle(scene: Scene, rng: np.random.Generator, breadth: Breadth = WHOLE) -> Scene:
    """The same layout in another appearance: weather, time, background, domain, material and colours anew."""
    draw = _Draw(rng)
    colours = [breadth.colours[int(i)] for i in rng.permutation(len(breadth.colours))]
    return replace(
        scene,
        weather=draw.one(breadth.weathers),
        time=draw.one(breadth.times),
        background=draw.one(breadth.backgrounds),
        domain=_domain(draw, breadth),
        material=draw.one(breadth.materials),
        vehicles=tuple(replace(v, colour=colours[i % len(colours)]) for i, v in enumerate(scene.vehicles)),
        people=tuple(replace(p, colour=colours[-1 - i % len(colours)]) for i, p in enumerate(scene.people)),
        things=tuple(replace(t, colour=draw.one(THING_COLOURS[t.kind])) for t in scene.things),
    )


def confuse(scene: Scene, rng: np.random.Generator) -> Scene:
    """A scene that differs in one fact: two objects' colours changed about, if there are two, or one word replaced.

    It is for captions that are nearly right: that it can be seen as a whole is not checked.
    """
    draw = _Draw(rng)
    vehicles, people = scene.vehicles, scene.people
    if len({v.colour for v in vehicles}) > 1 and draw.chance(0.5):
        turned = (*vehicles[1:], vehicles[0])
        return replace(
            scene, vehicles=tuple(replace(v, colour=w.colour) for v, w in zip(vehicles, turned, strict=True))
        )
    if len({p.colour for p in people}) > 1 and draw.chance(0.3):
        others = (*people[1:], people[0])
        return replace(scene, people=tuple(replace(p, colour=q.colour) for p, q in zip(people, others, strict=True)))
    changes = _changes(draw, scene)
    return replace(scene, **changes[int(rng.integers(len(changes)))])


def _changes(draw: _Draw, scene: Scene) -> list[dict[str, Any]]:
    """One other word for each attribute of the scene and of the first of its objects."""

    def changed(one: Any, name: str, values: Sequence[str]) -> Any:
        return replace(one, **{name: draw.one([v for v in values if v != getattr(one, name)])})

    whole = {"weather": WEATHERS, "time": TIMES, "background": BACKGROUNDS, "domain": DOMAINS, "material": MATERIALS}
    changes = [{name: getattr(changed(scene, name, values), name)} for name, values in whole.items()]
    first: list[tuple[str, tuple[Any, ...], dict[str, tuple[str, ...]]]] = [
        ("vehicles", scene.vehicles, {"colour": COLOURS, "kind": VEHICLE_KINDS, "size": SIZES}),
        ("people", scene.people, {"colour": COLOURS, "kind": PERSON_KINDS, "pose": POSES}),
    ]
    for field, objects, words in first:
        if objects:
            changes += [{field: (changed(objects[0], *word), *objects[1:])} for word in words.items()]
    if scene.things:
        other = changed(scene.things[0], "kind", THING_KINDS)
        other = replace(other, colour=draw.one(THING_COLOURS[other.kind]))
        changes.append({"things": (other, *scene.things[1:])})
    return changes
