"""Weights of the score "valid" found again in variants that were drawn by them; nothing is painted."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from picture_rows import picture_row
from refusing import refusal

from counterfactory.engine.files.fill import fill, plain
from counterfactory.engine.judging.fit_valid import (
    RECALLS,
    Example,
    Fit,
    examples_of,
    fit_points,
    fit_valid,
    fitted_toml,
    part_scores,
    strictest,
)
from counterfactory.engine.profile.check import CheckSettings, ValidPart
from counterfactory.engine.profile.profile import load_profile
from counterfactory.engine.stages.check.verdict import valid_score

TRUTH = (
    ValidPart("colour", ("said_colour", "edit_colour"), (1.0, 0.0), 1.0),
    ValidPart("label", ("said_label",), (0.8,), 1.5),
)


def share(log_odds: float) -> float:
    return 1 / (1 + math.exp(-log_odds))


def drawn(count: int, seed: int = 0) -> list[Example]:
    """Variants whose validity follows `TRUTH`; half of them have an edit of colour, few one of domain."""
    random = np.random.default_rng(seed)
    examples = []
    for number in range(count):
        coloured = number % 2 == 0
        scores = {"said_label": share(random.normal(1, 2)), "layout": random.uniform(0.4, 1)}
        if coloured:
            scores |= {"said_colour": share(random.normal(0, 2)), "edit_colour": random.uniform(0.1, 0.9)}
        types = ("colour",) if coloured else ("domain",) if number < 20 else ("weather",)
        valid = random.random() < (valid_score(scores, TRUTH) or 0)
        examples.append(Example(scores, f"scene {number // 5}", types, bool(valid)))
    return examples


EXAMPLES = drawn(2000)


@pytest.fixture(scope="module")
def fit() -> Fit:
    return fit_valid(EXAMPLES)


def test_parts_are_types_with_enough_edits_and_what_the_pictures_have() -> None:
    found = part_scores(EXAMPLES)
    assert found == {"colour": ("said_colour", "edit_colour"), "label": ("said_label",), "layout": ("layout",)}, (
        "weather has no scores here, domain too few edits"
    )
    more = {"said_domain": 0.5, "edit_weather": 0.5}
    some = [replace(example, scores={**example.scores, **more}) for example in EXAMPLES]
    assert part_scores(some)["weather"] == ("edit_weather",)
    assert "domain" not in part_scores(some)
    assert "domain" in part_scores([replace(some[0], types=("domain",))] * 20)
    assert "domain" not in part_scores([replace(some[0], types=("domain",))] * 19)


def test_the_weights_that_made_the_answers_are_found(fit: Fit) -> None:
    colour, label, layout = fit.parts
    assert colour.weights[0] == pytest.approx(1, abs=0.25)
    assert colour.weights[1] < 0.2
    assert colour.bias == pytest.approx(1, abs=0.4)
    assert label.weights[0] == pytest.approx(0.8, abs=0.25)
    assert layout.probability({"layout": 0.6}) > 0.95, "what decides nothing rejects nothing"  # type: ignore[operator]


def test_no_other_weights_are_likelier() -> None:
    """At the fit the likelihood less the penalty, by the score that the weights are for, rises along no weight."""
    some = drawn(300, seed=1)
    parts = fit_valid(some).parts
    at = [number for part in parts for number in (*part.weights, part.bias)]

    def loss(numbers: Sequence[float]) -> float:
        left = iter(numbers)
        other = [replace(p, weights=tuple(next(left) for _ in p.weights), bias=next(left)) for p in parts]
        likely = [abs((not one.valid) - (valid_score(one.scores, other) or 0)) for one in some]
        return 0.002 * sum(w * w for part in other for w in part.weights) - float(np.mean(np.log(likely)))

    for place, number in enumerate(at):
        ends = (number and number - 0.01, number + 0.01)  # 0 is the least of a weight
        low, high = (loss([*at[:place], end, *at[place + 1 :]]) for end in ends)
        slope = (high - low) / (ends[1] - ends[0])
        assert slope > 0 if number == 0 else abs(slope) < 5e-4


def test_probabilities_are_out_of_fold_and_calibrated(fit: Fit) -> None:
    said, valid = np.array(fit.out_of_fold), np.array([example.valid for example in EXAMPLES])
    whole = np.array([valid_score(example.scores, fit.parts) for example in EXAMPLES])
    assert not np.array_equal(said, whole)
    assert np.abs(said - whole).max() < 0.15
    for low, high in ((0, 0.3), (0.3, 0.7), (0.7, 1)):
        some = (said >= low) & (said < high)
        assert valid[some].mean() == pytest.approx(said[some].mean(), abs=0.06)


def test_a_source_has_no_say_in_its_own_probabilities(fit: Fit) -> None:
    """Scenes of one fold turned over change the weights of all others, and not their own."""
    turned = [
        replace(example, valid=not example.valid) if int(example.source.split()[1]) % 5 == 2 else example
        for example in EXAMPLES
    ]
    before, after = fit.out_of_fold, fit_valid(turned).out_of_fold
    same = {int(e.source.split()[1]) % 5 for e, a, b in zip(EXAMPLES, before, after, strict=True) if a == b}
    assert same == {2}


def test_too_few_answers_fit_nothing() -> None:
    some = [replace(example, valid=number < 19) for number, example in enumerate(EXAMPLES[:60])]
    with refusal(r"19 variants are judged valid and 41 not, of 12 sources"):
        fit_valid(some)
    with refusal("41 variants are judged valid and 19 not"):
        fit_valid([replace(example, valid=not example.valid) for example in some])
    few = [replace(example, valid=number % 2 == 0, source=f"{number % 4}") for number, example in enumerate(some)]
    with refusal(r"30 not, of 4 sources: weights need 20 of either and 5 sources"):
        fit_valid(few)


def test_what_thresholds_let_pass(fit: Fit) -> None:
    chances, valid = [0.1, 0.2345, 0.5, 0.7, 0.9], [True, True, False, True, True]
    assert strictest(chances, valid, 1.0) == 0.1
    assert strictest(chances, valid, 0.75) == 0.234, "rounded so that it is still reached"
    assert strictest(chances, valid, 0.5) == 0.7
    assert strictest(chances, [False] * 5, 0.9) == 0.0
    points = fit_points(fit, EXAMPLES)
    assert len(points) == len(RECALLS)
    first, valid = points[0], sum(example.valid for example in EXAMPLES)
    kept = [e.valid for e, said in zip(EXAMPLES, fit.out_of_fold, strict=True) if said >= first.limit]
    assert (first.accepted, first.judged, first.valid) == (len(kept), len(kept), sum(kept))
    assert first.recall == sum(kept) / valid
    assert 0.9 <= first.recall < 0.91


def test_what_is_printed_goes_into_a_profile() -> None:
    text = fitted_toml(TRUTH, 0.625)
    table = tomllib.loads(text.replace("[[check.valid]]", "[[valid]]"))
    check = plain(load_profile("pocket-lance").check) | {"recaption": True} | table
    found = fill(CheckSettings, check, "profile")
    assert (found.valid, found.least["valid"]) == (TRUTH, 0.625)


def test_examples_are_the_judged_rows() -> None:
    rows = [picture_row(0, scores={"layout": 0.5}), picture_row(1)]
    assert examples_of(rows, {rows[0].file_name: True}) == [Example({"layout": 0.5}, "bus/0000", ("weather",), True)]
