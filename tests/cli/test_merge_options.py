"""Every option of `merge` is seen to arrive; see wiring.py."""

from __future__ import annotations

import pytest
from wiring import CASES, House, options_by_command, shows
from wiring_cases import shown


@shows("SUITE", "merge")
@shows("--out", "merge")
def _(house: House, command: str) -> None:
    whole, parts = house.suite(), [house.new("a"), house.new("b")]
    split = house.run("split", whole, "--out", *parts)
    assert [one["sources"] for one in split.data["suites"]] == [1, 2]
    out = house.new("merged")
    ran = house.run(command, *parts, "--out", out)
    assert (ran.status, ran.data["suite"], ran.data["sources"]) == (0, str(out), 3)
    assert ran.data["suite_digest"] == house.run("verify", whole).data["digest"]
    refused = house.run(command, parts[0], house.new("none"), "--out", house.new("x"))
    assert (refused.status, "holds no finished suite" in refused.err) == (2, True)


@pytest.mark.parametrize("option", shown("merge"))
def test_an_option_of_merge_arrives(house: House, option: str) -> None:
    CASES["merge", option](house, "merge")


def test_no_option_of_merge_is_without_a_case() -> None:
    assert options_by_command()["merge"] == set(shown("merge"))
