"""Houses and trees along the street."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .camera import SHORE, SIDEWALK, Camera
from .canvas import Canvas, Plane, Point, Rgb, mix, shade
from .scene import Scene

_MATERIAL_RGB: dict[str, Rgb] = {
    "brick": (162, 80, 62),
    "concrete": (166, 166, 160),
    "glass": (104, 158, 184),
    "wooden": (186, 146, 96),
}
_GLASS: Rgb = (70, 88, 108)
_DEEP = 6.0  # how far a house reaches away from the street
_GAP = 0.2  # between the sidewalk and the houses
_ROWS_END = 10.5  # rows of houses reach at least as far


@dataclass(frozen=True)
class House:
    """A house: the distances of its near and its far end, its height, and how light its walls are."""

    side: int
    near: float
    far: float
    height: float
    tone: float
    seed: int


def houses_seen(scene: Scene, side: int) -> bool:
    """Whether houses on a side of the street are in the picture: where it bends, those on one side are not."""
    x, _ = Camera.of(scene).see(side * (scene.road_half + SIDEWALK + _GAP), 0, _ROWS_END)
    return 0.07 < x < 0.93


def houses(scene: Scene, layout: np.random.Generator) -> list[House]:
    """The houses of a scene, farthest first. Both sides are drawn, whether they stand there or not."""
    found: list[House] = []
    for side, there in ((-1, scene.left), (1, scene.right)):
        z = float(layout.uniform(4.6, 6.0))
        for _ in range(3):
            far = min(SHORE - 0.2, z + float(layout.uniform(2.0, 3.6)))
            high, tone, seed = (
                float(layout.uniform(3.6, 6.6)),
                float(layout.uniform(0.88, 1.12)),
                int(layout.integers(1 << 30)),
            )
            if there and far - z > 0.8:
                found.append(House(side, z, far, high, tone, seed))
            z = far + float(layout.choice([0.05, 0.05, 0.9]))
    return sorted(found, key=lambda house: -house.near)


def paint_house(canvas: Canvas, scene: Scene, house: House) -> None:
    """The wall along the street, and the wall that faces the camera."""
    camera = Camera.of(scene)
    inner = scene.road_half + SIDEWALK + _GAP
    details = np.random.default_rng(house.seed)
    walls = shade(_MATERIAL_RGB[scene.material], house.tone)

    def street_wall(u: float, v: float) -> Point:
        """u from the near end to the far end, v from the ground up."""
        return camera.see(
            house.side * inner, v * house.height, 1 / (1 / house.near + u * (1 / house.far - 1 / house.near))
        )

    def front_wall(u: float, v: float) -> Point:
        return camera.see(house.side * (inner + u * _DEEP), v * house.height, house.near)

    x0, x1 = street_wall(0, 0)[0], street_wall(1, 0)[0]
    along = canvas.surface("building", Plane.along(x0, house.near, x1, house.far))
    faces = canvas.surface("building", Plane.upright(house.near))
    for wall in (
        _Wall(canvas, front_wall, faces, shade(walls, 0.8), _DEEP, house.height),
        _Wall(canvas, street_wall, along, walls, 1.3 * (house.far - house.near), house.height),
    ):
        with canvas.inside([wall.place(*corner) for corner in ((0, 0), (1, 0), (1, 1), (0, 1))]):
            _paint_wall(wall, scene, details)


@dataclass(frozen=True)
class _Wall:
    """A wall in its own frame: u along it, v up, both from 0 to 1."""

    canvas: Canvas
    place: Callable[[float, float], Point]
    surface: int
    rgb: Rgb
    wide: float
    high: float

    def quad(self, u0: float, v0: float, u1: float, v1: float, paint: Rgb, surface: int | None = None) -> None:
        corners = [self.place(u0, v0), self.place(u1, v0), self.place(u1, v1), self.place(u0, v1)]
        self.canvas.polygon(corners, paint, self.surface if surface is None else surface)


def _paint_wall(wall: _Wall, scene: Scene, details: np.random.Generator) -> None:
    wall.quad(0, 0, 1, 1, wall.rgb)
    _paint_material(wall, scene.material)
    night, glass = scene.time == "night", scene.material == "glass"
    columns, storeys = max(1, int(wall.wide / 1.25)), max(2, int(wall.high / 1.25))
    lamp = wall.canvas.lamp_on(wall.surface) if night else wall.surface
    frame = mix(wall.rgb, (240, 236, 228), 0.55)
    for i in range(columns):
        for j in range(storeys):
            on = details.random() < 0.5
            u, v, across, up = (i + 0.24) / columns, (j + 0.3) / storeys, 1 / columns, 1 / storeys
            if not glass:
                wall.quad(u - 0.05 * across, v - 0.05 * up, u + 0.57 * across, v + 0.53 * up, frame)
            if night and on:
                wall.quad(u, v, u + 0.52 * across, v + 0.48 * up, (250, 214, 124), lamp)
            elif not glass:
                wall.quad(u, v, u + 0.52 * across, v + 0.48 * up, mix(_GLASS, (150, 186, 214), 0.5 * on))
            elif not on:
                wall.quad(u, v - 0.2 * up, u + 0.7 * across, v + 0.6 * up, shade(wall.rgb, 0.8))
    wall.quad(0, 0.955, 1, 1, (238, 241, 246) if scene.weather == "snowy" else shade(wall.rgb, 0.7))


def _paint_material(wall: _Wall, material: str) -> None:
    rgb, wide, high = wall.rgb, wall.wide, wall.high
    if material == "brick":
        for v in np.arange(0.35, high, 0.42).tolist():
            wall.quad(0, v / high, 1, (v + 0.07) / high, mix(rgb, (206, 178, 160), 0.45))
    elif material == "wooden":
        for v in np.arange(0.3, high, 0.5).tolist():
            wall.quad(0, v / high, 1, (v + 0.1) / high, shade(rgb, 0.74))
    elif material == "glass":
        for u in np.arange(0.0, wide, 0.62).tolist():
            wall.quad(u / wide, 0, (u + 0.09) / wide, 1, shade(rgb, 0.66))
        wall.quad(0.55, 0, 0.8, 1, mix(rgb, (232, 244, 250), 0.35))


@dataclass(frozen=True)
class Tree:
    """A tree at a distance, on a side; conifers are pointed."""

    side: int
    z: float
    aside: float
    height: float
    conifer: bool
    seed: int


def trees(scene: Scene, layout: np.random.Generator) -> list[Tree]:
    """The trees of a scene, farthest first; beyond all objects, so that they hide none."""
    conifer = bool(layout.random() < 0.5)
    camera, found = Camera.of(scene), []
    for _ in range(int(layout.integers(3, 6))):
        side, z = int(layout.choice([-1, 1])), float(layout.uniform(10.7, 12.8))
        aside, height = float(layout.uniform(0.72, 1.05)), float(layout.uniform(3.6, 5.2))
        x, _ = camera.see(side * (scene.road_half + SIDEWALK * aside), 0, z)
        if not 0.06 < x < 0.94:  # where the street bends, it is lined on one side
            side = -side
        found.append(Tree(side, z, aside, height, conifer, int(layout.integers(1 << 30))))
    return sorted(found, key=lambda tree: -tree.z) if scene.trees else []


def paint_tree(canvas: Canvas, scene: Scene, tree: Tree) -> None:
    """Trunk and crown."""
    camera = Camera.of(scene)
    surface = canvas.surface("vegetation", Plane.upright(tree.z))
    details = np.random.default_rng(tree.seed)
    x = tree.side * (scene.road_half + SIDEWALK * tree.aside)
    px, base = camera.see(x, 0, tree.z)
    unit = camera.ground_y(tree.z) - camera.see(0, 1, tree.z)[1]
    high = tree.height * unit
    snow = scene.weather == "snowy"
    leaf: Rgb = (38, 92, 54) if tree.conifer else (62, 124, 50)
    leaf = mix(leaf, (232, 237, 242), 0.72) if snow else leaf
    canvas.darken(px, base, 0.9 * unit, 0.16 * unit, 0.62)
    canvas.box(px - 0.11 * unit, base - high * 0.5, px + 0.11 * unit, base, (94, 68, 48), surface)
    if tree.conifer:
        for up, spread, tone in ((0.42, 1.0, 0.82), (0.66, 0.78, 0.95), (0.9, 0.52, 1.1)):
            y, half = base - up * high * 0.62, spread * 0.3 * high
            canvas.polygon([(px - half, y), (px + half, y), (px, y - 0.44 * high)], shade(leaf, tone), surface)
        return
    for tone, lift in ((0.78, 0.0), (1.0, 0.05), (1.18, 0.11)):
        for _ in range(4):
            dx, dy = (float(v) for v in details.uniform(-0.17, 0.17, 2))
            radius = float(details.uniform(0.13, 0.19)) * (1.15 - lift * 3)
            cx, cy = px + dx * high * (1 - lift * 3) - lift * high * 0.4, base - high * (0.68 + lift) + dy * high * 0.7
            canvas.ellipse(cx, cy, radius * high, radius * high, shade(leaf, tone), surface)
