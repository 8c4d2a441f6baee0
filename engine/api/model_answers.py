"""Answers of models, and of arrays, in the forms that are judged: predictions of labels, and folders of masks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..asking.outputs import (
    BoxAnswer,
    Detection,
    LabelAnswer,
    MapAnswer,
    ModelAnswer,
    ScoreAnswer,
    UnusableError,
)
from ..asking.placement import Placement
from ..asking.reading_outputs import read_outputs
from ..asking.score_scale import tell_scale
from ..errors import CounterfactoryError
from ..files.arrays import read_array
from ..files.reading import read_json
from ..judging.answer_labels import Vocabulary
from ..judging.detections import SeenBox
from ..judging.predictions import Prediction, Predictions, read_predictions
from ..sources.labels import fold_label, label_text
from ..suite import PictureRow
from .options import Warn

_LIKELIEST = 5
GIVEN = "predictions"
_SHOWN = 80  # letters of a wrong result in an error
# Stands for a class of the model that is none of the suite.
_NO_CLASS = 65_535


def label_predictions(
    answers: Mapping[str, ModelAnswer], vocabulary: Vocabulary, truths: Mapping[str, str | None]
) -> dict[str, Prediction]:
    """The answers as predictions: of scores the likeliest class with its probability, the five likeliest where there
    are more, and the probability of the true label, by `file_name`; classes of one label add up. What the scores are
    is told of all together.
    """
    labels = {name: answer for name, answer in answers.items() if isinstance(answer, LabelAnswer)}
    listed = {name: answer.label for name, answer in labels.items()}
    predictions = dict(labelled(listed).answers) if listed else {}
    predictions |= {name: _ranked(answer.ranked) for name, answer in labels.items() if answer.ranked}
    scored = {name: answer for name, answer in answers.items() if isinstance(answer, ScoreAnswer)}
    size = max((len(answer.scores) for answer in scored.values()), default=0)
    names = [vocabulary.settle(Prediction(str(number))).label for number in range(size)]
    columns: dict[str, list[int]] = {}
    for number, name in enumerate(names):
        columns.setdefault(name, []).append(number)
    scale = tell_scale(scored.values())
    for picture, answer in scored.items():
        shares = scale.probabilities(answer.scores)
        order = np.argsort(-answer.scores, kind="stable")[:_LIKELIEST].tolist()
        true = columns.get(truths.get(picture) or "")
        predictions[picture] = Prediction(
            names[order[0]],
            float(shares[order[0]]),
            tuple(names[number] for number in order) if size > _LIKELIEST else None,
            None if true is None else min(1.0, float(shares[true].sum())),
        )
    return predictions


def _ranked(ranked: Sequence[tuple[str, float]]) -> Prediction:
    """A label with its probability; with the likeliest five where there are so many."""
    names = tuple(label_text(label) or label for label, _ in ranked)
    return Prediction(names[0], ranked[0][1], names if len(names) == _LIKELIEST else None)


def labelled(labels: Mapping[str, Any]) -> Predictions:
    """Labels by picture as predictions."""
    rows = ((f"{GIVEN}[{name!r}]", {"image": name, "prediction": plain_cell(one)}) for name, one in labels.items())
    return read_predictions(rows, GIVEN)


def plain_cell(value: Any) -> Any:
    """A cell of a table in Python's own types, as a file would have it; None for NaN."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, Real) and not isinstance(value, bool):
        value = int(value) if isinstance(value, Integral) else float(value)
        return None if value != value else value
    # The kinds of nothing that pandas has, which cannot be compared.
    return None if type(value).__name__ in ("NAType", "NaTType") else value


def array_answers(given: Any, rows: Sequence[PictureRow]) -> dict[str, ModelAnswer] | None:
    """The answers in an array of scores [N, C], or of labels [N], a row for each picture of the suite's table, or for
    each accepted one, in its order; None where `given` is no array and no .npy file.

    Raises CounterfactoryError for a file that holds none, and for another number of rows.
    """
    if isinstance(given, Path):
        if given.suffix != ".npy":
            return None
        array = read_array(given, "save it by numpy.save")
    elif isinstance(given, np.ndarray):
        array = given
    else:
        return None
    accepted = [row for row in rows if row.accepted]
    of = next((some for some in (rows, accepted) if len(some) == len(array)), None) if array.ndim in (1, 2) else None
    if of is None:
        raise CounterfactoryError(
            f"the predictions are an array {list(array.shape)}: give a row of scores, or a label, for each of the "
            f"{len(rows)} pictures of metadata.parquet, or the {len(accepted)} accepted ones, in its order"
        )
    answers = read_outputs(array, [Placement.whole((1, 1))] * len(of))
    return {
        row.file_name: answer for row, answer in zip(of, answers, strict=True) if not isinstance(answer, UnusableError)
    }


def seen_boxes(answers: Mapping[str, ModelAnswer], vocabulary: Vocabulary) -> dict[str, tuple[SeenBox, ...]]:
    """The boxes of answers, their classes in the labels' words, by `file_name`."""
    names: dict[str | int, str] = {}

    def named(label: str | int) -> str:
        if label not in names:
            names[label] = vocabulary.settle(Prediction(label_text(label) or str(label))).label
        return names[label]

    return {
        picture: tuple(SeenBox(b.x0, b.y0, b.x1, b.y1, b.score, named(b.label)) for b in answer.boxes)
        for picture, answer in answers.items()
        if isinstance(answer, BoxAnswer)
    }


