"""Fits the parts of the score "valid" (stages/check/verdict.py) to variants that were judged valid or not.

Weights maximise the likelihood of the judgements, with a small penalty on large ones, by L-BFGS-B from a fixed start:
the same table gives the same weights. Thresholds are chosen by probabilities out of fold: those of a source's variants
come from weights fitted without that source, so that neither the threshold nor its shares flatter the fit.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import CounterfactoryError
from ..profile.check import ValidPart, evidence
from ..stages.check.verdict import valid_score
from ..suite import PictureRow
from .threshold_curve import Point

# Shares of the valid variants that thresholds are shown for; the profile's threshold is that of the first.
RECALLS = (0.9, 0.95, 0.8, 0.7, 0.6, 0.5)
# The scores of each part; those that no variant has are left out.
LABEL_SCORES = ("said_label", "label", "agreement", "ensemble", "boxes")
LAYOUT_SCORES = ("layout", "miou", "recall")
EDIT_SCORES = ("recoloured", "said", "edit")
# A type of edits that fewer variants have is no part of its own.
_LEAST_EDITS = 20
_FOLDS = 5
# On the squares of weights; the bias that each part starts from, nearly certain; the log of the surest probability.
_PENALTY, _BIAS, _SUREST = 0.002, 2.0, -1e-6

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Example:
    """A variant's scores, its source, the types of its edits, and whether it is valid."""

    scores: Mapping[str, float]
    source: str
    types: tuple[str, ...]
    valid: bool


@dataclass(frozen=True)
class Fit:
    """The `parts`, and in `out_of_fold` each example's probability, by weights fitted without its source."""

    parts: tuple[ValidPart, ...]
    out_of_fold: tuple[float, ...]


def examples_of(rows: Sequence[PictureRow], valid: Mapping[str, bool]) -> list[Example]:
    """The variants among rows that `valid` judges, by file name."""
    return [
        Example(row.scores, row.source, row.edit_types, valid[row.file_name]) for row in rows if row.file_name in valid
    ]


def fit_valid(examples: Sequence[Example]) -> Fit:
    """The parts that make the examples likeliest. Raises CounterfactoryError where all or none are valid, and where
    there are too few of either, or too few sources, to tell weights by.
    """
    valid = sum(example.valid for example in examples)
    sources = list(dict.fromkeys(example.source for example in examples))
    if min(valid, len(examples) - valid) < _LEAST_EDITS or len(sources) < _FOLDS:
        raise CounterfactoryError(
            f"{valid} variants are judged valid and {len(examples) - valid} not, of {len(sources)} sources: weights "
            f"need {_LEAST_EDITS} of either and {_FOLDS} sources; judge more variants"
        )
    scores_of = part_scores(examples)
    folds = {source: number % _FOLDS for number, source in enumerate(sources)}
    probabilities = np.zeros(len(examples))
    for fold in range(_FOLDS):
        rest = [example for example in examples if folds[example.source] != fold]
        parts = _fit(rest, scores_of)
        for i, example in enumerate(examples):
            if folds[example.source] == fold:
                probabilities[i] = valid_score(example.scores, parts) or 0.0
    return Fit(_fit(examples, scores_of), tuple(probabilities.tolist()))


def fit_points(fit: Fit, examples: Sequence[Example]) -> list[Point]:
    """The points of the thresholds for each of `RECALLS`, by the probabilities out of fold."""
    valid = [example.valid for example in examples]
    points = []
    for recall in RECALLS:
        least = strictest(fit.out_of_fold, valid, recall)
        passing = [example.valid for example, p in zip(examples, fit.out_of_fold, strict=True) if p >= least]
        points.append(Point(least, len(passing), len(passing), sum(passing), sum(passing) / sum(valid)))
    return points


def part_scores(examples: Sequence[Example]) -> dict[str, tuple[str, ...]]:
    """The parts that examples have, by name, each with its scores: types of edits, label, layout."""
    counts = Counter(type_ for example in examples for type_ in set(example.types))
    types = sorted(type_ for type_, count in counts.items() if count >= _LEAST_EDITS)
    wanted = {type_: tuple(f"{name}_{type_}" for name in EDIT_SCORES) for type_ in types}
    wanted |= {"label": LABEL_SCORES, "layout": LAYOUT_SCORES}
    there = {name for example in examples for name in example.scores}
    parts = {part: tuple(name for name in names if name in there) for part, names in wanted.items()}
    return {part: names for part, names in parts.items() if names}


