"""How many variants each threshold of one check would accept and, where a table judges variants as valid or not, how
many of the accepted ones are valid, and how many of the valid ones are accepted.

The other thresholds stay as they are. Nothing is written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ..errors import CounterfactoryError
from ..files.tables import read_table
from ..profile.check import CheckSettings
from ..stages.check.verdict import verdict, with_valid
from ..suite import PictureRow
from ..suite.by_hand import EXCLUDED
from ..suite.verdicts import ScoredRow

# Thresholds between the lowest and the highest score: each accepts about a twelfth less than the one before it.
_STEPS = 12
_TRUE, _FALSE = frozenset({"true", "yes", "valid", "1"}), frozenset({"false", "no", "invalid", "0"})


@dataclass(frozen=True)
class Point:
    """Under the threshold `limit`: `accepted` variants, `judged` of them with a judgement, `valid` of them valid;
    `recall` is the share of all valid ones that is accepted, None where none is valid.
    """

    limit: float
    accepted: int
    judged: int
    valid: int
    recall: float | None

    @property
    def precision(self) -> float | None:
        """The share of the accepted ones that is valid, None where none was judged."""
        return self.valid / self.judged if self.judged else None


@dataclass(frozen=True)
class ThresholdCurve:
    """The points of a threshold, by rising limit: the variants accepted with `points[i].limit` in place of `current`
    (None: no limit), out of `variants`, of which `judged` have a judgement and `valid` are valid.
    """

    threshold: str
    current: float | None
    variants: int
    judged: int
    valid: int
    points: tuple[Point, ...]


def threshold_curve(
    rows: Sequence[ScoredRow], settings: CheckSettings, threshold: str, valid: Mapping[str, bool] | None = None
) -> ThresholdCurve:
    """The curve of one of the settings' thresholds; `valid` says of variants, by file name, whether they are valid.
    Raises CounterfactoryError where no variant has its score.
    """
    end, _, score = threshold.partition("_")
    variants = [
        replace(row, scores=with_valid(row.kind, row.scores, settings)) for row in rows if row.kind == "variant"
    ]
    scores = [row.scores[score] for row in variants if score in row.scores]
    if not scores:
        raise CounterfactoryError(f"no variant has a score {score!r} to draw thresholds of")
    labels = [(valid or {}).get(row.file_name) for row in variants]
    # Another threshold of this check decides only what passes all others.
    rest, current = settings.having(**{threshold: None}), settings.thresholds.get(threshold)
    passed = np.array(
        [rejection(row, rest) is None and not (row.reason or "").startswith(EXCLUDED) for row in variants]
    )
    own = np.array([row.scores.get(score, np.nan) for row in variants])  # no limit rejects NaN
    judged = np.array([label is not None for label in labels])
    true = np.array([label is True for label in labels])
    points = []
    for limit in _limits(scores, current):
        accepted = passed & ~((own > limit) if end == "max" else (own < limit))
        hits = int((accepted & true).sum())
        recall = hits / int(true.sum()) if true.any() else None
        points.append(Point(limit, int(accepted.sum()), int((accepted & judged).sum()), hits, recall))
    return ThresholdCurve(threshold, current, len(variants), int(judged.sum()), int(true.sum()), tuple(points))


def rejection(row: ScoredRow, settings: CheckSettings) -> str | None:
    """Why a row is rejected; None where it is accepted. Raises CounterfactoryError where it lacks a score for that."""
    try:
        return verdict(row, settings)
    except KeyError as error:
        raise CounterfactoryError(
            f"{row.file_name} was not scored for {error}, which its verdict needs; run `counterfactory generate` again"
        ) from error


def _limits(scores: Sequence[float], current: float | None) -> list[float]:
    """Quantiles of the scores, to three digits, and today's threshold where there is one."""
    limits = {round(float(value), 3) for value in np.quantile(scores, np.linspace(0, 1, _STEPS + 1))}
    if current is None:
        return sorted(limits)
    return sorted({current, *(value for value in limits if value != round(current, 3))})


def load_valid(path: Path, rows: Sequence[ScoredRow | PictureRow]) -> dict[str, bool]:
    """Which variants are valid, by file name, from a table with the columns `image` and `valid` (true or false, yes or
    no, 1 or 0): people's judgement or a referee's. Pictures that it does not name are not judged. Raises
    CounterfactoryError for what cannot be read as such a table, a picture twice, and one that is no variant.
    """
    names = {row.file_name for row in rows if row.kind == "variant"}
    judgements: dict[str, bool] = {}
    for line, row in read_table(path, required=("image", "valid")):
        where = f"{path}:{line}"
        if isinstance(row, str):
            raise CounterfactoryError(f"{where} {row}")
        image, answer = row.get("image"), str(row.get("valid")).lower()
        if answer not in _TRUE | _FALSE:
            raise CounterfactoryError(f"{where}: valid is true or false, found {row.get('valid')!r}")
        if image not in names:
            raise CounterfactoryError(f"{where}: {image!r} is no variant of the suite, by its file_name")
        if judgements.setdefault(image, answer in _TRUE) != (answer in _TRUE):
            raise CounterfactoryError(f"{where}: a second, different judgement of {image}")
    if not judgements:
        raise CounterfactoryError(f"{path} judges no picture; write the columns image and valid")
    return judgements
