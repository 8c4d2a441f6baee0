"""What a model under test returns for a batch of pictures, read into one answer per picture."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import CounterfactoryError
from ..runtime.session import Port
from .heads import FORMS, find_head, names_boxes, of_batch, split
from .one_channel import to_levels
from .output_choice import choose_output
from .outputs import (
    ANYTHING,
    UNSEEN,
    BoxAnswer,
    Detection,
    LabelAnswer,
    MapAnswer,
    ModelAnswer,
    ScoreAnswer,
    UnusableError,
    Wanted,
)
from .placement import Placement

Answers = list[ModelAnswer | UnusableError]
_MOST_CLASSES, _LIKELIEST = 1 << 16, 5
# How far outside of 0..1 arithmetic in half precision brings a score.
_ROUNDED = 1e-3
_BOXES = ("boxes", "scores", "labels")
_FORMS: dict[Wanted, str] = {
    "labels": "labels [N] or scores of classes [N, C]",
    "maps": "class numbers of pixels [N, H, W] or scores [N, C, H, W]",
    "boxes": f"for each picture a dict of boxes, scores and labels, or the outputs of a detector ({FORMS})",
}


def read_outputs(outputs: Any, places: Sequence[Placement], wanted: frozenset[Wanted] = ANYTHING) -> Answers:
    """The answers in what a model returned for pictures that lay so in its input, in their order, in the pictures' own
    pixels; `wanted` are the kinds that the suite can judge.

    A picture's answer that holds NaN is an `UnusableError` in its place. Raises CounterfactoryError for what is not one
    answer per picture, and for what is of no wanted kind.
    """
    count, outputs = len(places), _by_name(outputs, len(places))
    if (boxes := _read_boxes(outputs, places, wanted)) is not None:
        return boxes
    if isinstance(outputs, Mapping):
        arrays = _arrays(outputs)
        outputs = arrays[choose_output(_ports(arrays), wanted - {"boxes"})]
    array = as_array(outputs)
    if array is None or array.ndim == 0:
        labels = list(outputs) if isinstance(outputs, Iterable) and not isinstance(outputs, str) else None
        if labels is None:
            raise _misfit(type(outputs).__name__, wanted)
        _require_count(len(labels), count)
        return [_label(label) for label in labels]
    _require_count(len(array), count)
    wide = sum(length != 1 for length in array.shape[1:])
    if "labels" in wanted and wide <= 1:
        return _scores(array.reshape(count, -1), flat=array.ndim == 1)
    if "maps" in wanted and wide >= 2 and array.ndim in (3, 4):
        return [_attempt(_class_map, one, place) for one, place in zip(array, places, strict=True)]
    raise _misfit(f"{array.dtype} {list(array.shape)}", wanted)


def as_array(value: Any) -> NDArray[Any] | None:
    """An array of numbers, or of text, of any library; None for anything else, such as lists of unequal length."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
    if hasattr(value, "numpy") and not isinstance(value, np.ndarray):
        value = value.float().numpy() if "bfloat16" in str(getattr(value, "dtype", "")) else value.numpy()
    if isinstance(value, np.ndarray):
        return value.astype(np.float32) if value.dtype.name == "bfloat16" else value
    try:
        array = np.asarray(value)
    except ValueError:
        return None
    return array if array.dtype.kind in "iufU" and array.ndim != 1 else None


def _by_name(outputs: Any, count: int) -> Any:
    """Several outputs of a batch by their names, or numbers from 0; anything else as it is."""
    if isinstance(outputs, Mapping):
        return {str(name): value for name, value in outputs.items() if value is not None}
    if hasattr(outputs, "_asdict"):
        return outputs._asdict()
    if hasattr(outputs, "logits"):
        parts = {name: getattr(outputs, name, None) for name in ("logits", "pred_boxes")}
        return {name: value for name, value in parts.items() if value is not None}
    if not isinstance(outputs, (list, tuple)) or not len(outputs) > 1:
        return outputs
    shapes = [tuple(getattr(one, "shape", ())) for one in outputs]
    of_batch = all(shape[:1] == (count,) for shape in shapes) and len(outputs) != count
    unlike = len({len(shape) for shape in shapes}) > 1 and all(shapes)
    pair = isinstance(outputs, tuple) and all(shape[:1] == (count,) and len(shape) > 1 for shape in shapes)
    return {str(i): one for i, one in enumerate(outputs)} if of_batch or unlike or pair else outputs


