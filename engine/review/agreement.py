"""What raters agree on: consensus, its intervals, and how far they agree beyond chance.

Pictures of one source are not independent, so intervals are those of a jackknife over sources.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np

from ..judging.effects import CONFIDENCE, jackknife
from ..judging.student import proportion_interval, t_reach

# DILLEMA's: an answer counts with at least four of five.
AGREE = 0.8
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Share:
    """A share of `count` pictures, or a mean of theirs; `low` to `high` holds it 95 times in 100, None where fewer than
    two sources say it.
    """

    value: float | None
    low: float | None
    high: float | None
    count: int

    def times(self, factor: float) -> Share:
        """The same of a `factor` of it."""
        value, low, high = (None if one is None else factor * one for one in (self.value, self.low, self.high))
        return Share(value, low, high, self.count)


def consensus(answers: Sequence[int], per_picture: int, agree: float = AGREE) -> int | None:
    """The answer that a share `agree` of `per_picture` raters gives, of all where more answered; None without one."""
    if not answers:
        return None
    value, count = Counter(answers).most_common(1)[0]
    return value if count >= ceil(agree * max(len(answers), per_picture) - _ROUNDING) else None


def find_share(outcomes: Iterable[tuple[str, bool]]) -> Share:
    """The share of pictures, each a source and whether it counts: Clopper and Pearson's interval of as many
    independent ones as the jackknife's variance says that there are (Korn and Graubard, Survey Methodology 24, 1998),
    or as there are sources, where all pictures are alike.
    """
    parts, wholes = _by_source((source, float(hit)) for source, hit in outcomes)
    count, sources = int(wholes.sum()), len(wholes)
    if not count:
        return Share(None, None, None, 0)
    share = float(parts.sum()) / count
    if sources < 2:
        return Share(share, None, None, count)
    independent = float(sources)
    if 0 < share < 1:
        variance = jackknife(parts, wholes) ** 2
        independent = min(share * (1 - share) / variance, count) if variance else count
        independent = max(independent * (t_reach(CONFIDENCE, count - 1) / t_reach(CONFIDENCE, sources - 1)) ** 2, 1.0)
    return Share(share, *proportion_interval(share, independent, CONFIDENCE), count)


def find_mean(values: Iterable[tuple[str, float]], least: float, most: float) -> Share:
    """The mean of pictures' values, each with its source, between `least` and `most`."""
    parts, wholes = _by_source(values)
    if not len(wholes):
        return Share(None, None, None, 0)
    mean = float(parts.sum() / wholes.sum())
    if len(wholes) < 2:
        return Share(mean, None, None, int(wholes.sum()))
    reach = t_reach(CONFIDENCE, len(wholes) - 1) * jackknife(parts, wholes)
    return Share(mean, max(least, mean - reach), min(most, mean + reach), int(wholes.sum()))


def _by_source(values: Iterable[tuple[str, float]]) -> tuple[np.ndarray, np.ndarray]:
    parts, wholes = dict[str, float](), Counter[str]()
    for source, value in values:
        parts[source] = parts.get(source, 0.0) + value
        wholes[source] += 1
    return np.array([*parts.values()], float), np.array([wholes[source] for source in parts], float)


def find_alpha(answers: Mapping[str, Mapping[str, int]], *, ordered: bool) -> float | None:
    """Krippendorff's alpha of answers by unit and rater: 1 where all agree, 0 where no more than by chance; `ordered`
    answers agree the less, the further apart they are. None where nobody answered twice, or all answers are one.
    """
    import krippendorff

    raters = sorted({rater for by_rater in answers.values() for rater in by_rater})
    rows = [[by_rater.get(rater, np.nan) for by_rater in answers.values()] for rater in raters]
    twice = [by_rater for by_rater in answers.values() if len(by_rater) > 1]
    if len({value for by_rater in twice for value in by_rater.values()}) < 2:
        return None
    data = np.array(rows, float)
    return float(krippendorff.alpha(data, level_of_measurement="ordinal" if ordered else "nominal"))
