"""A model's answers as a caller names them, read and judged: a table, a folder of masks, labels by picture, a data
frame, or the model itself.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral, Real
from os import PathLike
from pathlib import Path
from typing import Any

from ..errors import CounterfactoryError
from ..files.reading import read_text
from ..judging.answer_labels import IMAGE_FOLDER, read_vocabulary
from ..judging.evaluate import evaluate_labels, evaluate_masks
from ..judging.evaluation import Evaluation
from ..judging.failures import label_failures, mask_failures
from ..judging.mask_answers import AnswerTally, compare_masks
from ..judging.predictions import (
    COLUMNS,
    Prediction,
    Predictions,
    load_predictions,
    match_predictions,
    read_predictions,
)
from ..report.album import add_scores
from ..suite import PictureRow
from ..suite.recorded import recorded_classes, recorded_numbers
from .asking import Model, ask_model
from .options import AnyPath, Warn

# Names that a warning shows.
_SHOWN = 5
_GIVEN = "predictions"


@dataclass(frozen=True)
class Judged:
    """What the answers come to; `answers[i]` is the one to row i of a table's rows, None without one. A folder of masks
    has none.
    """

    rows: Sequence[PictureRow]
    evaluation: Evaluation
    answers: tuple[Prediction | None, ...] | None

    def scored_rows(self) -> list[PictureRow]:
        """The rows, with what the answers say of single pictures among their scores: confidence, or picture mIoU."""
        if self.answers is None:
            return add_scores(self.rows, self.evaluation.effects.measure, self.evaluation.outcomes)
        given = zip(self.rows, self.answers, strict=True)
        sure = {row.file_name: answer.confidence for row, answer in given if answer is not None}
        known = {name: confidence for name, confidence in sure.items() if confidence is not None}
        return add_scores(self.rows, "confidence", known)

    def failures(self) -> str:
        """The pictures that the model fails on, as CSV."""
        if self.answers is None:
            return mask_failures(self.rows, self.evaluation)
        return label_failures(self.rows, self.answers)


def judge(predictions: Any, classes: Path | None, suite: Path, rows: Sequence[PictureRow], warn: Warn) -> Judged:
    """Judge the answers in `predictions`: a path to a table or to a folder of masks, of which `classes` names the
    numbers (without it the suite's record does; for tables see `read_vocabulary`); a mapping of pictures' `file_name`
    to labels; a data frame with the columns of such a table, or `file_name` in the place of `image`; or a model (see
    `ask_model`).

    Warns of what is left out. Raises CounterfactoryError for answers that cannot be read or do not fit the suite.
    """
    path = Path(predictions) if isinstance(predictions, (str, PathLike)) else None
    if path is not None and path.is_dir():
        tally, lines = AnswerTally(path, suite), class_names(classes, suite)
        names = recorded_numbers(suite) if classes is None else dict(enumerate(lines or ()))
        evaluation = evaluate_masks(rows, *compare_masks(path, suite, rows, names, tally))
        tally.settle(warn)
        return Judged(rows, evaluation, None)
    table = load_predictions(path) if path is not None else _given(predictions, suite, rows)
    if path is not None and table.ignored:
        warn(f"{path}: columns that are not read: {_some(table.ignored)}")
    matched = match_predictions(table.answers, rows)
    if matched.unmatched:
        warn(strangers_line(matched.unmatched))
    rows = [_composed(row) for row in rows]
    vocabulary = read_vocabulary(suite, rows, classes)
    if str(classes) == IMAGE_FOLDER:
        warn(f"answers' numbers from 0 are ImageFolder's: {_some(vocabulary.folders)}")
    if lacking := vocabulary.missing():
        warn(f"{classes} lacks labels of the suite, which no answer can name: {_some(lacking)}")
    matched = replace(matched, answers=tuple(answer and vocabulary.settle(answer) for answer in matched.answers))
    counted = zip(rows, matched.labels, strict=True)
    strange = vocabulary.require_known([label for row, label in counted if row.accepted and label is not None])
    evaluation = evaluate_labels(rows, matched.labels, matched.measures(rows))
    return Judged(rows, replace(evaluation, strange=strange), matched.answers)


def _composed(row: PictureRow) -> PictureRow:
    """The row with its label in the form that answers are read in."""
    label = row.label if row.label is None else unicodedata.normalize("NFC", row.label)
    return row if label == row.label else replace(row, label=label)


def _given(predictions: Any, suite: Path, rows: Sequence[PictureRow]) -> Predictions:
    """Answers that are no file."""
    if isinstance(predictions, Mapping):
        return _labelled(predictions.items())
    if hasattr(predictions, "columns") and hasattr(predictions, "to_dict"):
        return _framed(predictions)
    if callable(predictions):
        model: Model = predictions
        return _labelled(ask_model(model, suite, rows))
    raise CounterfactoryError(
        "predictions are a path, a mapping of file_name to label, a data frame with the columns "
        f"{' and '.join(COLUMNS)}, or a model that takes pictures and returns labels; got a "
        f"{type(predictions).__name__}"
    )


def _labelled(pairs: Iterable[tuple[Any, Any]]) -> Predictions:
    cells = ({"image": name, "prediction": _plain(label)} for name, label in pairs)
    return read_predictions(((f"{_GIVEN}[{row['image']!r}]", row) for row in cells), _GIVEN)


def _framed(frame: Any) -> Predictions:
    """The answers in a data frame; cells without a value are left out."""
    if "image" not in frame.columns and "file_name" in frame.columns:
        frame = frame.rename(columns={"file_name": "image"})
    missing = [name for name in COLUMNS if name not in frame.columns]
    if missing:
        raise CounterfactoryError(f"the data frame of predictions lacks the column {missing[0]!r}")
    rows = (
        (f"{_GIVEN}, row {number}", {name: _plain(value) for name, value in row.items()})
        for number, row in enumerate(frame.to_dict("records"))
    )
    return read_predictions(rows, _GIVEN)


def _plain(value: Any) -> Any:
    """A cell of a table in Python's own types, as a file would have it; None for NaN."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, Real) and not isinstance(value, bool):
        value = int(value) if isinstance(value, Integral) else float(value)
        return None if value != value else value
    # The kinds of nothing that pandas has, which cannot be compared.
    return None if type(value).__name__ in ("NAType", "NaTType") else value


def class_names(classes: AnyPath | None, suite: Path) -> list[str] | None:
    """The names of masks' numbers 0, 1, ...: the lines of the file `classes`, without one those in the suite's record;
    None where neither has any.
    """
    if classes is None:
        return recorded_classes(suite)
    return [line for line in read_text(Path(classes)).split("\n") if line.strip()]


def strangers_line(images: Sequence[str]) -> str:
    """Answers that belong to no picture of the suite."""
    more = f", {len(images) - 1} more like it" if len(images) > 1 else ""
    its = "their predictions are" if len(images) > 1 else "its prediction is"
    return f"no picture of the suite is called {images[0]}{more}: {its} not counted"


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (" and so on" if len(names) > _SHOWN else "")
