"""The effect of an edit on a model: paired effects with their certainty, adjusted for the picture's other edits.

From outcomes (1 right, 0 wrong, or an IoU) of pictures that share sources it makes an `Effect` for each name that
variants carry: an edit type, an edit's value, a class. The comparison is within sources, between the variants and a
baseline of the same sources: their controls, which carry the painter's damage and no edit, or their originals. It does
not know which model answered, or how outcomes were measured.

The estimate is the within ("fixed effects") regression of outcomes on the names: ordinary least squares after each
source's mean is taken out (Wooldridge, Econometric Analysis of Cross Section and Panel Data, 2010, section 10.5). With
one picture of a name and one baseline a source it is the mean difference of the two. Its spread is the jackknife's over
sources (MacKinnon, Nielsen and Webb, "Cluster-robust inference: a guide to empirical practice", 2023, CV3), with
Student's t of as many degrees of freedom as sources vary in the name, less one. Pictures of one source are never taken
for independent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..variant import Kind
from .student import chi_square_p, false_discovery, t_reach, two_sided_p

Floats = NDArray[np.float64]
CONFIDENCE = 0.95
# Sources whose leave-one-out systems are solved at a time: [this many, names, names] floats are held.
_AT_ONCE = 512
# How far from a unit vector a name's row of pinv(A) A may be, for its effect to be separable from the others'.
_SEPARATE = 1e-6


@dataclass(frozen=True)
class PictureOutcome:
    """A picture that the model answered: `outcome` is 1 for right, 0 for wrong, or any measure in [0, 1].

    `names` are the names of a variant that effects are estimated for, such as its edits' types. A baseline has none.
    """

    source: str
    kind: Kind
    outcome: float
    names: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Effect:
    """What pictures with `name` lose (below 0) or gain against the baseline; `low` to `high` holds it 95 times in 100.

    `value` is None where the name cannot be separated from others that always occur with it, and the interval where
    fewer than two sources can be compared. `p` is for "no effect"; `q` is `p` corrected for the number of names tested
    together (Benjamini and Hochberg, 1995): of those below 0.05, one in twenty is no effect. `sources` were compared,
    `pictures` carry the name.
    """

    name: str
    value: float | None
    low: float | None
    high: float | None
    p: float | None
    q: float | None
    sources: int
    pictures: int

    @property
    def clear(self) -> bool:
        """Whether there is an effect, whichever way, by `q` below 0.05."""
        return self.q is not None and self.q < 1 - CONFIDENCE


@dataclass(frozen=True)
class Flips:
    """How often the answer turns wrong: of `right` pictures with `name` whose baseline is right, `flipped` are wrong.

    `low` to `high` holds the rate 95 times in 100, sources taken as a whole. `p` is for "as many turn right as wrong":
    McNemar's test, with pictures of one source together (Durkalski et al., Statistics in Medicine 22, 2003).
    """

    name: str
    right: int
    flipped: int
    rate: float | None
    low: float | None
    high: float | None
    p: float | None


def find_effects(answers: Sequence[PictureOutcome], baseline: Kind) -> tuple[Effect, ...]:
    """The effect of each name of the answers that are no baseline, sorted by name.

    Answers of `baseline`'s kind are what the others are compared with; sources without one, or with nothing else, say
    nothing of a name that all of their pictures carry. Several baselines of a source count as their mean does.
    """
    names = tuple(sorted({name for answer in answers for name in answer.names}))
    if not names:
        return ()
    systems, sides, carrying = _normal_equations(answers, names, baseline)
    total, side = systems.sum(axis=0), sides.sum(axis=0)
    inverse = np.linalg.pinv(total, hermitian=True)
    separate = np.abs(inverse @ total - np.eye(len(names))).max(axis=1) < _SEPARATE
    values = inverse @ side
    compared = (np.diagonal(systems, axis1=1, axis2=2) > _SEPARATE).sum(axis=0)
    spreads = _jackknife(systems, sides, values)
    effects = [
        _effect(name, float(value), float(spread), int(sources), int(pictures))
        if separable and sources
        else Effect(name, None, None, None, None, None, int(sources), int(pictures))
        for name, value, spread, separable, sources, pictures in zip(
            names, values, spreads, separate, compared, carrying, strict=True
        )
    ]
    return correct(effects)


def find_flips(answers: Sequence[PictureOutcome], baseline: Kind) -> tuple[Flips, ...]:
    """How often each name's pictures turn wrong, sorted by name, of outcomes that are 0 or 1.

    A source's baseline is right where all of its baselines are.
    """
    right = _all_right(answers, baseline)
    names = sorted({name for answer in answers for name in answer.names})
    return tuple(_flips(name, [a for a in answers if name in a.names and a.source in right], right) for name in names)


def _all_right(answers: Sequence[PictureOutcome], baseline: Kind) -> dict[str, bool]:
    right: dict[str, bool] = {}
    for answer in answers:
        if answer.kind == baseline:
            right[answer.source] = right.get(answer.source, True) and answer.outcome == 1
    return right


def _flips(name: str, answers: Sequence[PictureOutcome], right: dict[str, bool]) -> Flips:
    chances: dict[str, int] = {}
    wrong: dict[str, int] = {}
    balance: dict[str, int] = {}  # turned wrong, less turned right
    for answer in answers:
        failed = answer.outcome != 1
        if right[answer.source]:
            chances[answer.source] = chances.get(answer.source, 0) + 1
            wrong[answer.source] = wrong.get(answer.source, 0) + failed
            balance[answer.source] = balance.get(answer.source, 0) + failed
        elif not failed:
            balance[answer.source] = balance.get(answer.source, 0) - 1
    count, flipped = sum(chances.values()), sum(wrong.values())
    if not count:
        return Flips(name, 0, 0, None, None, None, None)
    low, high = _rate_interval(np.array([*wrong.values()]), np.array([*chances.values()]))
    return Flips(name, count, flipped, flipped / count, low, high, _mcnemar(list(balance.values())))


def _rate_interval(parts: NDArray[np.int64], wholes: NDArray[np.int64]) -> tuple[float | None, float | None]:
    """The interval of sum(parts) / sum(wholes), each source a part and a whole: the jackknife's."""
    sources, rate = len(parts), parts.sum() / wholes.sum()
    if sources < 2:
        return None, None
    if rate in (0, 1):  # nothing varies: what so many sources would have shown (Clopper and Pearson, 1934)
        unseen = _unseen(sources)
        return (0.0, unseen) if rate == 0 else (1 - unseen, 1.0)
    without = (parts.sum() - parts) / (wholes.sum() - wholes)
    spread = np.sqrt((sources - 1) / sources * ((without - rate) ** 2).sum())
    reach = t_reach(CONFIDENCE, sources - 1) * float(spread)
    return max(0.0, float(rate) - reach), min(1.0, float(rate) + reach)


