"""Renders a scene: its picture, and the exact truth of it.

Everything is painted from far to near. Outlines and distances come from the scene's layout alone, never from weather,
time, background, material, colours or domain.
"""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from .buildings import Tree, houses, paint_house, paint_tree, trees
from .canvas import SCALE, Canvas
from .domains import painting, sketch
from .light import drops, fog, light, through_drops, through_fog
from .people import paint_person
from .scene import SIZE, Person, Placed, Scene, Vehicle
from .scenery import Ridge, paint_background, paint_ground, paint_sky
from .things import paint_thing
from .vehicles import paint_vehicle


@dataclass(frozen=True)
class Rendering:
    """A picture and its truth, all [128, 128].

    `picture` is uint8 RGB; `mask` uint8, indices into `scene.CLASSES`; `instances` uint8, 0 where there is no object,
    else its number in `Scene.placed` plus 1; `depth` float32 in street units, infinite in the sky.
    """

    picture: NDArray[np.uint8]
    mask: NDArray[np.uint8]
    instances: NDArray[np.uint8]
    depth: NDArray[np.float32]

    def box(self, number: int) -> tuple[int, int, int, int] | None:
        """The box of what is seen of object `number` of `Scene.placed`: x0, y0, x1, y1 in pixels, the last excluded."""
        rows, columns = np.nonzero(self.instances == number + 1)
        if not rows.size:
            return None
        return int(columns.min()), int(rows.min()), int(columns.max()) + 1, int(rows.max()) + 1


def render(scene: Scene) -> Rendering:
    """Render a scene; the same scene gives the same bytes."""
    layout, air = np.random.default_rng(scene.layout_seed), np.random.default_rng((scene.layout_seed, 1))
    canvas = Canvas()
    paint_sky(canvas, scene, air)
    paint_background(canvas, scene, Ridge(scene, layout), layout)
    paint_ground(canvas, scene, layout)
    for house in houses(scene, layout):  # they line the street, so all that stands in it stands before them
        paint_house(canvas, scene, house)
    standing: list[tuple[float, Tree | tuple[int, Placed]]] = [(tree.z, tree) for tree in trees(scene, layout)]
    standing += [(placed.z, (number, placed)) for number, placed in enumerate(scene.placed, 1)]
    for _, one in sorted(standing, key=lambda pair: -pair[0]):
        if isinstance(one, Tree):
            paint_tree(canvas, scene, one)
        else:
            _paint(canvas, scene, *one)
    return _finish(canvas, scene, air)


def _paint(canvas: Canvas, scene: Scene, number: int, placed: Placed) -> None:
    if isinstance(placed, Vehicle):
        paint_vehicle(canvas, scene, placed, number)
    elif isinstance(placed, Person):
        paint_person(canvas, scene, placed, number)
    else:
        paint_thing(canvas, scene, placed, number)


def _finish(canvas: Canvas, scene: Scene, air: np.random.Generator) -> Rendering:
    surfaces = canvas.surfaces
    large = np.ascontiguousarray(canvas.pixels[..., 3])
    numbers = np.ascontiguousarray(large[SCALE // 2 :: SCALE, SCALE // 2 :: SCALE])
    labels = np.array([s.label for s in surfaces], np.uint8)[numbers]
    instances = np.array([s.instance for s in surfaces], np.uint8)[numbers]
    planes = np.array([(s.plane.a, s.plane.b, s.plane.c) for s in surfaces], np.float32)[numbers]
    centres = (np.arange(SIZE, dtype=np.float32) + 0.5) / SIZE
    inverse = np.maximum(planes[..., 0] * centres[None] + planes[..., 1] * centres[:, None] + planes[..., 2], 0)

    def shown(chosen: list[bool]) -> NDArray[np.float32]:
        """The colours of the surfaces chosen, at the size of the picture; black elsewhere."""
        table = np.zeros(256, np.uint8)
        table[: len(chosen)] = np.where(chosen, 255, 0)
        chosen_pixels = cv2.bitwise_and(canvas.pixels, canvas.pixels, mask=cv2.LUT(large, table))
        return _small(np.asarray(chosen_pixels, np.uint8))

    everything, lit = _small(canvas.pixels), shown([s.lit for s in surfaces])
    lamps = shown([s.lamp for s in surfaces]) if any(s.lamp for s in surfaces) else np.zeros_like(lit)
    taken, dropped = fog(inverse, scene), drops(scene, air)
    if scene.domain == "sketch":
        night = np.float32(scene.time == "night") * np.where(instances, np.float32(0.25), np.float32(1))
        bare = 1 - (1 - 0.8 * taken) * (1 - 0.9 * dropped)
        picture = sketch(everything, numbers, night, bare, scene.layout_seed)
    else:
        picture = through_fog(light(everything - lit, lit, lamps, labels, scene), taken, scene)
        if scene.domain == "painting":
            picture = painting(picture, instances > 0, scene.layout_seed)
        picture = through_drops(picture, dropped, scene)
    with np.errstate(divide="ignore"):
        depth = (1 / inverse).astype(np.float32)
    return Rendering(picture.clip(0, 255).round().astype(np.uint8), labels, instances, depth)


def _small(pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
    small = cv2.resize(pixels, (SIZE, SIZE), interpolation=cv2.INTER_AREA)
    return np.ascontiguousarray(small[..., :3], np.float32)
