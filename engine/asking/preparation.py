"""How a picture becomes a model's input: resized, cropped, scaled and normalised, as the model was trained.

Declared in words such as "resize=256 crop=224 mean=imagenet std=imagenet", or as Hugging Face's
preprocessor_config.json. Resizing is Pillow's, and sizes and crops are torchvision's, so that a model gets the very
numbers that its own pipeline gives it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ..errors import CounterfactoryError
from ..files.fill import nearest
from ..files.reading import read_json
from .placement import Placement, Size

Picture = NDArray[np.uint8]
Triple = tuple[float, float, float]

_FILTERS = {one.name.lower(): one for one in sorted(Image.Resampling)}
_IMAGENET = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}
_KEYS = ("resize", "crop", "interpolation", "scale", "mean", "std", "channels")
_EXAMPLE = "resize=256 crop=224 mean=imagenet std=imagenet"
_MOST = 1 << 14


@dataclass(frozen=True)
class Preparation:
    """`resize` is the new length of the shorter side, or (height, width); `crop` (height, width) is cut from the
    middle. Pixels are divided by `scale`, and normalised by `mean` and `std`; without any of these they stay uint8.
    """

    resize: int | Size | None = None
    crop: Size | None = None
    interpolation: str = "bilinear"
    scale: float | None = None
    mean: Triple | None = None
    std: Triple | None = None
    channels: Literal["rgb", "bgr"] = "rgb"

    def apply(self, picture: Picture) -> NDArray[Any]:
        """The input that a picture, uint8 RGB [H, W, 3], becomes: uint8 or float32 [h, w, 3]."""
        pixels = self._fitted(picture)
        if self.channels == "bgr":
            pixels = pixels[:, :, ::-1]
        if self.scale is None and self.mean is None and self.std is None:
            return np.ascontiguousarray(pixels)
        mean, std = (np.array(part, np.float32) for part in (self.mean or (0, 0, 0), self.std or (1, 1, 1)))
        values = pixels.astype(np.float32) / np.float32(self.scale or 1)
        return np.asarray((values - mean) / std, np.float32)

    def _fitted(self, picture: Picture) -> Picture:
        height, width = picture.shape[:2]
        size = self._resized(height, width)
        if size != (height, width):
            image = Image.fromarray(picture).resize((size[1], size[0]), _FILTERS[self.interpolation])
            picture = np.asarray(image)
        if self.crop is None or self.crop == picture.shape[:2]:
            return picture
        (height, width), (tall, wide) = picture.shape[:2], self.crop
        if tall > height or wide > width:  # black around it, as torchvision's CenterCrop
            above, left = max(0, (tall - height) // 2), max(0, (wide - width) // 2)
            below, right = max(0, (tall - height + 1) // 2), max(0, (wide - width + 1) // 2)
            picture = np.pad(picture, ((above, below), (left, right), (0, 0)))
            height, width = picture.shape[:2]
        top, side = round((height - tall) / 2.0), round((width - wide) / 2.0)
        return picture[top : top + tall, side : side + wide]

    def place(self, size: Size) -> Placement:
        """Where a picture of `size` (height, width) lies in the input that `apply` makes of it."""
        scaled = self._resized(*size)
        if self.crop is None:
            return Placement(size, scaled, scaled)
        padded = [max(0, (want - have) // 2) for want, have in zip(self.crop, scaled, strict=True)]
        cut = [max(0, round((have - want) / 2)) for want, have in zip(self.crop, scaled, strict=True)]
        return Placement(size, self.crop, scaled, padded[0] - cut[0], padded[1] - cut[1])

    def _resized(self, height: int, width: int) -> Size:
        if self.resize is None or isinstance(self.resize, tuple):
            return self.resize or (height, width)
        longer = int(self.resize * max(height, width) / min(height, width))
        return (self.resize, longer) if height <= width else (longer, self.resize)

    @property
    def text(self) -> str:
        """The preparation in the words that declare it."""
        values = {name: getattr(self, name) for name in _KEYS}
        values["interpolation"] = self.interpolation if self.resize else None
        values["channels"] = self.channels if self.channels != "rgb" else None
        words = [f"{name}={_written(name, value)}" for name, value in values.items() if value is not None]
        return " ".join(words) or "uint8 RGB as it is"


def read_preparation(declared: str) -> Preparation:
    """What is declared in words, or in a preprocessor_config.json. Raises CounterfactoryError for words that say
    nothing, and for a file that cannot be read.
    """
    if declared.endswith(".json"):
        return _from_json(Path(declared))
    values: dict[str, Any] = {}
    for word in declared.split():
        name, equals, value = word.partition("=")
        if name not in _KEYS:
            raise CounterfactoryError(f"--preprocess: there is no {name!r}; {nearest(name, _KEYS)}")
        if not equals or not value or name in values:
            raise CounterfactoryError(f"--preprocess takes words such as {_EXAMPLE!r}, got {word!r}")
        values[name] = _value(name, value)
    if not values:
        raise CounterfactoryError(f"--preprocess takes words such as {_EXAMPLE!r}, got nothing")
    if values.get("mean") or values.get("std"):
        values.setdefault("scale", 255.0)
    return Preparation(**values)


def _value(name: str, text: str) -> Any:
    try:
        if name == "interpolation" and text in _FILTERS:
            return text
        if name == "channels" and text in ("rgb", "bgr"):
            return text
        if name in ("resize", "crop"):
            sides = tuple(int(side) for side in text.split("x"))
            if len(sides) > 2 or not all(1 <= side <= _MOST for side in sides):
                raise ValueError
            return sides[0] if len(sides) == 1 and name == "resize" else (sides[0], sides[-1])
        if name == "scale" and 0 < (scale := float(text)) < math.inf:
            return scale
        if name in _IMAGENET:
            return _IMAGENET[name] if text == "imagenet" else _triple([float(part) for part in text.split(",")], name)
    except ValueError:
        pass
    kinds = {
        "interpolation": f"one of {', '.join(_FILTERS)}",
        "channels": "rgb or bgr",
        "scale": "a number above 0, such as 255",
        "mean": "imagenet, or one or three numbers",
        "std": "imagenet, or one or three numbers above 0",
    }
    kind = kinds.get(name, "a length such as 224, or a height and width such as 224x320")
    raise CounterfactoryError(f"--preprocess: {name} is {kind}, got {text!r}")


def _triple(values: list[float], name: str) -> Triple:
    if len(values) == 1:
        values = values * 3
    if len(values) != 3 or not all(map(math.isfinite, values)) or (name == "std" and min(values) <= 0):
        raise ValueError
    return values[0], values[1], values[2]


def _written(name: str, value: Any) -> str:
    if isinstance(value, tuple):
        return ("x" if name in ("resize", "crop") else ",").join(f"{part:g}" for part in value)
    return value if isinstance(value, str) else f"{value:g}"


def _from_json(path: Path) -> Preparation:
    try:
        table = read_json(path)
        if not isinstance(table, Mapping):
            raise ValueError("it holds no table")
        return _from_config(table)
    except (ValueError, KeyError, TypeError, ArithmeticError) as error:
        raise CounterfactoryError(f"{path} is no preprocessor_config.json that is understood: {error!s:.80}") from error


def _from_config(table: Mapping[str, Any]) -> Preparation:
    """What an image processor of Hugging Face does by its configuration."""
    size, crop = (_sides(table.get(name)) for name in ("size", "crop_size"))
    by_number = {int(value): name for name, value in _FILTERS.items()}
    normal = bool(table.get("do_normalize", table.get("image_mean") is not None))
    mean, std = (_triple(list(table[f"image_{name}"]), name) if normal else None for name in ("mean", "std"))
    return Preparation(
        resize=size if table.get("do_resize", True) else None,
        crop=((crop, crop) if isinstance(crop, int) else crop) if table.get("do_center_crop", False) else None,
        interpolation=by_number[int(table.get("resample", Image.Resampling.BILINEAR))],
        scale=1 / float(table.get("rescale_factor", 1 / 255)) if table.get("do_rescale", True) else None,
        mean=mean,
        std=std,
    )


def _sides(value: Any) -> int | Size | None:
    if isinstance(value, Mapping):
        if "shortest_edge" in value:
            return int(value["shortest_edge"])
        return int(value["height"]), int(value["width"])
    return None if value is None else (int(value), int(value))
