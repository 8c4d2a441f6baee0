"""What rejections can do to effects: whether the checks reject what a model fails on, and what would have to be missing
for an effect to be another than it looks.

Rejected pictures were not answered, so nothing is known of them. What is known is how the model answers their sources'
baselines: where sources that it fails on lose more variants than others, the checks and the model find the same things
hard. That is tested by all ways to hand out the baselines' answers to the sources, as normal (Hoeffding, Annals of
Mathematical Statistics 22, 1951).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import erfc, sqrt

import numpy as np

from ..suite import PictureRow
from ..variant import Kind
from .baselines import Names, Outcomes
from .effects import CONFIDENCE, Effect
from .power import TOLD
from .student import false_discovery


@dataclass(frozen=True)
class Rejections:
    """Of `variants` with an edit of this `name`, a type or a value, so many were `rejected`: the share `on_wrong` of
    those whose baseline is answered wrongly (of masks: below the mean), and `on_right` of the others. `q` is the chance
    of so much more of the wrong ones if there were no difference, corrected for the number of names; None where nothing
    varies.
    """

    name: str
    variants: int
    rejected: int
    on_wrong: float | None = None
    on_right: float | None = None
    q: float | None = None

    @property
    def follow_failure(self) -> bool:
        """Whether the checks certainly reject more where the model fails anyway."""
        return self.q is not None and self.q < 1 - CONFIDENCE


def find_rejections(
    rows: Sequence[PictureRow], outcomes: Outcomes, against: Kind | None, groups: Sequence[Names]
) -> tuple[Rejections, ...]:
    """By each group of names, sorted by name. `outcomes` are those of answered pictures, 0..1, of which the kind
    `against` is what variants are held against.
    """
    before: dict[str, list[float]] = defaultdict(list)
    for row, outcome in outcomes:
        if row.kind == against:
            before[row.unit].append(outcome)
    right = {source: float(sum(values) / len(values)) for source, values in before.items()}
    rejections: list[Rejections] = []
    for names in groups:
        carried: dict[str, list[PictureRow]] = defaultdict(list)
        for row in rows:
            for name in names(row) if row.kind == "variant" else ():
                carried[name].append(row)
        pairs = [_rejections(name, carried[name], right) for name in sorted(carried)]
        chances = iter(false_discovery([p for _, p in pairs if p is not None]))
        rejections += [replace(one, q=None if p is None else next(chances)) for one, p in pairs]
    return tuple(rejections)


def _rejections(name: str, rows: Sequence[PictureRow], right: dict[str, float]) -> tuple[Rejections, float | None]:
    """Of one name's variants, and the chance."""
    variants, lost = Counter(row.unit for row in rows), Counter(row.unit for row in rows if not row.accepted)
    known = [source for source in variants if source in right]
    if not known:
        return Rejections(name, len(rows), lost.total()), None
    answers, count, gone = (np.array([of[source] for source in known], float) for of in (right, variants, lost))
    failing = answers < answers.mean()
    shares = [float(gone[some].sum() / count[some].sum()) if some.any() else None for some in (failing, ~failing)]
    more = gone - count * gone.sum() / count.sum()
    spread = sqrt(more.var() * answers.var() * len(known) ** 2 / max(1, len(known) - 1))
    p = erfc(float(more @ (answers.mean() - answers)) / spread / sqrt(2)) / 2 if spread else None
    return Rejections(name, len(rows), lost.total(), shares[0], shares[1]), p


def share_to_hide(effect: Effect, rejections: Rejections, before: float) -> float | None:
    """The share of failing pictures with the edit that would have to be among the rejected for a loss of `TOLD` to look
    like this effect; None where the rejected are too few, or the effect is such a loss already. `before` is the share
    of baselines that are right.
    """
    left = rejections.variants - rejections.rejected
    return _missing(left * (1 - before - (effect.value or 0.0)), (1 - before + TOLD), rejections)


def share_to_explain(effect: Effect, rejections: Rejections, before: float) -> float | None:
    """The share of right pictures with the edit that would have to be among the rejected for an edit that does nothing
    to look like this effect, likewise.
    """
    left = rejections.variants - rejections.rejected
    return _missing(left * (before + (effect.value or 0.0)), before, rejections)


def _missing(shown: float, truth: float, rejections: Rejections) -> float | None:
    """Of pictures of one kind, a share `truth` of all variants of which so many are `shown`: the share that is not."""
    missing = truth * rejections.variants - max(0.0, shown)
    possible = 0 < missing <= rejections.rejected and truth > 0
    return missing / (truth * rejections.variants) if possible else None
