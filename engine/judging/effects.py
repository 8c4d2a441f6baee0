"""The effect of an edit on a model: paired effects with their certainty, adjusted for the picture's other edits.

From outcomes (1 right, 0 wrong, or an IoU) of pictures that share sources it makes an `Effect` for each name that
variants carry: an edit type, an edit's value, a class. The comparison is within sources, between the variants and a
baseline of the same sources: their controls, which carry the painter's damage and no edit, or their originals. It does
not know which model answered, or how outcomes were measured.

The estimate is the regression of `within`, in which each source counts once, however many of its variants there are:
an effect is the mean over sources. With one picture of a name and one baseline a source it is the mean difference of
the two. Where a name's effect depends on the names beside it, it is an average over the mix of names that the pictures
carry: `find_interactions` tests that, and `find_mix_gaps` by how much it is another than that of the name alone.

The interval is Student's t of as many degrees of freedom as sources (or groups of sources that depend on each other)
vary in the name, less one, and never narrower than what so many can have missed: where few pictures fail, none of two
dozen may have, and the jackknife then knows of no doubt. `bench/effects.py --coverage` measures both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..variant import Kind
from .student import chi_square_p, false_discovery, t_reach, two_sided_p
from .within import SEPARATE, Estimates, Observations, regress

CONFIDENCE = 0.95
# Groups of sources of which something is certain: fewer say too little of others, whatever they hold.
FEWEST_GROUPS = 5
# Between the names of a pair that stands for what the two do beyond the sum.
WITH = " with "
# What a source's baselines count together, where its variants count one: the more, the nearer each variant is compared
# with its baseline alone, and then a source counts the same whatever share of its variants carries a name; the less,
# the more the source's other variants steady it.
_BASELINE_WEIGHT = 4.0
# Behind a source, or a name, of the second half of a regression that holds two.
_ALONE = "\0alone"


@dataclass(frozen=True, slots=True)
class PictureOutcome:
    """A picture that the model answered: `outcome` is 1 for right, 0 for wrong, or any measure in [0, 1].

    `names` are the names of a variant that effects are estimated for, such as its edits' types. A baseline has none.
    `group` is what the source depends on others by, such as the drive that frames are of: "" where it does not.
    """

    source: str
    kind: Kind
    outcome: float
    names: frozenset[str] = frozenset()
    group: str = ""

    @property
    def unit(self) -> str:
        """What does not depend on others: the group, or the source by itself."""
        return self.group or self.source


@dataclass(frozen=True)
class Effect:
    """What pictures with `name` lose (below 0) or gain against the baseline; `low` to `high` holds it 95 times in 100.

    `value` is None where the name cannot be separated from others that always occur with it, and the interval where
    fewer than two sources, or `FEWEST_GROUPS` groups of them, can be compared. `p` is for "no effect"; `q` is `p`
    corrected for the number of names tested together (Benjamini and Hochberg, 1995): of those below 0.05, one in twenty
    is no effect. `sources` (or groups of sources) were compared, `pictures` carry the name. `error` is the standard
    error of `value`, and no two pictures of a source differ by more than `most`.
    """

    name: str
    value: float | None
    low: float | None
    high: float | None
    p: float | None
    q: float | None
    sources: int
    pictures: int
    error: float | None = None
    most: float = 1.0

    @property
    def floored(self) -> bool:
        """Whether the interval says no more than what so many sources can have missed."""
        if self.error is None:
            return False
        return t_reach(CONFIDENCE, self.sources - 1) * self.error < self.most * missed_share(self.sources)

    @property
    def clear(self) -> bool:
        """Whether there is an effect, whichever way, by `q` below 0.05."""
        return self.q is not None and self.q < 1 - CONFIDENCE


@dataclass(frozen=True)
class LevelEffect:
    """What edits of a `type` do at `level` of `levels`, from faint to full: a point of its severity curve."""

    type: str
    level: int
    levels: int
    effect: Effect


@dataclass(frozen=True)
class Flips:
    """How often the answer turns wrong: of `right` pictures with `name` whose baseline is right, `flipped` are wrong;
    of `wrong` whose baseline is not, `righted` are right.

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
    wrong: int = 0
    righted: int = 0


def find_effects(answers: Sequence[PictureOutcome], baseline: Kind) -> tuple[Effect, ...]:
    """The effect of each name of the answers that are no baseline, sorted by name.

    Answers of `baseline`'s kind are what the others are compared with; sources without one, or with nothing else, say
    nothing of a name that all of their pictures carry. Several baselines of a source count as their mean does.
    """
    names = tuple(sorted({name for answer in answers for name in answer.names}))
    return estimate_effects(names, observe_pictures(answers, names, baseline)) if names else ()


