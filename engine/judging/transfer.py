"""Whether what painted edits do to models predicts what real conditions do to them, over several models.

From each model's effects on painted and on real pictures it makes, for each edit that both have, the rank correlation
over the models (Spearman's) and the slope of the least-squares line of real on painted effects. The intervals are the
bootstrap's over models (Efron and Tibshirani, An Introduction to the Bootstrap, 1993, chapter 13): what other models of
their kind would show. It does not know what a model is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..errors import CounterfactoryError
from ..keys import generator
from .confusion import shares
from .effects import CONFIDENCE

Floats = NDArray[np.float64]
# A model's effects by name.
ByName = Mapping[str, float]
# Fewer have no ranks to speak of.
LEAST_MODELS = 4
ALL = "all"
# Of the bootstrap; so many parts of them are in memory one after another.
_DRAWS, _PARTS = 2000, 20


@dataclass(frozen=True)
class Bounded:
    """A figure, and from where to where it lies 95 times in 100; None where models do not differ."""

    value: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Transfer:
    """Of an edit `name`: by model what `painted` pictures and `real` ones lose (below 0), as shares."""

    name: str
    painted: tuple[float, ...]
    real: tuple[float, ...]
    rank_correlation: Bounded
    slope: Bounded

    @property
    def predicts(self) -> bool:
        """Whether models that lose more to painted pictures certainly lose more to real ones."""
        low = self.rank_correlation.low
        return low is not None and low > 0


def find_transfers(painted: Sequence[ByName], real: Sequence[ByName]) -> tuple[Transfer, ...]:
    """Of each name that all models have on both sides, sorted; painted[i] and real[i] are effects of model i by name.
    The first is of all values together, called "all", where there are several names: models are drawn with all of
    theirs. A value's name is its type's, a colon and the value. Raises CounterfactoryError for fewer than four models,
    and where no name is on both sides.
    """
    if len(painted) < LEAST_MODELS:
        raise CounterfactoryError(
            f"a rank correlation needs {LEAST_MODELS} models or more, got {len(painted)}: give --model once for each"
        )
    names = sorted(set(painted[0]).intersection(*painted[1:], *real))
    if not names:
        raise CounterfactoryError(
            "no edit of the suite is a condition of the real pictures: name conditions as the suite's edits, such as "
            f"{', '.join(sorted(painted[0])) or 'weather: rainy'}; the table has {', '.join(sorted(real[0])) or 'none'}"
        )
    x, y = (np.array([[of[name] for name in names] for of in side]) for side in (painted, real))
    single = tuple(_transfer(name, x[:, [k]], y[:, [k]]) for k, name in enumerate(names))
    # A type's effect is that of its values again.
    values = [k for k, name in enumerate(names) if ":" in name] or list(range(len(names)))
    return single if len(names) == 1 else (_transfer(ALL, x[:, values], y[:, values]), *single)


def _transfer(name: str, x: Floats, y: Floats) -> Transfer:
    """Of effects [models, names], each name's mean over the models taken out: that night is harder than rain on both
    sides is no word on models.
    """
    draws = generator(name, "models").integers(len(x), size=(_DRAWS, len(x)))

    def bounded(figure: Callable[[Floats, Floats], Floats]) -> Bounded:
        (value,) = figure(*(_apart(side[None]) for side in (x, y))).tolist()
        parts = np.array_split(draws, _PARTS)
        drawn = np.concatenate([figure(*(_apart(side[some]) for side in (x, y))) for some in parts])
        drawn = drawn[~np.isnan(drawn)]
        if np.isnan(value) or len(drawn) < _DRAWS // 2:
            return Bounded(None if np.isnan(value) else value, None, None)
        return Bounded(value, *np.quantile(drawn, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2]).tolist())

    painted, real = (tuple(side.mean(axis=1).tolist()) for side in (x, y))
    return Transfer(name, painted, real, bounded(rank_correlations), bounded(slopes))


def _apart(effects: Floats) -> Floats:
    """Of each draw's effects [N, models, names] those beyond the name's mean, [N, M]."""
    less = effects - effects.mean(axis=1, keepdims=True)
    return np.asarray(np.round(less, 12).reshape(len(effects), -1))  # what is equal stays equal


def rank_correlations(x: Floats, y: Floats) -> Floats:
    """Spearman's of each row of x and y [N, M]: Pearson's correlation of ranks, equal numbers sharing their mean rank.
    NaN where one side is equal throughout.
    """
    a, b = (_ranks(side) - (side.shape[1] + 1) / 2 for side in (x, y))
    return shares((a * b).sum(axis=1), np.sqrt((a * a).sum(axis=1) * (b * b).sum(axis=1)))


def slopes(x: Floats, y: Floats) -> Floats:
    """Of the least-squares line of each row of y on that of x [N, M]; NaN where x is equal throughout."""
    a, b = (side - side.mean(axis=1, keepdims=True) for side in (x, y))
    return shares((a * b).sum(axis=1), (a * a).sum(axis=1) * (np.ptp(x, axis=1) > 0))


def _ranks(values: Floats) -> Floats:
    less, equal = (compare(values[:, None, :], values[:, :, None]).sum(axis=2) for compare in (np.less, np.equal))
    return np.asarray(less + (equal + 1) / 2, np.float64)