def json_predictions(path: Path) -> Predictions | None:
    """The labels of a pipeline of Hugging Face's for image classification: for each picture, by `file_name`, its list
    of dicts of `label` and `score`, the likeliest five of which are read. None where the file holds anything else.
    """
    table = read_json(path)
    if not isinstance(table, Mapping) or not table or any(map(_has_boxes, table.values())):
        return None
    rows = []
    for picture, listed in table.items():
        where = f"{path}: {picture!r}"
        try:
            best = sorted(listed, key=lambda one: -float(one["score"]))[:_LIKELIEST]
            sure = {"prediction": best[0]["label"], "confidence": best[0]["score"]}
            more = {"top5": [one["label"] for one in best]} if len(listed) >= _LIKELIEST else {}
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise CounterfactoryError(
                f"{where} needs a list of dicts of label and score, found {str(listed)[:_SHOWN]}"
            ) from error
        rows.append((where, {"image": picture, **sure, **more}))
    return read_predictions(rows, str(path))


def _has_boxes(listed: Any) -> bool:
    return isinstance(listed, list) and (not listed or (isinstance(listed[0], Mapping) and "box" in listed[0]))


def json_boxes(path: Path, rows: Sequence[PictureRow], warn: Warn) -> dict[str, ModelAnswer]:
    """The boxes of COCO's results: a list of dicts of `image_id` (a `file_name`, or the number of the table's row from
    0), `category_id` (a number or a name), `bbox` (x, y, width, height) and `score`; or of a pipeline of Hugging Face's
    for object detection: for each picture, by `file_name`, its list of dicts of `label`, `score` and `box`. Pictures
    without one have none.

    Raises CounterfactoryError for a file that is neither.
    """
    listed = read_json(path)
    if isinstance(listed, Mapping):
        some = {picture: some if isinstance(some, list) else [some] for picture, some in listed.items()}
        listed = [_as_result(picture, one) for picture, boxes in some.items() for one in boxes]
    if not isinstance(listed, list) or not listed:
        raise CounterfactoryError(
            f"{path} is no list of COCO's results: dicts of image_id, category_id, bbox and score"
        )
    of_row = {row.file_name: row.file_name for row in rows} | {str(i): row.file_name for i, row in enumerate(rows)}
    boxes: dict[str, list[Detection]] = {row.file_name: [] for row in rows}
    strangers: list[str] = []
    for number, one in enumerate(listed):
        try:
            x, y, width, height = map(float, one["bbox"])
            sure, label = float(one["score"]), one["category_id"]
            image = str(one.get("file_name", one.get("image_id")))
            if not (math.isfinite(x + y + width + height) and 0 <= sure <= 1) or isinstance(label, bool):
                raise ValueError
            box = Detection(x, y, x + width, y + height, sure, label if isinstance(label, str) else int(label))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise CounterfactoryError(
                f"{path}, result {number}: image_id, category_id, bbox (x, y, width, height) and score (0 to 1) are "
                f"needed, found {str(one)[:_SHOWN]}"
            ) from error
        if image in of_row:
            boxes[of_row[image]].append(box)
        else:
            strangers.append(image)
    if len(strangers) == len(listed):
        raise CounterfactoryError(
            f"{path} names no picture of the suite, the first is {strangers[0]!r}: image_id is a file_name of "
            "metadata.parquet, or the number of its row"
        )
    if strangers:
        warn(f"{path}: {len(strangers)} boxes are of no picture of the suite, such as {strangers[0]!r}: not counted")
    return {name: BoxAnswer(tuple(some)) for name, some in boxes.items()}


def _as_result(picture: str, one: Any) -> Any:
    """A box of a pipeline's as COCO writes it; anything else as it is."""
    try:
        x0, y0, x1, y1 = (float(one["box"][side]) for side in ("xmin", "ymin", "xmax", "ymax"))
        sides = [x0, y0, x1 - x0, y1 - y0]
        return {"image_id": picture, "category_id": one["label"], "bbox": sides, "score": one["score"]}
    except (KeyError, TypeError, ValueError):
        return one


def renumbering(own: Mapping[int, str] | None, numbers: Mapping[int, str] | None) -> NDArray[np.uint16] | None:
    """The suite's number for each of a model's, where both name theirs."""
    if own is None or numbers is None:
        return None
    by_name = {fold_label(name): number for number, name in numbers.items()}
    place = np.full(_NO_CLASS + 1, _NO_CLASS, np.uint16)
    for number, name in own.items():
        place[number] = by_name.get(fold_label(name), _NO_CLASS)
    return place


def write_maps(
    folder: Path, answers: Mapping[str, ModelAnswer], own: Mapping[int, str] | None, numbers: Mapping[int, str] | None
) -> None:
    """Write class maps as the masks of a folder, by `file_name`; where both a model and the suite name their numbers,
    in the suite's.
    """
    place = renumbering(own, numbers)
    for name, answer in answers.items():
        if isinstance(answer, MapAnswer):
            file = folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(answer.png if place is None else MapAnswer.of(place[answer.numbers]).png)
