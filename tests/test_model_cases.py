"""Public reports about models and their answers come to what is right; of each kind the first one is quick."""

from __future__ import annotations

from pathlib import Path

import pytest
from model_cases.all import CASES
from model_cases.table import Case, differences, kind_of, working_in

_FIRST = {kind_of(case): case for case in reversed(CASES)}
_MARKS = [[] if _FIRST[kind_of(case)] is case else [pytest.mark.slow] for case in CASES]


def test_names_of_reports_are_their_own() -> None:
    assert len({case.name for case in CASES}) == len(CASES)


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, marks=marks) for case, marks in zip(CASES, _MARKS, strict=True)],
    ids=lambda case: case.name.replace(" ", "-"),
)
def test_a_report_comes_to_what_is_right(case: Case, tmp_path: Path) -> None:
    with working_in(tmp_path) as workshop:
        found = case.find(workshop)
    assert not differences(case.right, found), workshop.sentence
    assert not any(outcome.crashed for outcome in workshop.outcomes)
