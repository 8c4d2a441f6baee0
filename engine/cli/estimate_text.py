"""The forecast: an estimate in a few lines and tables for a person, and as plain data for a machine."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, replace
from typing import Any

from ..estimate.estimate import OTHER_SHARE, Estimate, Holding
from ..report.table import Table
from ..schedule.residency import Step, Timeline
from .run_text import duration, figure

_BASIS = {
    "measured": "measured rates of this machine",
    "roofline": "the roofline, since this machine has not run the profile yet",
    "mixed": "measured rates of this machine and, where there are none, the roofline",
}


def cost_lines(estimate: Estimate) -> list[str]:
    """Time and cost of the run, and what they rest on."""
    more = ((estimate.controls, "control"), (estimate.baselines, "baseline"))
    kinds = [_many(estimate.variants, "variant"), *(_many(count, what) for count, what in more if count)]
    listed = " and ".join(filter(None, (", ".join(kinds[:-1]), kinds[-1])))
    lines = [
        f"estimate   {duration(estimate.wall_s)} for {listed} of {_many(estimate.sources, 'source')}",
        f"cost       {figure(estimate.device_hours)} {estimate.device}-hours in all, "
        f"{figure(estimate.device_hours_per_1k)} per 1,000 variants",
    ]
    if estimate.device_hours_per_1k_accepted is not None and estimate.accepted_share is not None:
        condition = "if again {} are" if estimate.accepted_measured else "if {} are, which is assumed"
        lines.append(
            f"           {figure(estimate.device_hours_per_1k_accepted)} per 1,000 accepted, "
            + condition.format(f"{100 * estimate.accepted_share:.0f} % of those asked for")
        )
    lines.append(f"disk       {figure(estimate.disk_bytes / 1e9)} GB for {_many(estimate.pictures, 'picture')}")
    if (other := _at_other_share(estimate)) is not None:
        lines += [
            f"           with {100 * OTHER_SHARE:.0f} % of the data sheet reached: {duration(other.wall_s)}, "
            f"{figure(other.device_hours_per_1k)} per 1,000",
            f"           variants, {figure(other.device_hours_per_1k_accepted)} per 1,000 accepted",
        ]
    lines.append(f"from       {_BASIS[estimate.basis]}")
    if estimate.peak_flops is not None and estimate.size is not None:
        lines.append(
            f"           (peak {estimate.peak_flops / 1e12:.3g} TFLOP/s measured, pictures of "
            f"{estimate.size[1]} x {estimate.size[0]})"
        )
    return lines


def stage_table(estimate: Estimate) -> Table:
    """What each stage takes, and what that rests on."""
    rows: list[tuple[str, ...]] = [
        (
            stage.stage,
            f"{stage.items:,}",
            figure(stage.items / stage.compute_s if stage.compute_s else None),
            f"{stage.compute_s:,.1f}",
            f"{stage.moved_s:,.1f}",
            f"{stage.load_s:,.1f}",
            stage.basis,
        )
        for stage in estimate.stages
    ]
    sums = (sum(getattr(stage, name) for stage in estimate.stages) for name in ("compute_s", "moved_s", "load_s"))
    rows.append(("total", "-", "-", *(f"{seconds:,.1f}" for seconds in sums), estimate.basis))
    columns = ("stage", "items", "items/s", "compute s", "copy s", "load s", "from")
    return Table("Estimate by stage", columns, tuple(rows))


def holding_line(holding: Holding) -> str:
    """How a memory would be used, in one line."""
    head = f"memory     {holding.memory_bytes / 1e9:.4g} GB: "
    if holding.timeline is None:
        return f"{head}too little: {holding.problem}"
    loads = sum(len(step.load) * times for step, times in _steps(holding.timeline))
    drops = any(step.drop for step, _ in _steps(holding.timeline))
    dropped = "some dropped" if drops else "none dropped"
    return f"{head}plans take {holding.timeline.peak_bytes / 1e9:.3g} GB at most, {loads:,} loads, {dropped}"


def holding_table(estimate: Estimate, holding: Holding) -> Table:
    """What is resident when: one row per plan, one column per stage.

    "load" is in every shard, "once" in one of several, "3 x" in so many; "stays" where it is resident without; a dash
    where it never is.
    """
    assert holding.timeline is not None
    timeline = holding.timeline
    stages = [step.stage for step in timeline.first]
    loaded: Counter[tuple[str, str]] = Counter()
    resident: Counter[tuple[str, str]] = Counter()
    for step, times in _steps(timeline):
        loaded.update(dict.fromkeys(((name, step.stage) for name in step.load), times))
        resident.update((name, step.stage) for name in step.resident)

    def cell(plan: str, stage: str) -> str:
        times = loaded[plan, stage]
        if not times:
            return "stays" if resident[plan, stage] else "-"
        if times == len(timeline.shards):
            return "load"
        return "once" if times == 1 else f"{times:,} x"

    rows = []
    for plan in estimate.plans:
        cost = plan.cost
        seen = f"{cost.bytes / 1e9:.3f}{'' if plan.measured_bytes else ' ~'}"
        took = f"{cost.load_s:.1f}{'' if plan.measured_load else ' ~'}"
        rows.append((cost.name, seen, took, *(cell(cost.name, stage) for stage in stages)))
    return Table("Resident", ("plan", "GB", "load s", *stages), tuple(rows))


def as_data(estimate: Estimate) -> dict[str, Any]:
    """The estimate in JSON's own types; of each memory the first shard and the steady one."""
    costs = ("wall_s", "device_hours_per_1k", "device_hours_per_1k_accepted")
    data = asdict(replace(estimate, holdings=()))
    data |= {name: getattr(estimate, name) for name in (*costs, "pictures", "device_hours", "basis")}
    if (other := _at_other_share(estimate)) is not None:
        data["other_share"] = {name: getattr(other, name) for name in ("share", *costs)}
    data["holdings"] = [_holding_data(holding) for holding in estimate.holdings]
    return data


def _at_other_share(estimate: Estimate) -> Estimate | None:
    """The estimate at the second utilisation; None where nothing of it follows from a data sheet."""
    if estimate.share is None or estimate.basis == "measured":
        return None
    return estimate.at(OTHER_SHARE)


def _holding_data(holding: Holding) -> dict[str, Any]:
    data: dict[str, Any] = {"memory_bytes": holding.memory_bytes, "problem": holding.problem or None}
    if (timeline := holding.timeline) is None:
        return data
    return data | {
        "shards": len(timeline.shards),
        "load_s": timeline.load_s,
        "peak_bytes": timeline.peak_bytes,
        "first": [asdict(step) for step in timeline.first],
        "steady": [asdict(step) for step in timeline.steady],
    }


def _steps(timeline: Timeline) -> list[tuple[Step, int]]:
    """Each different step with the number of shards that take it."""
    steps: Counter[Step] = Counter()
    for shard, times in Counter(timeline.shards).items():
        for step in shard:
            steps[step] += times
    return list(steps.items())


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"
