"""A model's answers to pictures: scores of its classes, a label, a class map, or boxes. They go into JSON and come back
the same.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from PIL import Image

# What answers can be of a suite: what its pictures have to judge them by.
Wanted = Literal["labels", "maps", "boxes"]
ANYTHING: frozenset[Wanted] = frozenset(get_args(Wanted))
# In a map, pixels of the picture that the model was not shown.
UNSEEN = 65_534


@dataclass(frozen=True, eq=False)
class ScoreAnswer:
    """What a classifier gives each of its classes, float32 [C]: logits, or probabilities. One score alone is of the
    second of two classes; one_channel.py makes two of it.
    """

    scores: NDArray[np.float32]


@dataclass(frozen=True)
class LabelAnswer:
    """A label, or a class number; `ranked` are the likeliest labels with their probabilities, where there are any."""

    label: str | int
    ranked: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True)
class MapAnswer:
    """A class number for each pixel, as a PNG of 8 or 16 bits: arrays of 10,000 pictures do not fit into memory.
    Instead of classes it may hold `levels` of one channel, of which one_channel.py makes classes.
    """

    png: bytes
    levels: bool = False

    @classmethod
    def of(cls, numbers: NDArray[Any], levels: bool = False) -> MapAnswer:
        """The answer of whole numbers [H, W], 0 to 65,535."""
        file = io.BytesIO()
        numbers = numbers.astype(np.uint8 if not numbers.size or numbers.max() < 256 else np.uint16)
        Image.fromarray(numbers).save(file, "PNG")
        return cls(file.getvalue(), levels)

    @property
    def numbers(self) -> NDArray[Any]:
        """The class numbers, uint8 or uint16 [H, W]. Raises OSError or ValueError for bytes that are no PNG."""
        with Image.open(io.BytesIO(self.png), formats=["PNG"]) as image:
            return np.asarray(image)


@dataclass(frozen=True)
class Detection:
    """A thing that a detector sees: its box in pixels, how sure it is, 0..1, and the class, by name or by number."""

    x0: float
    y0: float
    x1: float
    y1: float
    score: float
    label: str | int


@dataclass(frozen=True)
class BoxAnswer:
    """All that a detector sees in a picture."""

    boxes: tuple[Detection, ...]


ModelAnswer = ScoreAnswer | LabelAnswer | MapAnswer | BoxAnswer


class UnusableError(ValueError):
    """What a model gives one picture is no answer. The message reads well after the picture's name and a colon."""


def to_json(answer: ModelAnswer) -> dict[str, Any]:
    """The answer as JSON holds it; `from_json` reads it back."""
    if isinstance(answer, ScoreAnswer):
        return {"scores": base64.b64encode(answer.scores.astype("<f4").tobytes()).decode()}
    if isinstance(answer, LabelAnswer):
        return {"ranked": answer.ranked} if answer.ranked else {"label": answer.label}
    if isinstance(answer, MapAnswer):
        return {"levels" if answer.levels else "map": base64.b64encode(answer.png).decode()}
    return {"boxes": [[b.x0, b.y0, b.x1, b.y1, b.score, b.label] for b in answer.boxes]}


def from_json(value: Any) -> ModelAnswer:
    """The answer that `to_json` wrote. Raises ValueError for anything else."""
    if not isinstance(value, Mapping) or len(value) != 1:
        raise ValueError("no answer of a model")
    ((kind, content),) = value.items()
    if kind == "scores":
        return ScoreAnswer(np.frombuffer(base64.b64decode(content, validate=True), "<f4"))
    if kind == "label" and isinstance(content, (str, int)):
        return LabelAnswer(content)
    if kind == "ranked":
        ranked = tuple((str(label), float(score)) for label, score in content)
        return LabelAnswer(ranked[0][0], ranked)
    if kind in ("map", "levels"):
        return MapAnswer(base64.b64decode(content, validate=True), kind == "levels")
    if kind == "boxes":
        boxes = [(*map(float, (x0, y0, x1, y1, sure)), label) for x0, y0, x1, y1, sure, label in content]
        return BoxAnswer(tuple(Detection(*box) for box in boxes))
    raise ValueError("no answer of a model")
