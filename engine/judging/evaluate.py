"""How a model under test does on the originals and on their variants.

From the rows of a suite's metadata and the model's answers on variants and originals it makes an `Evaluation`, the
same for labels (measured by accuracy) and for masks (measured by mIoU). Which model answered, and how its pictures
were loaded, is not known here; any set of labels or classes works.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import CounterfactoryError
from ..suite import VariantRow
from .confusion import Counts, accuracy, confusion_matrix, iou, mean_iou, recall, row_normalised


@dataclass(frozen=True)
class Score:
    """A measure over `count` pictures; `value` is None where there is nothing to measure."""

    count: int
    value: float | None


@dataclass(frozen=True)
class Side:
    """One side of the comparison, the originals or the variants.

    `by_class` is recall for labels and IoU for masks. `confusion[i][j]` is the share of what truly is class i that
    the model called class j (each row sums to 1); the row of a class that never occurs is None throughout.
    """

    score: Score
    by_class: dict[str, float | None]
    confusion: tuple[tuple[float | None, ...], ...]


@dataclass(frozen=True)
class Evaluation:
    """What a model under test makes of a suite.

    `measure` is "accuracy" or "miou". A variant with several edits counts once in each of its edit types and
    values; values are written "type: alternative". `all_fail` and `none_fail` are the shares of sources with at
    least one variant for which the model fails on all, or on none, of the variants (DILLEMA, arXiv 2502.04378,
    section IV); for masks, where a picture does not simply fail, they are None. `excluded` counts rejected variants.
    """

    measure: str
    classes: tuple[str, ...]
    originals: Side
    variants: Side
    by_edit_type: dict[str, Score]
    by_edit_value: dict[str, Score]
    sources: int
    all_fail: float | None
    none_fail: float | None
    excluded: int

    def to_json(self) -> dict[str, Any]:
        """The evaluation in JSON's own types: dicts, lists, strings, finite numbers and None."""
        groups = {"by_edit_type": self.by_edit_type, "by_edit_value": self.by_edit_value}
        return {
            "measure": self.measure,
            "classes": list(self.classes),
            "originals": _side_json(self.originals),
            "variants": _side_json(self.variants),
            **{name: {key: vars(score).copy() for key, score in group.items()} for name, group in groups.items()},
            "sources": self.sources,
            "all_fail": self.all_fail,
            "none_fail": self.none_fail,
            "excluded": self.excluded,
        }


def evaluate_labels(
    rows: Sequence[VariantRow],
    predictions: Sequence[str],
    originals: Mapping[str, tuple[str, str]],
) -> Evaluation:
    """Judge a classifier.

    `rows` are those of the suite's table, `predictions[i]` the label that the model gave to row i's picture,
    `originals` maps a source's name to (true label, predicted label). Classes are all labels that occur on either
    side, sorted. Rejected variants are left out. Raises CounterfactoryError when the lengths differ
    or an accepted row has no label.
    """
    accepted = _accepted(rows, predictions)
    for row in (rows[i] for i in accepted):
        if row.label is None:
            raise CounterfactoryError(
                f"accuracy needs a label for every variant, but source {row.source!r} has none; "
                "give labels to the sources (class folders or --labels) or judge with masks"
            )
    truths, answers = [str(rows[i].label) for i in accepted], [predictions[i] for i in accepted]
    names = {*truths, *answers, *(label for pair in originals.values() for label in pair)}
    classes = tuple(sorted(names))
    number = {name: i for i, name in enumerate(classes)}

    def tally(pairs: Sequence[tuple[str, str]]) -> Counts:
        truth, predicted = ([number[pair[side]] for pair in pairs] for side in (0, 1))
        return confusion_matrix(np.array(truth, np.int64), np.array(predicted, np.int64), len(classes))

    pairs = list(zip(truths, answers, strict=True))
    right: dict[str, list[bool]] = {}
    for i, (truth, predicted) in zip(accepted, pairs, strict=True):
        right.setdefault(rows[i].source, []).append(truth == predicted)

    def side(pairs: Sequence[tuple[str, str]]) -> Side:
        counts = tally(pairs)
        return Side(Score(len(pairs), accuracy(counts)), _by_class(classes, recall(counts)), _confusion_shares(counts))

    def score(members: list[int]) -> Score:
        return Score(len(members), accuracy(tally([pairs[m] for m in members])))

    return Evaluation(
        measure="accuracy",
        classes=classes,
        originals=side(list(originals.values())),
        variants=side(pairs),
        by_edit_type=_score_groups(rows, accepted, _edit_types, score),
        by_edit_value=_score_groups(rows, accepted, _edit_values, score),
        sources=len(right),
        all_fail=_fraction([not any(answers) for answers in right.values()]),
        none_fail=_fraction([all(answers) for answers in right.values()]),
        excluded=len(rows) - len(accepted),
    )


