"""What an effect between trained models owes to the seeds that they were trained from.

Sources and seeds are crossed random effects: the variance of a mean over both is the sum of one that falls with the
sources and one that falls with the seeds. Each is estimated with its own degrees of freedom, two for three seeds, and
the interval's reach is the root of the sum of squares of what each would reach alone (Graybill and Wang, "Confidence
intervals on nonnegative linear combinations of variances", JASA 75, 1980). Satterthwaite's is too narrow for few seeds:
it forgets that a spread of three may be small by chance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import stdev

from .effects import CONFIDENCE, Effect, missed_share
from .student import t_reach

# To a billionth.
_HALVINGS = 30
# Standard errors with their degrees of freedom.
_Parts = tuple[tuple[float, int], tuple[float, int]]


def spread_over_seeds(effect: Effect, by_seed: Sequence[float]) -> Effect:
    """The effect, which is the mean of the values `by_seed`, with the spread between these in its interval, and without
    `q`. One seed says nothing of others: then nothing is known but the value.
    """
    if len(by_seed) < 2:
        return replace(effect, low=None, high=None, p=None, q=None)
    if effect.value is None or effect.error is None or effect.p is None:
        return effect
    most = effect.most * missed_share(effect.sources) / t_reach(CONFIDENCE, effect.sources - 1)
    parts = (max(effect.error, most), effect.sources - 1), (stdev(by_seed) / len(by_seed) ** 0.5, len(by_seed) - 1)
    reach = _reach(parts, CONFIDENCE)
    low, high = (max(-1.0, min(1.0, end)) for end in (effect.value - reach, effect.value + reach))
    p = max(effect.p, _chance(parts, abs(effect.value)))
    return replace(effect, low=low, high=high, p=p, q=None, error=math.hypot(effect.error, parts[1][0]))


def _reach(parts: _Parts, confidence: float) -> float:
    return math.hypot(*(error * t_reach(confidence, freedom) for error, freedom in parts))


def _chance(parts: _Parts, value: float) -> float:
    """The chance whose interval ends at 0."""
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if _reach(parts, 1 - middle) > value else (low, middle)
    return high
