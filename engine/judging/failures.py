"""The pictures that a model fails on, for a person or a program to go through: the worst first.

Of labels these are the wrong answers, the surest first, whatever the picture's kind; of masks the variants that are
answered worse than their control, or without one their original, by how much. Cells that a spreadsheet would compute
have an apostrophe in front.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence

from ..files.escaping import for_spreadsheet
from ..suite import PictureRow
from .evaluation import Evaluation
from .predictions import Prediction

# Stands for the words that an addition replaces, and for those that replace a removal.
_NOTHING = "(nothing)"
_PLACE = ("file_name", "kind", "source", "label", "edits", "edited_caption")


def label_failures(rows: Sequence[PictureRow], answers: Sequence[Prediction | None]) -> str:
    """Wrong answers to accepted pictures as CSV: the answer, and those to the source's original and first control."""
    by_file = {row.file_name: answer for row, answer in zip(rows, answers, strict=True) if answer is not None}
    wrong = [
        row for row in rows if row.accepted and row.file_name in by_file and by_file[row.file_name].label != row.label
    ]
    wrong.sort(key=lambda row: -(by_file[row.file_name].confidence or 0))

    def label(name: str | None) -> str:
        return by_file[name].label if name is not None and name in by_file else ""

    def cells(row: PictureRow) -> tuple[str, ...]:
        confidence = by_file[row.file_name].confidence
        sure = "" if confidence is None else str(confidence)
        return label(row.file_name), sure, label(row.original), label(row.control)

    return list_pictures(wrong, ("prediction", "confidence", "original_prediction", "control_prediction"), cells)


def find_falls(rows: Sequence[PictureRow], evaluation: Evaluation) -> dict[str, float]:
    """By how much the outcomes of answered variants are below their control's, without one their original's, by
    `file_name`; below 0 where they are better.
    """
    outcomes = evaluation.outcomes
    falls: dict[str, float] = {}
    for row in rows:
        baseline, own = outcomes.get(row.control or "", outcomes.get(row.original)), outcomes.get(row.file_name)
        if row.kind == "variant" and baseline is not None and own is not None:
            falls[row.file_name] = baseline - own
    return falls


def mask_failures(rows: Sequence[PictureRow], evaluation: Evaluation) -> str:
    """Variants whose mIoU, or recall, is below their baseline's as CSV, with the source's original's and control's."""
    outcomes = evaluation.outcomes
    falls = {name: fall for name, fall in find_falls(rows, evaluation).items() if fall > 0}
    worse = sorted((row for row in rows if row.file_name in falls), key=lambda row: -falls[row.file_name])

    def cells(row: PictureRow) -> tuple[str, ...]:
        names = (row.file_name, row.original, row.control)
        return tuple("" if name is None or name not in outcomes else f"{outcomes[name]:.4f}" for name in names)

    measure = "recall" if evaluation.boxes else "miou"
    return list_pictures(worse, (measure, f"original_{measure}", f"control_{measure}"), cells)


def list_pictures(
    rows: Sequence[PictureRow], columns: Sequence[str], cells: Callable[[PictureRow], tuple[str, ...]]
) -> str:
    """The pictures as CSV, and what `cells` says of each in further columns."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow((*_PLACE, *columns))
    for row in rows:
        edits = "; ".join(
            f"{edit.type}: {edit.keyword or _NOTHING} -> {edit.alternative or _NOTHING}" for edit in row.edits
        )
        place = (row.file_name, row.kind, row.source, row.label or "", edits, row.edited_caption)
        writer.writerow(map(for_spreadsheet, (*place, *cells(row))))
    return text.getvalue()
