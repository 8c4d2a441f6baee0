"""What seeds add to an interval, against simulated trainings of equal models and what SciPy says of single parts."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from counterfactory.engine.judging.effects import Effect, judge_difference
from counterfactory.engine.judging.seeds import spread_over_seeds


def over(values: list[float], error: float = 0.02, sources: int = 200) -> Effect:
    effect = judge_difference("originals", float(np.mean(values)), error, sources, sources, 1.0)
    return spread_over_seeds(effect, values)


def test_one_seed_has_a_value_and_no_interval() -> None:
    one = over([0.3])
    assert (one.value, one.low, one.high, one.p, one.clear) == (0.3, None, None, None, False)


def test_seeds_that_agree_leave_the_interval_as_it_is() -> None:
    alone, one = judge_difference("originals", 0.1, 0.02, 200, 200, 1.0), over([0.1] * 3)
    assert (one.low, one.high) == pytest.approx((alone.low, alone.high))
    assert one.p == pytest.approx(alone.p, abs=2e-9)


def test_where_sources_agree_the_interval_is_student_s_over_seeds() -> None:
    values = [0.1, 0.2, 0.4]
    one = over(values, error=1e-12, sources=10**6)
    found = stats.ttest_1samp(values, 0)
    assert (one.low, one.high) == pytest.approx(tuple(found.confidence_interval()), abs=1e-4)
    assert one.p == pytest.approx(found.pvalue, rel=1e-3)


@pytest.mark.parametrize("spread", [0.0, 0.05])
@pytest.mark.parametrize("seeds", [2, 3])
def test_the_chance_and_the_interval_agree(spread: float, seeds: int) -> None:
    values = [0.05 + spread * (-1) ** k for k in range(seeds)]
    one = over(values)
    assert one.low is not None
    assert one.p is not None
    assert (one.p < 0.05) is (one.low > 0)
    # At the interval's end the chance is the interval's own.
    reach = (one.value or 0) - one.low
    assert over([value - np.mean(values) + reach for value in values]).p == pytest.approx(0.05, abs=1e-6)


@pytest.mark.parametrize(("seeds", "between"), [(2, 0.02), (3, 0.0), (3, 0.2)])
def test_of_equal_models_at_most_one_in_twenty_differs_clearly(seeds: int, between: float) -> None:
    rng, sources, draws, false = np.random.default_rng(1), 100, 40, 0
    for _ in range(draws):
        scenes = rng.normal(0, 0.3 / math.sqrt(sources))
        values = scenes + rng.normal(0, between, seeds) + rng.normal(0, 0.2 / math.sqrt(sources), seeds)
        error = math.sqrt((0.3**2 + 0.2**2 / seeds) / sources * rng.chisquare(sources - 1) / (sources - 1))
        one = over(values.tolist(), error, sources)
        false += one.p is not None and one.p < 0.05
    assert false / draws <= 0.05
