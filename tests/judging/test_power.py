"""How many sources would tell a loss: by simulated suites of that size, and by what it must not depend on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from counterfactory.engine.judging.effects import Effect, PictureOutcome, find_effects
from counterfactory.engine.judging.power import TOLD, sources_to_tell
from counterfactory.engine.judging.student import t_reach


def drawn(sources: int, loss: float, rng: np.random.Generator) -> Effect:
    """What fog does, beside three edits that do nothing, to a model that fails on every tenth picture by itself."""
    answers = []
    for g in range(sources):
        answers.append(PictureOutcome(str(g), "control", float(rng.random() > 0.1)))
        for name in ("fog", "a", "b", "c"):
            fails = 0.1 + loss * (name == "fog")
            answers.append(PictureOutcome(str(g), "variant", float(rng.random() > fails), frozenset({name})))
    return next(one for one in find_effects(answers, "control") if one.name == "fog")


def test_a_suite_of_the_advised_size_tells_the_loss_in_four_of_five_whatever_the_pilot() -> None:
    rng = np.random.default_rng(3)
    for pilot in (12, 100):
        advised = [sources_to_tell(drawn(pilot, TOLD, rng), pilot, 4) for _ in range(15)]
        clear = [drawn(size, TOLD, rng).clear for size in advised for _ in range(3)]
        assert sum(clear) >= 36, (pilot, sum(clear))
        assert np.median(advised) < 3000


@settings(max_examples=25, deadline=None)
@given(st.integers(12, 2000), st.floats(0.0, 0.2), st.integers(1, 20))
def test_more_spread_more_tests_and_fewer_sources_ask_for_more(sources: int, error: float, tests: int) -> None:
    one = Effect("x", 0.0, -1, 1, 0.5, 0.5, sources, sources, min(error, 1 / np.sqrt(sources)))
    asked = sources_to_tell(one, sources, tests)
    assert len(str(asked).rstrip("0")) <= 2
    assert asked <= sources_to_tell(replace(one, error=one.error + 0.01), sources, tests)
    assert asked <= sources_to_tell(one, sources, tests + 1)
    assert asked <= sources_to_tell(one, 2 * sources, tests), "only some show the edit"
    # A larger pilot of the same spread of sources is surer of it, and asks for no more.
    larger = replace(one, sources=4 * sources, error=one.error / 2)
    assert sources_to_tell(larger, 4 * sources, tests) <= asked


def test_a_pilot_in_which_nothing_failed_does_not_promise_to_tell_by_few() -> None:
    """Its spread is 0, and its interval the floor: neither is extrapolated."""
    for sources in (12, 24, 100, 1000):
        nothing = Effect("x", 0.0, -0.1, 0.1, 1.0, 1.0, sources, sources, 0.0)
        needed = sources_to_tell(nothing, sources, 4)
        # A loss of 5 points of right and wrong answers has a variance of 5 points at least.
        assert needed >= (t_reach(1 - 0.05 / 4, needed - 1) + 0.84) ** 2 * 0.0475 / TOLD**2
        assert needed <= 600
