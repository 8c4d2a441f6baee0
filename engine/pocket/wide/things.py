"""Small things on the sidewalk: bicycle, dog, bench, traffic light and traffic sign."""

from __future__ import annotations

import math

from .camera import box_of
from .canvas import Canvas, Plane, Point, Rgb, mix, shade
from .scene import Scene, Thing
from .vehicles import COLOUR_RGB

_STEEL: Rgb = (96, 100, 108)
_LAMPS: dict[str, Rgb] = {"red": (255, 52, 40), "yellow": (255, 206, 40), "green": (40, 232, 100)}


def paint_thing(canvas: Canvas, scene: Scene, thing: Thing, instance: int) -> None:
    """A thing and its shadow."""
    surface = canvas.surface(thing.kind, Plane.upright(thing.z), instance)
    {
        "bicycle": _bicycle,
        "dog": _dog,
        "bench": _bench,
        "traffic light": _traffic_light,
        "traffic sign": _traffic_sign,
    }[thing.kind](canvas, scene, thing, surface)


def _bicycle(canvas: Canvas, scene: Scene, thing: Thing, surface: int) -> None:
    box = box_of(scene, thing)
    wide, high, middle = box.x1 - box.x0, box.y1 - box.y0, (box.x0 + box.x1) / 2
    rgb = COLOUR_RGB[thing.colour]

    def at(u: float, v: float) -> Point:
        return middle + thing.faces * (u - 0.5) * wide, box.y0 + v * high

    canvas.darken(middle, box.y1, wide * 0.45, high * 0.07, 0.6)
    radius = 0.3 * high
    rear, front = at(0.205, 0.68), at(0.795, 0.68)
    for x, y in (rear, front):
        canvas.ring(x, y, radius * 0.97, radius * 0.97, 0.05 * high, (26, 26, 28), surface)
        canvas.ring(x, y, radius * 0.78, radius * 0.78, 0.02 * high, (150, 152, 156), surface)
        canvas.ellipse(x, y, 0.045 * high, 0.045 * high, (60, 60, 64), surface)
    pedal, seat, head = at(0.45, 0.7), at(0.35, 0.22), at(0.7, 0.24)
    line = 0.068 * high
    for points in (
        [rear, at(0.37, 0.32), head, pedal, rear],
        [at(0.37, 0.32), pedal],
        [head, front],
        [seat, at(0.37, 0.32)],
    ):
        canvas.stroke(points, line, rgb, surface)
    canvas.stroke([at(0.27, 0.19), at(0.42, 0.19)], 0.085 * high, (30, 26, 24), surface)
    canvas.stroke([head, at(0.68, 0.08), at(0.8, 0.06)], 0.06 * high, (40, 40, 44), surface)
    canvas.ellipse(*pedal, 0.06 * high, 0.06 * high, (70, 70, 74), surface)


def _bench(canvas: Canvas, scene: Scene, thing: Thing, surface: int) -> None:
    box = box_of(scene, thing)
    wide, high, middle = box.x1 - box.x0, box.y1 - box.y0, (box.x0 + box.x1) / 2
    wood = COLOUR_RGB[thing.colour] if thing.colour != "brown" else (160, 104, 58)

    def part(u0: float, v0: float, u1: float, v1: float, rgb: Rgb) -> None:
        canvas.box(box.x0 + u0 * wide, box.y0 + v0 * high, box.x0 + u1 * wide, box.y0 + v1 * high, rgb, surface)

    canvas.darken(middle, box.y1, wide * 0.5, high * 0.12, 0.55)
    for u in (0.08, 0.86):
        part(u, 0.05, u + 0.06, 1.0, (48, 48, 52))
    for v in (0.04, 0.24):
        part(0.0, v, 1.0, v + 0.14, wood)
        part(0.0, v + 0.105, 1.0, v + 0.14, shade(wood, 0.7))
    part(0.0, 0.54, 1.0, 0.68, mix(wood, (255, 255, 255), 0.16))
    part(0.0, 0.66, 1.0, 0.73, shade(wood, 0.66))
    for u in (0.02, 0.94):
        part(u, 0.4, u + 0.04, 0.56, (48, 48, 52))


def _pole(canvas: Canvas, scene: Scene, thing: Thing, top: float, surface: int) -> None:
    box = box_of(scene, thing)
    wide, high, x = box.x1 - box.x0, box.y1 - box.y0, (box.x0 + box.x1) / 2
    canvas.darken(x, box.y1, wide * 0.4, wide * 0.1, 0.6)
    thick = 0.022 * high
    canvas.box(x - thick, box.y0 + top * high, x + thick, box.y1, _STEEL, surface)
    canvas.box(x - thick * 1.9, box.y1 - 0.03 * high, x + thick * 1.9, box.y1, shade(_STEEL, 0.8), surface)


