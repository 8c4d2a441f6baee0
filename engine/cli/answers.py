"""A model's answers as a command line names them, read and judged: a table of labels, or a folder of masks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import CounterfactoryError
from ..files.reading import read_text
from ..judging.evaluate import evaluate_labels, evaluate_masks
from ..judging.evaluation import Evaluation
from ..judging.failures import label_failures, mask_failures
from ..judging.mask_answers import compare_masks
from ..judging.predictions import Prediction, load_predictions, match_predictions
from ..report.album import add_scores
from ..suite import PictureRow
from ..suite.recorded import recorded_classes
from .terminal import Terminal

# Names that a warning shows.
_SHOWN = 5


@dataclass(frozen=True)
class Judged:
    """What the answers come to; `answers[i]` is the one to row i of a table's rows, None without one. A folder of masks
    has none.
    """

    rows: Sequence[PictureRow]
    evaluation: Evaluation
    answers: tuple[Prediction | None, ...] | None

    def scored_rows(self) -> list[PictureRow]:
        """The rows, with what the answers say of single pictures among their scores: confidence, or a mask's mIoU."""
        if self.answers is None:
            return add_scores(self.rows, self.evaluation.measure_name, self.evaluation.outcomes)
        given = zip(self.rows, self.answers, strict=True)
        sure = {row.file_name: answer.confidence for row, answer in given if answer is not None}
        known = {name: confidence for name, confidence in sure.items() if confidence is not None}
        return add_scores(self.rows, "confidence", known)

    def failures(self) -> str:
        """The pictures that the model fails on, as CSV."""
        if self.answers is None:
            return mask_failures(self.rows, self.evaluation)
        return label_failures(self.rows, self.answers)


def judge(
    predictions: Path, classes: Path | None, suite: Path, rows: Sequence[PictureRow], terminal: Terminal
) -> Judged:
    """Judge the answers in `predictions`, a table or a folder, of which `classes` names the numbers in masks; without
    it the suite's record does.

    Warns of what is left out. Raises CounterfactoryError for answers that cannot be read or do not fit the suite.
    """
    if predictions.is_dir():
        names = class_names(classes, suite)
        return Judged(rows, evaluate_masks(rows, *compare_masks(predictions, suite, rows, names)), None)
    if classes is not None:
        raise CounterfactoryError("--classes names the numbers in masks: give a folder of masks as --predictions")
    table = load_predictions(predictions)
    if table.ignored:
        terminal.warn(f"{predictions}: columns that are not read: {_some(table.ignored)}")
    matched = match_predictions(table.answers, rows)
    if matched.unmatched:
        terminal.warn(strangers_line(matched.unmatched))
    return Judged(rows, evaluate_labels(rows, matched.labels, matched.measures(rows)), matched.answers)


def class_names(classes: Path | None, suite: Path) -> list[str] | None:
    """The names of masks' numbers 0, 1, ...: the lines of the file `classes`, without one those in the suite's record;
    None where neither has any.
    """
    if classes is None:
        return recorded_classes(suite)
    return [line for line in read_text(classes).split("\n") if line.strip()]


def strangers_line(images: Sequence[str]) -> str:
    """Answers that belong to no picture of the suite."""
    more = f", {len(images) - 1} more like it" if len(images) > 1 else ""
    its = "their predictions are" if len(images) > 1 else "its prediction is"
    return f"no picture of the suite is called {images[0]}{more}: {its} not counted"


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (" and so on" if len(names) > _SHOWN else "")
