"""Reads the answers of a user's own model: a table of pictures and answers.

The table is CSV (with a header) or JSONL with the columns `image` and `prediction`. An image is named as in
metadata.parquet (`file_name`, for a variant) or by its source's name, with or without the file's suffix.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

from ..errors import CounterfactoryError
from ..files.tables import read_table
from ..suite import VariantRow

COLUMNS = ("image", "prediction")


def load_predictions(path: Path) -> dict[str, str]:
    """Answers by image, as the file names it. Raises CounterfactoryError for what cannot be read as such a table."""
    answers: dict[str, str] = {}
    for line, row in read_table(path, required=COLUMNS):
        where = f"{path}:{line}"
        if isinstance(row, str):
            raise CounterfactoryError(f"{where} {row}")
        if any(not isinstance(row.get(column), str) or not row[column] for column in COLUMNS):
            raise CounterfactoryError(f"{where}: every row needs an image and a prediction, as text; found {row}")
        if answers.setdefault(row["image"], row["prediction"]) != row["prediction"]:
            raise CounterfactoryError(f"{where}: a second, different prediction for {row['image']}")
    if not answers:
        raise CounterfactoryError(f"{path} holds no predictions; write the columns {' and '.join(COLUMNS)}")
    return answers


def match_predictions(
    answers: Mapping[str, str], rows: Sequence[VariantRow]
) -> tuple[list[str], dict[str, tuple[str, str]]]:
    """The answer for each of the suite's rows, and (label, answer) of each original that the table answers.

    Raises CounterfactoryError if a variant that counts has no answer; a rejected one need not have one.
    """
    given = [answers.get(row.file_name) for row in rows]
    unanswered = [row for row, answer in zip(rows, given, strict=True) if answer is None and row.accepted]
    if unanswered:
        raise CounterfactoryError(
            f"{len(unanswered)} of {len(rows)} variants have no prediction, the first is {unanswered[0].file_name}; "
            "name variants as in metadata.parquet's file_name"
        )
    labels = {row.source: row.label for row in rows if row.label is not None}
    originals = {}
    for image, answer in answers.items():
        name = image if image in labels else str(PurePosixPath(image).with_suffix(""))
        if name in labels:
            originals[name] = (labels[name], answer)
    return [answer or "" for answer in given], originals
