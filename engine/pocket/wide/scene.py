"""What a scene of the wider street world is: words, objects, and which of the words may be drawn.

A `Scene` describes one street completely. Its *appearance* (weather, time, background, material, domain, colours) never
moves an outline: two scenes that differ in it alone have one mask, one depth map and the same boxes. Its *layout*
(camera, curvature, buildings, trees, and the kinds, sizes, poses and places of what stands in the street) makes them.
Lengths are in street units: a car is 2 wide, a man 2.2 tall, so that small things are seen in a small picture.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...errors import CounterfactoryError

SIZE = 128
WEATHERS = ("clear", "cloudy", "foggy", "rainy", "snowy")
TIMES = ("day", "sunset", "night")
BACKGROUNDS = ("city", "forest", "mountains", "coast")
DOMAINS = ("photo", "sketch", "painting")
MATERIALS = ("brick", "concrete", "glass", "wooden")
COLOURS = ("red", "blue", "white", "black", "yellow", "green", "orange", "purple")
VEHICLE_KINDS = ("car", "bus", "truck", "van")
SIZES = ("small", "medium", "large")
PERSON_KINDS = ("man", "woman", "child")
POSES = ("standing", "walking", "running", "waving")
THING_KINDS = ("bicycle", "dog", "bench", "traffic light", "traffic sign")
CAMERAS = ("low", "level", "high")
BENDS = ("left", "straight", "right")
# The colours that a thing comes in; a traffic light's is the one that it shows.
THING_COLOURS = {
    "bicycle": COLOURS,
    "dog": ("brown", "black", "white"),
    "bench": ("brown", "green", "white"),
    "traffic light": ("red", "yellow", "green"),
    "traffic sign": ("red", "yellow", "blue"),
}
# What a pixel shows. "background" is what lies behind the street, up to the ridge; "ground" what lies beside it.
CLASSES = (
    *("sky", "background", "ground", "building", "road", "sidewalk", "vegetation", "vehicle", "pedestrian"),
    *THING_KINDS,
)
# How a map of the classes is painted for a denoiser to follow, RGB; those of Cityscapes where it has the class.
PALETTE = (
    *((70, 130, 180), (190, 153, 153), (152, 251, 152), (70, 70, 70), (128, 64, 128), (244, 35, 232)),
    *((107, 142, 35), (0, 0, 142), (220, 20, 60), (119, 11, 32), (255, 0, 255), (0, 60, 100)),
    *((250, 170, 30), (220, 220, 0)),
)


@dataclass(frozen=True)
class Vehicle:
    """One vehicle from behind, at `lane` (-1 the left kerb, 1 the right), `z` street units away."""

    kind: str
    size: str
    colour: str
    lane: float
    z: float


@dataclass(frozen=True)
class Person:
    """One person on a sidewalk: `side` is -1 left or 1 right, `offset` 0 at the kerb to 1 at its far edge."""

    kind: str
    pose: str
    colour: str
    side: int
    offset: float
    z: float


@dataclass(frozen=True)
class Thing:
    """A small object on a sidewalk, placed as a person is; `faces` is -1 where it looks to the left, else 1."""

    kind: str
    colour: str
    side: int
    offset: float
    z: float
    faces: int


Placed = Vehicle | Person | Thing


@dataclass(frozen=True)
class Scene:
    """A complete description of a street. Each kind of object is sorted nearest first; no two share a distance.

    `left` and `right` say whether houses stand on that side. `horizon` and `vanishing_x` are fractions of the image,
    `camera_height` and `road_half` street units, `curvature` one over them.
    """

    weather: str
    time: str
    background: str
    domain: str
    material: str
    trees: bool
    left: bool
    right: bool
    camera: str
    bend: str
    vehicles: tuple[Vehicle, ...]
    people: tuple[Person, ...]
    things: tuple[Thing, ...]
    horizon: float
    vanishing_x: float
    camera_height: float
    curvature: float
    road_half: float
    layout_seed: int

    @property
    def label(self) -> str:
        """The class of the scene: the kind of its nearest vehicle."""
        return self.vehicles[0].kind

    @property
    def houses(self) -> bool:
        """Whether there are buildings at all."""
        return self.left or self.right

    @property
    def placed(self) -> tuple[Placed, ...]:
        """All objects: vehicles, people, things. Their numbers are those of a rendering's instances."""
        return (*self.vehicles, *self.people, *self.things)


@dataclass(frozen=True)
class Breadth:
    """Which words scenes are drawn from, in each axis, and how many people and things there are at most (0 to 3).

    Raises CounterfactoryError for a word that the world has not, or an axis without any.
    """

    weathers: tuple[str, ...] = WEATHERS
    times: tuple[str, ...] = TIMES
    backgrounds: tuple[str, ...] = BACKGROUNDS
    domains: tuple[str, ...] = DOMAINS
    materials: tuple[str, ...] = MATERIALS
    colours: tuple[str, ...] = COLOURS
    vehicle_kinds: tuple[str, ...] = VEHICLE_KINDS
    sizes: tuple[str, ...] = SIZES
    person_kinds: tuple[str, ...] = PERSON_KINDS
    poses: tuple[str, ...] = POSES
    thing_kinds: tuple[str, ...] = THING_KINDS
    cameras: tuple[str, ...] = CAMERAS
    bends: tuple[str, ...] = BENDS
    people: int = 3
    things: int = 3

    def __post_init__(self) -> None:
        for axis, words in AXES.items():
            asked: tuple[str, ...] = getattr(self, axis)
            unknown = sorted(set(asked) - set(words))
            if unknown or not asked:
                raise CounterfactoryError(
                    f"{axis}: {', '.join(unknown) or 'none'} asked for; the street world has {', '.join(words)}"
                )
        if not (0 <= self.people <= 3 and 0 <= self.things <= 3):
            raise CounterfactoryError(f"a street holds 0 to 3 people and things, got {self.people} and {self.things}")


AXES = {
    "weathers": WEATHERS,
    "times": TIMES,
    "backgrounds": BACKGROUNDS,
    "domains": DOMAINS,
    "materials": MATERIALS,
    "colours": COLOURS,
    "vehicle_kinds": VEHICLE_KINDS,
    "sizes": SIZES,
    "person_kinds": PERSON_KINDS,
    "poses": POSES,
    "thing_kinds": THING_KINDS,
    "cameras": CAMERAS,
    "bends": BENDS,
}
WHOLE = Breadth()
