"""The world that pocket models are trained in, as the functions and words that trainings and measurements ask for.

`EMBEDDED` is the world that the models in the package know: the demo, judges, benches and tests take it from here and
from nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import CounterfactoryError
from . import captions, world
from .render import render_with_nearness, vehicle_map

SIZE = world.SIZE  # of the side of a picture, pixels
NOTHING = -100  # what cross entropy ignores
_FAIR_WEATHERS = ("clear", "cloudy")


@dataclass(frozen=True)
class Vocabulary:
    """What a referee tells apart: `classes` of pixels, and the values of each attribute of scenes and of objects.

    Its network's outputs have the attributes' names; the index of a value is that of its logit.
    """

    classes: tuple[str, ...]
    scene: Mapping[str, tuple[str, ...]]
    objects: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class Drawing:
    """A rendered scene: `picture` uint8 [128, 128, 3], `mask` uint8 [128, 128] of the world's classes, and `objects`
    uint8 [128, 128], 0 where there is none, else its number plus 1; vehicles come first, nearest first. `nearness` is
    the inverse of depth, uint8 [128, 128], 255 for the nearest pixel and 0 for the sky.
    """

    picture: NDArray[np.uint8]
    mask: NDArray[np.uint8]
    objects: NDArray[np.uint8]
    nearness: NDArray[np.uint8]

    @property
    def pair(self) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """The picture and its mask, as a labelled data set holds them."""
        return self.picture, self.mask


@dataclass(frozen=True)
class World:
    """A world's functions and words. Scenes are opaque but for `label`, `vehicles` and the attributes in `words`.

    `describe(scene, rng, seen)` states facts of a scene, those alone that its picture shows if `seen`. `words` are the
    values of each attribute of a scene that a picture shows as a whole; `object_words` those of objects, as
    `object_facts` gives them for each object in turn (None where an object has no such attribute). Classes from
    `first_object` on are of vehicles and people, whose pixels count more. `fair(scene, number)` is the scene on a day
    as a careless team photographs it, of clear and cloudy days by turns.
    """

    name: str
    classes: tuple[str, ...]
    first_object: int
    sample: Callable[[np.random.Generator], Any]
    restyle: Callable[[Any, np.random.Generator], Any]
    draw: Callable[[Any], Drawing]
    describe: Callable[[Any, np.random.Generator, bool], str]
    words: Mapping[str, tuple[str, ...]]
    object_words: Mapping[str, tuple[str, ...]]
    object_facts: Callable[[Any], list[dict[str, str]]]
    fair: Callable[[Any, int], Any]

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of vehicles: the labels of scenes."""
        return self.object_words["kind"]

    @property
    def vocabulary(self) -> Vocabulary:
        """What a referee of this world tells apart."""
        return Vocabulary(self.classes, self.words, self.object_words)

    def scene(self, stream: int, index: int) -> Any:
        """Scene number `index` of a stream."""
        return self.sample(np.random.default_rng((stream, index)))

    def styled(self, stream: int, index: int, styles: int) -> Any:
        """Item `index` of a stream in which every layout comes `styles` times in a row, restyled but the first time."""
        first = self.scene(stream, index // styles)
        return first if index % styles == 0 else self.restyle(first, np.random.default_rng((stream, index, 1)))

    def truth(self, scene: Any, drawing: Drawing) -> NDArray[np.int8]:
        """What is known of the object at each pixel, int8 [attributes, 128, 128] of indices into `object_words`.

        `NOTHING` where there is no object with that attribute.
        """
        facts = self.object_facts(scene)
        table = np.full((len(self.object_words), len(facts) + 1), NOTHING, np.int8)
        for row, (name, values) in enumerate(self.object_words.items()):
            for number, values_of in enumerate(facts, 1):
                if name in values_of:
                    table[row, number] = values.index(values_of[name])
        return table[:, drawing.objects]


def _draw_street(scene: world.Scene) -> Drawing:
    picture, mask, nearness = render_with_nearness(scene)
    return Drawing(picture, mask, (vehicle_map(scene, mask) + 1).astype(np.uint8), nearness)


def _describe_street(scene: world.Scene, rng: np.random.Generator, seen: bool) -> str:
    return captions.describe(scene, rng)  # its pictures show all there is


def _fair_street(scene: world.Scene, number: int) -> world.Scene:
    return replace(scene, weather=_FAIR_WEATHERS[number % 2], time="day")


STREETS = World(
    name="streets",
    classes=world.CLASSES,
    first_object=world.CLASSES.index("vehicle"),
    sample=world.sample_scene,
    restyle=world.restyle,
    draw=_draw_street,
    describe=_describe_street,
    words=MappingProxyType({"weather": world.WEATHERS, "time": world.TIMES}),
    object_words=MappingProxyType({"colour": world.COLOURS, "kind": world.KINDS}),
    object_facts=lambda scene: [{"colour": v.colour, "kind": v.kind} for v in scene.vehicles],
    fair=_fair_street,
)
EMBEDDED = STREETS
WORLDS = MappingProxyType({STREETS.name: STREETS})


def drawn(stream: int, index: int, styles: int) -> tuple[Any, Drawing]:
    """Item `index` of a stream of `EMBEDDED`, and its drawing: what other processes draw for a training."""
    scene = EMBEDDED.styled(stream, index, styles)
    return scene, EMBEDDED.draw(scene)


def world_named(name: str) -> World:
    """A world by its name. Raises CounterfactoryError for another name."""
    if name not in WORLDS:
        raise CounterfactoryError(f"no world {name!r} to train in; there are {', '.join(WORLDS)}")
    return WORLDS[name]
