"""Two models on one suite: where the second falls behind the first, and which edits break it more.

From both models' outcomes on the same pictures it makes their difference, picture by picture: what is hard for both
cancels out. A gap is the mean difference over all pictures of a name; its interval is the jackknife's over sources, as
everywhere (see `within`). What an edit does to one model more than to the other is the effect of `effects` on the
differences. Neither knows what was measured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..errors import CounterfactoryError
from ..files.fill import plain
from ..suite import PictureRow
from ..variant import COMPARED, Kind
from .baselines import Names
from .effects import CONFIDENCE, Effect, correct, fewest_units, find_effects, jackknife, judge_difference
from .evaluate import edit_types, edit_values, picture_outcomes
from .groups import count_groups
from .limits import LimitResult, Outcome, effect_figures, name_units
from .student import false_discovery, t_reach, two_sided_p

_SIDES = {"original": "originals", "control": "controls", "variant": "variants", "baseline": "baselines"}
_ALL = frozenset(_SIDES.values())


@dataclass(frozen=True)
class Gap:
    """On pictures called `name` the two models have these mean outcomes; `effect` is the second less the first."""

    name: str
    first: float
    second: float
    effect: Effect


@dataclass(frozen=True)
class Comparison:
    """The model `second` against the model `first` on the `pictures` that both answered.

    `sides` are of originals, controls and variants, `by_type`, `by_value` and `by_class` of the variants that carry
    such an edit, or are of such a class. `breaks_by_type` and `breaks_by_value` say what an edit does to the second
    more than to the first, against `against`; below 0 it breaks the second more. `groups` is as in `Evaluation`.
    """

    first: str
    second: str
    measure: str
    pictures: int
    against: Kind | None
    sides: tuple[Gap, ...]
    by_type: tuple[Gap, ...]
    by_value: tuple[Gap, ...]
    by_class: tuple[Gap, ...]
    breaks_by_type: tuple[Effect, ...]
    breaks_by_value: tuple[Effect, ...]
    groups: int | None = None

    def to_json(self) -> dict[str, Any]:
        """The comparison in JSON's own types."""
        return plain(self)


_Pair = tuple[PictureRow, float, float]


def compare(
    rows: Sequence[PictureRow],
    first: Mapping[str, float],
    second: Mapping[str, float],
    names: tuple[str, str],
    measure: str = "accuracy",
    against: Kind | None = "control",
) -> Comparison:
    """The comparison of two models by their outcomes, 0..1 by `file_name`, called `names`.

    Rejected pictures are left out. Raises CounterfactoryError where no picture was answered by both.
    """
    both = first.keys() & second.keys()
    used = [row for row in rows if row.accepted and row.kind in COMPARED and row.file_name in both]
    pairs = [(row, first[row.file_name], second[row.file_name]) for row in used]
    if not pairs:
        raise CounterfactoryError(f"{names[0]} and {names[1]} answered no picture in common")
    variants = [pair for pair in pairs if pair[0].kind == "variant"]

    def breaks(carried: Names) -> tuple[Effect, ...]:
        if against is None:
            return ()
        # Differences lie between -1 and 1, outcomes between 0 and 1.
        halves = picture_outcomes([(row, (1 + b - a) / 2) for row, a, b in pairs], carried)
        return tuple(_doubled(effect) for effect in find_effects(halves, against))

    return Comparison(
        *names,
        measure=measure,
        pictures=len(pairs),
        against=against,
        sides=_gaps(pairs, lambda row: {_SIDES[row.kind]}),
        by_type=_gaps(variants, edit_types),
        by_value=_gaps(variants, edit_values),
        by_class=_gaps(variants, lambda row: set() if row.label is None else {row.label}),
        breaks_by_type=breaks(edit_types),
        breaks_by_value=breaks(edit_values),
        groups=count_groups(used),
    )


def _doubled(effect: Effect) -> Effect:
    ends = (effect.value, effect.low, effect.high, effect.error)
    value, low, high, error = (None if end is None else 2 * end for end in ends)
    return replace(effect, value=value, low=low, high=high, error=error, most=2 * effect.most)


def _gaps(pairs: Sequence[_Pair], names: Names) -> tuple[Gap, ...]:
    """The gap of each name, sides in their order and others sorted; `q` is for all of them together."""
    groups: dict[str, list[_Pair]] = {}
    for pair in pairs:
        for name in names(pair[0]):
            groups.setdefault(name, []).append(pair)
    most = max((abs(b - a) for _, a, b in pairs), default=0.0) or 1.0
    order = [_SIDES[kind] for kind in COMPARED if _SIDES[kind] in groups] if groups.keys() <= _ALL else sorted(groups)
    effects = correct([mean_difference(name, groups[name], most) for name in order])
    first, second = ([float(np.mean([pair[side] for pair in groups[name]])) for name in order] for side in (1, 2))
    return tuple(map(Gap, order, first, second, effects))


def mean_difference(name: str, pairs: Sequence[_Pair], most: float) -> Effect:
    """The mean of the second numbers less the first over pictures, and its interval over their units; no difference
    is larger than `most`.
    """
    sources: dict[str, int] = {}
    number = np.array([sources.setdefault(row.unit, len(sources)) for row, _, _ in pairs])
    sums, counts = np.bincount(number, np.array([b - a for _, a, b in pairs])), np.bincount(number)
    count, value = len(sources), float(sums.sum() / counts.sum())
    if count < fewest_units(grouped=any(row.unit != row.source for row, _, _ in pairs)):
        return Effect(name, value, None, None, None, None, count, len(pairs))
    return judge_difference(name, value, jackknife(sums, counts), count, len(pairs), most)


def check_regression(comparison: Comparison, most: float) -> tuple[LimitResult, ...]:
    """What becomes of the limit that the second model loses at most so many points (of a hundred) to the first, on
    originals, controls and variants, and under each type of edit.

    A limit is broken where the loss is certainly larger, by a one-sided test that is corrected for the number of limits
    (Benjamini and Hochberg, 1995): of suites on which no limit is broken, at most one in twenty is called broken. It is
    kept where even the interval's worse end is within, and undecided between.
    """
    gaps = (*comparison.sides, *comparison.by_type)
    chances = {gap.name: _beyond(gap.effect, most / 100) for gap in gaps}
    known = [name for name, chance in chances.items() if chance is not None]
    corrected = dict(zip(known, false_discovery([chances[name] or 0.0 for name in known]), strict=True))
    return name_units([_held(gap, most, corrected.get(gap.name)) for gap in gaps], comparison.groups)


def _beyond(effect: Effect, limit: float) -> float | None:
    """The chance of so large a loss if the true one is `limit`; None where nothing is known."""
    if effect.value is None or effect.low is None or effect.high is None:
        return None
    reach = max(effect.high - effect.value, effect.value - effect.low)
    far = (-effect.value - limit) * t_reach(CONFIDENCE, effect.sources - 1) / reach
    half = two_sided_p(far, effect.sources - 1) / 2
    return half if far > 0 else 1 - half


def _held(gap: Gap, most: float, chance: float | None) -> LimitResult:
    what = gap.name if gap.name in _ALL else f"variants with {gap.name}"
    limit, effect = f"{what} lose at most {most:g} points", gap.effect
    if chance is None or effect.low is None:
        return LimitResult(limit, "undecided", f"{effect.sources} sources say nothing of it")
    certain = -100 * effect.low <= most
    outcome: Outcome = "broken" if chance < 1 - CONFIDENCE else "kept" if certain else "undecided"
    return LimitResult(limit, outcome, effect_figures(effect))
