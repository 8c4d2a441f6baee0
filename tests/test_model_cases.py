"""Public reports about models and their answers come to what is right."""

from __future__ import annotations

from pathlib import Path

import pytest
from model_cases.all import CASES
from model_cases.table import Case, differences, working_in


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name.replace(" ", "-"))
def test_a_report_comes_to_what_is_right(case: Case, tmp_path: Path) -> None:
    with working_in(tmp_path) as workshop:
        found = case.find(workshop)
    assert not differences(case.right, found), workshop.sentence
    assert not any(outcome.crashed for outcome in workshop.outcomes)
