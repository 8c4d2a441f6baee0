"""What lies behind and beside the street: sky, background, ground, road and sidewalks.

The background fills the band between the ridge and the shore whatever it shows, so that a street by the sea has the
outlines of the same street in the mountains.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .camera import FAR, FOCAL, SHORE, SIDEWALK, Camera
from .canvas import SIDE, Canvas, Plane, Point, Rgb, mix, shade
from .scene import Scene

# Zenith and horizon of the sky by time of day, under a clear and under a covered sky.
_SKY_RGB: dict[str, tuple[tuple[Rgb, Rgb], tuple[Rgb, Rgb]]] = {
    "day": (((62, 128, 222), (186, 216, 243)), ((150, 156, 166), (204, 208, 213))),
    "sunset": (((92, 84, 158), (255, 158, 72)), ((122, 102, 118), (224, 152, 108))),
    "night": (((8, 10, 36), (30, 36, 74)), ((22, 23, 29), (44, 45, 54))),
}
_KNOTS = 11


class Ridge:
    """The upper edge of the background: heights over the horizon at knots across the image."""

    def __init__(self, scene: Scene, layout: np.random.Generator) -> None:
        self.horizon = scene.horizon
        self.x = np.linspace(-0.03, 1.03, _KNOTS) + layout.uniform(-0.03, 0.03, _KNOTS)
        high = layout.uniform(0.05, 0.21, _KNOTS)
        self.height = np.where(np.arange(_KNOTS) % 2 == 0, high, high * 0.5)
        self.points: list[Point] = [
            (float(x), self.horizon - float(h)) for x, h in zip(self.x, self.height, strict=True)
        ]

    def at(self, x: float | NDArray[np.float64]) -> NDArray[np.float64]:
        """The height over the horizon at an x of the image."""
        return np.asarray(np.interp(x, self.x, self.height))

    def lowest(self, x0: float, x1: float) -> float:
        """The least height between two places."""
        inside = [h for x, h in zip(self.x, self.height, strict=True) if x0 < x < x1]
        return float(min([float(self.at(x0)), float(self.at(x1)), *inside]))


def paint_sky(canvas: Canvas, scene: Scene, air: np.random.Generator) -> None:
    """The sky, all over the canvas, with what hangs in it."""
    sky = canvas.surface("sky", Plane(), lit=True)
    clear = scene.weather == "clear"
    zenith, low = _SKY_RGB[scene.time][0 if clear else 1]
    darker = 0.78 if scene.weather == "rainy" else 1.0
    rows = round(scene.horizon * SIDE)
    share = np.linspace(0, 1, rows)[:, None] ** 1.2
    canvas.pixels[:rows, :, :3] = ((np.array(zenith) * (1 - share) + np.array(low) * share) * darker)[:, None]
    canvas.pixels[..., 3] = sky
    x, y = float(air.uniform(0.12, 0.88)), float(air.uniform(0.06, 0.2))
    if clear and scene.time == "night":
        for sx, sy in air.uniform((0, 0), (1, scene.horizon), (34, 2)).tolist():
            canvas.ellipse(sx, sy, 0.003, 0.003, (225, 225, 235), sky)
        canvas.ellipse(x, y, 0.034, 0.034, (236, 232, 208), sky)
        canvas.ellipse(x + 0.014, y - 0.008, 0.028, 0.028, zenith, sky)
    elif clear and scene.time == "sunset":
        for radius, light in ((0.11, 0.3), (0.075, 0.6), (0.045, 1.0)):
            canvas.ellipse(x, scene.horizon - 0.13, radius, radius, mix(low, (255, 236, 170), light), sky)
    elif clear:
        canvas.ellipse(x, y, 0.045, 0.045, (255, 244, 196), sky)
    if scene.weather in ("cloudy", "rainy", "snowy"):
        _paint_clouds(canvas, scene, shade(low, darker), sky, air)


def _paint_clouds(canvas: Canvas, scene: Scene, low: Rgb, sky: int, air: np.random.Generator) -> None:
    top = shade(low, 1.12 if scene.time == "day" else 1.25)
    dim = shade(low, 0.8)
    for _ in range(7 if scene.weather == "cloudy" else 4):
        x, y, size = (float(v) for v in air.uniform((0, 0.0, 0.06), (1, scene.horizon * 0.6, 0.12)))
        for colour, lift in ((dim, 0.012), (top, 0.0)):
            for across in (-1.0, 0.0, 1.0):
                wide = size * (1.1 - 0.3 * abs(across))
                canvas.ellipse(x + across * size, y + lift, wide, wide * 0.36, colour, sky)


def paint_background(canvas: Canvas, scene: Scene, ridge: Ridge, layout: np.random.Generator) -> None:
    """The band behind the street. Draws the same numbers of `layout` whatever the background."""
    camera = Camera.of(scene)
    surface = canvas.surface("background", Plane.upright(FAR))
    shore = camera.ground_y(SHORE)
    band = [*ridge.points, (1.05, shore), (-0.05, shore)]
    details = np.random.default_rng(int(layout.integers(1 << 30)))
    paint = {"city": _city, "forest": _forest, "mountains": _mountains, "coast": _coast}[scene.background]
    with canvas.inside(band):
        paint(canvas, scene, ridge, band, surface, details)


def _haze(scene: Scene) -> Rgb:
    return _SKY_RGB["day"][0 if scene.weather == "clear" else 1][1]


def _city(
    canvas: Canvas, scene: Scene, ridge: Ridge, band: list[Point], surface: int, details: np.random.Generator
) -> None:
    canvas.polygon(band, mix((132, 142, 158), _haze(scene), 0.45), surface)
    shore = band[-1][1]
    lamp = canvas.lamp_on(surface)
    for row, (tone, reach) in enumerate((((128, 136, 152), 1.0), ((98, 104, 120), 0.78))):
        x = -0.02 + 0.03 * row
        while x < 1.0:
            wide = float(details.uniform(0.05, 0.085))
            high = max(0.03, ridge.lowest(x, x + wide) * reach * float(details.uniform(0.9, 1.0)))
            colour = shade(tone, float(details.uniform(0.86, 1.14)))
            colour = mix(colour, (176, 132, 108), 0.35) if details.random() < 0.35 else colour
            top = scene.horizon - high
            canvas.box(x, top, x + wide - 0.008, shore, colour, surface)
            if row:
                _windows(
                    canvas, (x + 0.008, top + 0.012, x + wide - 0.014, shore - 0.01), surface, lamp, scene, details
                )
            x += wide


def _windows(
    canvas: Canvas,
    box: tuple[float, float, float, float],
    surface: int,
    lamp: int,
    scene: Scene,
    details: np.random.Generator,
) -> None:
    x0, y0, x1, y1 = box
    for y in np.arange(y0, y1, 0.024).tolist():
        for x in np.arange(x0, x1, 0.020).tolist():
            on = details.random() < 0.5
            if scene.time == "night" and on:
                canvas.box(x, y, x + 0.010, y + 0.012, (238, 208, 128), lamp)
            elif scene.time != "night":
                canvas.box(x, y, x + 0.010, y + 0.012, (188, 204, 220) if on else (66, 76, 92), surface)


def _forest(
    canvas: Canvas, scene: Scene, ridge: Ridge, band: list[Point], surface: int, details: np.random.Generator
) -> None:
    snow = scene.weather == "snowy"
    canvas.polygon(band, (64, 100, 68), surface)
    shore = band[-1][1]
    for feet, reach, tone in ((0.35, 1.0, (56, 96, 60)), (0.65, 0.8, (42, 84, 48)), (1.0, 0.55, (28, 66, 36))):
        base = scene.horizon + (shore - scene.horizon) * feet
        for x in (np.arange(-0.02, 1.03, 0.052) + details.uniform(-0.015, 0.015)).tolist():
            wide = float(details.uniform(0.03, 0.042))
            top = scene.horizon - ridge.lowest(x - 0.01, x + 0.01) * reach * float(details.uniform(0.8, 0.97))
            colour = shade(tone, float(details.uniform(0.85, 1.2)))
            high = base - top
            for tier, (up, spread) in enumerate(((0.0, 0.55), (0.28, 0.8), (0.56, 1.0))):
                y, low = top + up * high, top + min(1.0, up + 0.44) * high
                canvas.polygon(
                    [(x, y), (x + wide * spread, low), (x - wide * spread, low)],
                    shade(colour, 1 + 0.08 * tier),
                    surface,
                )
                if snow:
                    canvas.polygon(
                        [(x, y), (x + wide * spread * 0.5, y + 0.2 * high), (x - wide * spread * 0.5, y + 0.2 * high)],
                        (222, 230, 236),
                        surface,
                    )


def _mountains(
    canvas: Canvas, scene: Scene, ridge: Ridge, band: list[Point], surface: int, details: np.random.Generator
) -> None:
    canvas.polygon(band, (138, 136, 146), surface)
    horizon = scene.horizon
    for i in range(0, _KNOTS, 2):
        x, top = ridge.points[i]
        high = horizon - top
        before = ridge.points[i - 1] if i else (x - 0.1, horizon)
        after = ridge.points[i + 1] if i + 1 < _KNOTS else (x + 0.1, horizon)
        foot = x + 0.3 * (after[0] - x)
        canvas.polygon([(x, top), after, (after[0], horizon), (foot, horizon)], (92, 90, 106), surface)
        snow: Rgb = (244, 247, 250)
        left = [_between((x, top), before, s) for s in (0.55, 0.28)]
        right = [_between((x, top), after, s) for s in (0.30, 0.55)]
        cap = [(x, top), right[1], (x + 0.5 * (right[0][0] - x), top + 0.34 * high), (x, top + 0.55 * high)]
        canvas.polygon([*cap, (x + 0.4 * (left[0][0] - x), top + 0.36 * high), left[0]], snow, surface)
        canvas.polygon([(x, top), right[1], cap[2], (x, top + 0.30 * high)], shade(snow, 0.82), surface)
    hills = np.linspace(-0.03, 1.03, 15)
    tops = horizon - np.minimum(details.uniform(0.01, 0.04, 15), ridge.at(hills) * 0.6)
    points: list[Point] = [(float(x), float(y)) for x, y in zip(hills, tops, strict=True)]
    meadow: Rgb = (206, 214, 220) if scene.weather == "snowy" else (104, 138, 84)
    canvas.polygon([*points, *band[-2:]], meadow, surface)


def _between(start: Point, end: Point, share: float) -> Point:
    return start[0] + (end[0] - start[0]) * share, start[1] + (end[1] - start[1]) * share


def _coast(
    canvas: Canvas, scene: Scene, ridge: Ridge, band: list[Point], surface: int, details: np.random.Generator
) -> None:
    """Pale cliffs far behind, the sea in front of them with waves, sails and foam."""
    haze = _haze(scene)
    canvas.polygon(band, mix((150, 158, 132), haze, 0.55), surface)
    horizon, shore = scene.horizon, band[-1][1]
    grey = scene.weather != "clear"
    sea: Rgb = (62, 112, 138) if grey else (24, 118, 176)
    top = horizon - 0.02
    rows = 6
    for i in range(rows):
        y0, y1 = (top + (shore - top) * (i + j) / rows for j in (0, 1))
        canvas.box(-0.05, y0, 1.05, y1, mix(shade(sea, 0.86), (70, 176, 190), i / rows * 0.6), surface)
    for x, share, wide in details.uniform((0, 0.15, 0.02), (1, 0.85, 0.06), (16, 3)).tolist():
        y = top + (shore - top) * share
        canvas.box(x, y, x + wide, y + 0.005, shade(sea, 1.5), surface)
    for x in details.uniform((0.06, 0.4, 0.72), (0.3, 0.6, 0.94)).tolist():
        high = float(details.uniform(0.045, 0.07))
        y = top + 0.3 * (shore - top)
        canvas.polygon([(x, y - high), (x, y - 0.006), (x + 0.6 * high, y - 0.006)], (248, 248, 244), surface)
        canvas.polygon(
            [(x - 0.006, y - high * 0.85), (x - 0.006, y - 0.006), (x - 0.4 * high, y - 0.006)],
            (226, 228, 230),
            surface,
        )
        canvas.polygon(
            [
                (x - 0.4 * high, y - 0.004),
                (x + 0.6 * high, y - 0.004),
                (x + 0.4 * high, y + 0.008),
                (x - 0.3 * high, y + 0.008),
            ],
            (150, 60, 48),
            surface,
        )
    canvas.box(-0.05, shore - 0.012, 1.05, shore + 0.01, (238, 244, 244), surface)


_GROUND_RGB: dict[str, Rgb] = {
    "city": (138, 138, 134),
    "forest": (74, 104, 54),
    "mountains": (124, 146, 88),
    "coast": (222, 200, 146),
}


def paint_ground(canvas: Canvas, scene: Scene, layout: np.random.Generator) -> None:
    """The ground beside the street, the sidewalks, the road and its marks."""
    camera = Camera.of(scene)
    snow = scene.weather == "snowy"
    slope = FOCAL * camera.height
    plane = Plane(b=1 / slope, c=-camera.horizon / slope)
    ground, walk, road = (canvas.surface(name, plane) for name in ("ground", "sidewalk", "road"))
    earth: Rgb = _GROUND_RGB[scene.background]
    earth = mix(earth, (228, 232, 238), 0.82) if snow else earth
    canvas.box(-0.05, camera.ground_y(SHORE), 1.05, 1.05, earth, ground)
    near = camera.nearest() * 0.95
    for x, share, wide in layout.uniform((0, 0, 0.01), (1, 1, 0.035), (40, 3)).tolist():
        y = camera.ground_y(near / (near / SHORE + share * (1 - near / SHORE)))
        canvas.ellipse(
            x, y, wide * (0.3 + share), wide * 0.25 * (0.3 + share), shade(earth, 0.9 + 0.2 * (wide > 0.02)), ground
        )
    distances = 1 / np.linspace(1 / near, 1 / (FAR * 1.5), 40)

    def strip(left: float, right: float, rgb: Rgb, surface: int, shift: float = 0.0) -> None:
        edge = [camera.see(left, shift, z) for z in distances.tolist()]
        other = [camera.see(right, shift, z) for z in distances.tolist()]
        canvas.polygon([*edge, *reversed(other)], rgb, surface)

    walk_rgb: Rgb = (200, 204, 212) if snow else (184, 178, 170)
    road_rgb: Rgb = (134, 137, 145) if snow else (88, 88, 94)
    if scene.weather == "rainy":
        walk_rgb, road_rgb = shade(walk_rgb, 0.78), (56, 60, 72)
    half = scene.road_half
    strip(-half - SIDEWALK, half + SIDEWALK, walk_rgb, walk)
    for z in np.arange(4.0, 14.0, 1.6).tolist():  # joints of the slabs
        for side in (-1, 1):
            y0, y1 = camera.ground_y(z), camera.ground_y(z + 0.09)
            x0, x1 = camera.see(side * half, 0, z)[0], camera.see(side * (half + SIDEWALK), 0, z)[0]
            canvas.box(min(x0, x1), y1, max(x0, x1), y0, shade(walk_rgb, 0.88), walk)
    strip(-half - 0.22, half + 0.22, shade(walk_rgb, 1.13), walk)  # kerb
    strip(-half, half, road_rgb, road)
    if scene.weather == "rainy":
        strip(-half * 0.5, -half * 0.2, shade(road_rgb, 1.3), road)
        strip(half * 0.35, half * 0.6, shade(road_rgb, 1.22), road)
    mark: Rgb = (206, 208, 212) if snow else (236, 232, 208)
    strip(-half + 0.12, -half + 0.24, mark, road)
    strip(half - 0.24, half - 0.12, mark, road)
    for lane in (-0.31, 0.31):
        for z in np.arange(2.6, 24, 3.0).tolist():
            corners = [
                camera.see(lane * half + side * 0.07, 0, far)
                for side, far in ((-1, z), (1, z), (1, z + 1.5), (-1, z + 1.5))
            ]
            canvas.polygon(corners, mark, road)
