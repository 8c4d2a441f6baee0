"""The words that declare a preparation: "resize=256 crop=224 mean=imagenet std=imagenet", "letterbox=640 scale=255".

A word is a field of `Preparation`, or letterbox, which is ultralytics' way to fit a picture into a size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import fields
from typing import Any, get_args

from ..errors import CounterfactoryError
from ..files.fill import nearest
from .preparation import FILTERS, LETTERBOX, SIZES, Channels, Keep, Offset, Preparation, Rounding, Triple

_KEYS = (*(field.name for field in fields(Preparation)), "letterbox")
IMAGENET = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}
_CHOICES: dict[str, tuple[str, ...]] = {
    "keep": get_args(Keep),
    "rounding": get_args(Rounding),
    "offset": get_args(Offset),
    "interpolation": tuple(FILTERS),
    "antialias": ("yes", "no"),
    "channels": get_args(Channels),
}
_LENGTHS, _TRIPLES = ("longest", "multiple"), ("mean", "std", "fill")
_EXAMPLE = "resize=256 crop=224 mean=imagenet std=imagenet"
_MOST = 1 << 14


def read_words(declared: str) -> Preparation:
    """What is declared in words. Raises CounterfactoryError for words that say nothing."""
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
    if "letterbox" in values:
        if both := values.keys() & {"resize", "crop", "pad", "keep"}:
            raise CounterfactoryError(f"--preprocess: letterbox resizes and pads by itself: leave out {min(both)}")
        size = values.pop("letterbox")
        values = {**LETTERBOX, "resize": size, "crop": size, **values}
    if values.get("mean") or values.get("std"):
        values.setdefault("scale", 255.0)
    return Preparation(**values)


def triple(values: Sequence[float], least: float = -math.inf) -> Triple:
    """One number for each colour, of three or of one. Raises ValueError for others, and for any not above `least`."""
    numbers = [float(value) for value in values] * (3 if len(values) == 1 else 1)
    if len(numbers) != 3 or not all(map(math.isfinite, numbers)) or min(numbers) <= least:
        raise ValueError(f"{list(values)} is not a number for each colour")
    return numbers[0], numbers[1], numbers[2]


def _value(name: str, text: str) -> Any:
    try:
        if name in _CHOICES and text in _CHOICES[name]:
            return text == "yes" if name == "antialias" else text
        if name in SIZES or name in _LENGTHS:
            sides = tuple(int(side) for side in text.split("x"))
            if not all(1 <= side <= _MOST for side in sides) or len(sides) > (1 if name in _LENGTHS else 2):
                raise ValueError
            return sides[0] if len(sides) == 1 and name in ("resize", *_LENGTHS) else (sides[0], sides[-1])
        if name in ("scale", "middle") and 0 < (number := float(text)) < (math.inf if name == "scale" else 1 + 1e-9):
            return number
        if name in IMAGENET and text == "imagenet":
            return IMAGENET[name]
        if name in _TRIPLES:
            values = triple([float(part) for part in text.split(",")], 0.0 if name == "std" else -math.inf)
            if name != "fill" or all(part in range(256) for part in values):
                return values
    except ValueError:
        pass
    raise CounterfactoryError(f"--preprocess: {name} is {_kind(name)}, got {text!r}")


def _kind(name: str) -> str:
    if name in _CHOICES:
        return f"{'one of ' if len(_CHOICES[name]) > 2 else ''}{' or '.join(_CHOICES[name])}"
    kinds = {
        "scale": "a number above 0, such as 255",
        "mean": "imagenet, or one or three numbers",
        "std": "imagenet, or one or three numbers above 0",
        "fill": "one or three whole numbers from 0 to 255",
        "middle": "a share above 0, at most 1",
        **dict.fromkeys(_LENGTHS, "a whole number above 0"),
    }
    return kinds.get(name, "a length such as 224, or a height and width such as 224x320")
