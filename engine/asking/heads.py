"""Heads of exported detectors: what their files give for a picture, as boxes of corners in the pixels of its input.

Every exporter has a form of its own. A form is told by the names and shapes of the outputs, by the number of classes
where it is known, and what no shape tells, such as shares for pixels, by the numbers. Boxes that overlap are dropped
where a form still holds them all; those of no more than `LEAST` go always, and the `MOST` surest stay.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import CounterfactoryError
from ..runtime.session import Port
from .placement import Size

LEAST, MOST, OVERLAP = 0.001, 300, 0.7
FORMS = (
    "boxes [N, M, 4] with scores and labels [N, M], or with logits or scores [N, M, C]; dets [N, M, 5] with labels; "
    "[N, M, 6] of corners, score and class; [M, 7]; YOLO's [N, A, 5 + C] and [N, 4 + C, A]"
)
# What the outputs of detectors are called, without the path before and the number behind.
_ROLES = {
    "boxes": ("boxes", "bboxes", "pred_boxes", "dets", "det_boxes", "detection_boxes", "detected_boxes"),
    "scores": ("scores", "det_scores", "detection_scores", "detected_scores"),
    "labels": ("labels", "classes", "det_classes", "detection_classes", "detected_classes"),
    "logits": ("logits", "pred_logits"),
    "count": ("num_dets", "num_detections"),
}
# Boxes are shares of the input where none is larger.
_SHARES = 1.5
_STRIDES = (4, 8, 16, 32, 64)
Rows = NDArray[np.float64]
Outputs = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class Head:
    """A form: `words` say which, `names` are the outputs that it reads, and `read` makes of a picture's outputs and its
    input's (height, width) rows [M, 6] of corners in pixels, score and class.
    """

    words: str
    names: tuple[str, ...]
    read: Callable[[Outputs, Size], Rows]


@dataclass(frozen=True)
class _Layout:
    """YOLO's rows, or columns where `turned`: a box, how `sure` it is of any class where that is told, classes."""

    turned: bool
    sure: bool
    classes: int


def find_head(
    ports: Sequence[Port], size: Size | None = None, classes: int | None = None, task: str | None = None
) -> Head | None:
    """The form of a picture's outputs, with a batch's axis of 1 or without; None where none fits. The input's `size`,
    the number of `classes` and the file's own word for its `task` help where they are known. Raises CounterfactoryError
    for boxes that are turned.
    """
    if task == "obb":
        raise CounterfactoryError("the model gives turned boxes (its task is obb), and upright boxes are judged")
    if (named := _of_parts(ports, classes)) is not None:
        return named
    masks = next((port.shape[1] or 0 for port in ports if len(port.shape) == 4), 0) if len(ports) > 1 else 0
    for port in ports:
        axes = len(port.shape)
        if axes not in (2, 3) and not (axes == 4 and port.shape[1] == 1):
            continue
        rows, columns = port.shape[-2:]
        raw = rows is not None and (rows in _anchors(size) or rows - 4 == classes)
        if axes != 3 and columns == 7 and not raw:
            return Head("rows of number, box, class and score", (port.name,), partial(_of_rows, _sevens))
        if axes != 4 and columns == 6 and not raw:
            return Head("rows of box, score and class", (port.name,), partial(_of_rows, _sixes))
        if axes == 4 or rows is None or columns is None:
            continue
        if layout := _layout((rows, columns), size, classes, masks, task == "pose"):
            form = f"{5 if layout.sure else 4} + {layout.classes}"
            words = f"YOLO's [{form}, A]" if layout.turned else f"YOLO's [A, {form}]"
            return Head(f"{words} without overlaps above {OVERLAP}", (port.name,), partial(_yolo, layout))
    return None


def split(outputs: Outputs, count: int) -> list[dict[str, NDArray[Any]]]:
    """The outputs of a batch by picture, without a batch's axis: rows of 7 by the number of the picture in them."""
    pictures: list[dict[str, NDArray[Any]]] = [{} for _ in range(count)]
    for name, array in outputs.items():
        numbered = _numbered(array)
        if not numbered and not of_batch(array, count):
            raise CounterfactoryError(f"the model was given {count} pictures, and its {name} is {list(array.shape)}")
        rows = array.reshape(-1, 7) if numbered else array
        for number, picture in enumerate(pictures):
            picture[name] = rows[np.rint(rows[:, 0]) == number] if numbered else rows[number]
    return pictures


