"""Chances and intervals, against SciPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from counterfactory.engine.judging.student import chi_square_p, false_discovery, t_reach, two_sided_p

FREEDOMS = (1, 2, 3, 4, 7, 11, 23, 100, 431, 5_000, 100_000)


@pytest.mark.parametrize("freedom", FREEDOMS)
def test_chances_of_t_are_scipy_s(freedom: int) -> None:
    for t in (0.0, 1e-9, 1e-3, 0.1, 0.5, 1.0, 1.96, 3.0, 5.0, 10.0, 35.0):
        for signed in (t, -t):
            assert two_sided_p(signed, freedom) == pytest.approx(2 * stats.t.sf(t, freedom), rel=1e-9, abs=1e-280)


@pytest.mark.parametrize("freedom", FREEDOMS)
def test_reaches_are_scipy_s(freedom: int) -> None:
    for confidence in (0.5, 0.9, 0.95, 0.99):
        reach = t_reach(confidence, freedom)
        assert reach == pytest.approx(stats.t.ppf((1 + confidence) / 2, freedom), rel=1e-7)
        # SciPy's quantiles have fewer digits than its chances.
        assert 2 * stats.t.sf(reach, freedom) == pytest.approx(1 - confidence, rel=1e-9)


def test_an_endless_t_has_no_chance() -> None:
    assert two_sided_p(float("inf"), 5) == 0
    assert two_sided_p(1e200, 5) == 0


def test_chances_of_chi_square_are_scipy_s() -> None:
    for square in (0.0, 1e-6, 0.5, 1.0, 3.84, 20.0, 400.0):
        assert chi_square_p(square) == pytest.approx(stats.chi2.sf(square, 1), rel=1e-11)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_corrected_chances_are_scipy_s(chances: list[float]) -> None:
    np.testing.assert_allclose(false_discovery(chances), stats.false_discovery_control(chances), rtol=1e-12, atol=0)


def test_no_chances_are_none() -> None:
    assert false_discovery([]) == []
