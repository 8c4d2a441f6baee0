"""Which pixels corners name, by all of a set's boxes: VOC's count from 1 and the last one belongs to the box, tools
that write VOC's files count from 0, with the last one or up to it, and some lie between pixels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass
class CornerOrigin:
    """Counts where boxes begin and end: at 0, at 1, at the last pixel and at the edge behind it."""

    count: int = 0
    zeros: int = 0
    ones: int = 0
    last: int = 0
    edges: int = 0
    parted: int = 0

    def add(self, corners: Sequence[float], size: tuple[int, int] | None) -> None:
        """x0, y0, x1, y1 of a box, in a picture of `size` (height, width), where the set says it."""
        starts, ends = ([pick(corners[axis], corners[axis + 2]) for axis in (0, 1)] for pick in (min, max))
        self.count += 1
        self.zeros += sum(0 <= start < 1 for start in starts)
        self.ones += sum(start == 1 for start in starts)
        self.parted += any(number != int(number) for number in corners)
        if size is not None:
            self.last += sum(end == side - 1 for end, side in zip(ends, size[::-1], strict=True))
            self.edges += sum(end == side for end, side in zip(ends, size[::-1], strict=True))

    @property
    def _between(self) -> bool:
        return 2 * self.parted > self.count

    @property
    def shift(self) -> tuple[int, int]:
        """What is to be added to first and last corners that were read as VOC's."""
        if not self.count:
            return 0, 0
        # A box may begin at 0 by mistake: of a set from 1 more begin at 1.
        if self.zeros <= self.ones and not self._between:
            return 0, 0
        # One box may end a pixel before the edge by chance.
        return 1, int(self.last > 2 * self.edges + 1 and not self._between)

    def notes(self) -> list[str]:
        """A sentence where they are not VOC's."""
        if not any(self.shift):
            return []
        seen = "most boxes have corners between pixels" if self._between else f"boxes begin at 0, {self.zeros} times"
        last = "with the last one" if self.shift[1] else "up to their ends"
        return [f"{seen}: corners are read as pixels from 0, {last}, where Pascal VOC counts from 1"]