def of_batch(array: NDArray[Any], count: int) -> bool:
    """Whether an output's first axis is one of so many pictures."""
    return array.shape[:1] == (count,) and not _numbered(array)


def _numbered(array: NDArray[Any]) -> bool:
    return array.shape[-1:] == (7,) and (array.ndim == 2 or array.shape[:2] == (1, 1))


def names_boxes(names: Iterable[str]) -> bool:
    """Whether one of the names of outputs is one of boxes."""
    return any(plain_name(name) in _ROLES["boxes"] for name in names)


def plain_name(name: str) -> str:
    """A name of an output without a path before it, and without TensorFlow's number behind it."""
    return name.rpartition("/")[2].partition(":")[0].lower()


def _of_parts(ports: Sequence[Port], classes: int | None) -> Head | None:
    """A form of several outputs, by their names, or, where nobody named them, of boxes, labels and scores."""
    roles = {role: port for port in ports for role, names in _ROLES.items() if plain_name(port.name) in names}
    boxes = roles.get("boxes")
    if boxes is None and len(ports) == 3:
        boxes = next((port for port in ports if port.shape[-1:] == (4,)), None)
        flat = [port for port in ports if boxes is not None and len(port.shape) == len(boxes.shape) - 1]
        whole = [port for port in flat if "int" in port.dtype]
        roles = dict(zip(("labels", "scores"), sorted(flat, key=lambda port: port not in whole), strict=False))
        boxes = boxes if len(flat) == 2 and len(whole) == 1 else None
    if boxes is None or boxes.shape[-1:] not in ((4,), (5,)):
        return None
    rank = len(boxes.shape)
    ranks = {role: len(port.shape) for role, port in roles.items()}
    scores, labels, logits = (roles.get(role) for role in ("scores", "labels", "logits"))
    if labels is not None and ranks["labels"] == rank and rank == 3 and scores is None:
        logits, labels = labels, None  # as RF-DETR calls them
    if boxes.shape[-1] == 5 and labels is not None:
        return Head("boxes with their scores, and labels", (boxes.name, labels.name), _dets)
    if logits is not None:
        return Head("DETR's queries", (boxes.name, logits.name), partial(_queries, classes))
    if scores is not None and ranks["scores"] == rank:
        words = f"boxes and scores of classes without overlaps above {OVERLAP}"
        return Head(words, (boxes.name, scores.name), partial(_scored, classes))
    if scores is None or labels is None:
        return None
    counts = [roles["count"].name] if "count" in roles else []
    first_down = plain_name(boxes.name).startswith("detection_")  # TensorFlow's: top, left, bottom, right
    names = (boxes.name, scores.name, labels.name, *counts)
    return Head("boxes with scores and labels", names, partial(_listed, first_down))


def _layout(lengths: tuple[int, int], size: Size | None, classes: int | None, masks: int, pose: bool) -> _Layout | None:
    """How YOLO's boxes lie: there are as many as places in the input, or columns for all classes. Of several ways it is
    that of its versions: 5 to 7 and X say how sure they are, in rows; later ones neither. What follows the classes
    belongs to `masks`, or to a pose.
    """
    ways: list[tuple[_Layout, int, int]] = []
    for turned, sure in ((False, True), (True, False), (False, False), (True, True)):
        anchors, columns = reversed(lengths) if turned else lengths
        of_box = columns - 4 - sure - masks
        if of_box >= 1:
            ways.append((_Layout(turned, sure, classes if pose and classes else of_box), anchors, columns))
    ways = [way for way in ways if way[0].classes == classes] or [way for way in ways if way[1] in _anchors(size)]
    return max(ways, key=lambda way: way[1] in _anchors(size))[0] if ways else None


