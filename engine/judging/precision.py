"""What edits do to a detector's AP: COCO's AP of weighted pictures, and its change with an interval over sources.

AP has no value for one picture, so its interval is the bootstrap's: sources (or groups of sources) are drawn again, and
each draw's AP is that of a set which holds each picture as often as its source was drawn. Boxes are matched with things
picture by picture, so that nothing is matched again: a draw weighs what was matched. The baseline is weighed as the
edit's pictures are, which a source may have several of, and is drawn together with them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..suite import PictureRow
from .effects import Effect, fewest_units, judge_difference

_RECALLS = np.linspace(0, 1, 101)  # COCO's, at which precision is read
# Draws of sources: a standard error of so many is right to a twentieth.
_DRAWS = 200
# Floats that a batch of draws may take.
_BATCH = 1 << 22
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ClassMatches:
    """A class's boxes [D], the surest first: the `picture` of each, and by overlap [T, D] whether it is a `hit`, and
    whether it is `ignored`. `things` [N] counts what is to be found in each picture.
    """

    picture: NDArray[np.int64]
    hit: NDArray[np.bool_]
    ignored: NDArray[np.bool_]
    things: NDArray[np.int64]


def sort_matches(matches: Sequence[Mapping[str, Any] | None], overlaps: int) -> ClassMatches:
    """What pycocotools matched of a class in each picture [N], None where nothing is."""
    known = [(i, match) for i, match in enumerate(matches) if match is not None]
    things = np.zeros(len(matches), np.int64)
    for i, match in known:
        things[i] = int((np.asarray(match["gtIgnore"]) == 0).sum())
    scores = np.array([score for _, match in known for score in match["dtScores"]])
    picture = np.array([i for i, match in known for _ in match["dtScores"]], np.int64)
    empty = np.zeros((overlaps, 0), np.bool_)
    matched, ignored = (
        np.concatenate([empty, *(np.asarray(match[name]) > 0 for _, match in known)], axis=1)
        for name in ("dtMatches", "dtIgnore")
    )
    order = np.argsort(-scores, kind="stable")
    return ClassMatches(picture[order], (matched & ~ignored)[:, order], ignored[:, order], things)


def average_precision(classes: Sequence[ClassMatches], weights: Floats) -> Floats:
    """COCO's AP of sets [B] that hold the pictures so often [B, N]; NaN for one that shows no thing."""
    sums, counts = np.zeros(len(weights)), np.zeros(len(weights))
    for one in classes:
        size = max(1, _BATCH // (len(one.picture) + 1))
        parts = [_precision_of(one, weights[at : at + size]) for at in range(0, len(weights), size)]
        of_class = np.concatenate(parts)
        sums += np.nan_to_num(of_class)
        counts += ~np.isnan(of_class)
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


def _precision_of(one: ClassMatches, weights: Floats) -> Floats:
    total = weights @ one.things
    shown = np.asarray((weights > 0).any(axis=0))
    used = np.flatnonzero(shown[one.picture])
    boxes = weights[:, one.picture[used]]
    before, sums = np.cumsum(boxes, axis=1), np.zeros(len(weights))
    for hit, ignored in zip(one.hit[:, used], one.ignored[:, used], strict=True):
        # The best precision at a recall or above it is that of a hit: what lies between two hits has a worse one.
        at = np.flatnonzero(hit)
        hits, counted = np.cumsum(boxes[:, at], axis=1), before[:, at]
        if ignored.any():
            counted = np.cumsum(boxes * ~ignored, axis=1)[:, at]
        precision = hits / (counted + np.spacing(1))
        best = np.maximum.accumulate(precision[:, ::-1], axis=1)[:, ::-1]
        passed = np.searchsorted(_RECALLS, hits / np.maximum(total, np.spacing(1))[:, None], side="right")
        sums += (best * np.diff(passed, axis=1, prepend=0)).sum(axis=1)
    return np.where(total > 0, sums / (len(_RECALLS) * len(one.hit)), np.nan)


def precision_change(
    name: str, classes: Sequence[ClassMatches], rows: Sequence[PictureRow], edited: Sequence[int], plain: Sequence[int]
) -> tuple[float | None, Effect]:
    """AP on the pictures `plain`, which are baselines of the sources of the pictures `edited` of the rows, and by how
    much that on `edited` is another, called `name`; None where no thing is shown.
    """
    units = {unit: number for number, unit in enumerate(dict.fromkeys(rows[i].unit for i in edited))}
    count = len(units)
    drawn = np.random.default_rng(0).multinomial(count, np.full(count, 1 / count), _DRAWS)
    draws = np.concatenate([np.ones((1, count)), drawn])
    with_edit, without = (
        average_precision(classes, _weighted(draws, len(rows), weights))
        for weights in (
            ((i, units[rows[i].unit], 1.0) for i in edited),
            _baseline_weights(rows, edited, plain, units),
        )
    )
    changes = with_edit - without
    if np.isnan(changes[0]):
        return None, Effect(name, None, None, None, None, None, count, len(edited))
    value, known = float(changes[0]), changes[1:][~np.isnan(changes[1:])]
    if count < fewest_units(grouped=any(rows[i].unit != rows[i].source for i in edited)) or len(known) < 2:
        return float(without[0]), Effect(name, value, None, None, None, None, count, len(edited))
    error = float(known.std(ddof=1)) * (count / (count - 1)) ** 0.5
    return float(without[0]), judge_difference(name, value, error, count, len(edited), 1.0)


def _weighted(draws: Floats, pictures: int, weights: Iterator[tuple[int, int, float]]) -> Floats:
    """How often each draw's set holds the pictures [B, N], from the unit and the weight of each."""
    counts = np.zeros((len(draws), pictures))
    for i, unit, weight in weights:
        counts[:, i] = draws[:, unit] * weight
    return counts


def _baseline_weights(
    rows: Sequence[PictureRow], edited: Sequence[int], plain: Sequence[int], units: Mapping[str, int]
) -> Iterator[tuple[int, int, float]]:
    several, baselines = (Counter(rows[i].source for i in some) for some in (edited, plain))
    for i in plain:
        if several[rows[i].source]:
            yield i, units[rows[i].unit], several[rows[i].source] / baselines[rows[i].source]
