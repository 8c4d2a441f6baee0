"""Confusion matrices and what is read off them: accuracy, recall, intersection over union.

Counts are int64 [C, C], truth by row and prediction by column; they add up over pictures. A class that never occurs
has no score: NaN in an array, None in a mean, never zero.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import CounterfactoryError

Counts = NDArray[np.int64]


def confusion_matrix(truth: NDArray[Any], predicted: NDArray[Any], classes: int) -> Counts:
    """How often class i was called class j, int64 [classes, classes].

    `truth` and `predicted` are class indices of one shape (labels or masks). What `truth` marks with an index
    outside 0..classes-1 (a void label such as 255) is not counted. Raises CounterfactoryError when the shapes
    differ or the model answers a class that does not exist.
    """
    if truth.shape != predicted.shape:
        raise CounterfactoryError(
            f"the truth is of shape {truth.shape} and the prediction of {predicted.shape}; they must be the same"
        )
    counted = (truth >= 0) & (truth < classes)
    true, called = truth[counted].astype(np.int64), predicted[counted].astype(np.int64)
    if called.size and (called.min() < 0 or called.max() >= classes):
        raise CounterfactoryError(
            f"the model answered class {int(called.max() if called.max() >= classes else called.min())}; "
            f"there are {classes} classes, 0 to {classes - 1}"
        )
    return np.bincount(true * classes + called, minlength=classes * classes).reshape(classes, classes)


def row_normalised(counts: Counts) -> NDArray[np.float64]:
    """Each row divided by its sum, float64 [C, C]; the rows of classes that never occur are NaN."""
    return shares(counts, counts.sum(1, keepdims=True))


def shares(parts: NDArray[Any], wholes: NDArray[Any]) -> NDArray[np.float64]:
    """Parts of wholes; NaN where there is nothing to share."""
    divided: NDArray[np.float64] = np.divide(parts, wholes, out=np.full(parts.shape, np.nan), where=wholes > 0)
    return divided


def accuracy(counts: Counts) -> float | None:
    """Share of the right answers in a confusion matrix; None when it is empty."""
    total = int(counts.sum())
    return int(np.trace(counts)) / total if total else None


def recall(counts: Counts) -> NDArray[np.float64]:
    """Share of each class that was recognised, float64 [C]; NaN for classes that never occur."""
    return np.diagonal(row_normalised(counts)).copy()


def iou(counts: Counts) -> NDArray[np.float64]:
    """Intersection over union of each class, float64 [C]; NaN for classes in neither truth nor prediction. Counts may
    have another column, of answers that are no class.
    """
    both = np.diagonal(counts)
    return shares(both, counts.sum(0)[: both.size] + counts.sum(1) - both)


def mean_iou(counts: Counts) -> float | None:
    """Mean of `iou` over the classes that occur; None when none does."""
    values = iou(counts)
    values = values[~np.isnan(values)]
    return float(values.mean()) if values.size else None
