"""Two models on one suite: gaps, what edits do to one more than to the other, and limits, held against simulations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from picture_rows import control_row, original_row, picture_row
from refusing import refusal
from scipy import stats

from counterfactory.engine.edit import Edit
from counterfactory.engine.judging.compare import Comparison, check_regression, compare
from counterfactory.engine.suite import PictureRow

TYPES = ("background", "colour", "time", "weather")


def suite_rows(sources: int, variants: int = 3) -> list[PictureRow]:
    """Originals, a control each, and variants of one or two types."""
    random = np.random.default_rng(1)
    rows: list[PictureRow] = []
    for source in range(sources):
        rows += [original_row(source), control_row(source)]
        for number in range(variants):
            types = random.choice(TYPES, 1 + number % 2, replace=False)
            edits = tuple(Edit(str(kind), "", f"{kind} {random.integers(2)}") for kind in types)
            rows.append(picture_row(3 * source, file_name=f"images/{source}/{number}.png", edits=edits))
    return rows


def outcomes(rows: Sequence[PictureRow], right: Sequence[bool]) -> dict[str, float]:
    return {row.file_name: float(one) for row, one in zip(rows, right, strict=True)}


def pair(
    rows: Sequence[PictureRow], seed: int, loss: float, disagree: float = 0.08
) -> tuple[dict[str, float], dict[str, float]]:
    """A model of hard and easy sources, and one that errs elsewhere as often, and `loss` of the pictures more."""
    random = np.random.default_rng(seed)
    sources = {row.source: random.beta(4, 2) for row in rows}
    chance = np.array([sources[row.source] for row in rows])
    first = random.random(len(rows)) < chance
    second = np.where(random.random(len(rows)) < disagree, random.random(len(rows)) < chance, first)
    second &= random.random(len(rows)) >= loss / max(first.mean(), 1e-9)
    return outcomes(rows, first), outcomes(rows, second)


def compared(rows: Sequence[PictureRow], first: dict[str, float], second: dict[str, float]) -> Comparison:
    return compare(rows, first, second, ("old", "new"))


def test_a_gap_is_the_difference_of_means_and_its_interval_scipy_s() -> None:
    """With one picture a source the jackknife is the textbook's paired t-test."""
    rows = [picture_row(3 * source, edits=(Edit("time", "day", "night"),)) for source in range(40)]
    random = np.random.default_rng(3)
    first, second = (outcomes(rows, random.random(40) < share) for share in (0.8, 0.5))
    found = compared(rows, first, second)
    (gap,) = found.by_type
    assert found.to_json()["by_type"][0]["name"] == "time"
    a, b = (np.array([side[row.file_name] for row in rows]) for side in (first, second))
    test = stats.ttest_rel(b, a)
    assert (gap.name, gap.first, gap.second) == ("time", a.mean(), b.mean())
    assert gap.effect.value == pytest.approx((b - a).mean())
    assert gap.effect.p == pytest.approx(test.pvalue, rel=1e-6)
    low, high = test.confidence_interval()
    assert (gap.effect.low, gap.effect.high) == (pytest.approx(low), pytest.approx(high))
    # A limit is broken where a one-sided test says so, and kept where the whole interval is within.
    surely = -stats.ttest_rel(b, a, alternative="less").confidence_interval().high
    assert 0 < surely < -low
    for share, outcome in ((surely - 1e-6, "broken"), (surely + 1e-6, "undecided"), (1e-6 - low, "kept")):
        assert {finding.outcome for finding in check_regression(found, 100 * share)} == {outcome}
    assert {finding.outcome for finding in check_regression(found, -100 * low - 1e-4)} == {"undecided"}


def test_a_model_that_fails_on_all_of_many_sources_breaks_every_limit() -> None:
    rows = [picture_row(3 * source) for source in range(1000)]
    never = compared(rows, outcomes(rows, [True] * 1000), outcomes(rows, [False] * 1000))
    assert {finding.outcome for finding in check_regression(never, 2.0)} == {"broken"}


