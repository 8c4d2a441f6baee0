"""Where a picture lies in a model's input, and the way back: boxes and maps of the input in the picture's pixels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

Size = tuple[int, int]


@dataclass(frozen=True)
class Placement:
    """A picture of (height, width) `picture`, scaled to (height, width) `scaled`, lies with its first corner at `top`
    and `left` of an input of (height, width) `input`, all in the input's pixels, whole or not: what a crop cut off
    lies outside of it, with a negative corner, and what was padded is input without a picture.
    """

    picture: Size
    input: Size
    scaled: tuple[float, float]
    top: float = 0
    left: float = 0

    @classmethod
    def whole(cls, size: Size) -> Placement:
        """Of a picture that is its own input."""
        return cls(size, size, size)

    @property
    def seen(self) -> float:
        """The share of the picture that the input shows, 0..1."""
        top, left, bottom, right = self._overlap()
        return max(0, bottom - top) * max(0, right - left) / (self.scaled[0] * self.scaled[1])

    def corners(self, boxes: NDArray[Any]) -> NDArray[np.float64]:
        """Boxes [M, 4] of corners x0, y0, x1, y1 in the input's pixels, in the picture's; none of them reaches into
        what was padded.
        """
        down, across = self._to_picture()
        moved = np.asarray(boxes, np.float64).reshape(-1, 4) - (self.left, self.top, self.left, self.top)
        moved = moved * (across, down, across, down)
        if self.scaled != self.input:
            moved = np.clip(moved, 0, (self.picture[1], self.picture[0]) * 2)
        return np.asarray(moved)

    def scores(self, scores: NDArray[Any]) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Scores [C, h, w] of the whole input, at any scale, as scores [C, height, width] of the picture, and which
        pixels [height, width] the input showed; the others hold 0.
        """
        planes = [self._undone(plane, Image.Resampling.BILINEAR) for plane in np.asarray(scores, np.float32)]
        return np.stack(planes), self._shown()

    def numbers(self, numbers: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """As `scores`, of class numbers [h, w], the nearest one of each pixel."""
        undone = self._undone(np.asarray(numbers, np.int32), Image.Resampling.NEAREST)
        return undone.astype(numbers.dtype), self._shown()

    def _to_picture(self) -> tuple[float, float]:
        """How many of the picture's pixels one of the input's is, down and across."""
        return self.picture[0] / self.scaled[0], self.picture[1] / self.scaled[1]

    def _overlap(self) -> tuple[float, float, float, float]:
        """The part of the input that shows the picture: top, left, bottom, right."""
        bottom, right = min(self.input[0], self.top + self.scaled[0]), min(self.input[1], self.left + self.scaled[1])
        return max(0, self.top), max(0, self.left), bottom, right

    def _part(self) -> tuple[int, int, int, int]:
        """The pixels of the picture that the input shows half of or more: top, left, bottom, right."""
        top, left, bottom, right = self._overlap()
        down, across = self._to_picture()
        rows, columns = (top - self.top, bottom - self.top), (left - self.left, right - self.left)
        return round(rows[0] * down), round(columns[0] * across), round(rows[1] * down), round(columns[1] * across)

    def _shown(self) -> NDArray[np.bool_]:
        shown = np.zeros(self.picture, bool)
        top, left, bottom, right = self._part()
        shown[top:bottom, left:right] = True
        return shown

    def _undone(self, plane: NDArray[Any], filter_: Image.Resampling) -> NDArray[Any]:
        """A plane [h, w] of the whole input as one of the picture."""
        part = self._part()
        whole = np.zeros(self.picture, plane.dtype)
        size = (part[3] - part[1], part[2] - part[0])
        if min(size) > 0:
            inner = Image.fromarray(plane).resize(size, filter_, box=self._box(part, plane.shape))
            whole[part[0] : part[2], part[1] : part[3]] = np.asarray(inner)
        return whole

    def _box(self, part: tuple[int, int, int, int], shape: tuple[int, ...]) -> tuple[float, float, float, float]:
        """Where a part of the picture lies in a plane of the whole input: left, top, right, bottom."""
        (down, across), (height, width) = self._to_picture(), shape
        rows = [min(max((row / down + self.top) * height / self.input[0], 0), height) for row in (part[0], part[2])]
        columns = [min(max((at / across + self.left) * width / self.input[1], 0), width) for at in (part[1], part[3])]
        return columns[0], rows[0], columns[1], rows[1]
