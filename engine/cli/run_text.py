"""The summary: a run's report in a few lines for a person, and as plain data for a machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from ..meter.meter import StageCost
from ..report.table import Table
from ..suite.run_record import RunSummary

_SHOWN = 5
_TELLING_S = 0.05  # less reads as 0.0
_PREFIXES = ("", "k", "M", "G", "T")


def cost_line(report: RunSummary) -> str:
    """What a thousand accepted images cost, loading and waiting included: by all sessions over the suite, and of it by
    this one. Sessions on other kinds of device are named beside.
    """
    if report.device_hours_per_1k_accepted is None:
        return f"cost       no image was accepted; {duration(report.suite.wall_s)}"
    if report.suite.sessions == 1:
        return (
            f"cost       {figure(report.device_hours_per_1k_accepted)} {report.device}-hours per 1,000 accepted images "
            f"({duration(report.wall_s)}, loading {duration(report.models_load_s)})"
        )
    costs = report.suite.per_1k(report.accepted)
    total = " and ".join(f"{figure(costs[device])} {device}-hours" for device in sorted(costs))
    decimals = len(figure(costs[report.device]).partition(".")[2])  # no more than the sum shows
    own = report.session_device_hours_per_1k_accepted or 0.0
    return f"cost       {total} per 1,000 accepted in {report.suite.sessions} sessions; this one {own:.{decimals}f}"


def time_lines(report: RunSummary) -> list[str]:
    """How long this session and all of them took, where there were several: the cost says it where there was one."""
    if report.suite.sessions == 1:
        return []
    loading = f"loading {duration(report.models_load_s)}"
    return [f"spent      {duration(report.suite.wall_s)}, {duration(report.wall_s)} in this session ({loading})"]


def cost_table(report: RunSummary) -> Table:
    """Where the time went: a row per stage, and one for what passed outside of all; the rows add up to the wall time.

    Seconds are of wall time: loading models, busy inside them, and idle otherwise; they add up to more where work
    overlapped. Fill is rows over the capacity of the batches that they ran in. What a stage does not have is a dash.
    """
    rows = [_cost_row(stage) for stage in report.stages]
    rest = report.wall_s - sum(stage.wall_s for stage in report.stages)
    if rest >= _TELLING_S:
        rows.append(("(between)", "-", "-", "-", *_seconds(rest), "-", "-", "-", "-"))
    rows.append(_total_row(report.stages, max(0.0, rest)))
    columns = ("stage", "items/s", "load s", "busy s", "idle s", "fill %", "rows", "tokens in", "out")
    return Table("Cost by stage", columns, tuple(rows))


def _cost_row(stage: StageCost) -> tuple[str, ...]:
    return (
        stage.stage,
        figure(stage.items_per_s),
        *_seconds(stage.load_s, stage.busy_s, stage.idle_s),
        "-" if stage.fill is None else f"{100 * stage.fill:.1f}",
        *map(_count, (stage.rows, stage.prompt_tokens, stage.generated_tokens)),
    )


def _total_row(stages: Sequence[StageCost], rest: float) -> tuple[str, ...]:
    load_s, busy_s, idle_s, rows, prompt, generated = (
        sum(getattr(stage, name) for stage in stages)
        for name in ("load_s", "busy_s", "idle_s", "rows", "prompt_tokens", "generated_tokens")
    )
    return ("total", "-", *_seconds(load_s, busy_s, rest + idle_s), "-", *map(_count, (rows, prompt, generated)))


def use_line(report: RunSummary) -> str:
    """What the run took besides time: memory at its peak, energy where the machine measures it, tokens per variant."""
    of = "GPU memory" if report.device == "GPU" else "memory"
    parts = [f"{memory(report.peak_memory_bytes)} of {of} at the peak"] if report.peak_memory_bytes else []
    if report.energy_j is not None:
        parts.append(f"{_scaled(report.energy_j)}J of energy")
    if report.tokens_per_variant is not None:
        parts.append(f"{figure(report.tokens_per_variant)} tokens per variant")
    return f"took       {', '.join(parts) or 'nothing that was measured'}"


def count_line(report: RunSummary) -> str:
    """What became of the variants."""
    parts = [f"{report.accepted} of {report.variants} accepted"]
    if report.rejected:
        parts.append(f"{report.rejected} rejected")
    if report.dropped:
        parts.append(f"{report.dropped} more dropped for their text")
    if report.reused:
        parts.append(f"{report.reused} kept from before")
    controls = report.controls + report.rejected_controls
    of_controls = f", {report.controls} of {controls} controls accepted" if controls else ""
    return f"variants   {', '.join(parts)}; {report.sources} sources{of_controls}"


def shortfall_lines(report: RunSummary) -> list[str]:
    """Sources that have fewer variants than were asked for: the first few by name, the others by number."""
    shown = [f"fewer      {problem.name}: {problem.reason}" for problem in report.shortfalls[:_SHOWN]]
    rest = len(report.shortfalls) - len(shown)
    return shown + ([f"fewer      and {rest} more sources, all in run.json"] if rest else [])


def as_data(report: RunSummary) -> dict[str, Any]:
    """The run's figures; what all sessions took is under "costs", as "suite" is a path in every command's JSON."""
    costs = ("device_hours_per_1k_accepted", "session_device_hours_per_1k_accepted")
    derived = (*costs, "models_load_s", "tokens_per_variant")
    data = asdict(report)
    data["costs"] = data.pop("suite")
    return data | {name: getattr(report, name) for name in derived}


def figure(value: float | None) -> str:
    """A cost or a rate, to three digits; whole from a thousand on."""
    if value is None:
        return "-"
    return f"{value:.3g}" if abs(value) < 999.5 else f"{value:,.0f}"


def _seconds(*values: float) -> tuple[str, ...]:
    return tuple(f"{value:.1f}" if value < 999.95 else f"{value:,.0f}" for value in values)


def _count(value: int) -> str:
    """A number of rows or tokens in at most seven characters; none is a dash."""
    if value < 100_000:
        return f"{value:,}" if value else "-"
    return _scaled(value)


def memory(size: int) -> str:
    """Bytes as a person reads them."""
    return f"{_scaled(size)}B"


def _scaled(value: float) -> str:
    """Three digits and a prefix, such as `1.23 M`."""
    place = 0
    while value >= 999.5 and place < len(_PREFIXES) - 1:
        value, place = value / 1000, place + 1
    return f"{value:.3g} {_PREFIXES[place]}"


def duration(seconds: float) -> str:
    """Seconds as a person reads them."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"
