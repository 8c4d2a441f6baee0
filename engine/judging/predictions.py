"""Reads the answers of a user's own model: a table of pictures and answers.

The table is CSV (with a header), JSONL or Parquet. `image` (or `file_name`) names a picture as metadata.parquet does,
an original also by its source's name or file; folders may stand before either. `prediction` is the model's label. Where
there are any, `confidence` (or `probability`) is what the model gives that label, 0..1, `p_true` what it gives the true
one, and the likeliest labels are `prediction_2` to `prediction_5`, or `top5`: a list, in CSV with | between the labels.
A prediction may be what a pipeline of Hugging Face's gives for a picture: a list of dicts of `label` and `score`. An
empty one is no answer. A column `sha256` names the bytes of the picture that was asked about.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from ..errors import CounterfactoryError
from ..files.tables import open_parquet, read_table
from ..sources.labels import label_text
from ..suite import PictureRow
from ..variant import KINDS
from .evaluation import Unanswered

COLUMNS = ("image", "prediction")
_CONFIDENCE = ("confidence", "probability")
_NEXT = tuple(f"prediction_{rank}" for rank in range(2, 6))
_TRUE = ("p_true",)
# What metadata.parquet calls the image.
_FILE_NAME = "file_name"
_DIGEST = "sha256"
_READ = (*COLUMNS, _FILE_NAME, _DIGEST, *_CONFIDENCE, *_TRUE, "top5", *_NEXT)
# What the model gives the true label: LANCE's p(y_GT), whose change is its delta p (arXiv 2305.19164, section 4).
P_TRUE = "p(true)"
# What a suite calls its pictures' files.
_KEYED = re.compile("[0-9a-f]{16}")
_MOST = 5
_LONGEST = 160


@dataclass(frozen=True, slots=True)
class Prediction:
    """The model's answer `label`, its `confidence` in that label, 0..1, its likeliest labels, five at most and the
    answer among them, and what it gives the true label, 0..1; None where the table has none.
    """

    label: str
    confidence: float | None = None
    likeliest: tuple[str, ...] | None = None
    true: float | None = None


@dataclass(frozen=True)
class Predictions:
    """`answers` by image, as the file names it; `ignored` are the file's columns that are not read, `digests` the
    SHA-256 of images, where it names them.
    """

    answers: dict[str, Prediction]
    ignored: tuple[str, ...]
    digests: Mapping[str, str] = field(default_factory=dict)


def load_predictions(path: Path) -> Predictions:
    """The answers in a table. Raises CounterfactoryError for what cannot be read as such a table."""
    if path.suffix.lower() == ".parquet":
        lines: Iterable[tuple[int, Mapping[str, Any] | str]] = enumerate(_parquet_rows(path), start=1)
    else:
        lines = read_table(path, required=((COLUMNS[0], _FILE_NAME), COLUMNS[1]))
    return read_predictions(((f"{path}:{line}", row) for line, row in lines), str(path))


def _parquet_rows(path: Path) -> list[Mapping[str, Any]]:
    import pyarrow as pa

    try:
        with open_parquet(path) as file:
            table = file.read(use_threads=False)
        names = table.column_names
        table.validate(full=True)  # texts are UTF-8
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise CounterfactoryError(f"{path} cannot be read: {str(error).splitlines()[0]}") from error
    if "prediction" not in names or not {COLUMNS[0], _FILE_NAME} & set(names):
        raise CounterfactoryError(f"{path} needs the columns {' and '.join(COLUMNS)} (found: {', '.join(names)})")
    columns: list[str] = [name for name in names if name in _READ]
    rows: list[Mapping[str, Any]] = table.select(columns).to_pylist()
    return rows


def read_predictions(rows: Iterable[tuple[str, Mapping[str, Any] | str]], name: str) -> Predictions:
    """The answers in rows of a table called `name`: each where it stands with its cells by column, or with what is
    wrong with it. Raises as `load_predictions`.
    """
    answers: dict[str, Prediction] = {}
    labels: dict[str, str] = {}  # each is held once
    digests: dict[str, str] = {}
    ignored: dict[str, None] = {}
    first: Prediction | None = None
    for where, row in rows:
        if isinstance(row, str):
            raise CounterfactoryError(f"{where} {row}")
        ignored |= dict.fromkeys(column for column in row if column not in _READ)
        row = _as_cells(row, where)
        image, label = row.get("image", row.get(_FILE_NAME)), _label(row.get("prediction"))
        empty = label_text(row.get("prediction")) is None
        if not isinstance(image, str) or not image or (label is None and not empty):
            raise CounterfactoryError(
                f"{where}: every row needs an image, as text, and a prediction, as text or a whole number; "
                f"found {_shorten(str(row))}"
            )
        if row.get(_DIGEST):
            digests[image] = str(row[_DIGEST])
        if label is None:
            continue
        sure, true = (_probability(row, names, where) for names in (_CONFIDENCE, _TRUE))
        prediction = Prediction(labels.setdefault(label, label), sure, _likeliest(label, row, where), true)
        first = first or prediction
        _require_alike(first, prediction, where)
        if answers.setdefault(image, prediction) != prediction:
            raise CounterfactoryError(f"{where}: a second, different prediction for {image}")
    if not answers:
        raise CounterfactoryError(f"{name} holds no predictions; write the columns {' and '.join(COLUMNS)}")
    return Predictions(answers, tuple(ignored), digests)


def _as_cells(row: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    """A row with the likeliest labels of what a pipeline gives in the place of that."""
    listed = row.get("prediction")
    if not isinstance(listed, (list, tuple, Mapping)):
        return row
    try:
        listed = [listed] if isinstance(listed, Mapping) else listed
        best = sorted(listed, key=lambda one: -float(one["score"]))[:_MOST]
        labels, scores = [one["label"] for one in best], [one["score"] for one in best]
    except (KeyError, TypeError, ValueError) as error:
        raise CounterfactoryError(
            f"{where} needs a list of dicts of label and score, found {_shorten(str(listed))}"
        ) from error
    top = {"top5": labels} if len(listed) >= _MOST else {}
    return {**row, "prediction": labels[0], "confidence": scores[0], **top} if best else {**row, "prediction": None}


def _label(value: object) -> str | None:
    """A label as text: class numbers are labels too. None for anything else, and for what stands for no answer."""
    whole = isinstance(value, float) and value.is_integer()
    return label_text(value) if type(value) is int or whole or isinstance(value, str) else None


def _probability(row: Mapping[str, Any], names: Sequence[str], where: str) -> float | None:
    """What stands in one of the columns `names`, 0..1."""
    columns = [column for column in names if row.get(column) not in (None, "")]
    if not columns:
        return None
    if len(columns) > 1:
        raise CounterfactoryError(f"{where} has {' and '.join(columns)}: give one, what the model gives its prediction")
    value = row[columns[0]]
    try:
        number = float(value) if isinstance(value, (str, int, float)) and not isinstance(value, bool) else math.nan
    except (ValueError, OverflowError):
        number = math.nan
    if not 0 <= number <= 1:
        what = "the true label" if names is _TRUE else "its prediction"
        raise CounterfactoryError(
            f"{where}: {columns[0]} is what the model gives {what}, from 0 to 1; found {_shorten(repr(value))}"
        )
    return number


def _likeliest(label: str, row: Mapping[str, Any], where: str) -> tuple[str, ...] | None:
    """The labels of `top5` or of prediction_2 to prediction_5, behind the answer itself; None without any."""
    listed, ranked = row.get("top5"), [row[column] for column in _NEXT if row.get(column) not in (None, "")]
    if listed in (None, "", []):
        values = [label, *ranked] if ranked else None
    elif ranked:
        raise CounterfactoryError(f"{where} has top5 and {_NEXT[0]}: give one")
    else:
        values = [part.strip() for part in listed.split("|")] if isinstance(listed, str) else listed
    if values is None:
        return None
    labels = [_label(value) for value in values] if isinstance(values, list) else [None]
    likeliest = tuple(name for name in labels if name is not None)
    if len(likeliest) < len(labels) or len(likeliest) > _MOST or label not in likeliest:
        raise CounterfactoryError(
            f"{where}: a prediction and the likeliest labels are up to {_MOST} labels, the prediction {label!r} among "
            f"them (in CSV with | between them); found {_shorten(repr(listed if not ranked else values))}"
        )
    return likeliest


def _require_alike(first: Prediction, other: Prediction, where: str) -> None:
    """A column besides the answer is filled in all rows or in none: a mean over some is a mean of other pictures."""
    for name, mine, its in (
        ("confidence", first.confidence, other.confidence),
        ("likeliest labels", first.likeliest, other.likeliest),
        ("p_true", first.true, other.true),
    ):
        if (mine is None) != (its is None):
            has, lacks = ("lacks", "have") if its is None else ("has", "lack")
            raise CounterfactoryError(f"{where} {has} {name}, which rows above {lacks}: give all rows, or none")


def _shorten(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


@dataclass(frozen=True)
class RowPredictions:
    """`answers[i]` is the prediction for the suite's row i, None without one; `unmatched` are images of the table that
    are no picture of the suite.
    """

    answers: tuple[Prediction | None, ...]
    unmatched: tuple[str, ...]

    @property
    def labels(self) -> tuple[str | None, ...]:
        """The answers' labels."""
        return tuple(None if answer is None else answer.label for answer in self.answers)

    def measures(self, rows: Sequence[PictureRow]) -> dict[str, list[float | None]]:
        """Further measures of the answers to `rows`, the rows that were matched, each 0..1: whether the label is among
        the likeliest, and what the model gives the true label, or without that the confidence in the prediction, right
        or wrong; empty where the table has none.
        """
        present = [answer for answer in self.answers if answer is not None]
        measures: dict[str, list[float | None]] = {}
        if present and present[0].likeliest is not None:
            most = max(len(answer.likeliest or ()) for answer in present)
            measures[f"top-{most} accuracy"] = [
                None if answer is None else float(row.label in (answer.likeliest or ()))
                for row, answer in zip(rows, self.answers, strict=True)
            ]
        if any(answer.true is not None for answer in present):
            measures[P_TRUE] = [None if answer is None else answer.true for answer in self.answers]
        elif present and present[0].confidence is not None:
            measures["confidence"] = [None if answer is None else answer.confidence for answer in self.answers]
        return measures


