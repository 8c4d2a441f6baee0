"""Every option of `plan` is seen to arrive; see wiring.py."""

from __future__ import annotations

import pytest
from wiring import CASES, House, options_by_command, shows
from wiring_cases import shown


@shows("--first", "plan")
def _(house: House, command: str) -> None:
    assert house.ask(command, "--first", 2).count == 2


@shows("--write", "plan")
def _(house: House, command: str) -> None:
    file = house.new("edits.csv")
    ran = house.ask(command, "--write", file)
    assert len(file.read_text().splitlines()) == 1 + len(ran.edits)


@pytest.mark.parametrize("option", shown("plan"))
def test_an_option_of_plan_arrives(house: House, option: str) -> None:
    CASES["plan", option](house, "plan")


def test_no_option_of_plan_is_without_a_case() -> None:
    assert options_by_command()["plan"] == set(shown("plan"))
