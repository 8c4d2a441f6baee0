"""Every option of `merge` is seen to arrive; see wiring.py."""

from __future__ import annotations

from wiring import House, shows
from wiring_cases import arrival


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
    house.refuses("holds no finished suite", command, parts[0], house.new("none"), "--out", house.new("x"))


test_an_option_of_merge_arrives = arrival("merge")
