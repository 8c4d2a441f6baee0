"""What a model under test gives for a batch of pictures, read into one answer per picture: scores of its classes, a
label, a class map, or boxes. Answers go into JSON and come back the same.
"""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ..errors import CounterfactoryError
from .placement import Placement

# What answers can be of a suite: what its pictures have to judge them by.
Wanted = Literal["labels", "maps", "boxes"]
ANYTHING: frozenset[Wanted] = frozenset(get_args(Wanted))
# In a map, pixels of the picture that the model was not shown.
UNSEEN = 65_534
_MOST_CLASSES = 1 << 16
_BOXES = ("boxes", "scores", "labels")


@dataclass(frozen=True, eq=False)
class ScoreAnswer:
    """What a classifier gives each of its classes, float32 [C]: logits, or probabilities."""

    scores: NDArray[np.float32]


@dataclass(frozen=True)
class LabelAnswer:
    """A label, or a class number; `ranked` are the likeliest labels with their probabilities, where there are any."""

    label: str | int
    ranked: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True)
class MapAnswer:
    """A class number for each pixel, as a PNG of 8 or 16 bits: arrays of 10,000 pictures do not fit into memory."""

    png: bytes

    @classmethod
    def of(cls, numbers: NDArray[Any]) -> MapAnswer:
        """The answer of numbers, uint8 or uint16 [H, W]."""
        file = io.BytesIO()
        Image.fromarray(numbers).save(file, "PNG")
        return cls(file.getvalue())

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


def read_outputs(
    outputs: Any, places: Sequence[Placement], wanted: frozenset[Wanted] = ANYTHING
) -> list[ModelAnswer | UnusableError]:
    """The answers in what a model returned for pictures that lay so in its input, in their order, in the pictures' own
    pixels; `wanted` are the kinds that the suite can judge.

    A picture's answer that holds NaN is an `UnusableError` in its place. Raises CounterfactoryError for what is not one
    answer per picture.
    """
    count = len(places)
    if isinstance(outputs, Mapping):
        boxes = set(_BOXES) <= outputs.keys()
        outputs = [outputs] if boxes else outputs.get("logits", outputs.get("out", outputs))
    elif hasattr(outputs, "logits"):
        outputs = outputs.logits
    if isinstance(outputs, (list, tuple)) and outputs and all(map(_holds_boxes, outputs)):
        _require_count(len(outputs), count)
        return [_attempt(_boxes, one, place) for one, place in zip(outputs, places, strict=True)]
    array = as_array(outputs)
    if array is None or array.ndim == 0:
        labels = list(outputs) if isinstance(outputs, Iterable) and not isinstance(outputs, (str, Mapping)) else None
        if labels is None:
            raise CounterfactoryError(
                f"the model returned a {type(outputs).__name__}: return labels [N], scores of classes [N, C], class "
                "numbers of pixels [N, H, W], or for each picture a dict of boxes, scores and labels"
            )
        _require_count(len(labels), count)
        return [LabelAnswer(label) for label in labels]
    _require_count(len(array), count)
    if array.ndim == 1:
        return [LabelAnswer(label) for label in array.tolist()]
    if array.ndim == 2:
        return _scores(array)
    if array.ndim in (3, 4):
        return [_attempt(_class_map, one, place) for one, place in zip(array, places, strict=True)]
    raise CounterfactoryError(f"the model returned an array of shape {list(array.shape)}, which is no answer")