def strictest(probabilities: Sequence[float], valid: Sequence[bool], recall: float) -> float:
    """The largest threshold, to three digits, that at least this share of the valid ones reaches; 0 without any."""
    ranked = sorted((p for p, is_valid in zip(probabilities, valid, strict=True) if is_valid), reverse=True)
    if not ranked:
        return 0.0
    last = ranked[max(0, math.ceil(recall * len(ranked) - 1e-9) - 1)]  # shares such as 0.7 of 10 are no whole numbers
    return math.floor(1000 * last) / 1000


def fitted_toml(parts: Sequence[ValidPart], least: float) -> str:
    """The parts and a threshold of their product as the lines of a profile."""
    lines = ["# In [check]:", f"min_valid = {least:g}"]
    for part in parts:
        table = {"part": part.part, "scores": part.scores, "weights": part.weights}
        lines += ["", "[[check.valid]]", *(f"{name} = {json.dumps(value)}" for name, value in table.items())]
        lines.append(f"bias = {part.bias:g}")
    return "\n".join(lines)


def _fit(examples: Sequence[Example], named: Mapping[str, Sequence[str]]) -> tuple[ValidPart, ...]:
    from scipy import optimize  # which nothing else of judging needs

    valid = np.array([example.valid for example in examples], np.float64)
    tables = [_table(examples, names) for names in named.values()]
    ends = np.cumsum([table.shape[1] for table, _ in tables])
    start = np.concatenate([np.append(np.zeros(table.shape[1] - 1), _BIAS) for table, _ in tables])
    least = np.concatenate([np.append(np.zeros(table.shape[1] - 1), -np.inf) for table, _ in tables])
    # The stubs know no function that gives its slope as well.
    minimize: Any = optimize.minimize

    def goal(weights: Floats) -> tuple[float, Floats]:
        return _unlikelihood(tables, np.split(weights, ends[:-1]), valid)

    optimum = minimize(goal, start, jac=True, method="L-BFGS-B", bounds=optimize.Bounds(least))
    return tuple(
        ValidPart(part, tuple(names), tuple(round(float(w), 3) for w in weights[:-1]), round(float(weights[-1]), 3))
        for (part, names), weights in zip(named.items(), np.split(optimum.x, ends[:-1]), strict=True)
    )


def _table(examples: Sequence[Example], names: Sequence[str]) -> tuple[Floats, NDArray[np.bool_]]:
    """The terms of a part's sum [N, scores + 1], and which examples have the part, bool [N]."""
    rows = [[evidence(n, e.scores[n]) if n in e.scores else 0.0 for n in names] + [1.0] for e in examples]
    return np.array(rows), np.array([any(n in e.scores for n in names) for e in examples])


def _unlikelihood(
    tables: Sequence[tuple[Floats, NDArray[np.bool_]]], weights: Sequence[Floats], valid: Floats
) -> tuple[float, Floats]:
    """The mean of -log p of the answers, with the penalty, and its slope along all weights."""
    sums = [table @ weight for (table, _), weight in zip(tables, weights, strict=True)]
    logs = [np.where(there, -np.logaddexp(0, -z), 0) for (_, there), z in zip(tables, sums, strict=True)]
    whole = np.minimum(np.sum(logs, axis=0), _SUREST)
    product = np.exp(whole)
    total = -np.mean(valid * whole + (1 - valid) * np.log1p(-product))
    rising = (valid - (1 - valid) * product / (1 - product)) / len(valid)
    slopes = []
    for (table, there), z, weight in zip(tables, sums, weights, strict=True):
        own = np.append(weight[:-1], 0)  # biases are not held back
        total += _PENALTY * (own @ own)
        slopes.append(2 * _PENALTY * own - table.T @ (rising * np.where(there, 1 / (1 + np.exp(z)), 0)))
    return float(total), np.concatenate(slopes)