def _mcnemar(balance: Sequence[int]) -> float | None:
    squares = sum(part * part for part in balance)
    return chi_square_p(sum(balance) ** 2 / squares) if squares else None


def _unseen(sources: int) -> float:
    """The largest share of sources that could react, and none of these do, once in forty times."""
    return float(1 - ((1 - CONFIDENCE) / 2) ** (1 / sources))


def _normal_equations(
    answers: Sequence[PictureOutcome], names: Sequence[str], baseline: Kind
) -> tuple[Floats, Floats, NDArray[np.int64]]:
    """Each source's X'X [G, K, K] and X'y [G, K] after its mean is taken out, and each name's pictures [K]."""
    number = {name: k for k, name in enumerate(names)}
    by_source: dict[str, list[PictureOutcome]] = {}
    for answer in answers:
        if answer.kind == baseline or answer.names:
            by_source.setdefault(answer.source, []).append(answer)
    systems = np.zeros((len(by_source), len(names), len(names)))
    sides = np.zeros((len(by_source), len(names)))
    carrying = np.zeros(len(names), np.int64)
    for g, pictures in enumerate(by_source.values()):
        carried = np.zeros((len(pictures), len(names)))
        for i, picture in enumerate(pictures):
            carried[i, [number[name] for name in picture.names]] = 1
        carrying += carried.sum(axis=0).astype(np.int64)
        outcomes = np.array([picture.outcome for picture in pictures])
        carried -= carried.mean(axis=0)
        systems[g], sides[g] = carried.T @ carried, carried.T @ outcomes
    return systems, sides, carrying


def _jackknife(systems: Floats, sides: Floats, values: Floats) -> Floats:
    """The standard error of each of the values [K], by leaving out each source in turn."""
    total, side = systems.sum(axis=0), sides.sum(axis=0)
    squares = np.zeros(len(values))
    for start in range(0, len(systems), _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        inverses = np.linalg.pinv(total - systems[part], hermitian=True)
        without = np.einsum("gij,gj->gi", inverses, side - sides[part])
        squares += ((without - values) ** 2).sum(axis=0)
    count = len(systems)
    spreads: Floats = np.sqrt(squares * (count - 1) / count)
    return spreads


def _effect(name: str, value: float, spread: float, sources: int, pictures: int) -> Effect:
    if sources < 2:
        return Effect(name, value, None, None, None, None, sources, pictures)
    if spread < _SEPARATE:
        # No two sources differ. That is no certainty: some share of others might, which these did not show.
        reach, p = _unseen(sources), 1.0 if abs(value) < _SEPARATE else 2.0 ** (1 - sources)
    else:
        reach = t_reach(CONFIDENCE, sources - 1) * spread
        p = two_sided_p(value / spread, sources - 1)
    low, high = max(-1.0, value - reach), min(1.0, value + reach)  # outcomes are in [0, 1]
    return Effect(name, value, low, high, p, None, sources, pictures)


def correct(effects: Sequence[Effect]) -> tuple[Effect, ...]:
    """The effects with `q` for as many comparisons as there are: those that are looked at together."""
    tested = [effect.p for effect in effects if effect.p is not None]
    corrected = iter(false_discovery(tested))
    return tuple(effect if effect.p is None else replace(effect, q=next(corrected)) for effect in effects)
