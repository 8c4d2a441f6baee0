"""What a run may be asked for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.request import SuiteRequest
from counterfactory.engine.tasks.task import builtin_task

SETTINGS = SuiteRequest(builtin_task("classification"), variants=1, controls=0, edits=(1, 1), seed=0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"variants": 0}, "--variants must be at least 1, got 0"),
        ({"controls": -1}, r"--controls must be 0 \(none\) or more, got -1"),
        ({"edits": (0, 1)}, r"--edits must be a number or a range such as 1\.\.3, got 0\.\.1"),
        ({"edits": (3, 2)}, r"--edits must be a number or a range such as 1\.\.3, got 3\.\.2"),
        ({"levels": 0}, r"--levels is 1 \(edits in full alone\) to 9, got 0"),
        ({"levels": 10}, r"--levels is 1 \(edits in full alone\) to 9, got 10"),
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(CounterfactoryError, match=f"^{message}$"):
        replace(SETTINGS, **options)


def test_levels_share_the_variants_among_them() -> None:
    assert (SETTINGS.levels, replace(SETTINGS, variants=2, controls=1, edits=(2, 3), levels=9).levels) == (1, 9)
    assert [replace(SETTINGS, variants=variants, levels=5).sets for variants in (1, 5, 6, 10)] == [1, 1, 2, 2]
