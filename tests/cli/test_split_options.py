"""Every option of `split` is seen to arrive; see wiring.py."""

from __future__ import annotations

import pytest
from wiring import CASES, House, options_by_command, shows
from wiring_cases import shown

from counterfactory.engine.suite import read_metadata


@shows("SUITE", "split")
@shows("--out", "split")
def _(house: House, command: str) -> None:
    outs = [house.new(name) for name in "abc"]
    ran = house.run(command, house.suite(), "--out", *outs)
    assert ran.status == 0
    assert [[row.source for row in read_metadata(out) if row.kind == "original"] for out in outs] == [
        *(["bus/0000"], ["bus/0002"], ["car/0001"])
    ]


@shows("--sources", "split")
def _(house: House, command: str) -> None:
    names, outs = house.file("names.txt", "car/0001\n"), [house.new("a"), house.new("b")]
    assert house.run(command, house.suite(), "--out", *outs, "--sources", names).status == 0
    assert {row.source for row in read_metadata(outs[0])} == {"car/0001"}


@pytest.mark.parametrize("option", shown("split"))
def test_an_option_of_split_arrives(house: House, option: str) -> None:
    CASES["split", option](house, "split")


def test_no_option_of_split_is_without_a_case() -> None:
    assert options_by_command()["split"] == set(shown("split"))
