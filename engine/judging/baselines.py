"""How much of an edit's effect weather and light alone have: variants against what light draws of the same edits.

Only variants whose weather and light were drawn as well are compared, and only sources with an answer to all that is
compared. A painted picture is held against its source's controls where the suite has them, so that painting itself does
not count; a drawn one against the original, from which it differs by nothing else. The share is the ratio of the two
mean effects, with the jackknife's interval over sources (Efron and Tibshirani, An Introduction to the Bootstrap, 1993,
chapter 11).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..suite import PictureRow
from ..variant import Kind
from .effects import CONFIDENCE, FEWEST_GROUPS
from .student import t_reach

Outcomes = Sequence[tuple[PictureRow, float]]
# What a row carries, each name once.
Names = Callable[[PictureRow], set[str]]
# A mean effect below this is none that another one could be a share of.
_LEAST = 0.01
# Sources that tell a share.
_FEWEST = 3


@dataclass(frozen=True)
class BaselineEffect:
    """What painted pictures of an edit `name`, a type or a value, lose (below 0), and what drawn ones of the same edits
    do, on average over `sources`; `share` is the second over the first, from `low` to `high` 95 times in 100. The share
    is None where the painted effect is nothing, or too few sources tell.
    """

    name: str
    painted: float
    drawn: float
    share: float | None
    low: float | None
    high: float | None
    sources: int
    pictures: int


def find_baseline_effects(outcomes: Outcomes, names: Names, against: Kind) -> tuple[BaselineEffect, ...]:
    """The two effects by name, sorted. `outcomes` are those of answered pictures, 0..1; `against` is the kind that
    painted ones are held against.
    """
    by_source: dict[str, dict[Kind, list[tuple[PictureRow, float]]]] = defaultdict(lambda: defaultdict(list))
    for row, outcome in outcomes:
        by_source[row.source][row.kind].append((row, outcome))
    pairs: dict[str, dict[str, list[tuple[float, float, int]]]] = defaultdict(lambda: defaultdict(list))
    for kinds in by_source.values():
        before, original = _mean(kinds[against]), _mean(kinds["original"])
        drawn = {row.key: outcome for row, outcome in kinds["baseline"]}
        both: dict[str, list[tuple[float, float]]] = defaultdict(list)
        for row, outcome in kinds["variant"]:
            if row.key in drawn and before is not None and original is not None:
                for name in names(row):
                    both[name].append((outcome - before, drawn[row.key] - original))
        for name, changes in both.items():
            painted, by_light = np.mean(changes, axis=0).tolist()
            unit = kinds["variant"][0][0].unit
            pairs[name][unit].append((painted, by_light, len(changes)))
    return tuple(_effect(name, [*pairs[name].values()]) for name in sorted(pairs))


def _mean(pictures: Outcomes) -> float | None:
    return sum(outcome for _, outcome in pictures) / len(pictures) if pictures else None


def _effect(name: str, units: Sequence[Sequence[tuple[float, float, int]]]) -> BaselineEffect:
    pairs = [pair for unit in units for pair in unit]
    painted, drawn = np.mean([pair[:2] for pair in pairs], axis=0).tolist()
    share, reach = _share(
        np.array([np.sum([pair[:2] for pair in unit], axis=0) for unit in units], np.float64),
        _FEWEST if len(pairs) == len(units) else FEWEST_GROUPS,
    )
    low, high = (None, None) if share is None or reach is None else (share - reach, share + reach)
    return BaselineEffect(name, painted, drawn, share, low, high, len(units), sum(pair[2] for pair in pairs))


def _share(values: NDArray[np.float64], fewest: int) -> tuple[float | None, float | None]:
    """Drawn over painted, of pairs [N, 2] of sums over what does not depend on each other, `fewest` at least, and
    how far its interval reaches; None where nothing can be told.
    """
    count, total = len(values), values.sum(axis=0)
    left = total - values
    if count < fewest or abs(total[0]) < _LEAST * count or (np.abs(left[:, 0]) < _LEAST * (count - 1)).any():
        return None, None
    shares = left[:, 1] / left[:, 0]
    spread = np.sqrt((count - 1) / count * ((shares - shares.mean()) ** 2).sum())
    return float(total[1] / total[0]), float(t_reach(CONFIDENCE, count - 1) * spread)