def _anchors(size: Size | None) -> set[int]:
    """How many boxes YOLO's heads have for an input of a size, at two strides or more, one or three at a place."""
    if size is None:
        return set()
    places = [math.ceil(size[0] / stride) * math.ceil(size[1] / stride) for stride in _STRIDES]
    spans = [places[first:last] for last in range(2, len(places) + 1) for first in range(last - 1)]
    return {boxes * sum(span) for span in spans for boxes in (1, 3)}


def _yolo(layout: _Layout, given: Outputs, size: Size) -> Rows:
    rows = _table(*given.values())
    rows = rows.T if layout.turned else rows
    boxes, first = rows[:, :4], 4 + layout.sure
    if layout.sure and (boxes[:, 2:] <= 0).any():
        boxes = _from_grid(boxes, size)
    scores = rows[:, 4 : first + layout.classes]
    if scores.size and (scores.min() < -LEAST or scores.max() > 1 + LEAST):
        scores = _sigmoid(scores)
    scores = scores[:, 1:] * scores[:, :1] if layout.sure else scores
    return _drop_overlapping(_best(_corners(boxes), scores.max(axis=1), scores.argmax(axis=1), size, None))


def _from_grid(boxes: Rows, size: Size) -> Rows:
    """Boxes of YOLOX as its export leaves them: places in a cell, and logarithms of sides in strides."""
    used = _STRIDES[1:4]
    cells = [np.indices((math.ceil(size[0] / s), math.ceil(size[1] / s))).reshape(2, -1).T[:, ::-1] for s in used]
    strides = np.concatenate([np.full((len(cell), 1), s) for cell, s in zip(cells, used, strict=True)])
    places = np.concatenate(cells)
    if len(boxes) != len(places):
        raise CounterfactoryError(f"the model gives {len(boxes)} boxes with sides of no length: none of {FORMS}")
    return np.concatenate([(boxes[:, :2] + places) * strides, np.exp(boxes[:, 2:]) * strides], axis=1)


def _queries(classes: int | None, given: Outputs, size: Size) -> Rows:
    """DETR's: softmax with a last class for nothing, or a sigmoid for each class as in its successors."""
    boxes, logits = map(_table, given.values())
    columns = logits.shape[1]
    # Without anything seen the last is the largest, and above 0; of a sigmoid's all are far below.
    mostly_last = bool(((logits.argmax(axis=1) == columns - 1) & (logits[:, -1] > 0)).mean() >= 0.5)
    if columns > 1 and (columns - 1 == classes or (mostly_last and columns != classes)):
        shares = _softmax(logits)[:, :-1]
        return _best(_corners(boxes), shares.max(axis=1), shares.argmax(axis=1), size)
    shares = _sigmoid(logits)
    places, labels = np.indices(shares.shape).reshape(2, -1)
    return _best(_corners(boxes)[places], shares.reshape(-1), labels, size)


def _scored(classes: int | None, given: Outputs, size: Size) -> Rows:
    """Boxes with scores of all classes, of which the first is nothing where they add up to 1, or are one too many."""
    boxes, scores = map(_table, given.values())
    if scores.size and (scores.min() < -LEAST or scores.max() > 1 + LEAST):
        scores = _softmax(scores)
    shares = scores.shape[1] > 1 and bool(np.allclose(scores.sum(axis=1), 1, atol=0.01))
    nothing = shares or scores.shape[1] - 1 == classes
    # Where the names have one for nothing too, numbers are as given.
    shift = int(nothing and scores.shape[1] == classes)
    scores = scores[:, 1:] if nothing else scores
    labels = scores.argmax(axis=1) + shift
    return _drop_overlapping(_best(boxes, scores.max(axis=1), labels, size, None))


def _listed(first_down: bool, given: Outputs, size: Size) -> Rows:
    boxes, scores, labels, *counts = given.values()
    rows = np.concatenate([_table(boxes), _column(scores), _column(labels)], axis=1)
    rows = rows[: int(counts[0].reshape(-1)[0])] if counts else rows
    corners = rows[:, [1, 0, 3, 2]] if first_down else rows[:, :4]
    return _best(corners, rows[:, 4], rows[:, 5], size)


def _dets(given: Outputs, size: Size) -> Rows:
    dets, labels = given.values()
    rows = _table(dets)
    return _best(rows[:, :4], rows[:, 4], _column(labels)[:, 0], size)


