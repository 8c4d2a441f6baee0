"""People on the sidewalk: three kinds in four poses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .camera import box_of
from .canvas import Canvas, Plane, Point, Rgb, mix, shade
from .scene import Person, Scene
from .vehicles import COLOUR_RGB

_SKIN: Rgb = (224, 176, 144)
_HAIR: dict[str, Rgb] = {"man": (54, 40, 32), "woman": (110, 62, 30), "child": (150, 104, 52)}
_TROUSERS: Rgb = (52, 58, 84)
_SHOES: Rgb = (30, 28, 30)


@dataclass(frozen=True)
class _Limbs:
    """Knees and feet, elbows and hands, as (across, down) shares of the height; the middle is 0, the head's top 0."""

    legs: tuple[tuple[Point, Point], tuple[Point, Point]]
    arms: tuple[tuple[Point, Point], tuple[Point, Point]]
    lean: float = 0.0


_POSES = {
    "standing": _Limbs(
        (((-0.05, 0.75), (-0.05, 0.97)), ((0.05, 0.75), (0.05, 0.97))),
        (((-0.145, 0.36), (-0.15, 0.5)), ((0.145, 0.36), (0.15, 0.5))),
    ),
    "walking": _Limbs(
        (((-0.07, 0.74), (-0.185, 0.96)), ((0.09, 0.74), (0.155, 0.97))),
        (((-0.14, 0.36), (-0.2, 0.48)), ((0.13, 0.36), (0.21, 0.46))),
        0.01,
    ),
    "running": _Limbs(
        (((-0.1, 0.72), (-0.3, 0.8)), ((0.17, 0.68), (0.22, 0.93))),
        (((-0.16, 0.36), (-0.25, 0.28)), ((0.16, 0.38), (0.28, 0.32))),
        0.06,
    ),
    "waving": _Limbs(
        (((-0.05, 0.75), (-0.05, 0.97)), ((0.05, 0.75), (0.05, 0.97))),
        (((-0.145, 0.36), (-0.15, 0.5)), ((0.2, 0.2), (0.235, 0.03))),
    ),
}


@dataclass(frozen=True)
class _Figure:
    """A person's own frame: across from the middle towards where the person goes, down from the head's top to 1."""

    canvas: Canvas
    surface: int
    x: float
    y: float
    high: float
    towards: int
    lean: float

    def at(self, across: float, down: float) -> Point:
        across += self.lean * (0.6 - down)
        return self.x + self.towards * across * self.high, self.y + 0.97 * down * self.high  # soles have a width

    def shape(self, points: Sequence[Point], rgb: Rgb) -> None:
        self.canvas.polygon([self.at(*point) for point in points], rgb, self.surface)

    def limb(self, points: Sequence[Point], wide: float, rgb: Rgb) -> None:
        self.canvas.stroke([self.at(*point) for point in points], wide * self.high, rgb, self.surface)

    def spot(self, across: float, down: float, rx: float, ry: float, rgb: Rgb) -> None:
        x, y = self.at(across, down)
        self.canvas.ellipse(x, y, rx * self.high, ry * self.high, rgb, self.surface)


def paint_person(canvas: Canvas, scene: Scene, person: Person, instance: int) -> None:
    """A person and the shadow at the feet."""
    box = box_of(scene, person)
    high, middle = box.y1 - box.y0, (box.x0 + box.x1) / 2
    limbs, rgb = _POSES[person.pose], COLOUR_RGB[person.colour]
    surface = canvas.surface("pedestrian", Plane.upright(person.z), instance)
    canvas.darken(middle, box.y1, high * 0.2, high * 0.045, 0.55)
    # Who goes along the street goes inwards in the picture.
    figure = _Figure(canvas, surface, middle, box.y0, high, -person.side, limbs.lean)
    thick = 0.1 if person.kind == "child" else 0.085
    shoulder = 0.3 if person.kind == "child" else 0.235
    _paint_legs(figure, person.kind, limbs, thick)
    back, front = limbs.arms
    _paint_arm(figure, [(-0.1, shoulder + 0.03), *back], thick * 0.8, shade(rgb, 0.8))
    _paint_clothes(figure, person.kind, shoulder, rgb)
    _paint_arm(figure, [(0.105, shoulder + 0.03), *front], thick * 0.8, mix(rgb, (255, 255, 255), 0.14))
    _paint_head(figure, person.kind)


def _paint_legs(figure: _Figure, kind: str, limbs: _Limbs, thick: float) -> None:
    bare = kind != "man"
    for knee, foot in limbs.legs:
        hip = (0.045 if knee[0] > 0 else -0.045, 0.53)
        colour = shade(_SKIN, 0.92) if bare else _TROUSERS
        figure.limb([hip, knee, foot], thick * (0.75 if kind == "woman" else 1), colour)
        if kind == "child":  # shorts
            figure.limb([hip, knee], thick * 1.15, _TROUSERS)
        figure.spot(foot[0] + 0.015, foot[1], 0.055, 0.027, _SHOES)


def _paint_arm(figure: _Figure, points: Sequence[Point], wide: float, rgb: Rgb) -> None:
    figure.limb(points, wide, rgb)
    figure.spot(*points[-1], wide * 0.6, wide * 0.6, _SKIN)


def _paint_clothes(figure: _Figure, kind: str, shoulder: float, rgb: Rgb) -> None:
    wide, dark = 0.145 if kind == "man" else 0.12, shade(rgb, 0.84)
    if kind == "woman":  # a dress
        figure.shape(
            [(-wide, shoulder), (wide, shoulder), (0.075, 0.43), (0.17, 0.72), (-0.17, 0.72), (-0.075, 0.43)], rgb
        )
        figure.shape([(0.02, shoulder), (wide, shoulder), (0.075, 0.43), (0.17, 0.72), (0.06, 0.72)], dark)
    else:
        figure.shape([(-wide, shoulder), (wide, shoulder), (0.105, 0.57), (-0.105, 0.57)], rgb)
        figure.shape([(0.03, shoulder), (wide, shoulder), (0.105, 0.57), (0.03, 0.57)], dark)


def _paint_head(figure: _Figure, kind: str) -> None:
    r = 0.135 if kind == "child" else 0.098
    down, hair = r + 0.015, _HAIR[kind]
    if kind == "woman":
        figure.spot(0.0, down + 0.05, r * 1.22, r * 1.45, hair)
    figure.spot(0.0, down, r * 0.92, r, _SKIN)

    def shape(points: Sequence[Point], rgb: Rgb) -> None:
        """Points in radii of the head from its middle."""
        figure.shape([(u * r, down + v * r) for u, v in points], rgb)

    fringe = [(-1, -0.1), (-0.85, -0.8), (-0.3, -1.1), (0.3, -1.1), (0.85, -0.8), (1, -0.1), (0.6, -0.4), (-0.6, -0.4)]
    shape(fringe, hair)
    if kind == "child":  # a cap with a peak
        shape([(-1, -0.35), (-0.7, -1.05), (0.7, -1.05), (1, -0.35)], (226, 60, 52))
        shape([(0, -0.5), (1.5, -0.35), (1.5, -0.15), (0, -0.25)], (176, 36, 34))
