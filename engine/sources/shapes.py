"""What a set draws of labelled things: boxes, and masks as outlines or run lengths.

A box knows neither its picture nor its file: `fit_boxes` takes the sizes, and moves boxes as `pixels.fit` moves pixels.
A shape is a class number and what it covers. Outlines cover the pixels whose centres they hold (even-odd); run lengths
are COCO's, column by column, and begin with what is not covered. Masks are drawn when they are needed, smaller things
over larger ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..keys import content_key
from ..profile.image import crop_box

Ignored = Literal["crowd", "difficult"]
# A box that keeps less of its area than this shows too little of its thing to recognise it.
MIN_VISIBLE = 0.3
# Crossings of an outline's edges with rows of pixels that are worked out together.
_CROSSINGS = 1 << 20


@dataclass(frozen=True, slots=True)
class Keypoint:
    """A point in pixels, x to the right, y down; `visibility` as in COCO: 0 not labelled, 1 hidden, 2 visible."""

    x: float
    y: float
    visibility: int


@dataclass(frozen=True, slots=True)
class Box:
    """What the pixels from (x0, y0) up to, not including, (x1, y1) show: `label`. The edges lie between pixels, so that
    the whole of a picture is (0, 0, width, height). `keypoints` are in the data set's order, empty where it has none.

    What is `ignored` is no thing to be found, and what a model sees there is neither right nor wrong: a "crowd" covers
    several things, of every class where its label is empty; a "difficult" one is a single thing.
    """

    x0: float
    y0: float
    x1: float
    y1: float
    label: str
    keypoints: tuple[Keypoint, ...] = ()
    ignored: Ignored | None = None

    @property
    def area(self) -> float:
        """In square pixels."""
        return (self.x1 - self.x0) * (self.y1 - self.y0)

    def scaled(self, across: float, down: float) -> Box:
        """The box, and its keypoints, with x times `across` and y times `down`."""
        points = tuple(Keypoint(p.x * across, p.y * down, p.visibility) for p in self.keypoints)
        x0, y0, x1, y1 = self.x0 * across, self.y0 * down, self.x1 * across, self.y1 * down
        return Box(x0, y0, x1, y1, self.label, points, self.ignored)


def things(boxes: Iterable[Box]) -> tuple[Box, ...]:
    """The boxes that count: those of things that a model has to find."""
    return tuple(box for box in boxes if box.ignored is None)


def fit_boxes(
    boxes: Iterable[Box], height: int, width: int, size: tuple[int, int]
) -> tuple[tuple[Box, ...], tuple[Box, ...]]:
    """Boxes of a picture of `height` and `width` in the picture that `pixels.fit` makes of it at `size` (height,
    width): (visible, dropped), each in the order of `boxes`.

    Visible boxes are clipped to the new picture and in its pixels; a keypoint outside of it is no longer labelled, and
    lies at 0, 0 as in COCO. Dropped boxes show less than `MIN_VISIBLE` of their area; they are in the old picture's
    pixels. Of what is ignored any part stays, and nothing is dropped.
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
        clipped = replace(box, x0=x0, y0=y0, x1=x1, y1=y1, keypoints=tuple(map(move_keypoint, box.keypoints)))
        if box.ignored:
            visible += [clipped] if clipped.area else []
        elif clipped.area < MIN_VISIBLE * box.area * across * down:
            dropped.append(box)
        else:
            visible.append(clipped)
    return tuple(visible), tuple(dropped)


@dataclass(frozen=True, slots=True)
class Shape:
    """Class `number` covers `outlines` (each float64 x, y, ... in pixels, as bytes) and `runs` (uint32, as bytes)."""

    number: int
    outlines: tuple[bytes, ...] = ()
    runs: bytes = b""


@dataclass(frozen=True, slots=True)
class DrawnMask:
    """A mask drawn from shapes over class `background`; if `relative`, outlines are shares of the picture's sides."""

    shapes: tuple[Shape, ...]
    background: int
    relative: bool = False

    def digest(self) -> str:
        """Names the mask."""
        drawn = [(s.number, [line.hex() for line in s.outlines], s.runs.hex()) for s in self.shapes]
        return content_key(drawn, self.background, self.relative)

    def draw(self, height: int, width: int) -> NDArray[Any]:
        """Class numbers, uint8 or, where one is above 255, uint16 [height, width]. Of things that overlap the smaller
        one is seen. Raises ValueError where runs are for another size.
        """
        kind = np.uint16 if max([self.background, *(s.number for s in self.shapes)]) > 255 else np.uint8
        mask = np.full((height, width), self.background, kind)
        scale = (float(width), float(height)) if self.relative else (1.0, 1.0)
        # What each covers is worked out twice, so that one plane at a time is held: a set may have any number of them.
        areas = [int(cover(shape, height, width, scale).sum()) for shape in self.shapes]
        for _, shape in sorted(zip(areas, self.shapes, strict=True), key=lambda pair: -pair[0]):
            mask[cover(shape, height, width, scale)] = shape.number
        return mask


