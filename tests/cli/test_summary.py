"""The lines and the table that say what a run took."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from counterfactory.engine.cli.run_text import (
    as_data,
    cost_line,
    cost_table,
    count_line,
    figure,
    memory,
    time_lines,
    use_line,
)
from counterfactory.engine.cli.terminal import Terminal
from counterfactory.engine.meter.meter import StageCost
from counterfactory.engine.suite.run_record import RunSummary, SuiteCosts


def stage(name: str, load_s: float = 0.0, busy_s: float = 0.0, idle_s: float = 0.0, **changes: Any) -> StageCost:
    """A stage whose wall time is what it was made of."""
    nothing: dict[str, Any] = dict.fromkeys(("items", "made", "calls", "rows", "prompt_tokens", "generated_tokens"), 0)
    spent: dict[str, Any] = {"load_s": load_s, "busy_s": busy_s, "idle_s": idle_s}
    return StageCost(
        name, wall_s=load_s + busy_s + idle_s, **{"items_per_s": None, "fill": None, **nothing, **spent, **changes}
    )


def report(*stages: StageCost, **changes: Any) -> RunSummary:
    """A run of two cores that painted 120 variants."""
    counts = {"sources": 24, "variants": 120, "accepted": 100, "rejected": 20, "painted": 120, "dropped": 0}
    counts |= {"controls": 0, "rejected_controls": 0}
    costs = {
        "devices": 2,
        "device": "core",
        "peak_memory_bytes": 1_500_000_000,
        "wall_s": sum(stage.wall_s for stage in stages),
    }
    rest: dict[str, Any] = {"reused": 0, "problems": (), "shortfalls": (), "plans": (), "energy_j": None}
    values = {**counts, **costs, **rest, **changes}
    alone = SuiteCosts(1, {"core": 2 * values["wall_s"] / 3600}, values["wall_s"], None, ())
    return RunSummary(stages=stages, **({"suite": alone} | values))


def test_several_sessions_cost_what_they_took_together() -> None:
    idle = report(stage("read", idle_s=0.9), suite=SuiteCosts(12, {"core": 123.456}, 300_000.0, None, ()), painted=0)
    assert max(map(len, [cost_line(idle), *time_lines(idle)])) <= 80
    assert cost_line(idle).endswith(" 1,235 core-hours per 1,000 accepted in 12 sessions; this one 0")
    resumed = report(stage("read", idle_s=0.9), suite=SuiteCosts(2, {"core": 0.0162}, 30.0, None, ()))
    assert cost_line(resumed) == "cost       0.162 core-hours per 1,000 accepted in 2 sessions; this one 0.005"


def test_time_outside_of_all_stages_is_told() -> None:
    table = cost_table(report(stage("paint", 1, 6, 2), wall_s=12.5))
    assert table.rows[-2] == ("(between)", "-", "-", "-", "3.5", "-", "-", "-", "-")
    assert table.rows[-1][2:5] == ("1.0", "6.0", "5.5")
    overlapped = cost_table(report(stage("paint", 1, 6, 2), wall_s=8.0))
    assert [row[0] for row in overlapped.rows] == ["paint", "total"]
    assert overlapped.rows[-1][2:5] == ("1.0", "6.0", "2.0")


some_seconds = st.floats(0, 150_000)  # a stage may take two days


@given(
    st.lists(
        st.builds(
            stage,
            st.sampled_from(["read", "caption", "rewrite", "paint", "check", "write"]),
            load_s=st.floats(0, 99_999),
            busy_s=some_seconds,
            idle_s=some_seconds,
            items_per_s=st.none() | st.floats(0.001, 99_999),
            rows=st.integers(0, 10**9),
            fill=st.none() | st.floats(0.01, 1),
            prompt_tokens=st.integers(0, 10**9),
            generated_tokens=st.integers(0, 10**9),
        ),
        min_size=1,
        max_size=6,
    ),
    st.floats(0, 1000),
)
@settings(max_examples=50)
def test_the_table_fits_eighty_columns_and_adds_up(stages: list[StageCost], rest: float) -> None:
    out = io.StringIO()
    wall_s = sum(stage.wall_s for stage in stages) + rest
    table = cost_table(report(*stages, wall_s=wall_s))
    Terminal(out=Console(file=out, width=80, highlight=False)).show(table)
    text = out.getvalue()
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= 80
    shown = sum(float(cell.replace(",", "")) for cell in table.rows[-1][2:5])
    assert shown == pytest.approx(wall_s, abs=0.2 if wall_s < 1000 else 2)


def test_controls_took_no_tokens() -> None:
    # A sixth of the pictures are controls, for which nothing was written.
    beside = report(stage("rewrite", generated_tokens=2400), controls=23, rejected_controls=1, painted=144)
    assert use_line(beside).endswith("20 tokens per variant")
    assert count_line(beside).endswith("24 sources, 23 of 24 controls accepted")


def test_the_report_is_plain_data() -> None:
    data = json.loads(json.dumps(as_data(report(stage("paint", 1, 2, 3, generated_tokens=240))), allow_nan=False))
    assert data["stages"][0]["busy_s"] == 2
    assert (data["costs"]["sessions"], "suite" in data) == (1, False), "a suite is a path in every command's JSON"
    assert (data["models_load_s"], data["tokens_per_variant"], data["energy_j"]) == (1, 2, None)
    assert data["device_hours_per_1k_accepted"] == pytest.approx(2 * 6 / 3.6 / 100)


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (0.0, "0"), (0.1423, "0.142"), (999.4, "999"), (999.6, "1,000"), (12345.6, "12,346")],
)
def test_figures_have_three_digits_or_all_before_the_point(value: float | None, text: str) -> None:
    assert figure(value) == text


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 B"), (999, "999 B"), (1000, "1 kB"), (999_600, "1 MB"), (3_210_000_000, "3.21 GB")]
)
def test_memory_in_decimal_units(size: int, text: str) -> None:
    assert memory(size) == text
