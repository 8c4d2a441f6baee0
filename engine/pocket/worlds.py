"""The worlds that pocket models are trained in, each as the functions and words that trainings ask for.

`WIDE` has backgrounds, small things, domains, subjects and cameras beyond what `STREETS` has. A training takes its
world as a value, so that one code trains for both. `EMBEDDED` is the world that the models in the package know: the
demo, judges, benches and tests take it from here and from nowhere else.
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
from .wide import captions as wide_captions
from .wide import sampling as wide_sampling
from .wide import scene as wide
from .wide.facts import contradicted, facts_of, read_facts
from .wide.render import render as render_wide

SIZE = wide.SIZE  # of the side of a picture of any world, pixels
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
    `first_object` on are of vehicles, people and small things, whose pixels count more. `confuse`, if there is one,
    gives a caption of a scene and one with a fact wrong, or twice the same where the fact went unsaid. `palette` are
    the colours, RGB, in which a map of the classes is given to the denoiser that is trained in the world, none where
    edges alone guide it. `fair(scene, number)` is the scene on a day as a careless team photographs it, of clear and
    cloudy days by turns.
    """

    name: str
    classes: tuple[str, ...]
    first_object: int
    palette: tuple[tuple[int, int, int], ...]
    sample: Callable[[np.random.Generator], Any]
    restyle: Callable[[Any, np.random.Generator], Any]
    draw: Callable[[Any], Drawing]
    describe: Callable[[Any, np.random.Generator, bool], str]
    words: Mapping[str, tuple[str, ...]]
    object_words: Mapping[str, tuple[str, ...]]
    object_facts: Callable[[Any], list[dict[str, str]]]
    fair: Callable[[Any, int], Any]
    confuse: Callable[[Any, np.random.Generator], tuple[str, str]] | None = None

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


def _fair_wide(scene: wide.Scene, number: int) -> wide.Scene:
    return replace(scene, weather=_FAIR_WEATHERS[number % 2], time="day", domain="photo")


def _draw_wide(scene: wide.Scene) -> Drawing:
    rendering = render_wide(scene)
    inverse = 1 / rendering.depth
    nearness = np.rint(inverse * (255 / inverse.max())).astype(np.uint8)
    return Drawing(rendering.picture, rendering.mask, rendering.instances, nearness)


def _describe_wide(scene: wide.Scene, rng: np.random.Generator, seen: bool) -> str:
    return wide_captions.describe(facts_of(scene, seen), rng)


def _wide_facts(scene: wide.Scene) -> list[dict[str, str]]:
    """A pencil has no colours: objects of sketches have none."""
    grey = scene.domain == "sketch"
    vehicles = [{"kind": v.kind, "size": v.size} | ({} if grey else {"colour": v.colour}) for v in scene.vehicles]
    return [*vehicles, *({"person": p.kind, "pose": p.pose} for p in scene.people), *({} for _ in scene.things)]


def _confuse_wide(scene: wide.Scene, rng: np.random.Generator) -> tuple[str, str]:
    seed, other = int(rng.integers(1 << 60)), wide_sampling.confuse(scene, rng)
    # The same generator mostly finds the same words for both, so that the fact alone differs.
    right, wrong = (_describe_wide(one, np.random.default_rng(seed), True) for one in (scene, other))
    return right, wrong if contradicted(read_facts(wrong), facts_of(scene, seen=True)) else right


STREETS = World(
    name="streets",
    classes=world.CLASSES,
    first_object=world.CLASSES.index("vehicle"),
    palette=(),
    sample=world.sample_scene,
    restyle=world.restyle,
    draw=_draw_street,
    describe=_describe_street,
    words=MappingProxyType({"weather": world.WEATHERS, "time": world.TIMES}),
    object_words=MappingProxyType({"colour": world.COLOURS, "kind": world.KINDS}),
    object_facts=lambda scene: [{"colour": v.colour, "kind": v.kind} for v in scene.vehicles],
    fair=_fair_street,
)
WIDE = World(
    name="wide",
    classes=wide.CLASSES,
    first_object=wide.CLASSES.index("vehicle"),
    palette=wide.PALETTE,
    sample=wide_sampling.sample_scene,
    restyle=wide_sampling.restyle,
    draw=_draw_wide,
    describe=_describe_wide,
    words=MappingProxyType(
        {
            "weather": wide.WEATHERS,
            "time": wide.TIMES,
            "background": wide.BACKGROUNDS,
            "domain": wide.DOMAINS,
            "camera": wide.CAMERAS,
            "bend": wide.BENDS,
        }
    ),
    object_words=MappingProxyType(
        {
            "colour": wide.COLOURS,
            "kind": wide.VEHICLE_KINDS,
            "size": wide.SIZES,
            "person": wide.PERSON_KINDS,
            "pose": wide.POSES,
        }
    ),
    object_facts=_wide_facts,
    fair=_fair_wide,
    confuse=_confuse_wide,
)
EMBEDDED = STREETS
WORLDS = MappingProxyType({world.name: world for world in (STREETS, WIDE)})


def drawn(world: str, stream: int, index: int, styles: int) -> tuple[Any, Drawing]:
    """Item `index` of a stream of a world, and its drawing; worlds go to other processes by name."""
    of = world_named(world)
    scene = of.styled(stream, index, styles)
    return scene, of.draw(scene)


def world_named(name: str) -> World:
    """A world by its name. Raises CounterfactoryError for another name."""
    if name not in WORLDS:
        raise CounterfactoryError(f"no world {name!r} to train in; there are {', '.join(WORLDS)}")
    return WORLDS[name]