def match_predictions(
    answers: Mapping[str, Prediction], rows: Sequence[PictureRow], digests: Mapping[str, str] | None = None
) -> RowPredictions:
    """The predictions of the suite's pictures.

    Rejected pictures need none. Raises CounterfactoryError if no accepted variant has one, if a picture has two that
    differ, and if one of the `digests` of images is not the picture's.
    """
    numbers = find_rows(answers, rows)
    named = {image: digest.strip().lower() for image, digest in (digests or {}).items() if image in numbers}
    if others := [image for image, digest in named.items() if digest != rows[numbers[image]].sha256]:
        raise CounterfactoryError(
            f"{len(others)} of {len(named)} predictions are of other pictures than the suite's, by their sha256: the "
            f"first is {_shorten(others[0])}; ask the model about this suite's pictures"
        )
    image_of: dict[int, str] = {}
    for image, number in numbers.items():
        earlier = image_of.setdefault(number, image)
        if answers[earlier] != answers[image]:
            raise CounterfactoryError(
                f"{rows[number].file_name} has two different predictions, as {earlier} and as {image}: leave one out"
            )
    by_row = tuple(answers[image_of[i]] if i in image_of else None for i in range(len(rows)))
    unmatched = tuple(image for image in answers if image not in numbers)
    unknown = f", where the table has {_shorten(unmatched[0])}" if unmatched else ""
    answered = [answer is not None for answer in by_row]
    require_answers(rows, answered, "prediction", f"{unknown}; name pictures as in metadata.parquet's file_name")
    return RowPredictions(by_row, unmatched)


