"""The street world: what a scene is, and how scenes are sampled.

A `Scene` describes one street completely: weather, time of day, vehicles, pedestrians, buildings, trees, and the seed
of its layout. Two scenes that differ only in appearance (weather, time, colours, material) share every outline, so
the world yields true counterfactuals: `render` draws them, `captions` describes them, and training and measuring know
the answer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

SIZE = 128
WEATHERS = ("clear", "cloudy", "foggy", "rainy", "snowy")
TIMES = ("day", "sunset", "night")
KINDS = ("car", "bus", "truck")
COLOURS = ("red", "blue", "white", "black", "yellow", "green", "orange", "purple")
MATERIALS = ("brick", "concrete", "glass", "wooden")
CLASSES = ("sky", "building", "road", "sidewalk", "vegetation", "vehicle", "pedestrian")

# A vehicle's proportions: (width as a share of the lane, height over width).
VEHICLE_SHAPES = {"car": (0.66, 0.72), "bus": (0.70, 1.30), "truck": (0.74, 1.08)}
LANES = (-0.62, 0.0, 0.62)


@dataclass(frozen=True)
class Vehicle:
    """One vehicle from behind. `lane` runs over the road (-1 left kerb, 1 right), `depth` from 0 far to 1 near."""

    kind: str
    colour: str
    lane: float
    depth: float


@dataclass(frozen=True)
class Pedestrian:
    """One person on a sidewalk. `side` is -1 left or 1 right, `offset` 0 at the kerb to 1 at the walls."""

    side: int
    depth: float
    offset: float
    colour: str


@dataclass(frozen=True)
class Scene:
    """A complete description of a street. `vehicles` are sorted nearest first; lengths are fractions of the image."""

    weather: str
    time: str
    material: str
    trees: bool
    vehicles: tuple[Vehicle, ...]
    pedestrians: tuple[Pedestrian, ...]
    horizon: float
    vanishing_x: float
    road_width: float
    layout_seed: int

    @property
    def label(self) -> str:
        """The class of the scene: the kind of its nearest vehicle."""
        return self.vehicles[0].kind


@dataclass(frozen=True)
class SceneBox:
    """A box in fractions of the image, `y1` on the ground; `t` is 0 at the horizon and 1 at the lower edge."""

    x0: float
    y0: float
    x1: float
    y1: float
    t: float

    @property
    def area(self) -> float:
        return max(0.0, self.x1 - self.x0) * max(0.0, self.y1 - self.y0)

    def overlap(self, other: SceneBox) -> float:
        """Area shared with `other`."""
        width = min(self.x1, other.x1) - max(self.x0, other.x0)
        height = min(self.y1, other.y1) - max(self.y0, other.y0)
        return max(0.0, width) * max(0.0, height)


def ground(scene: Scene, depth: float) -> tuple[float, float, float]:
    """Perspective of the street at a depth: (x of the road's middle, y of the ground, t)."""
    t = 0.16 + 0.80 * depth
    x = scene.vanishing_x + (0.5 - scene.vanishing_x) * t
    return x, scene.horizon + (1.0 - scene.horizon) * t, t


def road_half(scene: Scene, t: float) -> float:
    """Half the width of the road at t, as a fraction of the image."""
    return scene.road_width * 0.62 * t


def vehicle_box(scene: Scene, vehicle: Vehicle) -> SceneBox:
    """The box of a vehicle, at least 0.17 of the image wide, so that its kind can be recognised."""
    middle, y, t = ground(scene, vehicle.depth)
    share, aspect = VEHICLE_SHAPES[vehicle.kind]
    half = road_half(scene, t)
    width = max(0.17, half * share)
    x = middle + vehicle.lane * max(half, 0.2)
    return SceneBox(x - width / 2, y - width * aspect, x + width / 2, y, t)


def pedestrian_box(scene: Scene, person: Pedestrian) -> SceneBox:
    """The box of a pedestrian, at least 0.22 of the image tall."""
    middle, y, t = ground(scene, person.depth)
    x = middle + person.side * (road_half(scene, t) + scene.road_width * t * (0.08 + 0.2 * person.offset))
    height = 0.20 + 0.24 * t
    return SceneBox(x - height * 0.2, y - height, x + height * 0.2, y, t)


def _visible(scene: Scene) -> bool:
    """Whether every vehicle and pedestrian lies in the picture and at most a quarter of it is hidden."""
    boxes = [vehicle_box(scene, v) for v in scene.vehicles] + [pedestrian_box(scene, p) for p in scene.pedestrians]
    if any(b.x0 < 0.02 or b.x1 > 0.98 or b.y0 < 0.02 for b in boxes):
        return False
    return all(sum(box.overlap(other) for other in boxes if other.t > box.t) <= 0.25 * box.area for box in boxes)


def _draw(rng: np.random.Generator) -> Scene:
    def pick(values: tuple[str, ...]) -> str:
        return values[int(rng.integers(len(values)))]

    vehicles: list[Vehicle] = []
    used: set[tuple[str, str]] = set()
    for lane in rng.permutation(LANES)[: int(rng.choice([1, 1, 1, 2, 2, 3]))]:
        kind, colour = pick(KINDS), pick(COLOURS)
        if (colour, kind) in used:  # a caption identifies each vehicle by colour and kind
            continue
        used.add((colour, kind))
        jitter = float(rng.uniform(-0.06, 0.06))
        vehicles.append(Vehicle(kind, colour, float(lane) + jitter, float(rng.uniform(0.12, 0.92))))
    vehicles.sort(key=lambda v: -v.depth)
    people = tuple(
        Pedestrian(int(rng.choice([-1, 1])), float(rng.uniform(0.15, 0.85)), float(rng.uniform(0, 1)), pick(COLOURS))
        for _ in range(int(rng.choice([0, 0, 1, 1, 2, 3])))
    )
    return Scene(
        weather=pick(WEATHERS),
        time=pick(TIMES),
        material=pick(MATERIALS),
        trees=bool(rng.random() < 0.6),
        vehicles=tuple(vehicles),
        pedestrians=people,
        horizon=float(rng.uniform(0.40, 0.52)),
        vanishing_x=float(rng.uniform(0.40, 0.60)),
        road_width=float(rng.uniform(0.75, 1.0)),
        layout_seed=int(rng.integers(1 << 30)),
    )


def sample_scene(rng: np.random.Generator) -> Scene:
    """Sample a scene with at least one vehicle and every object recognisable."""
    while True:
        scene = _draw(rng)
        if all(a.depth - b.depth > 0.08 for a, b in pairwise(scene.vehicles)) and _visible(scene):
            return scene


def restyle(scene: Scene, rng: np.random.Generator) -> Scene:
    """The same layout with weather, time, material and colours sampled anew."""
    colours = rng.permutation(COLOURS)
    vehicles = tuple(replace(v, colour=str(colours[i])) for i, v in enumerate(scene.vehicles))
    people = tuple(replace(p, colour=str(rng.choice(COLOURS))) for p in scene.pedestrians)
    weather, time, material = (str(rng.choice(words)) for words in (WEATHERS, TIMES, MATERIALS))
    return replace(scene, weather=weather, time=time, material=material, vehicles=vehicles, pedestrians=people)
