"""Draws a scene: its picture and its exact mask.

`render` paints from far to near onto a canvas of twice the size that stores colour, class and nearness of every
pixel, then applies light (time of day) and air (weather) to it, and shrinks it. All geometry comes from the scene's
layout seed, never from its weather, time or colours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from counterfactory.kernels.opencv import cv2

from .world import CLASSES, SIZE, Pedestrian, Scene, Vehicle, ground, pedestrian_box, road_half, vehicle_box

Rgb = tuple[float, float, float]
_SCALE = 2
_W = SIZE * _SCALE
_SKY, _BUILDING, _ROAD, _SIDEWALK, _VEGETATION, _VEHICLE, _PEDESTRIAN = range(len(CLASSES))

_COLOUR_RGB: dict[str, Rgb] = {
    "red": (205, 30, 40),
    "blue": (40, 80, 210),
    "white": (240, 240, 240),
    "black": (32, 32, 36),
    "yellow": (240, 210, 50),
    "green": (35, 150, 65),
    "orange": (240, 125, 25),
    "purple": (135, 60, 165),
}
_MATERIAL_RGB: dict[str, Rgb] = {
    "brick": (158, 82, 66),
    "concrete": (158, 158, 154),
    "glass": (96, 148, 172),
    "wooden": (178, 140, 92),
}
# Zenith and horizon of the sky by time of day, under a clear and under a covered sky.
_SKY_RGB: dict[str, tuple[tuple[Rgb, Rgb], tuple[Rgb, Rgb]]] = {
    "day": (((70, 135, 225), (180, 212, 242)), ((150, 156, 166), (200, 204, 210))),
    "sunset": (((105, 95, 165), (255, 155, 65)), ((125, 105, 118), (222, 150, 105))),
    "night": (((8, 10, 34), (28, 32, 66)), ((24, 25, 30), (44, 45, 52))),
}
_LIGHT: dict[str, Rgb] = {"day": (1.0, 1.0, 1.0), "sunset": (1.0, 0.76, 0.62), "night": (0.34, 0.37, 0.5)}
_FOG_RGB: dict[str, Rgb] = {"day": (208, 211, 215), "sunset": (206, 166, 140), "night": (58, 62, 74)}


@dataclass
class _Canvas:
    """Colour, class and nearness t (0 at the horizon, 1 at the lower edge) of each pixel, and the light of lamps."""

    rgb: NDArray[np.float32] = field(default_factory=lambda: np.zeros((_W, _W, 3), np.float32))
    mask: NDArray[np.uint8] = field(default_factory=lambda: np.zeros((_W, _W), np.uint8))
    nearness: NDArray[np.float32] = field(default_factory=lambda: np.zeros((_W, _W), np.float32))
    glow: NDArray[np.float32] = field(default_factory=lambda: np.zeros((_W, _W, 3), np.float32))

    def polygon(self, points: Sequence[tuple[float, float]], rgb: Rgb, label: int, t: float) -> None:
        corners = np.array([(round(x * _W), round(y * _W)) for x, y in points], np.int32)
        cv2.fillPoly(self.rgb, [corners], rgb)
        cv2.fillPoly(self.mask, [corners], label)
        cv2.fillPoly(self.nearness, [corners], t)

    def box(self, x0: float, y0: float, x1: float, y1: float, rgb: Rgb, label: int, t: float) -> None:
        self.polygon([(x0, y0), (x1, y0), (x1, y1), (x0, y1)], rgb, label, t)

    def disc(self, x: float, y: float, radius: float, rgb: Rgb, label: int, t: float) -> None:
        centre, pixels = (round(x * _W), round(y * _W)), max(1, round(radius * _W))
        cv2.circle(self.rgb, centre, pixels, rgb, -1)
        cv2.circle(self.mask, centre, pixels, label, -1)
        cv2.circle(self.nearness, centre, pixels, t, -1)

    def light(self, x0: float, y0: float, x1: float, y1: float, rgb: Rgb) -> None:
        """Draw a lamp, which keeps its own colour in any daylight."""
        corners = (round(x0 * _W), round(y0 * _W)), (max(round(x1 * _W), round(x0 * _W)), round(y1 * _W))
        cv2.rectangle(self.glow, corners[0], corners[1], rgb, -1)


def _shade(rgb: Rgb, factor: float) -> Rgb:
    return (rgb[0] * factor, rgb[1] * factor, rgb[2] * factor)


def _paint_sky(canvas: _Canvas, scene: Scene, air: np.random.Generator) -> None:
    clear = scene.weather == "clear"
    zenith, low = _SKY_RGB[scene.time][0 if clear else 1]
    darker = 0.72 if scene.weather == "rainy" else 1.0
    rows = round(scene.horizon * _W)
    share = np.linspace(0, 1, rows, dtype=np.float32)[:, None, None]
    canvas.rgb[:rows] = (np.array(zenith, np.float32) * (1 - share) + np.array(low, np.float32) * share) * darker
    if clear and scene.time == "night":
        for _ in range(50):
            x, y = int(air.integers(_W)), int(air.integers(rows))
            canvas.rgb[y : y + 2, x : x + 2] = 225
    if scene.weather == "cloudy":
        puffs = cv2.resize(air.normal(0, 1, (6, 8)).astype(np.float32), (_W, _W), interpolation=cv2.INTER_CUBIC)
        height = {"day": 24.0, "sunset": 20.0, "night": 9.0}[scene.time]
        canvas.rgb[:rows] += (puffs[:rows, :, None] * height).clip(-2 * height, 2 * height)


def _paint_ground(canvas: _Canvas, scene: Scene) -> None:
    snow = scene.weather == "snowy"
    rows = round(scene.horizon * _W)
    canvas.rgb[rows:] = (222, 226, 233) if snow else (98, 136, 74)
    canvas.mask[rows:] = _VEGETATION
    canvas.nearness[rows:] = (np.arange(rows, _W, dtype=np.float32)[:, None] - rows) / (_W - rows)
    x, y = scene.vanishing_x, scene.horizon
    slopes = canvas.nearness.copy()

    def strip(half: float, rgb: Rgb, label: int) -> None:
        canvas.polygon([(x - 0.01, y), (x + 0.01, y), (0.5 + half, 1.0), (0.5 - half, 1.0)], rgb, label, 0.0)

    walk: Rgb = (196, 200, 208) if snow else (176, 170, 162)
    road: Rgb = (128, 131, 138) if snow else (92, 92, 97)
    if scene.weather == "rainy":
        walk, road = _shade(walk, 0.75), (58, 62, 72)
    strip(scene.road_width * 0.98, walk, _SIDEWALK)
    strip(scene.road_width * 0.62, road, _ROAD)
    for lane in (-0.31, 0.31):
        for i in range(6):
            near, far = ((i + 0.5) / 6) ** 1.5, (i / 6) ** 1.5
            corners = []
            for t, side in ((far, -1), (far, 1), (near, 1), (near, -1)):
                middle = x + (0.5 - x) * t + lane * 2 * road_half(scene, t) / 2
                corners.append((middle + side * 0.010 * t, y + (1 - y) * t))
            canvas.polygon(corners, (232, 226, 190), _ROAD, 0.0)
    canvas.nearness = slopes  # strips lie on the ground, whose nearness is already right


def _paint_building(
    canvas: _Canvas, scene: Scene, side: int, depth: float, tall: float, tone: float, lit: NDArray[np.bool_]
) -> None:
    middle, y, t = ground(scene, depth * 0.5)
    near_edge = middle + side * (road_half(scene, t) * 1.62 + 0.02)
    x0, x1 = sorted((near_edge, near_edge + side * (0.14 + 0.55 * depth)))
    top = y - (0.22 + 0.5 * depth) * tall
    rgb = _shade(_MATERIAL_RGB[scene.material], tone)
    canvas.box(x0, top, x1, y, rgb, _BUILDING, t)
    if scene.weather == "snowy":
        canvas.box(x0, top - 0.012, x1, top + 0.012, (236, 239, 244), _BUILDING, t)
    step = 0.045 + 0.05 * depth
    night = scene.time == "night"
    columns, rows = int((x1 - x0 - 0.01) / step), int((y - top - 0.03) / step)
    for i in range(columns):
        for j in range(rows):
            wx, wy = x0 + 0.012 + i * step, top + 0.02 + j * step
            canvas.box(wx, wy, wx + step * 0.55, wy + step * 0.55, _shade(rgb, 0.5), _BUILDING, t)
            if night and lit[i % lit.shape[0], j % lit.shape[1]]:
                canvas.light(wx, wy, wx + step * 0.55, wy + step * 0.55, (250, 214, 120))


def _paint_tree(canvas: _Canvas, scene: Scene, side: int, depth: float, size: float) -> None:
    middle, y, t = ground(scene, depth)
    x = middle + side * (road_half(scene, t) * 1.58 + 0.05)
    radius = (0.055 + 0.075 * depth) * size
    canvas.box(x - radius * 0.18, y - radius * 2, x + radius * 0.18, y, (92, 66, 46), _VEGETATION, t)
    crown: Rgb = (228, 233, 238) if scene.weather == "snowy" else (48, 112, 54)
    canvas.disc(x, y - radius * 2.3, radius, crown, _VEGETATION, t)


def _paint_vehicle(canvas: _Canvas, scene: Scene, vehicle: Vehicle) -> None:
    b = vehicle_box(scene, vehicle)
    w, h, rgb = b.x1 - b.x0, b.y1 - b.y0, _COLOUR_RGB[vehicle.colour]
    pane: Rgb = (62, 78, 96)

    def part(x0: float, y0: float, x1: float, y1: float, paint: Rgb) -> None:
        """A rectangle in the vehicle's own frame: (0, 0) upper left, (1, 1) lower right."""
        canvas.box(b.x0 + x0 * w, b.y0 + y0 * h, b.x0 + x1 * w, b.y0 + y1 * h, paint, _VEHICLE, b.t)

    def trapezium(y0: float, y1: float, top: float, low: float, paint: Rgb) -> None:
        corners = [(0.5 - top, y0), (0.5 + top, y0), (0.5 + low, y1), (0.5 - low, y1)]
        canvas.polygon([(b.x0 + px * w, b.y0 + py * h) for px, py in corners], paint, _VEHICLE, b.t)

    for x in (0.06, 0.76):
        part(x, 0.8, x + 0.18, 1.0, (18, 18, 20))
    if vehicle.kind == "car":
        trapezium(0.0, 0.46, 0.34, 0.46, _shade(rgb, 0.86))
        trapezium(0.07, 0.42, 0.29, 0.39, pane)
        part(0.0, 0.44, 1.0, 0.88, rgb)
    elif vehicle.kind == "bus":
        part(0.0, 0.0, 1.0, 0.93, rgb)
        part(0.09, 0.09, 0.91, 0.46, pane)
        part(0.36, 0.55, 0.64, 0.64, _shade(rgb, 0.6))
    else:
        part(0.0, 0.0, 1.0, 0.80, rgb)
        part(0.485, 0.05, 0.515, 0.75, _shade(rgb, 0.5))
        for y in (0.25, 0.52):
            part(0.06, y, 0.94, y + 0.03, _shade(rgb, 0.62))
        part(0.06, 0.80, 0.94, 0.88, (52, 52, 56))
    lamp, night = 0.70 if vehicle.kind == "car" else 0.74, scene.time == "night"
    for x in (0.05, 0.83):
        part(x, lamp - 0.07, x + 0.12, lamp + 0.03, (255, 60, 48) if night else (150, 26, 30))
        if night:
            x0, x1 = b.x0 + x * w, b.x0 + (x + 0.12) * w
            canvas.light(x0, b.y0 + (lamp - 0.07) * h, x1, b.y0 + (lamp + 0.03) * h, (255, 60, 48))


