"""What stands out among effects that are looked at together: a value that costs more than the others of its type, an
edit that costs a class more than it costs others.

Of many estimates the largest is large by chance, too, and then says more than is true. So what is named is the
difference from the others, by an interval that holds for all that could have been named at once (Bonferroni; Benjamini
and Yekutieli, JASA 100, 2005, on what a selection does to intervals): of all values and all classes of a suite, so that
of suites in which nothing differs one in forty names one that loses more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..variant import Kind
from .effects import (
    CONFIDENCE,
    PictureOutcome,
    fewest_units,
    judge_difference,
    largest_difference,
    observe_pictures,
)
from .within import SEPARATE, Estimates, regress

Floats = NDArray[np.float64]
# Values, and classes, are looked through for what stands out.
_FAMILIES = 2


@dataclass(frozen=True)
class Standout:
    """What pictures called `name` lose (below 0) or gain beyond `others` like it lies from `low` to `high`: of all that
    a suite could name at once, 95 times in 100.
    """

    name: str
    others: float
    low: float
    high: float

    @property
    def clear(self) -> bool:
        """Whether it certainly loses more than the others."""
        return self.high < 0


@dataclass(frozen=True)
class Contrast:
    """An estimate `value` called `name` beside that of `others` like it; `error` is the standard error of their
    difference, which rests on so many `sources`, two at least. No two pictures of one source differ by more than
    `most`.
    """

    name: str
    value: float
    others: float
    error: float
    sources: int
    most: float


@dataclass(frozen=True)
class JointEffects:
    """The effects of all `names` with their covariances, by one regression; an effect is of `fewest` sources, or groups
    of them, at least.
    """

    names: tuple[str, ...]
    estimates: Estimates
    most: float
    fewest: int = 2

    @classmethod
    def of(cls, answers: Sequence[PictureOutcome], baseline: Kind) -> JointEffects:
        """Those of answers as `find_effects` takes them, of which some have a name."""
        names = tuple(sorted({name for answer in answers for name in answer.names}))
        pictures = observe_pictures(answers, names, baseline)
        fewest = fewest_units(grouped=pictures.cluster is not None)
        return cls(names, regress(pictures), largest_difference(pictures), fewest)

    def separate(self, prefix: str) -> list[int]:
        """The numbers of the names that begin so, have an effect of their own, and enough sources."""
        estimates = self.estimates
        return [
            k
            for k, name in enumerate(self.names)
            if name.startswith(prefix) and estimates.separate[k] and estimates.vary[k] >= self.fewest
        ]

    def covariance(self, numbers: Sequence[int]) -> Floats:
        """Of the names with these numbers, [n, n]."""
        covariance, place = np.zeros((len(numbers), len(numbers))), {k: i for i, k in enumerate(numbers)}
        for names, of in self.estimates.covariances:
            some = [(i, place[k]) for i, k in enumerate(names.tolist()) if k in place]
            if some:
                there, here = zip(*some, strict=True)
                covariance[np.ix_(here, here)] = of[np.ix_(there, there)]
        return covariance


def find_standouts(answers: Sequence[PictureOutcome], baseline: Kind) -> tuple[Standout, ...]:
    """Each value beside the others of its type, sorted: the names of `answers` are of the form "type: value". A type of
    one value, and a value that cannot be told from others, have none.
    """
    if not any(answer.names for answer in answers):
        return ()
    joint = JointEffects.of(answers, baseline)
    types = dict.fromkeys(name.partition(": ")[0] for name in joint.names)
    contrasts = [contrast for type_ in types for contrast in _contrasts(joint, joint.separate(f"{type_}: "))]
    return stand_out(contrasts)


def _contrasts(joint: JointEffects, numbers: Sequence[int]) -> list[Contrast]:
    """Of each value of a type against the mean of the others, as many pictures as each has."""
    if len(numbers) < 2:
        return []
    own = np.eye(len(numbers))
    value, carrying, vary = (
        of[np.array(numbers)] for of in (joint.estimates.value, joint.estimates.carrying, joint.estimates.vary)
    )
    weights = (1 - own) * carrying
    weights /= weights.sum(axis=1, keepdims=True)
    gaps, covariance = own - weights, joint.covariance(numbers)
    errors = np.sqrt(np.maximum(0, ((gaps @ covariance) * gaps).sum(axis=1)))
    rows = zip(numbers, value, weights @ value, errors, np.minimum(vary, vary.sum() - vary), strict=True)
    return [Contrast(joint.names[k], float(v), float(o), float(e), int(n), joint.most) for k, v, o, e, n in rows]


def stand_out(contrasts: Sequence[Contrast]) -> tuple[Standout, ...]:
    """Each contrast's difference, in their order, with the interval that holds for all of them at once and for those of
    the other kind.
    """
    chance = (1 - CONFIDENCE) / _FAMILIES / max(1, len(contrasts))
    return tuple(_standout(contrast, chance) for contrast in contrasts)


def _standout(one: Contrast, chance: float) -> Standout:
    gap = judge_difference(one.name, one.value - one.others, one.error, one.sources, 0, one.most, 1 - chance)
    if one.error < SEPARATE and (gap.p or 0.0) > chance:  # all react alike, and too few to be sure by that
        return Standout(one.name, one.others, -1.0, 1.0)
    return Standout(one.name, one.others, gap.low or 0.0, gap.high or 0.0)
