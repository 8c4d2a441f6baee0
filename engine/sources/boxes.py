"""Boxes around labelled things, and what becomes of them when their picture is cropped and scaled.

A box knows neither its picture nor its file: `fit_boxes` takes the sizes, and moves boxes as `pixels.fit` moves pixels.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..profile.image import crop_box

# A box that keeps less of its area than this shows too little of its thing to recognise it.
MIN_VISIBLE = 0.3


@dataclass(frozen=True)
class Keypoint:
    """A point of a labelled thing in pixels, x to the right and y down; `visibility` as COCO has it: 0 not labelled, 1
    labelled and hidden, 2 visible.
    """

    x: float
    y: float
    visibility: int


@dataclass(frozen=True)
class Box:
    """What the pixels from (x0, y0) up to, not including, (x1, y1) show: `label`. The edges lie between pixels, so that
    the whole of a picture is (0, 0, width, height). `keypoints` are in the data set's order, empty where it has none.
    """

    x0: float
    y0: float
    x1: float
    y1: float
    label: str
    keypoints: tuple[Keypoint, ...] = ()

    @property
    def area(self) -> float:
        """In square pixels."""
        return (self.x1 - self.x0) * (self.y1 - self.y0)

    def scaled(self, across: float, down: float) -> Box:
        """The box, and its keypoints, with x times `across` and y times `down`."""
        points = tuple(Keypoint(p.x * across, p.y * down, p.visibility) for p in self.keypoints)
        return Box(self.x0 * across, self.y0 * down, self.x1 * across, self.y1 * down, self.label, points)


def fit_boxes(
    boxes: Iterable[Box], height: int, width: int, size: tuple[int, int]
) -> tuple[tuple[Box, ...], tuple[Box, ...]]:
    """Boxes of a picture of `height` and `width` in the picture that `pixels.fit` makes of it at `size` (height,
    width): (visible, dropped), each in the order of `boxes`.

    Visible boxes are clipped to the new picture and in its pixels; a keypoint outside of it is no longer labelled, and
    lies at 0, 0 as in COCO. Dropped boxes show less than `MIN_VISIBLE` of their area; they are in the old picture's
    pixels.
    """
    left, top, right, bottom = crop_box(height, width, size)
    across, down = size[1] / (right - left), size[0] / (bottom - top)

    def move_keypoint(point: Keypoint) -> Keypoint:
        inside = left <= point.x < right and top <= point.y < bottom
        x, y = (point.x - left) * across, (point.y - top) * down
        return Keypoint(x, y, point.visibility) if inside else Keypoint(0.0, 0.0, 0)

    visible, dropped = [], []
    for box in boxes:
        x0, x1 = (min(max((x - left) * across, 0.0), float(size[1])) for x in (box.x0, box.x1))
        y0, y1 = (min(max((y - top) * down, 0.0), float(size[0])) for y in (box.y0, box.y1))
        clipped = Box(x0, y0, x1, y1, box.label, tuple(map(move_keypoint, box.keypoints)))
        if clipped.area < MIN_VISIBLE * box.area * across * down:
            dropped.append(box)
        else:
            visible.append(clipped)
    return tuple(visible), tuple(dropped)