def _traffic_light(canvas: Canvas, scene: Scene, thing: Thing, surface: int) -> None:
    _pole(canvas, scene, thing, 0.3, surface)
    box = box_of(scene, thing)
    wide, high, x = box.x1 - box.x0, box.y1 - box.y0, (box.x0 + box.x1) / 2
    canvas.box(box.x0 + 0.04 * wide, box.y0, box.x1 - 0.04 * wide, box.y0 + 0.46 * high, (226, 190, 60), surface)
    canvas.box(
        box.x0 + 0.13 * wide, box.y0 + 0.014 * high, box.x1 - 0.13 * wide, box.y0 + 0.446 * high, (30, 32, 34), surface
    )
    lamp = canvas.lamp_on(surface)
    for i, colour in enumerate(("red", "yellow", "green")):
        y, radius = box.y0 + (0.085 + 0.145 * i) * high, 0.064 * high
        on = colour == thing.colour
        canvas.ellipse(
            x, y, radius, radius, _LAMPS[colour] if on else shade(_LAMPS[colour], 0.26), lamp if on else surface
        )


def _traffic_sign(canvas: Canvas, scene: Scene, thing: Thing, surface: int) -> None:
    _pole(canvas, scene, thing, 0.3, surface)
    box = box_of(scene, thing)
    wide, x = box.x1 - box.x0, (box.x0 + box.x1) / 2
    radius = wide * 0.5
    y = box.y0 + radius
    white: Rgb = (246, 246, 244)

    def plate(corners: int, turn: float, size: float, rgb: Rgb) -> None:
        angles = [turn + 2 * math.pi * i / corners for i in range(corners)]
        canvas.polygon([(x + size * math.sin(a), y - size * math.cos(a)) for a in angles], rgb, surface)

    plate(8, math.pi / 8, radius, white)  # one outline for all of them
    if thing.colour == "red":
        plate(8, math.pi / 8, radius * 0.86, (206, 28, 34))
        canvas.box(x - 0.58 * radius, y - 0.19 * radius, x + 0.58 * radius, y + 0.19 * radius, white, surface)
    elif thing.colour == "yellow":
        plate(8, math.pi / 8, radius * 0.9, (32, 32, 34))
        plate(4, 0.0, radius * 0.9, (250, 208, 40))
        canvas.box(x - 0.11 * radius, y - 0.45 * radius, x + 0.11 * radius, y + 0.12 * radius, (32, 32, 34), surface)
        canvas.ellipse(x, y + 0.34 * radius, 0.12 * radius, 0.12 * radius, (32, 32, 34), surface)
    else:
        plate(8, math.pi / 8, radius * 0.9, (28, 84, 196))
        canvas.box(x - 0.12 * radius, y - 0.1 * radius, x + 0.12 * radius, y + 0.55 * radius, white, surface)
        canvas.polygon([(x, y - 0.6 * radius), (x + 0.42 * radius, y), (x - 0.42 * radius, y)], white, surface)


def _dog(canvas: Canvas, scene: Scene, dog: Thing, surface: int) -> None:
    box = box_of(scene, dog)
    wide, high = box.x1 - box.x0, box.y1 - box.y0
    rgb = COLOUR_RGB[dog.colour]
    dark, middle = shade(rgb, 0.7) if dog.colour != "black" else (22, 22, 24), (box.x0 + box.x1) / 2

    def at(u: float, v: float) -> Point:
        """u from the tail's end (0) to the nose (1)."""
        return middle + dog.faces * (u - 0.5) * wide, box.y0 + v * high

    canvas.darken(middle, box.y1, wide * 0.42, high * 0.1, 0.55)
    for u in (0.27, 0.66):
        canvas.stroke([at(u + 0.05, 0.6), at(u + 0.07, 0.96)], 0.085 * high, dark, surface)
    canvas.stroke([at(0.22, 0.46), at(0.1, 0.28), at(0.05, 0.1)], 0.085 * high, rgb, surface)
    canvas.ellipse(*at(0.45, 0.52), 0.27 * wide, 0.185 * high, rgb, surface)
    for u in (0.22, 0.62):
        canvas.stroke([at(u + 0.02, 0.55), at(u, 0.96)], 0.1 * high, rgb, surface)
    canvas.polygon([at(0.58, 0.4), at(0.72, 0.18), at(0.84, 0.34), at(0.72, 0.6)], rgb, surface)
    canvas.ellipse(*at(0.79, 0.24), 0.115 * wide, 0.15 * high, rgb, surface)
    canvas.polygon([at(0.8, 0.2), at(0.98, 0.28), at(0.97, 0.38), at(0.8, 0.38)], rgb, surface)
    canvas.ellipse(*at(0.965, 0.295), 0.026 * wide, 0.045 * high, (18, 18, 20), surface)
    canvas.polygon([at(0.7, 0.1), at(0.79, 0.12), at(0.75, 0.36), at(0.67, 0.3)], dark, surface)
    canvas.ellipse(
        *at(0.84, 0.2), 0.016 * wide, 0.026 * high, (18, 18, 20) if dog.colour != "black" else (214, 190, 120), surface
    )