def _paint_pedestrian(canvas: _Canvas, scene: Scene, person: Pedestrian) -> None:
    b = pedestrian_box(scene, person)
    w, h, x = b.x1 - b.x0, b.y1 - b.y0, (b.x0 + b.x1) / 2
    for side in (-1, 1):
        leg = sorted((x + side * w * 0.06, x + side * w * 0.36))
        canvas.box(leg[0], b.y1 - h * 0.44, leg[1], b.y1, (44, 50, 78), _PEDESTRIAN, b.t)
    canvas.box(x - w * 0.46, b.y1 - h * 0.8, x + w * 0.46, b.y1 - h * 0.4, _COLOUR_RGB[person.colour], _PEDESTRIAN, b.t)
    canvas.disc(x, b.y1 - h * 0.89, h * 0.105, (222, 176, 146), _PEDESTRIAN, b.t)


def _apply_light(canvas: _Canvas, scene: Scene) -> None:
    solid = (canvas.mask != _SKY)[..., None]
    light = np.array(_LIGHT[scene.time], np.float32)
    if scene.weather != "clear":
        light = light * np.float32(0.8 if scene.weather == "rainy" else 0.93)
    canvas.rgb = np.where(solid, canvas.rgb * light, canvas.rgb)
    if scene.time == "night":
        # Street lamps: vehicles and people are lit, so that their colours stay visible.
        near = (canvas.mask >= _VEHICLE)[..., None]
        canvas.rgb = np.where(near, canvas.rgb * np.float32(1.55), canvas.rgb)
        lit = canvas.glow.any(axis=2, keepdims=True) & solid
        canvas.rgb = np.where(lit, np.maximum(canvas.glow, canvas.rgb), canvas.rgb)