def _of_rows(read: Callable[[Rows, Size], Rows], given: Outputs, size: Size) -> Rows:
    return read(_table(*given.values()), size)


def _sixes(rows: Rows, size: Size) -> Rows:
    """Corners, score and class; corners, class and score; or, as Paddle has them, class, score and corners."""
    for score, label, corner in ((4, 5, 0), (5, 4, 0), (1, 0, 2)):
        if _tells(rows[:, score], rows[:, label]):
            return _best(rows[:, corner : corner + 4], rows[:, score], rows[:, label], size)
    raise CounterfactoryError("the model gives rows of 6 without a score from 0 to 1 and a class in whole numbers")


def _sevens(rows: Rows, size: Size) -> Rows:
    """The picture's number, corners, class and score, or, as OpenVINO has them, number, class, score and corners."""
    ends = np.flatnonzero(rows[:, 0] < 0)
    rows = rows[: ends[0]] if len(ends) else rows
    if _tells(rows[:, 6], rows[:, 5]) and not (_tells(rows[:, 2], rows[:, 1]) and rows[:, 3:].max(initial=0) < _SHARES):
        return _best(rows[:, 1:5], rows[:, 6], rows[:, 5], size)
    if _tells(rows[:, 2], rows[:, 1]):
        return _best(rows[:, 3:], rows[:, 2], rows[:, 1], size)
    raise CounterfactoryError("the model gives rows of 7 without a score from 0 to 1 and a class in whole numbers")


def _tells(scores: Rows, labels: Rows) -> bool:
    """Whether numbers can be scores and classes; those of rows that pad are -1."""
    real = scores > LEAST
    return bool((scores[real] <= 1 + LEAST).all() and (np.abs(labels[real] - np.rint(labels[real])) <= LEAST).all())


def _best(corners: Rows, scores: Rows, labels: NDArray[Any], size: Size, most: int | None = MOST) -> Rows:
    """The surest rows [M, 6], in their order, in pixels of an input of a size."""
    rows = np.concatenate([corners, scores[:, None], np.rint(labels[:, None])], axis=1)
    rows = rows[~(scores <= LEAST)]  # NaN stays, and is named
    rows = rows[np.argsort(-rows[:, 4], kind="stable")][:most]
    if np.abs(rows[:, :4]).max(initial=0) <= _SHARES:
        rows[:, :4] *= (size[1], size[0], size[1], size[0])
    return rows


def _drop_overlapping(rows: Rows) -> Rows:
    """Of rows in their order those that no surer one of their class overlaps, in intersection over union."""
    kept: list[Rows] = []
    while len(rows) and len(kept) < MOST:
        best, rows = rows[0], rows[1:]
        kept.append(best)
        sides = np.minimum(rows[:, 2:4], best[2:4]) - np.maximum(rows[:, :2], best[:2])
        common = np.maximum(sides, 0).prod(axis=1)
        areas = [(some[..., 2:4] - some[..., :2]).prod(axis=-1) for some in (rows, best)]
        with np.errstate(invalid="ignore", divide="ignore"):
            overlaps = common / (areas[0] + areas[1] - common) > OVERLAP
        rows = rows[~(overlaps & (rows[:, 5] == best[5]))]
    return np.stack(kept) if kept else np.zeros((0, 6))


def _corners(boxes: Rows) -> Rows:
    """Boxes of middle, width and height as corners."""
    return np.concatenate([boxes[:, :2] - boxes[:, 2:] / 2, boxes[:, :2] + boxes[:, 2:] / 2], axis=1)


def _table(array: NDArray[Any]) -> Rows:
    """An output of one picture as rows, whatever axes of 1 come before."""
    return np.asarray(array, np.float64).reshape(array.shape[-2:])


def _column(array: NDArray[Any]) -> Rows:
    return np.asarray(array, np.float64).reshape(-1, 1)


def _sigmoid(values: Rows) -> Rows:
    return np.asarray(1 / (1 + np.exp(-np.clip(values, -500, 500))))


def _softmax(values: Rows) -> Rows:
    shares = np.exp(values - values.max(axis=1, keepdims=True))
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))