def as_array(value: Any) -> NDArray[Any] | None:
    """An array of numbers, or of text, of any library; None for anything else, such as lists of unequal length."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
    if hasattr(value, "numpy") and not isinstance(value, np.ndarray):
        value = value.float().numpy() if "bfloat16" in str(getattr(value, "dtype", "")) else value.numpy()
    if isinstance(value, np.ndarray):
        return value
    try:
        array = np.asarray(value)
    except ValueError:
        return None
    return array if array.dtype.kind in "iufU" and array.ndim != 1 else None


def _attempt(read: Any, *parts: Any) -> Any:
    try:
        return read(*parts)
    except UnusableError as error:
        return error


def _require_count(have: int, count: int) -> None:
    if have != count:
        raise CounterfactoryError(f"the model was given {count} pictures, and returned {have} labels")


def _scores(array: NDArray[Any]) -> list[ModelAnswer | UnusableError]:
    if array.dtype.kind not in "iuf" or not 2 <= array.shape[1] <= _MOST_CLASSES:
        raise CounterfactoryError(
            f"the model returned {array.dtype} [{', '.join(map(str, array.shape))}]: scores of classes are numbers, "
            "two or more for each picture"
        )
    scores = array.astype(np.float32)
    finite = np.asarray(np.isfinite(scores).all(axis=1)).tolist()
    return [
        ScoreAnswer(row) if whole else UnusableError("the model gave NaN or an infinite score")
        for row, whole in zip(scores, finite, strict=True)
    ]


def _class_map(array: NDArray[Any], place: Placement) -> MapAnswer:
    """A map of class numbers of the whole picture, from numbers [h, w] or from scores [C, h, w] of the input."""
    if array.ndim == 3:
        if not np.isfinite(array).all():
            raise UnusableError("the model gave NaN or an infinite score")
        scores, shown = place.scores(array)
        array = scores.argmax(axis=0)
    elif array.dtype.kind not in "iub":
        raise CounterfactoryError(
            f"the model returned {array.dtype} [N, H, W]: class maps are whole numbers; return scores as [N, C, H, W]"
        )
    else:
        array, shown = place.numbers(array)
    if array.size and (array.min() < 0 or array.max() >= UNSEEN):
        raise CounterfactoryError(
            f"the model's class map holds {array.min()} to {array.max()}: classes are 0 to {UNSEEN - 1}"
        )
    numbers = np.where(shown, array, UNSEEN)
    return MapAnswer.of(numbers.astype(np.uint8 if not numbers.size or numbers.max() < 256 else np.uint16))


def _holds_boxes(one: Any) -> bool:
    if isinstance(one, Mapping):
        return "boxes" in one
    shape: tuple[int, ...] = tuple(getattr(one, "shape", ()))
    return len(shape) == 2 and shape[1] == 6


def _boxes(one: Any, place: Placement) -> BoxAnswer:
    """A picture's boxes, in its own pixels: of torchvision's dict (boxes are corners), or an array [M, 6] of corners,
    score and class.
    """
    if isinstance(one, Mapping):
        missing = [name for name in _BOXES if name not in one]
        if missing:
            raise CounterfactoryError(f"the model returned boxes without {' and '.join(missing)}")
        corners, scores, labels = (as_list(one[name]) for name in _BOXES)
        if not len(corners) == len(scores) == len(labels):
            counts = f"{len(corners)} boxes, {len(scores)} scores and {len(labels)} labels"
            raise CounterfactoryError(f"the model returned {counts} for a picture")
    else:
        rows = as_list(one)
        corners, scores, labels = [row[:4] for row in rows], [row[4] for row in rows], [int(row[5]) for row in rows]
    if odd := next((corner for corner in corners if len(corner) != 4), None):
        raise CounterfactoryError(f"the model returned a box of {len(odd)} numbers: x0, y0, x1, y1 are needed")
    boxes = []
    for corner, score, label in zip(place.corners(np.array(corners)).tolist(), scores, labels, strict=True):
        x0, y0, x1, y1, sure = *map(float, corner), float(score)
        if not all(map(math.isfinite, (x0, y0, x1, y1, sure))):
            raise UnusableError("the model gave NaN or an infinite number for a box")
        if not 0 <= sure <= 1:
            raise CounterfactoryError(f"the model gave a box the score {sure:g}: scores are from 0 to 1")
        boxes.append(Detection(x0, y0, x1, y1, sure, label if isinstance(label, str) else int(label)))
    return BoxAnswer(tuple(boxes))


def as_list(values: Any) -> list[Any]:
    """A list, or an array of any library, as a list of Python's own numbers."""
    array = as_array(values)
    return list(values) if array is None else np.atleast_1d(array).tolist()


def to_json(answer: ModelAnswer) -> dict[str, Any]:
    """The answer as JSON holds it; `from_json` reads it back."""
    if isinstance(answer, ScoreAnswer):
        return {"scores": base64.b64encode(answer.scores.astype("<f4").tobytes()).decode()}
    if isinstance(answer, LabelAnswer):
        return {"ranked": answer.ranked} if answer.ranked else {"label": answer.label}
    if isinstance(answer, MapAnswer):
        return {"map": base64.b64encode(answer.png).decode()}
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
    if kind == "map":
        return MapAnswer(base64.b64decode(content, validate=True))
    if kind == "boxes":
        boxes = [(*map(float, (x0, y0, x1, y1, sure)), label) for x0, y0, x1, y1, sure, label in content]
        return BoxAnswer(tuple(Detection(*box) for box in boxes))
    raise ValueError("no answer of a model")
