"""The probability that a variant is valid, out of its scores: what single checks, each on a scale of its own, come to.

A variant is valid if each of its parts is: every edit shows, the label is kept, the layout is kept. A part's
probability is the logistic function of some of its scores, weighted, and the variant's is the product over its parts:
one lost part is enough to lose it, and the least probable one is the reason. Edits of each type are a part of their
own, which is what makes their scores comparable: a new colour is harder to see than a new weather. Weights are fitted
to variants that people have judged (judging/fit_valid.py), and are never negative: no better
score makes a variant less valid.

    valid = product over parts of 1 / (1 + exp(-(bias + sum of weight x score)))

Shares and probabilities enter by their log-odds, -6 to 6, all other scores as they are. A score that a picture does
not have adds nothing; a part of whose scores it has none is left out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ...profile.check import ValidPart


def part_probabilities(scores: Mapping[str, float], parts: Sequence[ValidPart]) -> dict[str, float]:
    """The probability of each part that a picture has."""
    probabilities = {part.part: part.probability(scores) for part in parts}
    return {name: value for name, value in probabilities.items() if value is not None}


def valid_score(scores: Mapping[str, float], parts: Sequence[ValidPart]) -> float | None:
    """The probability that a variant with these scores is valid, 0..1; None where no part can be told."""
    probabilities = part_probabilities(scores, parts)
    return round(math.prod(probabilities.values()), 6) if probabilities else None


def by_type(name: str, types: Sequence[str], scores: Sequence[float]) -> dict[str, float]:
    """`name`_TYPE: the worst score of the edits of each type."""
    worst: dict[str, float] = {}
    for type_, score in zip(types, scores, strict=True):
        worst[f"{name}_{type_}"] = min(score, worst.get(f"{name}_{type_}", score))
    return worst
