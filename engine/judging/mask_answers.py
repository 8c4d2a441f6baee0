"""Reads the answers of a user's segmenter: a folder with a mask for each picture of the suite.

A mask lies under the name that its picture has in the suite: images/bus/0001/….png, originals/…. Truths are the masks
that the suite carried over. Classes are the numbers that occur in either, whatever they stand for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import CounterfactoryError
from ..sources.pixels import UnreadableError, read_mask
from ..suite import PictureRow
from ..suite.paths import Folder
from .confusion import Counts, confusion_matrix
from .predictions import require_answers

# Pixels that no data set counts.
VOID = 255
_MOST_CLASSES = 1024

Pair = tuple[NDArray[Any], NDArray[Any]]


def compare_masks(
    folder: Path, suite: Path, rows: Sequence[PictureRow], names: Sequence[str] | None = None
) -> tuple[Iterator[Counts | None], tuple[str, ...]]:
    """The confusion of each row's mask with the model's, None where there is none, and the classes' names.

    Confusions are made as they are asked for: those of 100,000 pictures in 150 classes do not fit into memory.

    Pixels that the truth marks 255 are not counted. `names` are those of classes 0, 1, ...; without it classes go by
    their numbers. Rejected pictures need no mask. Raises CounterfactoryError for masks that are missing, of another
    size, coloured or unreadable, and for a suite without masks.
    """
    if all(row.mask is None for row in rows):
        raise CounterfactoryError(
            f"{suite} has no masks: judge labels by a table of predictions, or make the suite with --masks"
        )
    masked = [row for row in rows if row.mask is not None]
    answered = [(folder / row.file_name).is_file() for row in masked]
    require_answers(masked, answered, f"mask in {folder}", "; name masks as metadata.parquet names pictures")
    size = len(names) if names is not None else _class_count(_pairs(folder, suite, rows))
    confusions = (
        None
        if pair is None
        else confusion_matrix(np.where(pair[0] == VOID, size, pair[0].astype(np.int64)), pair[1], size)
        for pair in _pairs(folder, suite, rows)
    )
    return confusions, tuple(names) if names is not None else tuple(map(str, range(size)))


def _pairs(folder: Path, suite: Path, rows: Sequence[PictureRow]) -> Iterator[Pair | None]:
    """Each row's truth and answer, None where one is missing."""
    inside = Folder(suite)
    for row in rows:
        file = folder / row.file_name
        if row.mask is None or not file.is_file():
            yield None
            continue
        truth, answer = _read(inside.path(row.mask)), _read(file)
        if truth.shape != answer.shape:
            raise CounterfactoryError(
                f"{file} is {answer.shape[1]} x {answer.shape[0]}, its picture {truth.shape[1]} x {truth.shape[0]}: "
                "write masks at the pictures' size"
            )
        yield truth, answer


def _read(file: Path) -> NDArray[Any]:
    try:
        mask = read_mask(file.read_bytes())
    except OSError as error:
        raise CounterfactoryError(f"cannot read {file}: {error.strerror or error}") from error
    except UnreadableError as error:
        raise CounterfactoryError(f"{file}: {error}") from error
    if mask.ndim != 2:
        raise CounterfactoryError(f"{file} is coloured: write class numbers, one per pixel")
    return mask


def _class_count(pairs: Iterable[Pair | None]) -> int:
    arrays = (array for pair in pairs if pair is not None for array in (pair[0][pair[0] != VOID], pair[1]))
    highest = max(int(array.max()) for array in arrays if array.size)
    if highest >= _MOST_CLASSES:
        raise CounterfactoryError(f"masks hold class {highest}; at most {_MOST_CLASSES} classes are compared")
    return highest + 1
