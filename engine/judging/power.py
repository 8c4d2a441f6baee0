"""How many sources would tell a loss, by what an effect of some sources says of their spread.

A suite tells a loss where it is clear, corrected for all that is tested beside it, in four of five such suites. What is
extrapolated is the standard error, and not the floor below it, which falls faster. The spread of few sources may be
small by luck: its square, as a share of the largest that there can be, is bounded as any share is (Wilson, JASA 22,
1927), and is never less than a loss of that size has where pictures are either right or wrong.
"""

from __future__ import annotations

from math import ceil, floor, log10, sqrt

from .effects import CONFIDENCE, Effect, missed_share
from .student import t_reach

# Points that a suite should be able to tell from nothing.
TOLD = 0.05
# Standard errors below which a normal number lies in eight of ten, and in nine of ten.
_POWER, _SURE = 0.8416, 1.2816
_MOST = 10**8


def sources_to_tell(effect: Effect, sources: int, tests: int = 1) -> int:
    """How many sources like these `sources`, of which the effect rests on some, show a loss of `TOLD` in four of five
    suites, where so many `tests` are corrected for; two digits count. The effect has an interval.
    """
    spread = _spread(effect)
    fewest, enough = 2, _MOST
    while fewest < enough:
        middle = (fewest + enough) // 2
        fewest, enough = (fewest, middle) if _told(middle, spread, effect.most, tests) else (middle + 1, enough)
    needed = fewest * sources / effect.sources
    scale = int(10 ** max(0, floor(log10(needed)) - 1))
    return ceil(round(needed / scale, 6)) * scale


def _told(sources: int, spread: float, most: float, tests: int) -> bool:
    error = spread / sqrt(sources)
    known = max(error, most * missed_share(sources) / t_reach(CONFIDENCE, sources - 1))
    return t_reach(1 - (1 - CONFIDENCE) / tests, sources - 1) * known + _POWER * error <= TOLD


def _spread(effect: Effect) -> float:
    """The standard deviation of sources' differences, at most."""
    count, error = effect.sources, effect.error or 0.0
    share = min(1.0, count * (error / effect.most) ** 2)
    sure = _SURE**2 / count
    bound = share + sure / 2 + sqrt(sure * (share * (1 - share) + sure / 4))
    return effect.most * sqrt(max(bound / (1 + sure), min(1.0, TOLD / effect.most)))
