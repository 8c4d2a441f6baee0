"""Every option of `estimate` is seen to arrive; see wiring.py."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from command_line import Command
from test_screens import forecast
from wiring import House, shows
from wiring_cases import arrival

from counterfactory.engine.api import verbs
from counterfactory.engine.api.planned import Forecast


@shows("--sources", "estimate")
def _(house: House, command: str) -> None:
    assert house.run(command, "--sources", 5).data["sources"] == 5


@shows("--memory", "estimate")
def _(house: House, command: str) -> None:
    (held,) = house.ask(command, "--memory", 7).data["holdings"]
    assert held.keys() == {"memory_bytes", "problem", "shards", "load_s", "peak_bytes", "first", "steady"}
    assert (held["memory_bytes"], held["problem"], held["shards"]) == (7_000_000_000, None, 1)
    assert held["load_s"] > 0
    assert held["first"]


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


def test_either_sources_or_a_number_of_them(run: Command, tmp_path: Path) -> None:
    told = "estimate takes either SOURCES, a folder or a file, or --sources N, a number of them"
    run.refuses(told, "estimate")
    run.refuses(told, "estimate", tmp_path, "--sources", 5)


def test_what_memory_holds_is_shown_once_where_it_is_the_same(monkeypatch: pytest.MonkeyPatch, run: Command) -> None:
    """Of a CPU's networks for each memory; a profile without networks has none."""
    predicted = forecast()
    first, second, *_ = predicted.holdings
    given = replace(predicted, holdings=(first, first, second))
    monkeypatch.setattr(verbs, "forecast", lambda *_, **__: Forecast(given))
    lines = run.text("estimate", "--sources", 5).splitlines()
    assert len([line for line in lines if line.startswith("memory ")]) == 3
    assert lines.count("Resident") == 2
    monkeypatch.setattr(verbs, "forecast", lambda *_, **__: Forecast(replace(given, plans=())))
    assert "memory " not in run.text("estimate", "--sources", 5)


test_an_option_of_estimate_arrives = arrival("estimate")
