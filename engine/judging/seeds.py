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
from .student import t_reach, two_sided_p


def spread_over_seeds(effect: Effect, by_seed: Sequence[float]) -> Effect:
    """The effect, which is the mean of the values `by_seed`, with the spread between these in its interval, and without
    `q`. One seed says nothing of others: then nothing is known but the value.
    """
    if len(by_seed) < 2:
        return replace(effect, low=None, high=None, p=None, q=None)
    if effect.value is None or effect.error is None or effect.p is None:
        return effect
    times = t_reach(CONFIDENCE, effect.sources - 1)
    over_sources = max(effect.error, effect.most * missed_share(effect.sources) / times)
    over_seeds = stdev(by_seed) / len(by_seed) ** 0.5
    reach = math.hypot(times * over_sources, t_reach(CONFIDENCE, len(by_seed) - 1) * over_seeds)
    # Satterthwaite's degrees of freedom shape the tail alone: at the interval's end the chance is the interval's own.
    parts = over_sources**4 / (effect.sources - 1) + over_seeds**4 / (len(by_seed) - 1)
    freedom = (over_sources**2 + over_seeds**2) ** 2 / parts
    p = max(effect.p, two_sided_p(t_reach(CONFIDENCE, freedom) * effect.value / reach, freedom))
    low, high = (max(-1.0, min(1.0, end)) for end in (effect.value - reach, effect.value + reach))
    return replace(effect, low=low, high=high, p=p, q=None, error=math.hypot(effect.error, over_seeds))
