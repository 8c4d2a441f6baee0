"""The camera of the street: a pinhole, so that places, sizes and distances agree.

Street coordinates are (x to the right of the road's middle, y up from the ground, z away from the camera). Image
coordinates are fractions of the picture, y down. The inverse of the distance is affine in image coordinates on every
plane, which makes depth maps exact and cheap.
"""

from __future__ import annotations

from dataclasses import dataclass

from .scene import Person, Placed, Scene, Vehicle

FOCAL = 0.9
SIDEWALK = 2.1  # its width
# Where the background ends and the ground begins, and how far away the background is.
SHORE, FAR = 13.0, 60.0
# Width and height by kind; a vehicle's are those of medium size.
VEHICLE_SIZES = {"car": (2.0, 1.5), "bus": (2.3, 3.1), "truck": (2.35, 2.75), "van": (2.0, 2.15)}
SIZE_FACTORS = {"small": 0.8, "medium": 1.0, "large": 1.22}
PERSON_HEIGHTS = {"man": 2.3, "woman": 2.2, "child": 1.5}
# Half the width that a pose may take, as a share of the height.
POSE_REACH = {"standing": 0.19, "walking": 0.26, "running": 0.36, "waving": 0.27}
THING_SIZES = {
    "bicycle": (2.5, 1.5),
    "dog": (1.9, 1.35),
    "bench": (2.5, 1.35),
    "traffic light": (0.75, 3.7),
    "traffic sign": (1.15, 2.9),
}


@dataclass(frozen=True)
class Box:
    """A box in fractions of the image; `y1` is where the object stands."""

    x0: float
    y0: float
    x1: float
    y1: float

    @property
    def area(self) -> float:
        return max(0.0, self.x1 - self.x0) * max(0.0, self.y1 - self.y0)

    def overlap(self, other: Box) -> float:
        """Area shared with `other`."""
        width = min(self.x1, other.x1) - max(self.x0, other.x0)
        height = min(self.y1, other.y1) - max(self.y0, other.y0)
        return max(0.0, width) * max(0.0, height)


@dataclass(frozen=True)
class Camera:
    """Where a point of the street is seen."""

    horizon: float
    vanishing_x: float
    height: float
    curvature: float

    @classmethod
    def of(cls, scene: Scene) -> Camera:
        """The camera of a scene."""
        return cls(scene.horizon, scene.vanishing_x, scene.camera_height, scene.curvature)

    def bend(self, z: float) -> float:
        """How far the road has turned aside at a distance; far away it runs straight on."""
        return self.curvature * z * z / (1 + z / 25)

    def see(self, x: float, y: float, z: float) -> tuple[float, float]:
        """Image coordinates of a point. The camera stands a little aside where it looks aside."""
        aside = (self.vanishing_x - 0.5) * 2.4
        return self.vanishing_x + FOCAL * (x - aside + self.bend(z)) / z, self.horizon + FOCAL * (self.height - y) / z

    def ground_y(self, z: float) -> float:
        """Where the ground at a distance is seen."""
        return self.horizon + FOCAL * self.height / z

    def nearest(self) -> float:
        """The distance of the ground at the lower edge of the picture."""
        return FOCAL * self.height / (1 - self.horizon)


def size_of(thing: Placed) -> tuple[float, float]:
    """Width and height that an object may take."""
    if isinstance(thing, Vehicle):
        width, height = VEHICLE_SIZES[thing.kind]
        return width * SIZE_FACTORS[thing.size], height * SIZE_FACTORS[thing.size]
    if isinstance(thing, Person):
        height = PERSON_HEIGHTS[thing.kind]
        return 2 * POSE_REACH[thing.pose] * height, height
    return THING_SIZES[thing.kind]


def place_of(scene: Scene, thing: Placed) -> float:
    """The x of an object's middle, from the middle of the road."""
    if isinstance(thing, Vehicle):
        return thing.lane * scene.road_half * 0.62
    near = 0.45 + 0.3 * size_of(thing)[0]
    return thing.side * (scene.road_half + near + thing.offset * max(0.0, SIDEWALK - 2 * near))


def box_of(scene: Scene, thing: Placed) -> Box:
    """The box that an object stands in: its visible pixels are inside."""
    camera, (width, height), x = Camera.of(scene), size_of(thing), place_of(scene, thing)
    x0, y0 = camera.see(x - width / 2, height, thing.z)
    x1, y1 = camera.see(x + width / 2, 0.0, thing.z)
    return Box(x0, y0, x1, y1)
