"""Reads the answers of a user's own model: a table of pictures and answers.

The table is CSV (with a header) or JSONL with the columns `image` and `prediction`. A picture is named as in
metadata.parquet (`file_name`), an original also by its source's name, with or without the file's suffix.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from ..errors import CounterfactoryError
from ..files.tables import read_table
from ..suite import PictureRow
from ..variant import KINDS

COLUMNS = ("image", "prediction")


def load_predictions(path: Path) -> dict[str, str]:
    """Answers by image, as the file names it. Raises CounterfactoryError for what cannot be read as such a table."""
    answers: dict[str, str] = {}
    for line, row in read_table(path, required=COLUMNS):
        where = f"{path}:{line}"
        if isinstance(row, str):
            raise CounterfactoryError(f"{where} {row}")
        image, prediction = row.get("image"), row.get("prediction")
        if type(prediction) is int:  # class numbers are labels too
            prediction = str(prediction)
        if not isinstance(image, str) or not isinstance(prediction, str) or not image or not prediction:
            raise CounterfactoryError(
                f"{where}: every row needs an image, as text, and a prediction, as text or a whole number; found {row}"
            )
        if answers.setdefault(image, prediction) != prediction:
            raise CounterfactoryError(f"{where}: a second, different prediction for {image}")
    if not answers:
        raise CounterfactoryError(f"{path} holds no predictions; write the columns {' and '.join(COLUMNS)}")
    return answers


@dataclass(frozen=True)
class Matched:
    """`answers[i]` is the prediction for the suite's row i, None without one; `strangers` are images of the table that
    are no picture of the suite.
    """

    answers: tuple[str | None, ...]
    strangers: tuple[str, ...]


def match_predictions(answers: Mapping[str, str], rows: Sequence[PictureRow]) -> Matched:
    """The predictions of the suite's pictures.

    Rejected pictures need none. Raises CounterfactoryError if an accepted variant has none, or if some accepted
    controls or originals have one and others do not.
    """
    bare = {str(PurePosixPath(image).with_suffix("")): image for image in answers}
    names = [_names(row, bare) for row in rows]
    given = tuple(next((answers[name] for name in some if name in answers), None) for some in names)
    for kind in KINDS:
        counted = [(row, answer) for row, answer in zip(rows, given, strict=True) if row.kind == kind and row.accepted]
        unanswered = [row for row, answer in counted if answer is None]
        if unanswered and (kind == "variant" or len(unanswered) < len(counted)):
            raise CounterfactoryError(
                f"{len(unanswered)} of {len(counted)} {kind}s have no prediction, the first is "
                f"{unanswered[0].file_name}; name pictures as in metadata.parquet's file_name"
            )
    known = {name for some in names for name in some}
    return Matched(given, tuple(image for image in answers if image not in known))


def _names(row: PictureRow, bare: Mapping[str, str]) -> tuple[str, ...]:
    """What a table may call a row's picture; `bare` maps its images without their suffix to themselves."""
    if row.kind != "original":
        return (row.file_name,)
    return row.file_name, row.source, *(bare[name] for name in (row.source,) if name in bare)