def _apply_air(canvas: _Canvas, scene: Scene, air: np.random.Generator) -> None:
    night = scene.time == "night"
    if scene.weather == "foggy":
        share = np.clip(0.93 * np.exp(-1.35 * canvas.nearness), 0.0, 0.9)[..., None]
        rows = round(scene.horizon * _W)
        share[:rows][canvas.mask[:rows] == _SKY] = 0.88
        canvas.rgb = canvas.rgb * (1 - share) + np.array(_FOG_RGB[scene.time], np.float32) * share
    elif scene.weather == "rainy":
        streak: Rgb = (96, 102, 122) if night else (188, 196, 210)
        for x, y, length in air.integers((0, 0, 8), (_W, _W, 17), (150, 3)).tolist():
            cv2.line(canvas.rgb, (x, y), (x - length // 4, y + length), streak, 1)
    elif scene.weather == "snowy":
        flake: Rgb = (172, 176, 188) if night else (250, 250, 252)
        for x, y, radius in air.integers((0, 0, 1), (_W, _W, 3), (190, 3)).tolist():
            cv2.circle(canvas.rgb, (x, y), radius, flake, -1)


def render(scene: Scene) -> tuple[NDArray[np.uint8], NDArray[np.uint8], NDArray[np.uint8]]:
    """Draw a scene: its picture, uint8 RGB [128, 128, 3], its mask, and how near each pixel is, uint8 [128, 128] each.

    The mask's values index `world.CLASSES`. It depends on the layout alone, not on weather, time, material or colours,
    but for the snow that lies on roofs, a pixel or two high, which belongs to the building. So does the nearness: the
    inverse of the distance over that of the nearest pixel, which has 255; the horizon and the sky have 0.
    """
    layout, air = np.random.default_rng(scene.layout_seed), np.random.default_rng((scene.layout_seed, 1))
    canvas = _Canvas()
    _paint_sky(canvas, scene, air)
    _paint_ground(canvas, scene)
    for side in (-1, 1):
        for depth in np.sort(layout.uniform(0.02, 0.9, int(layout.integers(2, 5)))):
            tall, tone = float(layout.uniform(0.75, 1.2)), float(layout.uniform(0.8, 1.15))
            _paint_building(canvas, scene, side, float(depth), tall, tone, layout.random((5, 7)) < 0.5)
    trees = [
        (float(layout.uniform(0.1, 0.6)), int(layout.choice([-1, 1])), float(layout.uniform(0.8, 1.2)))
        for _ in range(int(layout.integers(2, 5)))
    ]
    if scene.trees:
        for depth, side, size in sorted(trees):
            _paint_tree(canvas, scene, side, depth, size)
    things: list[Vehicle | Pedestrian] = [*scene.vehicles, *scene.pedestrians]
    for thing in sorted(things, key=lambda thing: thing.depth):
        if isinstance(thing, Vehicle):
            _paint_vehicle(canvas, scene, thing)
        else:
            _paint_pedestrian(canvas, scene, thing)
    _apply_light(canvas, scene)
    _apply_air(canvas, scene, air)
    picture = cv2.resize(canvas.rgb.clip(0, 255), (SIZE, SIZE), interpolation=cv2.INTER_AREA)
    shown = canvas.nearness[::_SCALE, ::_SCALE]
    nearness = np.rint(shown * (255 / shown.max())).astype(np.uint8)
    return picture.round().astype(np.uint8), np.ascontiguousarray(canvas.mask[::_SCALE, ::_SCALE]), nearness


def vehicle_map(scene: Scene, mask: NDArray[np.uint8]) -> NDArray[np.int8]:
    """The vehicle that each pixel of a scene's rendered `mask` shows: index into `scene.vehicles`, -1 where there is
    none, int8 [128, 128]. It is exact: vehicles whose boxes touch are separated by rendering each alone.
    """
    boxes = [vehicle_box(scene, vehicle) for vehicle in scene.vehicles]
    vehicles, free = np.full(mask.shape, -1, np.int8), mask == _VEHICLE
    slack = 2 / SIZE  # outlines are rounded to pixels of the canvas
    for i, box in enumerate(boxes):  # nearest first: pixels of a nearer vehicle are no longer free
        columns = slice(max(0, int((box.x0 - slack) * SIZE)), int((box.x1 + slack) * SIZE) + 1)
        rows = slice(max(0, int((box.y0 - slack) * SIZE)), int((box.y1 + slack) * SIZE) + 1)
        mine = np.zeros_like(free)
        mine[rows, columns] = free[rows, columns]
        near = replace(box, x0=box.x0 - 2 * slack, y0=box.y0 - 2 * slack, x1=box.x1 + 2 * slack, y1=box.y1 + 2 * slack)
        if any(near.overlap(other) > 0 for j, other in enumerate(boxes) if j != i):
            mine &= render(replace(scene, vehicles=(scene.vehicles[i],), pedestrians=()))[1] == _VEHICLE
        vehicles[mine] = i
        free &= ~mine
    return vehicles