def outline(points: Sequence[float]) -> bytes:
    """Points x, y, x, y, ... as a shape holds them."""
    return np.asarray(points, np.float64).tobytes()


def cover(shape: Shape, height: int, width: int, scale: tuple[float, float] = (1.0, 1.0)) -> NDArray[np.bool_]:
    """The pixels [height, width] of a shape, its x and y times `scale`. Raises ValueError for runs of another size."""
    covered = np.zeros((height, width), bool)
    for line in shape.outlines:
        covered |= _inside(np.frombuffer(line).reshape(-1, 2) * scale, height, width)
    if shape.runs:
        runs = np.frombuffer(shape.runs, np.uint32).astype(np.int64)
        if int(runs.sum()) != height * width:
            raise ValueError(f"its run lengths cover {runs.sum()} pixels, the picture has {height * width}")
        flags = np.repeat(np.arange(runs.size) % 2 == 1, runs)
        covered |= flags.reshape(width, height).T
    return covered


def _inside(points: NDArray[np.float64], height: int, width: int) -> NDArray[np.bool_]:
    """The pixels whose centres a closed outline holds, by the crossings of each row's middle with its edges."""
    starts, ends = points, np.roll(points, -1, axis=0)
    # An edge crosses the middles of the rows `first` up to, not including, `last`.
    y0, y1 = starts[:, 1], ends[:, 1]
    bounds = np.minimum(y0, y1), np.maximum(y0, y1)
    first, last = (np.clip(np.ceil(bound - 0.5), 0, height).astype(np.int64) for bound in bounds)
    crossed = np.flatnonzero(last > first)
    turns = np.zeros(height * (width + 1), np.int64)
    so_far = np.cumsum(last[crossed] - first[crossed])
    at = 0
    while at < crossed.size:  # as many edges at a time as cross about a million rows
        until = max(at + 1, int(np.searchsorted(so_far, (so_far[at - 1] if at else 0) + _CROSSINGS, "right")))
        edges, at = crossed[at:until], until
        counts = last[edges] - first[edges]
        edge = np.repeat(edges, counts)
        row = np.arange(counts.sum()) + np.repeat(first[edges] - np.cumsum(counts) + counts, counts)
        (xs, ys), (xe, ye) = starts[edge].T, ends[edge].T
        across = xs + (row + 0.5 - ys) / (ye - ys) * (xe - xs)
        column = np.clip(np.ceil(across - 0.5), 0, width).astype(np.int64)
        turns += np.bincount(row * (width + 1) + column, minlength=turns.size)
    return np.asarray(np.cumsum(turns.reshape(height, width + 1)[:, :width], axis=1) % 2 == 1)


def decode_runs(text: str) -> bytes:
    """Run lengths from COCO's compressed text (cocoapi, common/maskApi.c, rleFrString), as a shape holds them.

    Each is a number of 5 bits a character, the lowest first, the sixth bit saying that more follow; from the fourth on
    a length is given by its difference to the one before the last. Raises ValueError for text that is none.
    """
    runs: list[int] = []
    value = shift = 0
    for character in text:
        bits = ord(character) - 48
        if not 0 <= bits < 64 or shift > 35:
            raise ValueError("its run lengths are not COCO's compressed text")
        value |= (bits & 0x1F) << shift
        shift += 5
        if not bits & 0x20:
            if bits & 0x10:
                value -= 1 << shift
            runs.append(value + runs[-2] if len(runs) > 2 else value)
            value = shift = 0
    if shift:
        raise ValueError("its run lengths end within a number")
    return pack_runs(runs)


def pack_runs(runs: Sequence[int]) -> bytes:
    """Run lengths as a shape holds them. Raises ValueError where one is negative or beyond 32 bits."""
    if not all(0 <= run < 1 << 32 for run in runs):
        raise ValueError("a run length is negative or too large")
    return np.asarray(runs, np.uint32).tobytes()
