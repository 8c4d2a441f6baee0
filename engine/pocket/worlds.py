"""The street world as the functions and words that trainings and measurements ask for.

`EMBEDDED` is the world that the models in the package know: the demo, judges, benches and tests take it from here and
from nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from . import captions, world
from .render import render, vehicle_map

SIZE = world.SIZE  # of the side of a picture, pixels
NOTHING = -100  # what cross entropy ignores


@dataclass(frozen=True)
class Drawing:
    """A rendered scene: `picture` uint8 [128, 128, 3], `mask` uint8 [128, 128] of the world's classes, and `objects`
    uint8 [128, 128], the number of a vehicle plus 1, nearest first, and 0 where there is none. `nearness` is the
    inverse of depth, uint8 [128, 128], 255 for the nearest pixel and 0 for the sky.
    """

    picture: NDArray[np.uint8]
    mask: NDArray[np.uint8]
    objects: NDArray[np.uint8]
    nearness: NDArray[np.uint8]

    @property
    def pair(self) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """The picture and its mask, as a labelled data set holds them."""
        return self.picture, self.mask


class World:
    """The street world's functions and words.

    `words` are the values of each attribute of a scene that a picture shows as a whole, `object_words` those of
    vehicles: networks have an output of each attribute's name, and the index of a value is that of its logit. Classes
    from `first_object` on are of vehicles and people, whose pixels count more. `kinds` are the labels of scenes.
    """

    name = "streets"
    classes = world.CLASSES
    first_object = world.CLASSES.index("vehicle")
    kinds = world.KINDS
    words: Mapping[str, tuple[str, ...]] = MappingProxyType({"weather": world.WEATHERS, "time": world.TIMES})
    object_words: Mapping[str, tuple[str, ...]] = MappingProxyType({"colour": world.COLOURS, "kind": world.KINDS})
    sample = staticmethod(world.sample_scene)
    restyle = staticmethod(world.restyle)
    describe = staticmethod(captions.describe)

    def scene(self, stream: int, index: int) -> world.Scene:
        """Scene number `index` of a stream."""
        return self.sample(np.random.default_rng((stream, index)))

    def fair(self, scene: world.Scene, number: int) -> world.Scene:
        """The scene as a careless team photographs it: by day, on clear and cloudy days by turns."""
        return replace(scene, weather=("clear", "cloudy")[number % 2], time="day")

    def draw(self, scene: world.Scene) -> Drawing:
        """The scene's picture with all that is known of it."""
        picture, mask, nearness = render(scene)
        return Drawing(picture, mask, (vehicle_map(scene, mask) + 1).astype(np.uint8), nearness)

    def truth(self, scene: world.Scene, drawing: Drawing) -> NDArray[np.int8]:
        """The vehicle at each pixel, int8 [attributes, 128, 128] of indices into `object_words`; else `NOTHING`."""
        words, vehicles = self.object_words.items(), scene.vehicles
        table = [[NOTHING, *(values.index(getattr(one, name)) for one in vehicles)] for name, values in words]
        return np.array(table, np.int8)[:, drawing.objects]


EMBEDDED = STREETS = World()
