"""Vehicles, seen from behind."""

from __future__ import annotations

from .camera import box_of
from .canvas import Canvas, Plane, Point, Rgb, mix, shade
from .scene import Scene, Vehicle

COLOUR_RGB: dict[str, Rgb] = {
    "red": (208, 30, 38),
    "blue": (36, 78, 212),
    "white": (242, 242, 242),
    "black": (34, 34, 38),
    "yellow": (244, 212, 44),
    "green": (30, 150, 64),
    "orange": (242, 122, 20),
    "purple": (136, 56, 168),
    "brown": (122, 78, 46),
}
_PANE: Rgb = (52, 66, 84)
_TYRE: Rgb = (20, 20, 22)
_TRIM: Rgb = (46, 46, 50)


class _Frame:
    """Draws in a vehicle's own frame: (0, 0) upper left, (1, 1) lower right."""

    def __init__(self, canvas: Canvas, scene: Scene, vehicle: Vehicle, instance: int) -> None:
        box = box_of(scene, vehicle)
        self.x, self.y, self.wide, self.high = box.x0, box.y0, box.x1 - box.x0, box.y1 - box.y0
        self.canvas = canvas
        self.surface = canvas.surface("vehicle", Plane.upright(vehicle.z), instance)
        self.lamp = canvas.lamp_on(self.surface) if scene.time == "night" else self.surface

    def at(self, u: float, v: float) -> Point:
        return self.x + u * self.wide, self.y + v * self.high

    def shape(self, points: list[Point], rgb: Rgb, surface: int | None = None) -> None:
        number = self.surface if surface is None else surface
        self.canvas.polygon([self.at(*point) for point in points], rgb, number)

    def part(self, u0: float, v0: float, u1: float, v1: float, rgb: Rgb, surface: int | None = None) -> None:
        self.shape([(u0, v0), (u1, v0), (u1, v1), (u0, v1)], rgb, surface)

    def rounded(self, u0: float, v0: float, u1: float, v1: float, cut: float, rgb: Rgb) -> None:
        """A box whose upper corners are cut off."""
        self.shape([(u0 + cut, v0), (u1 - cut, v0), (u1, v0 + cut), (u1, v1), (u0, v1), (u0, v0 + cut)], rgb)

    def wheels(self, top: float, wide: float) -> None:
        for u in (0.07, 0.93 - wide):
            self.part(u, top, u + wide, 1.0, _TYRE)

    def lights(self, v0: float, v1: float, wide: float) -> None:
        rgb: Rgb = (255, 64, 46) if self.lamp != self.surface else (176, 26, 30)
        for u in (0.035, 0.965 - wide):
            self.part(u, v0, u + wide, v1, rgb, self.lamp)

    def plate(self, v: float) -> None:
        self.part(0.38, v, 0.62, v + 0.075, (232, 232, 224))


def paint_vehicle(canvas: Canvas, scene: Scene, vehicle: Vehicle, instance: int) -> None:
    """A vehicle and its shadow on the road."""
    box = box_of(scene, vehicle)
    wide = box.x1 - box.x0
    canvas.darken((box.x0 + box.x1) / 2, box.y1, wide * 0.62, wide * 0.13, 0.42)
    rgb = COLOUR_RGB[vehicle.colour]
    frame = _Frame(canvas, scene, vehicle, instance)
    {"car": _car, "bus": _bus, "truck": _truck, "van": _van}[vehicle.kind](frame, rgb)


def _car(frame: _Frame, rgb: Rgb) -> None:
    frame.wheels(0.74, 0.17)
    frame.shape([(0.25, 0.0), (0.75, 0.0), (0.93, 0.46), (0.07, 0.46)], shade(rgb, 0.82))
    frame.shape([(0.29, 0.06), (0.71, 0.06), (0.84, 0.41), (0.16, 0.41)], _PANE)
    frame.shape([(0.29, 0.06), (0.46, 0.06), (0.34, 0.41), (0.16, 0.41)], mix(_PANE, (190, 210, 226), 0.35))
    frame.shape([(0.04, 0.42), (0.96, 0.42), (1.0, 0.54), (1.0, 0.86), (0.0, 0.86), (0.0, 0.54)], rgb)
    frame.part(0.03, 0.42, 0.97, 0.5, mix(rgb, (255, 255, 255), 0.28))
    frame.part(0.0, 0.74, 1.0, 0.86, shade(rgb, 0.7))
    frame.lights(0.52, 0.66, 0.19)
    frame.plate(0.6)


def _van(frame: _Frame, rgb: Rgb) -> None:
    frame.wheels(0.82, 0.16)
    frame.rounded(0.0, 0.0, 1.0, 0.91, 0.09, rgb)
    frame.rounded(0.02, 0.0, 0.98, 0.06, 0.06, mix(rgb, (255, 255, 255), 0.25))
    frame.part(0.12, 0.12, 0.46, 0.42, _PANE)
    frame.part(0.54, 0.12, 0.88, 0.42, _PANE)
    frame.part(0.12, 0.12, 0.24, 0.42, mix(_PANE, (190, 210, 226), 0.35))
    frame.part(0.485, 0.06, 0.515, 0.82, shade(rgb, 0.5))
    frame.part(0.0, 0.82, 1.0, 0.91, _TRIM)
    frame.lights(0.5, 0.7, 0.08)
    frame.plate(0.68)


def _bus(frame: _Frame, rgb: Rgb) -> None:
    frame.wheels(0.88, 0.17)
    frame.rounded(0.0, 0.0, 1.0, 0.94, 0.06, rgb)
    frame.part(0.18, 0.03, 0.82, 0.11, (24, 24, 26))
    frame.part(0.26, 0.05, 0.74, 0.09, (250, 176, 60), frame.lamp)
    frame.part(0.08, 0.15, 0.92, 0.5, _PANE)
    frame.shape([(0.08, 0.15), (0.36, 0.15), (0.22, 0.5), (0.08, 0.5)], mix(_PANE, (190, 210, 226), 0.35))
    frame.part(0.0, 0.54, 1.0, 0.58, mix(rgb, (255, 255, 255), 0.4))
    frame.part(0.22, 0.64, 0.78, 0.8, shade(rgb, 0.62))
    frame.part(0.22, 0.7, 0.78, 0.73, shade(rgb, 0.45))
    frame.part(0.0, 0.88, 1.0, 0.94, _TRIM)
    frame.lights(0.66, 0.8, 0.1)


def _truck(frame: _Frame, rgb: Rgb) -> None:
    frame.wheels(0.82, 0.2)
    frame.part(0.0, 0.0, 1.0, 0.8, shade(rgb, 0.72))
    frame.part(0.05, 0.045, 0.95, 0.76, rgb)
    frame.part(0.485, 0.045, 0.515, 0.76, shade(rgb, 0.45))
    for u in (0.34, 0.62):
        frame.part(u, 0.08, u + 0.035, 0.73, (176, 178, 182))
    for v in (0.14, 0.6):
        for u in (0.02, 0.92):
            frame.part(u, v, u + 0.06, v + 0.04, (120, 122, 126))
    frame.part(0.0, 0.8, 1.0, 0.86, _TRIM)
    frame.lights(0.8, 0.86, 0.14)
    for i in range(6):
        paint: Rgb = (222, 40, 36) if i % 2 else (240, 240, 236)
        frame.part(0.26 + i * 0.08, 0.89, 0.34 + i * 0.08, 0.925, paint)
