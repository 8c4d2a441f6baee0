"""The distributions that effects and shares are judged by, and the correction for many effects, exact to nine digits.

In place of SciPy, which takes 143 MB; the tests compare with it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache

_TINY = 1e-300  # keeps the continued fraction's denominators from 0
_CLOSE = 1e-15
_ROUNDS = 10_000  # never reached: the fraction closes in some sqrt(freedom) rounds
_HALVINGS = 200


def two_sided_p(t: float, freedom: int) -> float:
    """The chance that Student's t of so many degrees of freedom lies at least as far from 0 as `t`."""
    square = t * t
    if math.isinf(square):
        return 0.0
    return _incomplete_beta(freedom / 2, 0.5, freedom / (freedom + square), square / (freedom + square))


@cache
def t_reach(confidence: float, freedom: int) -> float:
    """How far from 0 Student's t stays with this chance: the half width of an interval, in standard errors."""
    low, high = 0.0, 1.0
    while two_sided_p(high, freedom) > 1 - confidence:
        low, high = high, 2 * high
    return _bisect(low, high, lambda t: two_sided_p(t, freedom) > 1 - confidence)[1]


def _bisect(low: float, high: float, is_below: Callable[[float], bool]) -> tuple[float, float]:
    """The two numbers beside each other of which the lower one is below what is looked for."""
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if is_below(middle) else (low, middle)
    return low, high


def chi_square_p(square: float) -> float:
    """The chance that chi-square of one degree of freedom is at least `square`."""
    return math.erfc(math.sqrt(square / 2))


def false_discovery(chances: Sequence[float]) -> list[float]:
    """The chances corrected for their number (Benjamini and Hochberg, 1995), in their order."""
    count = len(chances)
    corrected = [0.0] * count
    least = 1.0
    # From the largest down: none is above that of a larger chance.
    for rank, i in zip(range(count, 0, -1), sorted(range(count), key=lambda i: chances[i], reverse=True), strict=True):
        least = min(least, chances[i] * count / rank)
        corrected[i] = least
    return corrected


def proportion_interval(share: float, count: float, confidence: float) -> tuple[float, float]:
    """The interval of a share of `count` independent ones, which need not be whole (Clopper and Pearson, 1934)."""
    hits, outside = share * count, (1 - confidence) / 2
    low = 0.0 if hits <= 0 else _beta_quantile(outside, hits, count - hits + 1)
    high = 1.0 if hits >= count else _beta_quantile(1 - outside, hits + 1, count - hits)
    return low, high


def _beta_quantile(chance: float, a: float, b: float) -> float:
    return _bisect(0.0, 1.0, lambda x: _incomplete_beta(a, b, x, 1 - x) < chance)[0]


def _incomplete_beta(a: float, b: float, x: float, rest: float) -> float:
    """The regularised incomplete beta function I_x(a, b); `rest` is 1 - x, without the loss of digits.

    Its continued fraction (DLMF 8.17.22), by Lentz's method, on that side where it closes fast.
    """
    if x <= 0 or rest <= 0:
        return 0.0 if x <= 0 else 1.0
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log(rest))
    if x < (a + 1) / (a + b + 2):
        return front * _fraction(a, b, x) / a
    return 1 - front * _fraction(b, a, rest) / b


def _fraction(a: float, b: float, x: float) -> float:
    above, below = 1.0, 1 / _away(1 - (a + b) * x / (a + 1))
    value = below
    for m in range(1, _ROUNDS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for part in (even, odd):
            below = 1 / _away(1 + part * below)
            above = _away(1 + part / above)
            value *= below * above
        if abs(below * above - 1) < _CLOSE:
            break
    return value


def _away(value: float) -> float:
    return value if abs(value) > _TINY else _TINY