def evaluate_masks(
    rows: Sequence[VariantRow],
    confusions: Sequence[Counts],
    originals: Mapping[str, Counts],
    classes: Sequence[str],
) -> Evaluation:
    """Judge a segmenter.

    `confusions[i]` is the `confusion_matrix` of row i's carried-over mask (truth) and the model's mask, int64 [C, C];
    `originals` maps a source's name to the same for its own picture. Every mIoU comes from summed confusions.
    Raises CounterfactoryError when lengths or shapes do not fit.
    """
    size = len(classes)
    for counts in (*confusions, *originals.values()):
        if counts.shape != (size, size):
            raise CounterfactoryError(
                f"{size} classes need confusion matrices of {size} x {size}, got {' x '.join(map(str, counts.shape))}"
            )
    accepted = _accepted(rows, confusions)
    used = [confusions[i] for i in accepted]

    def total(matrices: Sequence[Counts]) -> Counts:
        return np.sum(matrices, axis=0, dtype=np.int64) if matrices else np.zeros((size, size), np.int64)

    def side(matrices: Sequence[Counts]) -> Side:
        counts = total(matrices)
        return Side(Score(len(matrices), mean_iou(counts)), _by_class(classes, iou(counts)), _confusion_shares(counts))

    def score(members: list[int]) -> Score:
        return Score(len(members), mean_iou(total([used[m] for m in members])))

    return Evaluation(
        measure="miou",
        classes=tuple(classes),
        originals=side(list(originals.values())),
        variants=side(used),
        by_edit_type=_score_groups(rows, accepted, _edit_types, score),
        by_edit_value=_score_groups(rows, accepted, _edit_values, score),
        sources=len({rows[i].source for i in accepted}),
        all_fail=None,
        none_fail=None,
        excluded=len(rows) - len(accepted),
    )


def _accepted(rows: Sequence[VariantRow], answers: Sequence[object]) -> list[int]:
    """Indices of the accepted rows, each of which has its answer."""
    if len(rows) != len(answers):
        raise CounterfactoryError(f"{len(rows)} variants need as many answers of the model, got {len(answers)}")
    return [i for i, row in enumerate(rows) if row.accepted]


def _edit_types(row: VariantRow) -> set[str]:
    return set(row.edit_types)


def _edit_values(row: VariantRow) -> set[str]:
    return {f"{edit.type}: {edit.alternative}" for edit in row.edits}


def _score_groups(
    rows: Sequence[VariantRow],
    accepted: list[int],
    keys: Callable[[VariantRow], set[str]],
    score: Callable[[list[int]], Score],
) -> dict[str, Score]:
    """Score of each group, in the groups' order; members are positions in `accepted`."""
    groups: dict[str, list[int]] = {}
    for member, i in enumerate(accepted):
        for key in keys(rows[i]):
            groups.setdefault(key, []).append(member)
    return {key: score(groups[key]) for key in sorted(groups)}


def _fraction(answers: Sequence[bool]) -> float | None:
    return sum(answers) / len(answers) if answers else None


def _none_for_nan(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _by_class(classes: Sequence[str], values: NDArray[np.float64]) -> dict[str, float | None]:
    return {name: _none_for_nan(value) for name, value in zip(classes, values.tolist(), strict=True)}


def _confusion_shares(counts: Counts) -> tuple[tuple[float | None, ...], ...]:
    return tuple(tuple(_none_for_nan(value) for value in row) for row in row_normalised(counts).tolist())


def _side_json(side: Side) -> dict[str, Any]:
    return {
        "score": vars(side.score).copy(),
        "by_class": dict(side.by_class),
        "confusion": [list(row) for row in side.confusion],
    }
