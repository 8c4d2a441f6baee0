"""[image]: the sizes that pictures are painted at."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class ImageSettings:
    """The size to paint at, in pixels: the short side, what both sides are a multiple of, the longest long side.

    Where there are `buckets`, each (height, width), every picture is painted at one of them and at no other size. With
    `own_size` each is painted at its own, whole, and nothing else is said of sizes.
    """

    short_side: int = field(default=0, metadata={"absent": 0})
    multiple: int = field(default=0, metadata={"absent": 0})
    max_long_side: int = field(default=0, metadata={"absent": 0})
    buckets: tuple[tuple[int, int], ...] | None = None
    own_size: bool | None = None

    def __post_init__(self) -> None:
        if self.own_size:
            if self.short_side or self.multiple or self.max_long_side or self.buckets is not None:
                raise ValueError("[image] own_size = true leaves pictures as they are: take the other keys out")
            return
        for name in ("short_side", "multiple", "max_long_side"):
            if not getattr(self, name):
                raise ValueError(f"[image] key 'image.{name}' is missing; own_size = true leaves pictures as they are")
        if self.multiple < 1 or self.short_side < 1:
            raise ValueError(f"[image] short_side and multiple start at 1, found {self.short_side} and {self.multiple}")
        for name in ("short_side", "max_long_side"):
            if getattr(self, name) % self.multiple:
                raise ValueError(f"[image] {name} must be a multiple of {self.multiple}, found {getattr(self, name)}")
        if self.max_long_side < self.short_side:
            raise ValueError(f"[image] max_long_side {self.max_long_side} is below short_side {self.short_side}")
        for height, width in self.buckets or ():
            if min(height, width) < 1 or height % self.multiple or width % self.multiple:
                raise ValueError(f"[image] buckets are of multiples of {self.multiple}, found {height} x {width}")
            if min(height, width) < self.short_side or max(height, width) > self.max_long_side:
                bounds = f"{self.short_side} to {self.max_long_side}"
                raise ValueError(f"[image] sides of buckets go from {bounds}, found {height} x {width}")
        if self.buckets == ():
            raise ValueError("[image] buckets needs one size or more; leave it out for sizes in proportion")

    @property
    def sizes(self) -> tuple[tuple[int, int], ...]:
        """All (height, width) that pictures are painted at; none where that follows from each picture."""
        if self.buckets is not None:
            return tuple(dict.fromkeys(self.buckets))
        return ((self.short_side, self.short_side),) if self.max_long_side == self.short_side else ()

    def size_for(self, height: int, width: int) -> tuple[int, int]:
        """(height, width) to paint a picture at: the bucket whose crop loses least of its area, the first of several;
        without buckets in proportion, see `target_size`.
        """
        if self.own_size:
            return height, width
        if self.buckets is None:
            return target_size(height, width, self.short_side, self.multiple, self.max_long_side)
        return min(self.buckets, key=lambda size: lost_share(height, width, size))


def target_size(height: int, width: int, short_side: int, multiple: int, max_long_side: int) -> tuple[int, int]:
    """(height, width) to paint a picture at: short side to `short_side`, long side in proportion up to
    `max_long_side`, each a multiple of `multiple`. All in pixels; `fit` crops what the rounded aspect loses.
    """
    short = max(multiple, _nearest_multiple(short_side, 1, multiple))
    longest = max(short, max_long_side // multiple * multiple)
    long = min(longest, max(short, _nearest_multiple(short_side * max(height, width), min(height, width), multiple)))
    return (short, long) if height <= width else (long, short)


def crop_box(height: int, width: int, size: tuple[int, int]) -> tuple[float, float, float, float]:
    """The largest centred box with the aspect of `size` (height, width): (left, top, right, bottom), in pixels."""
    if width * size[0] >= height * size[1]:
        margin = (width - height * size[1] / size[0]) / 2
        return margin, 0.0, width - margin, float(height)
    margin = (height - width * size[0] / size[1]) / 2
    return 0.0, margin, float(width), height - margin


def lost_share(height: int, width: int, size: tuple[int, int]) -> float:
    """The share of a picture's area that the crop to `size` (height, width) loses."""
    left, top, right, bottom = crop_box(height, width, size)
    return 1 - (right - left) * (bottom - top) / (height * width)


def _nearest_multiple(numerator: int, denominator: int, multiple: int) -> int:
    """numerator / denominator rounded to a multiple, in integers, so that no rounding of floats decides a size."""
    step = denominator * multiple
    return (2 * numerator + step) // (2 * step) * multiple