def find_interactions(answers: Sequence[PictureOutcome], baseline: Kind) -> tuple[Effect, ...]:
    """What each pair of names that pictures carry together does beyond the sum of the two: 0 where effects add.

    The regression of `find_effects` with a further column for each pair, called "time with weather". By `q`, pairs that
    do nothing are `clear` in one suite of twenty.
    """
    sets = {answer.names for answer in answers}
    more = {names: names | {WITH.join(pair) for pair in combinations(sorted(names), 2)} for names in sets}
    paired = [replace(answer, names=more[answer.names]) if len(answer.names) > 1 else answer for answer in answers]
    pairs = {name for names in sets for name in more[names] - names}
    return correct([effect for effect in find_effects(paired, baseline) if effect.name in pairs])


def find_mix_gaps(answers: Sequence[PictureOutcome], baseline: Kind) -> tuple[Effect, ...]:
    """By how much the effect of each name over all pictures is another than that over those which carry it alone.

    Both are of one regression, in which a source stands twice, its group holding the two together: once with what
    carries one name, and once with everything, where names have a second one for what is not as alone.
    """
    single = {name for answer in answers if len(answer.names) == 1 for name in answer.names}
    if all(len(answer.names) < 2 for answer in answers):
        return ()
    twice = []
    for answer in answers:
        group = answer.unit
        if len(answer.names) < 2:
            twice.append(replace(answer, source=f"{answer.source}{_ALONE}", group=group))
        both = answer.names | {f"{name}{_ALONE}" for name in answer.names & single}
        twice.append(replace(answer, names=both, group=group))
    gaps = [effect for effect in find_effects(twice, baseline) if effect.name.endswith(_ALONE)]
    return correct([replace(gap, name=gap.name.removesuffix(_ALONE)) for gap in gaps])


def estimate_effects(names: Sequence[str], pictures: Observations) -> tuple[Effect, ...]:
    """The effects of the `names`, which the pictures carry by number."""
    estimates, most = regress(pictures), largest_difference(pictures)
    fewest = fewest_units(grouped=pictures.cluster is not None)
    return correct([_effect(name, estimates, k, most, fewest) for k, name in enumerate(names)])


def fewest_units(*, grouped: bool) -> int:
    """How many sources, or groups of them, an interval is of at least."""
    return FEWEST_GROUPS if grouped else 2


def observe_pictures(answers: Sequence[PictureOutcome], names: Sequence[str], baseline: Kind) -> Observations:
    """The answers that effects are of, as `regress` takes them."""
    used = [answer for answer in answers if answer.kind == baseline or answer.names]
    number, sources, groups = {name: k for k, name in enumerate(names)}, dict[str, int](), dict[str, int]()
    carried = [(i, number[name]) for i, answer in enumerate(used) for name in answer.names]
    picture, name = np.array(carried, np.int64).reshape(-1, 2).T
    source = np.array([sources.setdefault(answer.source, len(sources)) for answer in used], np.int64)
    group = None
    if any(answer.unit != answer.source for answer in used):
        group = np.array([groups.setdefault(answer.unit, len(groups)) for answer in used], np.int64)
    outcome = np.array([answer.outcome for answer in used])
    weight = picture_weights(source, np.array([bool(answer.names) for answer in used]))
    return Observations(source, outcome, picture, name, len(names), weight, group)


def picture_weights(source: NDArray[np.int64], varied: NDArray[np.bool_]) -> NDArray[np.float64]:
    """What each picture [N] of the sources [N] counts: the variants of a source one together, its baselines four."""
    counts = np.bincount(2 * source + varied)
    return np.where(varied, 1.0, _BASELINE_WEIGHT) / counts[2 * source + varied]


def largest_difference(pictures: Observations) -> float:
    """Between two pictures of one source, of all sources; 1 where nothing differs, which says nothing of its size."""
    most, least = (np.full(int(pictures.source.max()) + 1, bound) for bound in (-np.inf, np.inf))
    np.maximum.at(most, pictures.source, pictures.outcome)
    np.minimum.at(least, pictures.source, pictures.outcome)
    return float((most - least).max()) or 1.0


def find_flips(answers: Sequence[PictureOutcome], baseline: Kind) -> tuple[Flips, ...]:
    """How often each name's pictures turn wrong, sorted by name, of outcomes that are 0 or 1.

    A source's baseline is right where all of its baselines are.
    """
    right: dict[str, bool] = {}
    for answer in answers:
        if answer.kind == baseline:
            right[answer.source] = right.get(answer.source, True) and answer.outcome == 1
    names = sorted({name for answer in answers for name in answer.names})
    return tuple(_flips(name, [a for a in answers if name in a.names and a.source in right], right) for name in names)


