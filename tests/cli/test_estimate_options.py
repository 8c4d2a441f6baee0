"""Every option of `estimate` is seen to arrive; see wiring.py."""

from __future__ import annotations

import pytest
from wiring import House, shows
from wiring_cases import arrival


@shows("--sources", "estimate")
def _(house: House, command: str) -> None:
    assert house.run(command, "--sources", 5).data["sources"] == 5


@shows("--memory", "estimate")
def _(house: House, command: str) -> None:
    assert [one["memory_bytes"] for one in house.ask(command, "--memory", 7).data["holdings"]] == [7_000_000_000]


@shows("--baseline", "estimate")
def _(house: House, command: str) -> None:
    plain, both = (house.ask(command, "--variants", 3, *more).data for more in ((), ("--baseline", "light")))
    assert (plain["baselines"], both["baselines"]) == (0, 9)
    assert (plain["pictures"], both["pictures"]) == (3 + 9, 3 + 9 + 9)
    assert both["disk_bytes"] / plain["disk_bytes"] == pytest.approx(21 / 12, rel=1e-4)
    (drawn,) = (stage for stage in both["stages"] if stage["stage"] == "baseline")
    assert drawn["items"] == 9
    assert both["wall_s"] >= drawn["compute_s"] > 0
    assert "baseline" not in {stage["stage"] for stage in plain["stages"]}
    house.fails("light draws it already", command, "--profile", "light", "--baseline", "light")


test_an_option_of_estimate_arrives = arrival("estimate")
