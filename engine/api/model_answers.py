"""Answers of models, and of arrays, in the forms that are judged: predictions of labels, and folders of masks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..asking.outputs import (
    UNSEEN,
    BoxAnswer,
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
# Stands for a class of the model that is none of the suite.
_NO_CLASS = 65_535


def label_predictions(
    answers: Mapping[str, ModelAnswer], vocabulary: Vocabulary, truths: Mapping[str, str | None]
) -> dict[str, Prediction]:
    """The answers as predictions in the labels' words: of scores the likeliest class with its probability, the five
    likeliest where there are more, and the probability of the true label, by `file_name`; classes of one label add up.
    What the scores are is told of all together.
    """
    labels = {name: answer for name, answer in answers.items() if isinstance(answer, LabelAnswer)}
    listed = {name: answer.label for name, answer in labels.items()}
    predictions = dict(labelled(listed).answers) if listed else {}
    predictions |= {name: _ranked(answer.ranked) for name, answer in labels.items() if answer.ranked}
    predictions = {name: vocabulary.settle(prediction) for name, prediction in predictions.items()}
    scored = {name: answer for name, answer in answers.items() if isinstance(answer, ScoreAnswer)}
    size = max((len(answer.scores) for answer in scored.values()), default=0)
    names = [vocabulary.settle_text(str(number)) for number in range(size)]
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


def array_answers(given: Any, rows: Sequence[PictureRow], warn: Warn) -> dict[str, ModelAnswer] | None:
    """The answers in an array of scores [N, C], or of labels [N], a row for each picture of the suite's table, or for
    each accepted one, in its order; None where `given` is no array and no .npy file.

    Raises CounterfactoryError for a file that holds none, for another number of rows, and where no row is of numbers.
    """
    if isinstance(given, Path):
        if given.suffix.lower() == ".npz":
            raise CounterfactoryError(f"{given} may hold several arrays: save the scores alone, by numpy.save")
        if given.suffix.lower() != ".npy":
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
    unusable = [row.file_name for row, one in zip(of, answers, strict=True) if isinstance(one, UnusableError)]
    if unusable:
        low = f"; {array.dtype} ends at {np.finfo(array.dtype).max:g}: save float32" if np.isinf(array).any() else ""
        told = f"the scores are NaN or infinite in {len(unusable)} of {len(of)} rows, the first is {unusable[0]}{low}"
        if len(unusable) == len(of):
            raise CounterfactoryError(f"{given if isinstance(given, Path) else GIVEN}: {told}")
        warn(f"{told}: these have no answer")
    return {
        row.file_name: answer for row, answer in zip(of, answers, strict=True) if not isinstance(answer, UnusableError)
    }


def seen_boxes(answers: Mapping[str, ModelAnswer]) -> dict[str, tuple[SeenBox, ...]]:
    """The boxes of answers, by `file_name`; their classes are called as the model calls them."""
    return {
        picture: tuple(SeenBox(b.x0, b.y0, b.x1, b.y1, b.score, str(b.label)) for b in answer.boxes)
        for picture, answer in answers.items()
        if isinstance(answer, BoxAnswer)
    }


def json_predictions(path: Path) -> Predictions | None:
    """The labels in a JSON file: by `file_name` a label, or what a pipeline of Hugging Face's for image classification
    gives; or a list of rows of a table. None where the file holds boxes.
    """
    table = read_json(path)
    if isinstance(table, list) and table and isinstance(table[0], Mapping) and "prediction" in table[0]:
        return read_predictions(((f"{path}, row {number}", row) for number, row in enumerate(table)), str(path))
    if not isinstance(table, Mapping) or not any(table.values()) or any(map(_has_boxes, table.values())):
        return None
    rows = ((f"{path}: {picture!r}", {"image": picture, "prediction": listed}) for picture, listed in table.items())
    return read_predictions(rows, str(path))


def _has_boxes(listed: Any) -> bool:
    first = listed[0] if isinstance(listed, list) and listed else listed
    return isinstance(first, Mapping) and not {"box", "bbox", "file_name"}.isdisjoint(first)


def renumbering(own: Mapping[int, str] | None, numbers: Mapping[int, str] | None) -> NDArray[np.uint16] | None:
    """The suite's number for each of a model's, where both name theirs."""
    if own is None or numbers is None:
        return None
    by_name = {fold_label(name): number for number, name in numbers.items()}
    place = np.full(_NO_CLASS + 1, _NO_CLASS, np.uint16)
    place[UNSEEN] = UNSEEN
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
