"""What a run may be asked for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.request import SuiteRequest
from counterfactory.engine.tasks.task import builtin_task

SETTINGS = SuiteRequest(builtin_task("classification"), variants=1, controls=0, edits=(1, 1), seed=0)


def test_variants_controls_and_edits_that_cannot_be_are_refused() -> None:
    assert replace(SETTINGS, seed=1).edits == (1, 1)
    assert replace(SETTINGS, variants=2, controls=1, edits=(2, 3)).edits == (2, 3)
    with pytest.raises(CounterfactoryError, match=r"^--variants must be at least 1, got 0$"):
        replace(SETTINGS, variants=0)
    with pytest.raises(CounterfactoryError, match=r"^--controls must be 0 \(none\) or more, got -1$"):
        replace(SETTINGS, controls=-1)
    for low, high in ((0, 1), (3, 2)):
        with pytest.raises(
            CounterfactoryError, match=rf"^--edits must be a number or a range such as 1\.\.3, got {low}\.\.{high}$"
        ):
            replace(SETTINGS, edits=(low, high))


def test_levels_share_the_variants_among_them_and_can_be_told_apart() -> None:
    assert SETTINGS.levels == 1
    found = [replace(SETTINGS, variants=variants, levels=5).sets for variants in (1, 5, 6, 10)]
    assert found == [1, 1, 2, 2]
    assert replace(SETTINGS, levels=9).levels == 9
    for levels in (0, 10):
        with pytest.raises(CounterfactoryError, match=rf"^--levels is 1 \(edits in full alone\) to 9, got {levels}$"):
            replace(SETTINGS, levels=levels)