def test_what_an_edit_does_to_one_model_more() -> None:
    """The second model fails on each picture at night, the first on none: time breaks it by 100 points more."""
    rows: list[PictureRow] = []
    for source in range(60):
        rows += [control_row(source)]
        for number, kind in enumerate(("time", "weather")):
            edits = (Edit(kind, "", "x"),)
            rows.append(picture_row(3 * source, file_name=f"images/{source}/{number}.png", edits=edits))
    first = outcomes(rows, [True] * len(rows))
    second = outcomes(rows, ["time" not in row.edit_types for row in rows])
    found = compared(rows, first, second)
    assert found.measure == "accuracy"
    breaks = {effect.name: effect for effect in found.breaks_by_type}
    assert breaks["time"].value == pytest.approx(-1)
    assert breaks["weather"].value == pytest.approx(0)
    assert breaks["time"].clear
    assert not breaks["weather"].clear
    assert breaks["weather"].floored, "the floor is of differences, which are twice as large"
    rare = second | {next(row.file_name for row in rows if "weather" in row.edit_types): 0.0}
    for one in compare(rows, first, rare, ("a", "b")).breaks_by_type:
        known = max(one.error * stats.t.ppf(0.975, one.sources - 1), one.most * (1 - 0.025 ** (1 / one.sources)))
        assert one.high - one.value == pytest.approx(known)
    by_value = {effect.name: effect.value for effect in found.breaks_by_value}
    assert by_value == {"time: x": pytest.approx(-1), "weather: x": pytest.approx(0)}
    assert [(gap.name, gap.first, gap.second) for gap in found.by_class] == [("bus", 1, 0.5)]
    assert compared([replace(row, label=None) for row in rows], first, second).by_class == ()
    equal = compared(rows, second, second)
    assert [effect.value for effect in equal.breaks_by_type] == pytest.approx([0, 0])


def test_order_turns_signs_and_pictures_of_one_model_do_not_count() -> None:
    rows = suite_rows(50)
    first, second = pair(rows, 5, 0.05)
    there, back = compared(rows, first, second), compared(rows, second, first)
    for one, other in zip(there.by_value, back.by_value, strict=True):
        assert (one.first, one.second) == (other.second, other.first)
        assert one.effect.value == pytest.approx(-(other.effect.value or 0))
        assert one.effect.low == pytest.approx(-(other.effect.high or 0))
    rows = suite_rows(10)
    first, second = pair(rows, 5, 0.3)
    del second[rows[2].file_name]
    rows[3] = replace(rows[3], reason="it was not seen")
    assert compared(rows, first, second).pictures == len(rows) - 2
    with refusal("old and new answered no picture in common"):
        compared(rows, first, {})


def broken(rows: Sequence[PictureRow], seed: int, loss: float, most: float) -> bool:
    findings = check_regression(compared(rows, *pair(rows, seed, loss)), most)
    assert len(findings) == 3 + len(TYPES)
    return any(finding.outcome == "broken" for finding in findings)


def test_false_alarms_are_rare() -> None:
    """Models that err as often as each other, of 24 sources: with no loss allowed, at most 1 of 20 is called broken."""
    rows = suite_rows(24)
    assert sum(broken(rows, seed, 0.0, 0.0) for seed in range(100)) <= 5


def test_a_certain_loss_is_broken_and_a_certain_tie_kept() -> None:
    rows = suite_rows(200)
    assert broken(rows, 1, 0.3, 2.0)
    first, _ = pair(rows, 1, 0.0)
    same = check_regression(compared(rows, first, first), 2.0)
    assert {finding.outcome for finding in same if "with" not in finding.limit} == {"kept"}
    assert same[0].limit == "originals lose at most 2 points"
    small = suite_rows(12)
    for few in (compared(rows[:5], first, first), compared(small, *pair(small, 2, 0.03))):
        assert {finding.outcome for finding in check_regression(few, 2.0)} == {"undecided"}
