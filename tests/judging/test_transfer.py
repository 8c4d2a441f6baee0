"""Painted effects against real ones over models: held against SciPy, and against models whose truth is drawn."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusing import refusal
from scipy import stats

from counterfactory.engine.judging.transfer import ALL, find_transfers, rank_correlations, slopes

VALUES = st.lists(st.tuples(st.integers(-5, 5), st.integers(-5, 5)), min_size=3, max_size=20)


@given(VALUES)
def test_correlation_and_slope_are_scipys(pairs: list[tuple[int, int]]) -> None:
    """Ties included."""
    x, y = np.array(pairs, np.float64).T
    (slope,), (correlation,) = slopes(x[None], y[None]), rank_correlations(x[None], y[None])
    varies = [len(set(side.tolist())) > 1 for side in (x, y)]
    assert np.isnan(slope) != varies[0]
    assert np.isnan(correlation) != all(varies)
    if varies[0]:
        assert slope == pytest.approx(stats.linregress(x, y).slope, abs=1e-9)
    if all(varies):
        assert correlation == pytest.approx(stats.spearmanr(x, y).statistic, abs=1e-9)


def drawn(count: int, gain: float, noise: float, seed: int) -> tuple[list[dict[str, float]], list[dict[str, float]]]:
    """Effects of models whose real drops are `gain` times the painted ones, and noise."""
    rng = np.random.default_rng(seed)
    painted = rng.uniform(-0.6, 0, (count, 2))
    real = gain * painted + noise * rng.standard_normal((count, 2))
    sides = ([{"time": time, "weather": weather} for time, weather in side.tolist()] for side in (painted, real))
    return next(sides), next(sides)


def test_the_slope_that_was_drawn_lies_in_the_interval_about_as_often_as_said() -> None:
    held, count = 0, 25
    for seed in range(count):
        (_, time, _) = find_transfers(*drawn(14, 0.8, 0.05, seed))
        assert time.name == "time"
        held += time.slope.low <= 0.8 <= time.slope.high
    assert 0.8 * count <= held < count  # a bootstrap over few models is a little too short


def test_models_that_are_alike_by_chance_are_not_said_to_predict() -> None:
    said = [one.predicts for seed in range(25) for one in find_transfers(*drawn(14, 0.0, 0.1, seed))[1:]]
    assert sum(said) <= 0.1 * len(said)
    assert all(one.predicts for one in find_transfers(*drawn(14, 1.0, 0.02, 1)))


def test_all_names_together_keep_a_models_own_together() -> None:
    painted, real = drawn(8, 1.0, 0.05, 3)
    first, *single = find_transfers(painted, real)
    flat, true = (np.array([[row["time"], row["weather"]] for row in side]) for side in (painted, real))
    assert (first.name, [one.name for one in single]) == (ALL, ["time", "weather"])
    less = [(side - side.mean(axis=0)).ravel() for side in (flat, true)]
    assert first.rank_correlation.value == pytest.approx(stats.spearmanr(*less).statistic)
    assert first.slope.value == pytest.approx(stats.linregress(*less).slope)
    assert single[0].painted == tuple(flat[:, 0])
    assert single[1].real == tuple(true[:, 1])


def test_that_values_are_hard_on_both_sides_is_no_word_on_models() -> None:
    """Night costs much and haze little, painted and real, and which model loses more says nothing."""
    rng, hard, named = np.random.default_rng(5), np.array([-0.5, -0.3, -0.1, 0.0]), 0
    for _ in range(60):
        sides = (hard + rng.normal(0, 0.05, (6, 1)) + rng.normal(0, 0.05, (6, 4)) for _ in range(2))
        painted, real = ([{f"t: {k}": float(v) for k, v in enumerate(row)} for row in side] for side in sides)
        named += find_transfers(painted, real)[0].predicts
    assert named <= 8


def test_a_type_counts_once_beside_its_values() -> None:
    painted, real = (
        [{"time": -9.0, "time: night": row["time"], "weather: foggy": row["weather"]} for row in side]
        for side in drawn(8, 1.0, 0.05, 3)
    )
    values = find_transfers(*drawn(8, 1.0, 0.05, 3))[0]
    assert find_transfers(painted, real)[0] == values


def test_what_both_sides_have_is_compared_of_four_models_or_more() -> None:
    painted, real = drawn(6, 1.0, 0.05, 3)
    for row in real:
        del row["time"]
    (only,) = find_transfers(painted, real)
    assert only.name == "weather"
    with refusal(r"no edit of the suite is a condition.*such as time; the table has w"):
        find_transfers([{"time": row["time"]} for row in painted], real)
    with refusal(r"such as weather: rainy; the table has none$"):
        find_transfers([{}] * 6, [{}] * 6)
    painted, real = drawn(3, 1.0, 0.05, 3)
    with refusal("needs 4 models or more, got 3"):
        find_transfers(painted, real)
    (alike,) = find_transfers([{"time": -0.5}] * 5, [{"time": -0.1 * k} for k in range(5)])
    assert (alike.rank_correlation.value, alike.slope.low, alike.predicts) == (None, None, False)
    # Of four drawn models fewer than half differ on both sides.
    (few,) = find_transfers([{"time": x} for x in (-0.5, 0, 0, 0)], [{"time": y} for y in (0, -0.5, 0, 0)])
    assert (few.rank_correlation.value, few.rank_correlation.low) == (pytest.approx(-1 / 3), None)
