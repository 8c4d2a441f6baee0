"""How a picture becomes a model's input: resized, cropped, padded, scaled and normalised, as the model was trained.

Resizing is Pillow's, or without antialias OpenCV's, and sizes and crops are the libraries' own, so that a model gets
the very numbers that its own pipeline gives it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ..errors import CounterfactoryError
from .placement import Placement, Size

Picture = NDArray[np.uint8]
Triple = tuple[float, float, float]
Keep = Literal["fit", "cover", "nearest"]
Rounding = Literal["up", "down", "nearest"]
Offset = Literal["round", "floor"]
Channels = Literal["rgb", "bgr"]

FILTERS = {one.name.lower(): one for one in sorted(Image.Resampling)}
SIZES = ("letterbox", "resize", "crop", "pad")
# What ultralytics' letterbox is beside its size.
LETTERBOX: dict[str, Any] = {"keep": "fit", "fill": (114.0,) * 3, "interpolation": "bilinear", "antialias": False}


@dataclass(frozen=True)
class Preparation:
    """What is done, in this order.

    A square of the share `middle` of the shorter side is cut from the middle. `resize` is the new length of the shorter
    side, the longer one at most `longest`; or (height, width), which with `keep` the picture fits into, covers, or has
    on the side that changes less, in its own shape. Sides become multiples of `multiple` by `rounding`. `crop` (height,
    width) is cut from the middle, or laid around it; an odd rest is halved by `offset`, as torchvision rounds or as
    Hugging Face. `pad` adds to the right and below up to (height, width); both add the colour `fill`. Without one a
    crop adds black, and `pad` adds zeros to what has been normalised. Without `antialias` pixels are sampled as by
    OpenCV. `channels` are ordered, then divided by `scale` and normalised by `mean` and `std`; without any of these
    three they stay uint8. Raises CounterfactoryError for parts that do not go together.
    """

    middle: float | None = None
    resize: int | Size | None = None
    keep: Keep | None = None
    longest: int | None = None
    multiple: int | None = None
    rounding: Rounding = "up"
    crop: Size | None = None
    offset: Offset = "round"
    pad: Size | None = None
    fill: Triple | None = None
    interpolation: str = "bilinear"
    antialias: bool = True
    scale: float | None = None
    mean: Triple | None = None
    std: Triple | None = None
    channels: Channels = "rgb"

    def __post_init__(self) -> None:
        for wrong, words in (
            (self.keep is not None and not isinstance(self.resize, tuple), "keep goes with resize=HEIGHTxWIDTH"),
            (self.longest is not None and not isinstance(self.resize, int), "longest goes with resize=LENGTH"),
            (self.multiple is not None and self.resize is None, "multiple goes with resize"),
            (self.crop is not None and self.pad is not None, "crop and pad do not go together"),
            (self.crop is not None and self.middle is not None, "crop and middle do not go together"),
            (not self.antialias and self.interpolation != "bilinear", "antialias=no goes with interpolation=bilinear"),
        ):
            if wrong:
                raise CounterfactoryError(f"--preprocess: {words}")

    def apply(self, picture: Picture) -> NDArray[Any]:
        """The input that a picture, uint8 RGB [H, W, 3], becomes: uint8 or float32 [h, w, 3]. Raises
        CounterfactoryError for a picture that is greater than `pad`.
        """
        pixels = self._fitted(picture)
        height, width = pixels.shape[:2]
        if self.pad is not None and (height > self.pad[0] or width > self.pad[1]):
            raise CounterfactoryError(
                f"--preprocess: a picture becomes {height}x{width}, and does not fit into {self.text!r}: declare "
                "resize=HEIGHTxWIDTH keep=fit as well"
            )
        below = [(0, 0)] * 2 if self.pad is None else [(0, self.pad[0] - height), (0, self.pad[1] - width)]
        if self.fill is not None:
            pixels = self._filled(pixels, below)
        values = self._normalised(pixels)
        if self.fill is None and any(map(any, below)):
            values = np.pad(values, (*below, (0, 0)))
        return values

    def _normalised(self, pixels: Picture) -> NDArray[Any]:
        if self.channels == "bgr":
            pixels = pixels[:, :, ::-1]
        if self.scale is None and self.mean is None and self.std is None:
            return np.ascontiguousarray(pixels)
        mean, std = (np.array(part, np.float32) for part in (self.mean or (0, 0, 0), self.std or (1, 1, 1)))
        values = pixels.astype(np.float32) / np.float32(self.scale or 1)
        return np.asarray((values - mean) / std, np.float32)

    def place(self, size: Size) -> Placement:
        """Where a picture of `size` (height, width) lies in the input that `apply` makes of it."""
        top, left, *cut = self._middle(size)
        scaled = self._resized((cut[0], cut[1]))
        down, across = scaled[0] / cut[0], scaled[1] / cut[1]
        whole, corner = (size[0] * down, size[1] * across), (-top * down, -left * across)
        if self.crop is None:
            return Placement(size, self.pad or scaled, whole, *corner)
        rows, columns = (self._around(want, have) for want, have in zip(self.crop, scaled, strict=True))
        return Placement(size, self.crop, whole, corner[0] + rows[0] - rows[2], corner[1] + columns[0] - columns[2])

    def _fitted(self, picture: Picture) -> Picture:
        top, left, tall, wide = self._middle((picture.shape[0], picture.shape[1]))
        picture = picture[top : top + tall, left : left + wide]
        size = self._resized((tall, wide))
        if size != (tall, wide):
            picture = self._sampled(picture, size)
        if self.crop is not None:
            sides = [self._around(want, have) for want, have in zip(self.crop, size, strict=True)]
            picture = self._filled(picture, [(before, after) for before, after, _ in sides])
            return picture[tuple(slice(cut, cut + want) for (*_, cut), want in zip(sides, self.crop, strict=True))]
        return picture

    def _middle(self, size: Size) -> tuple[int, int, int, int]:
        """What is cut out before anything else: top, left, height, width."""
        if self.middle is None:
            return 0, 0, *size
        side = max(1, int(self.middle * min(size)))
        return (size[0] - side) // 2, (size[1] - side) // 2, side, side

    def _around(self, want: int, have: int) -> tuple[int, int, int]:
        """Along one side, what is laid before and behind to have enough, and where the crop then begins."""
        rest = max(0, have - want) / 2
        lack = max(0, want - have)
        return lack // 2, (lack + 1) // 2, round(rest) if self.offset == "round" else int(rest)

    def _filled(self, picture: Picture, sides: list[tuple[int, int]]) -> Picture:
        """The picture with so many pixels of `fill` before and behind its rows and columns."""
        if not any(map(any, sides)):
            return picture
        (above, below), (left, right) = sides
        height, width = picture.shape[:2]
        whole = np.empty((above + height + below, left + width + right, 3), np.uint8)
        whole[:] = np.array(self.fill or (0, 0, 0), np.uint8)
        whole[above : above + height, left : left + width] = picture
        return whole

    def _resized(self, size: Size) -> Size:
        """The (height, width) that `size` is resized to."""
        height, width = self._scaled(size)
        if self.multiple is not None:
            ways: dict[Rounding, Callable[[float], int]] = {"up": math.ceil, "down": math.floor, "nearest": round}
            to = ways[self.rounding]
            height, width = (max(1, to(side / self.multiple)) * self.multiple for side in (height, width))
        return max(1, round(height)), max(1, round(width))

    def _scaled(self, size: Size) -> tuple[float, float]:
        if self.resize is None:
            return size
        if isinstance(self.resize, int):
            return self._by_the_shorter(self.resize, *size)
        if self.keep is None:
            return self.resize
        ratios = [want / have for want, have in zip(self.resize, size, strict=True)]
        if self.keep == "nearest":
            ratio = ratios[1] if abs(1 - ratios[1]) < abs(1 - ratios[0]) else ratios[0]
        else:
            ratio = min(ratios) if self.keep == "fit" else max(ratios)
        return size[0] * ratio, size[1] * ratio

    def _by_the_shorter(self, length: float, height: int, width: int) -> Size:
        shorter, longer = min(height, width), max(height, width)
        if self.longest is not None and longer / shorter * length > self.longest:
            length = self.longest * shorter / longer
        sides = round(length), int(length * longer / shorter)
        if sides[0] == shorter:  # as Hugging Face and torchvision, who leave such a picture as it is
            sides = shorter, longer
        return sides if height <= width else (sides[1], sides[0])

    def _sampled(self, picture: Picture, size: Size) -> Picture:
        if self.antialias:
            return np.asarray(Image.fromarray(picture).resize((size[1], size[0]), FILTERS[self.interpolation]))
        values: NDArray[np.float32] = picture.astype(np.float32)
        for axis, length in enumerate(size):
            values = _interpolated(values, length, axis)
        return np.asarray(values + 0.5, np.uint8)

    @property
    def text(self) -> str:
        """The preparation in the words that declare it."""
        values: dict[str, Any] = {field.name: getattr(self, field.name) for field in fields(self)}
        left_out = {field.name: field.default for field in fields(self)}
        if self.resize is not None:
            left_out["interpolation"] = None
        letterbox = {"resize": self.crop, "crop": self.crop, **LETTERBOX}
        if self.crop is not None and all(values[name] == value for name, value in letterbox.items()):
            values, left_out = {"letterbox": self.crop, **values}, left_out | letterbox
        words = [f"{k}={_written(k, v)}" for k, v in values.items() if v is not None and v != left_out.get(k)]
        return " ".join(words) or "uint8 RGB as it is"


def _written(name: str, value: Any) -> str:
    if isinstance(value, tuple):
        return ("x" if name in SIZES else ",").join(_written("", part) for part in value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    return short if float(short := f"{value:g}") == value else repr(float(value))


def _interpolated(values: NDArray[np.float32], length: int, axis: int) -> NDArray[np.float32]:
    """Values at so many places along an axis, each of the two that are next to it."""
    have = values.shape[axis]
    at = np.clip((np.arange(length) + 0.5) * (have / length) - 0.5, 0, have - 1)
    first = at.astype(int)
    share = (at - first).astype(np.float32).reshape([-1 if i == axis else 1 for i in range(values.ndim)])
    following = values.take(np.minimum(first + 1, have - 1), axis)
    return np.asarray(values.take(first, axis) * (1 - share) + following * share, np.float32)