def require_answers(rows: Sequence[PictureRow], answered: Sequence[bool], what: str, advice: str) -> None:
    """Raises CounterfactoryError, with the `advice`, where no accepted variant has an answer, called `what`."""
    pairs = zip(rows, answered, strict=True)
    variants = [(row, known) for row, known in pairs if row.kind == "variant" and row.accepted]
    if variants and not any(known for _, known in variants):
        first = variants[0][0].file_name
        raise CounterfactoryError(
            f"{len(variants)} of {len(variants)} variants have no {what}, the first is {first}{advice}"
        )


def find_unanswered(rows: Sequence[PictureRow], answered: Sequence[bool]) -> tuple[Unanswered, ...]:
    """The accepted pictures without an answer, of those kinds of which some have one; variants first."""
    lacking = []
    for kind in reversed(KINDS):
        pairs = zip(rows, answered, strict=True)
        counted = [(row, known) for row, known in pairs if row.kind == kind and row.accepted]
        missing = [row.file_name for row, known in counted if not known]
        if 0 < len(missing) < len(counted):
            lacking.append(Unanswered(kind, len(missing), len(counted), missing[0]))
    return tuple(lacking)


def find_rows(images: Iterable[str], rows: Sequence[PictureRow]) -> dict[str, int]:
    """The row that each image is a picture of, by its number; unmatched are left out.

    Folders may stand before a file of the suite, whose name is like no other, and its own may be left out. A source's
    name may be that of pictures elsewhere: folders before it count only where all are in one folder, and no source goes
    by its bare name.
    """
    ends = [(i, PurePosixPath(row.file_name)) for i, row in enumerate(rows)]
    keyed = [(form, i) for i, end in ends if _KEYED.fullmatch(end.stem) for form in (end.name, end.stem)]
    counts = Counter(form for form, _ in keyed)
    files = {form: i for form, i in keyed if counts[form] == 1}
    files |= {row.file_name: number for number, row in enumerate(rows)}
    originals = [(number, row) for number, row in enumerate(rows) if row.kind == "original"]
    sources = {name: number for number, row in originals for name in (row.source, row.origin.path)}
    number_of: dict[str, int] = {}
    below: dict[str, dict[str, int]] = {}
    bare = False
    for image in images:
        for before, name in _tails(image):
            if name in files:
                number_of[image] = files[name]
                break
            number = sources.get(name, sources.get(_without_suffix(name)))
            if number is None:
                continue
            if before:
                below.setdefault(before, {})[image] = number
            else:
                number_of[image], bare = number, True
            break
    if not bare and len(below) == 1:
        (inside,) = below.values()
        number_of |= inside
    return number_of


def _tails(image: str) -> Iterator[tuple[str, str]]:
    """Ways to part an image's path into folders that stand before its name, and the name: the longest name first."""
    yield "", image
    parts = PurePosixPath(image.replace("\\", "/")).parts
    for i in range(len(parts)):
        yield "/".join(parts[:i]), "/".join(parts[i:])


def _without_suffix(name: str) -> str:
    return str(PurePosixPath(name).with_suffix("")) if PurePosixPath(name).name else name
