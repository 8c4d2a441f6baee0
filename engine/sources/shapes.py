"""Masks that a set gives as outlines or run lengths: drawn when they are needed, smaller things over larger ones.

A shape is a class number and what it covers. Outlines cover the pixels whose centres they hold (even-odd); run lengths
are COCO's, column by column, and begin with what is not covered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..keys import content_key


@dataclass(frozen=True, slots=True)
class Shape:
    """Class `number` covers `outlines` (each float64 x, y, x, y, ... in pixels, as bytes) and `runs` (uint32, as bytes,
    of the whole picture).
    """

    number: int
    outlines: tuple[bytes, ...] = ()
    runs: bytes = b""


@dataclass(frozen=True, slots=True)
class DrawnMask:
    """A mask drawn from its shapes, over class `background`. Where it is `relative`, outlines are in shares of the
    picture's width and height.
    """

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
        covered = [(shape.number, cover(shape, height, width, scale)) for shape in self.shapes]
        for number, where in sorted(covered, key=lambda pair: -int(pair[1].sum())):
            mask[where] = number
        return mask


def outline(points: Sequence[float]) -> bytes:
    """Points x, y, x, y, ... as a shape holds them."""
    return np.asarray(points, np.float64).tobytes()


def cover(shape: Shape, height: int, width: int, scale: tuple[float, float] = (1.0, 1.0)) -> NDArray[np.bool_]:
    """The pixels [height, width] that a shape covers, its outlines' x and y times `scale`. Raises ValueError where runs
    are for another size.
    """
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
    (x0, y0), (x1, y1) = points.T, np.roll(points, -1, axis=0).T
    rows = np.arange(height) + 0.5
    edge, row = np.nonzero((y0[:, None] <= rows) != (y1[:, None] <= rows))
    across = x0[edge] + (rows[row] - y0[edge]) / (y1[edge] - y0[edge]) * (x1[edge] - x0[edge])
    turns = np.zeros((height, width + 1), np.int32)
    np.add.at(turns, (row, np.clip(np.ceil(across - 0.5), 0, width).astype(np.intp)), 1)
    inside: NDArray[np.bool_] = np.cumsum(turns[:, :width], axis=1) % 2 == 1
    return inside


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