def _flips(name: str, answers: Sequence[PictureOutcome], right: dict[str, bool]) -> Flips:
    fewest = fewest_units(grouped=any(answer.unit != answer.source for answer in answers))
    chances, wrong = Counter[str](), Counter[str]()
    balance = Counter[str]()  # turned wrong, less turned right
    for answer in answers:
        failed = answer.outcome != 1
        if right[answer.source]:
            chances[answer.unit] += 1
            wrong[answer.unit] += failed
            balance[answer.unit] += failed
        elif not failed:
            balance[answer.unit] -= 1
    count, flipped = chances.total(), wrong.total()
    mended = sum(answer.outcome == 1 for answer in answers if not right[answer.source])
    if not count:
        return Flips(name, 0, 0, None, None, None, None, len(answers), mended)
    low, high = _rate_interval(np.array([*wrong.values()]), np.array([*chances.values()]), fewest)
    squares = sum(part * part for part in balance.values())
    p = chi_square_p(balance.total() ** 2 / squares) if squares and (fewest == 2 or len(balance) >= fewest) else None
    return Flips(name, count, flipped, flipped / count, low, high, p, len(answers) - count, mended)


def _rate_interval(
    parts: NDArray[np.int64], wholes: NDArray[np.int64], fewest: int
) -> tuple[float | None, float | None]:
    """The interval of sum(parts) / sum(wholes), each source a part and a whole: the jackknife's."""
    sources, rate = len(parts), parts.sum() / wholes.sum()
    if sources < fewest:
        return None, None
    if rate in (0, 1):  # nothing varies: what so many sources would have shown (Clopper and Pearson, 1934)
        unseen = missed_share(sources)
        return (0.0, unseen) if rate == 0 else (1 - unseen, 1.0)
    reach = t_reach(CONFIDENCE, sources - 1) * jackknife(parts, wholes)
    return max(0.0, float(rate) - reach), min(1.0, float(rate) + reach)


def jackknife(parts: NDArray[Any], wholes: NDArray[Any]) -> float:
    """The standard error of sum(parts) / sum(wholes), of a part and a whole for each source [G], two at least."""
    sources = len(wholes)
    without = (parts.sum() - parts) / (wholes.sum() - wholes)
    return float(np.sqrt((sources - 1) / sources * ((without - parts.sum() / wholes.sum()) ** 2).sum()))


def missed_share(sources: int, confidence: float = CONFIDENCE) -> float:
    """The largest share of sources that could react, and none of these do, once in forty times."""
    return float(1 - ((1 - confidence) / 2) ** (1 / sources))


def _effect(name: str, estimates: Estimates, k: int, most: float, fewest: int) -> Effect:
    value, spread = float(estimates.value[k]), float(estimates.spread[k])
    sources, pictures = int(estimates.vary[k]), int(estimates.carrying[k])
    if not estimates.separate[k] or not sources:
        return Effect(name, None, None, None, None, None, sources, pictures)
    if sources < fewest:
        return Effect(name, value, None, None, None, None, sources, pictures)
    return judge_difference(name, value, spread, sources, pictures, most)


def judge_difference(
    name: str, value: float, spread: float, sources: int, pictures: int, most: float, confidence: float = CONFIDENCE
) -> Effect:
    """The effect of an estimate and its standard error over two sources or more; pictures of one source differ by
    `most` at most. Its interval holds the truth with this `confidence`.
    """
    # What shows in no source may show in some share of others, as far as any picture of the suite differs from another.
    times = t_reach(confidence, sources - 1)
    reach = max(times * spread, most * missed_share(sources, confidence))
    if spread < SEPARATE:  # all sources react alike: as many heads in a row
        p = 1.0 if abs(value) < SEPARATE else 2.0 ** (1 - sources)
    else:
        p = two_sided_p(times * value / reach, sources - 1)
    # Outcomes are in [0, 1]; a regression may say more than there is to lose.
    low, high = (max(-1.0, min(1.0, end)) for end in (value - reach, value + reach))
    return Effect(name, value, low, high, p, None, sources, pictures, spread, most)


def among(effect: Effect, count: int) -> Effect:
    """The effect, which has an interval, with that which holds for all of so many at once (Bonferroni): what is picked
    out for being large is not as large as it looks.
    """
    figures = (effect.value or 0.0, effect.error or 0.0, effect.sources, effect.pictures, effect.most)
    return replace(
        judge_difference(effect.name, *figures, 1 - (1 - CONFIDENCE) / max(1, count)), p=effect.p, q=effect.q
    )


def correct(effects: Sequence[Effect]) -> tuple[Effect, ...]:
    """The effects with `q` for as many comparisons as there are: those that are looked at together."""
    tested = [effect.p for effect in effects if effect.p is not None]
    corrected = iter(false_discovery(tested))
    return tuple(effect if effect.p is None else replace(effect, q=next(corrected)) for effect in effects)
