"""Consensus, intervals and agreement, against tables, SciPy and published examples."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from counterfactory.engine.judging.student import proportion_interval
from counterfactory.engine.review.agreement import consensus, find_alpha, find_mean, find_share


@pytest.mark.parametrize(
    ("answers", "per_picture", "agreed"),
    [
        ([1, 1, 1, 1, 1], 5, 1),
        ([1, 1, 1, 1, 0], 5, 1),
        ([1, 1, 1, 0, 0], 5, None),
        ([0, 0, 0, 0, 1], 5, 0),
        ([1, 1, 1, 1], 5, 1),  # as a fifth cannot change it
        ([1, 1, 1], 5, None),
        ([1, 1, 1, 1, 0, 0], 5, None),  # 4 of 6 is less than 4 of 5
        ([1], 1, 1),
        ([1, 0], 2, None),
        ([], 5, None),
        ([3, 3, 3, 3, 4], 5, 3),
    ],
)
def test_four_of_five_agree(answers: list[int], per_picture: int, agreed: int | None) -> None:
    assert consensus(answers, per_picture) == agreed


def test_pictures_of_one_source_count_as_far_as_they_differ() -> None:
    """Korn and Graubard: as many as p(1-p) over the jackknife's variance, times the squared ratio of the two t."""
    rng = np.random.default_rng(3)
    outcomes = [(str(source), bool(rng.random() < p)) for source, p in enumerate(rng.beta(2, 1, 60)) for _ in range(5)]
    share = find_share(outcomes)
    parts = np.array([sum(hit for name, hit in outcomes if name == str(source)) for source in range(60)])
    whole = np.full(60, 5)
    p = parts.sum() / 300
    without = (parts.sum() - parts) / (300 - whole)
    variance = 59 / 60 * ((without - p) ** 2).sum()
    effective = min(p * (1 - p) / variance, 300) * (stats.t.ppf(0.975, 299) / stats.t.ppf(0.975, 59)) ** 2
    assert (share.value, share.count) == (pytest.approx(p), 300)
    assert (share.low, share.high) == pytest.approx(proportion_interval(p, effective, 0.95))
    alike = [(source, source < "3") for source in "0123456789" for _ in range(50)]
    few = find_share(alike)
    assert few.low < 0.1, "ten sources are not five hundred pictures"


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.booleans()), min_size=1, max_size=60))
def test_an_interval_holds_its_share(outcomes: list[tuple[str, bool]]) -> None:
    share = find_share(outcomes)
    assert share.value == pytest.approx(sum(hit for _, hit in outcomes) / len(outcomes))
    if len({source for source, _ in outcomes}) < 2:
        assert (share.low, share.high) == (None, None)
    else:
        assert 0 <= share.low <= share.value <= share.high <= 1


def test_a_mean_s_interval_is_student_s_over_sources() -> None:
    values = [3.0, 4.5, 5.0, 2.0, 4.0, 3.5]
    mean = find_mean([(str(i), value) for i, value in enumerate(values)], 1, 5)
    low, high = stats.t.interval(0.95, 5, np.mean(values), stats.sem(values))
    assert (mean.value, mean.low, mean.high) == pytest.approx((np.mean(values), low, high))
    assert find_mean([], 1, 5).value is None
    assert find_mean([("a", 5.0), ("b", 5.0)], 1, 5).high == 5


# Krippendorff, Computing Krippendorff's Alpha-Reliability (2011), example C: four observers, twelve units.
OBSERVERS = (
    (1, 2, 3, 3, 2, 1, 4, 1, 2, None, None, None),
    (1, 2, 3, 3, 2, 2, 4, 1, 2, 5, None, 3),
    (None, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, None),
    (1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, None),
)


@pytest.mark.parametrize(("ordered", "alpha"), [(False, 0.743), (True, 0.815)])
def test_alpha_is_the_published_one(ordered: bool, alpha: float) -> None:
    units = {
        str(unit): {str(who): row[unit] for who, row in enumerate(OBSERVERS) if row[unit] is not None}
        for unit in range(12)
    }
    assert find_alpha(units, ordered=ordered) == pytest.approx(alpha, abs=5e-4)  # type: ignore[arg-type]


def test_alpha_of_two_observers_is_the_published_one_and_there_is_none_of_one_answer() -> None:
    """The same, example A: ten binary units of two observers."""
    pairs = zip((0, 1, 0, 0, 0, 0, 0, 0, 1, 0), (1, 1, 1, 0, 0, 1, 0, 0, 0, 0), strict=True)
    units = {str(unit): {"m": a, "j": b} for unit, (a, b) in enumerate(pairs)}
    assert find_alpha(units, ordered=False) == pytest.approx(0.095, abs=5e-4)
    assert find_alpha({}, ordered=False) is None
    assert find_alpha({"1": {"a": 1}, "2": {"a": 0}}, ordered=False) is None
    assert find_alpha({"1": {"a": 1, "b": 1}}, ordered=False) is None