def _arrays(outputs: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    arrays = {name: as_array(value) for name, value in outputs.items()}
    arrays |= {
        name: np.asarray(outputs[name]) for name, array in arrays.items() if array is None and _flat(outputs[name])
    }
    return {name: array for name, array in arrays.items() if array is not None}


def _flat(value: Any) -> bool:
    """Whether it is a list of plain values."""
    return isinstance(value, (list, tuple)) and all(isinstance(one, (str, int, float)) for one in value)


def _ports(arrays: Mapping[str, NDArray[Any]]) -> list[Port]:
    return [Port(name, array.shape, array.dtype.name) for name, array in arrays.items()]


def _attempt(read: Any, *parts: Any) -> Any:
    try:
        return read(*parts)
    except UnusableError as error:
        return error


def _require_count(have: int, count: int) -> None:
    if have != count:
        raise CounterfactoryError(f"the model was given {count} pictures, and returned {have} answers")


def _misfit(given: str, wanted: frozenset[Wanted]) -> CounterfactoryError:
    forms = "; or ".join(_FORMS[kind] for kind in _FORMS if kind in wanted)
    return CounterfactoryError(f"the model gives {given}, and the suite is judged by {forms}")


def _label(value: Any) -> LabelAnswer:
    """A label, or the likeliest of a table of labels and their probabilities."""
    if isinstance(value, Mapping) and value and all(isinstance(share, (int, float)) for share in value.values()):
        best = sorted(((str(label), float(share)) for label, share in value.items()), key=lambda pair: -pair[1])
        return LabelAnswer(best[0][0], tuple(best[:_LIKELIEST]))
    return LabelAnswer(value)


def _scores(array: NDArray[Any], flat: bool) -> Answers:
    """Answers of rows [N, C]; one column holds labels, or, in numbers with a point, scores of one class of two."""
    whole = flat and array.dtype.kind == "f" and _is_whole(array[np.isfinite(array)])
    if array.shape[1] == 1 and (array.dtype.kind != "f" or whole):
        return [LabelAnswer(label) for label in array[:, 0].tolist()]
    if array.dtype.kind not in "iuf" or not 1 <= array.shape[1] <= _MOST_CLASSES:
        raise CounterfactoryError(
            f"the model returned {array.dtype} {list(array.shape)}: scores of classes are numbers"
        )
    scores = array.astype(np.float32)
    finite = np.asarray(np.isfinite(scores).all(axis=1)).tolist()
    return [
        ScoreAnswer(row) if usable else UnusableError("the model gave NaN or an infinite score")
        for row, usable in zip(scores, finite, strict=True)
    ]


def _class_map(array: NDArray[Any], place: Placement) -> MapAnswer:
    """A map of the whole picture, from class numbers [h, w] or from scores [C, h, w] or [h, w, C] of the input."""
    if array.ndim == 3 and 1 in (array.shape[0], array.shape[2]):
        array = array[0] if array.shape[0] == 1 else array[:, :, 0]
    if array.dtype.kind not in "iubf":
        raise CounterfactoryError(f"the model returned a map of {array.dtype}: classes are numbers")
    if not np.isfinite(array).all():
        raise UnusableError("the model gave NaN or an infinite score")
    points = array.dtype.kind == "f"
    if array.ndim == 3:
        scores, shown = place.scores(array.transpose(2, 0, 1) if _classes_last(array, place) else array)
        array = scores.argmax(axis=0)
    elif points and not (_is_whole(array) and array.min(initial=0) >= 0):
        scores, shown = place.scores(array[None])
        return to_levels(scores[0], shown)
    else:
        array, shown = place.numbers(array)
        if points and array.max(initial=0) <= 1:  # class numbers, or sure scores of one channel
            return to_levels(array, shown)
    if array.size and (array.min() < 0 or array.max() >= UNSEEN):
        raise CounterfactoryError(
            f"the model's class map holds {array.min()} to {array.max()}: classes are 0 to {UNSEEN - 1}"
        )
    return MapAnswer.of(np.where(shown, array, UNSEEN))


def _is_whole(array: NDArray[Any]) -> bool:
    return bool((array == np.floor(array)).all())


def _classes_last(array: NDArray[Any], place: Placement) -> bool:
    """Whether a map's first two axes are like the input's height and width, and its last two are not."""
    height, width = place.input

    def like(rows: int, columns: int) -> bool:
        return abs(rows * width / height - columns) <= 1 or abs(columns * height / width - rows) <= 1

    return like(*array.shape[:2]) and not like(*array.shape[1:])


def _read_boxes(outputs: Any, places: Sequence[Placement], wanted: frozenset[Wanted]) -> Answers | None:
    """Boxes by picture, where that is what was returned."""
    count = len(places)
    if isinstance(outputs, Mapping) and set(_BOXES) <= outputs.keys() and np.ndim(as_list(outputs["boxes"])) != 3:
        outputs = [outputs]
    if isinstance(outputs, (list, tuple)) and outputs and all(_holds_boxes(one, wanted) for one in outputs):
        _require_count(len(outputs), count)
        return [_attempt(_boxes, one, place) for one, place in zip(outputs, places, strict=True)]
    single = as_array(outputs) if not isinstance(outputs, Mapping) else None
    arrays = _arrays(outputs) if isinstance(outputs, Mapping) else {} if single is None else {"output": single}
    if "boxes" not in wanted or ("labels" in wanted and not names_boxes(arrays)):
        return None
    inner = {name: array[0] if count > 1 and of_batch(array, count) else array for name, array in arrays.items()}
    head = find_head(_ports(inner), places[0].input)
    if head is None:
        if wanted == {"boxes"}:
            given = ", ".join(f"{name} {list(array.shape)}" for name, array in arrays.items())
            raise _misfit(given or type(outputs).__name__, wanted)
        return None
    used = {name: arrays[name] for name in head.names}
    pictures = [used] if count == 1 else split(used, count)
    rows = [head.read(picture, place.input) for picture, place in zip(pictures, places, strict=True)]
    return [_attempt(_boxes, one, place) for one, place in zip(rows, places, strict=True)]


def _holds_boxes(one: Any, wanted: frozenset[Wanted]) -> bool:
    if isinstance(one, Mapping):
        return "boxes" in one
    shape: tuple[int, ...] = tuple(getattr(one, "shape", ()))
    return "boxes" in wanted and len(shape) == 2 and shape[1] == 6


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
        if not -_ROUNDED <= sure <= 1 + _ROUNDED:
            raise CounterfactoryError(f"the model gave a box the score {sure:g}: scores are from 0 to 1")
        boxes.append(
            Detection(x0, y0, x1, y1, min(1.0, max(0.0, sure)), label if isinstance(label, str) else int(label))
        )
    return BoxAnswer(tuple(boxes))


def as_list(values: Any) -> list[Any]:
    """A list, or an array of any library, as a list of Python's own numbers."""
    array = as_array(values)
    return list(values) if array is None else np.atleast_1d(array).tolist()
