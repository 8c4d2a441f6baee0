"""The estimate: what a run would cost on this machine, and which networks would be in its memory when.

A profile and sources arrive. Where this machine has run the profile before, a stage's time comes from the rates that
were measured then; where not, from the roofline: operations counted in the graphs over the measured peak of matrix
products. Every stage says which it is. Nothing is generated and no network is opened.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from PIL import Image

from ..config.networks import library_of, networks_of
from ..config.profile import Profile, plan_facts
from ..errors import CounterfactoryError
from ..models.library import Library
from ..recipes import STAGES, Stage
from ..runtime.openvino import resolve_precision
from ..schedule.residency import PlanCost, StageNeeds, Timeline, plan_residency
from ..sources.pixels import target_size
from ..sources.source import Source
from .counted import (
    SHARE_OF_PEAK,
    compute_assumptions,
    cost_assumptions,
    item_flops,
    plan_costs,
    plan_flops,
    plan_precision,
    tokens_per_source,
)
from .measured import Rates, load_rates
from .peak import measure_peak
from .projected import assumptions as projection_assumptions
from .projected import project, projected_costs

GPU_BYTES = 24 * 10**9
# The rest is for pictures, intermediate results and the runtime itself.
SHARE_FOR_PLANS = 0.9
# Smaller products and fewer runs than a bench takes: near enough, and done in a second or two.
_PEAK_SIDES, _PEAK_ROUNDS = (1024, 2048), 3
_PER_SOURCE: tuple[Stage, ...] = ("caption", "rewrite", "edges")

Basis = Literal["measured", "roofline"]


@dataclass(frozen=True)
class StageEstimate:
    """A stage of the whole run: `items` take `compute_s`, on the `basis` given, and its plans `load_s` to load."""

    stage: Stage
    items: int
    compute_s: float
    load_s: float
    basis: Basis


@dataclass(frozen=True)
class PlanEstimate:
    """What a plan costs, and whether its memory and its loading were measured or follow from its files."""

    cost: PlanCost
    measured_bytes: bool
    measured_load: bool


@dataclass(frozen=True)
class Holding:
    """What so much memory would hold when; where it is too little `timeline` is None and `problem` says so."""

    memory_bytes: int
    timeline: Timeline | None
    problem: str = ""


@dataclass(frozen=True)
class Estimate:
    """What a run of so many sources and variants is expected to cost; see `estimate`.

    `holdings` are of this machine's memory (or the one asked about) first. `accepted_share` is accepted variants over
    those asked for when that was last measured. `size` is the pictures' (height, width) that the roofline counts at,
    `peak_flops` its measured peak; both None where all is measured.
    """

    sources: int
    variants: int
    devices: int
    device: str
    stages: tuple[StageEstimate, ...]
    plans: tuple[PlanEstimate, ...]
    holdings: tuple[Holding, ...]
    accepted_share: float | None
    size: tuple[int, int] | None
    peak_flops: float | None
    assumptions: tuple[str, ...]

    @property
    def wall_s(self) -> float:
        """Seconds from start to end, loading included."""
        return sum(stage.compute_s + stage.load_s for stage in self.stages)

    @property
    def device_hours(self) -> float:
        """Devices held times wall time."""
        return self.devices * self.wall_s / 3600

    @property
    def device_hours_per_1k(self) -> float:
        """Device-hours per 1,000 variants."""
        return 1000 * self.device_hours / self.variants

    @property
    def device_hours_per_1k_accepted(self) -> float | None:
        """Device-hours per 1,000 accepted variants; None where it is not known how many will be."""
        return self.device_hours_per_1k / self.accepted_share if self.accepted_share else None

    @property
    def basis(self) -> Literal["measured", "roofline", "mixed"]:
        """What the stages' times rest on."""
        first, *others = {stage.basis for stage in self.stages}
        return "mixed" if others else first


def estimate(
    profile: Profile, sources: Sequence[Source] | int, variants: int, memory_bytes: int | None = None
) -> Estimate:
    """Predict a run over `sources`, at least one, or so many of the profile's size, of `variants` variants each.

    `memory_bytes` is what the machine is taken to have, without it what the profile says, and where that says nothing
    the machine is asked, and what 24 GB would hold is told beside. Raises CounterfactoryError when a stage does not
    fit the memory or a model file is missing.
    """
    library, rates = library_of(profile), load_rates(profile)
    plans = _plans(profile, library, rates)
    costs = [plan.cost for plan in plans]
    count = sources if isinstance(sources, int) else len(sources)
    shards = -(-count // profile.shard_sources)
    named = memory_bytes or round(profile.runtime.memory_gb * 1e9)
    here = _holding(profile, costs, named or machine_memory(), shards)
    if here.timeline is None:
        raise CounterfactoryError(here.problem)
    seconds = _measured_seconds(profile, rates, variants)
    assumptions: tuple[str, ...] = ()
    size = peak = None
    if open_stages := [stage for stage in library.networks.stages if stage not in seconds]:
        if profile.device is not None:
            counted = project(profile, profile.device, plan_facts(profile), variants)
            assumptions += tuple(projection_assumptions(profile, profile.device, variants))
        else:
            sizes = _sizes(profile, sources)
            size, peak, counted = _roofline_seconds(profile, library, sizes, variants)
            assumptions += compute_assumptions(profile, variants)
        seconds |= {stage: (counted[stage], "roofline") for stage in open_stages}
    if profile.device is None and not all(plan.measured_bytes and plan.measured_load for plan in plans):
        assumptions += cost_assumptions(profile)
    return Estimate(
        sources=count,
        variants=count * variants,
        devices=profile.runtime.devices,
        device=profile.runtime.unit,
        stages=_stages(seconds, _load_seconds(here.timeline, costs), count, variants),
        plans=plans,
        holdings=(here,) if named else (here, _holding(profile, costs, GPU_BYTES, shards)),
        accepted_share=None if rates is None else rates.accepted_share,
        size=size,
        peak_flops=peak,
        assumptions=assumptions,
    )


def plan_holding(profile: Profile, library: Library, memory_bytes: int, shards: int) -> Holding:
    """What so much memory holds when, in a run of so many shards."""
    costs = [plan.cost for plan in _plans(profile, library, load_rates(profile))]
    return _holding(profile, costs, memory_bytes, shards)


def machine_memory(limit: Path = Path("/sys/fs/cgroup/memory.max")) -> int:
    """Bytes of memory that this process may have: the machine's, or its container's (`limit`) where that is less."""
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with suppress(OSError, ValueError):  # no limit is the word "max"
        total = min(total, int(limit.read_text()))
    return total


def painted_sizes(sources: Sequence[Source], profile: Profile) -> Counter[tuple[int, int]]:
    """How many sources are painted at each (height, width). Only headers are read."""
    sizes: Counter[tuple[int, int]] = Counter()
    image = profile.image
    for source in sources:
        with suppress(OSError), Image.open(source.path) as opened:
            sizes[target_size(opened.height, opened.width, image.short_side, image.multiple, image.max_long_side)] += 1
    return sizes or Counter({(image.short_side, image.short_side): len(sources)})


def _sizes(profile: Profile, sources: Sequence[Source] | int) -> Counter[tuple[int, int]]:
    if isinstance(sources, int):
        return Counter({(profile.image.short_side, profile.image.short_side): sources})
    return painted_sizes(sources, profile)


def _plans(profile: Profile, library: Library, rates: Rates | None) -> tuple[PlanEstimate, ...]:
    measured = {} if rates is None else rates.plans
    costs = projected_costs(profile, plan_facts(profile)) if profile.device else plan_costs(profile, library)
    plans = []
    for name, cost in costs.items():
        known = measured.get(name)
        if known is not None:
            cost = PlanCost(name, cost.bytes if known.bytes is None else known.bytes, known.load_s)
        plans.append(PlanEstimate(cost, known is not None and known.bytes is not None, known is not None))
    return tuple(plans)


def stage_needs(profile: Profile) -> list[StageNeeds]:
    """The plans that must be resident together, by stage."""
    networks = networks_of(profile)
    return [StageNeeds(stage, tuple(network.plan for network in networks.of(stage))) for stage in networks.stages]


def plan_budget(memory_bytes: int) -> int:
    """Bytes of so much memory that plans may take."""
    return int(SHARE_FOR_PLANS * memory_bytes)


def _holding(profile: Profile, costs: Sequence[PlanCost], memory_bytes: int, shards: int) -> Holding:
    try:
        timeline = plan_residency(stage_needs(profile), costs, plan_budget(memory_bytes), shards)
        return Holding(memory_bytes, timeline)
    except CounterfactoryError as error:
        return Holding(memory_bytes, None, str(error))


def _load_seconds(timeline: Timeline, costs: Sequence[PlanCost]) -> dict[str, float]:
    """Seconds of loading by stage, over all shards."""
    load_s = {cost.name: cost.load_s for cost in costs}
    seconds: dict[str, float] = dict.fromkeys(STAGES, 0.0)
    for shard, times in Counter(timeline.shards).items():
        for step in shard:
            seconds[step.stage] += times * sum(load_s[name] for name in step.load)
    return seconds


def _measured_seconds(profile: Profile, rates: Rates | None, variants: int) -> dict[Stage, tuple[float, Basis]]:
    """Seconds an item of the stages that were measured here."""
    if rates is None:
        return {}
    seconds = {stage: rates.stages[stage].item_s for stage in STAGES if stage in rates.stages}
    if "rewrite" in seconds and rates.variants:
        # A source of more variants is asked more questions.
        asked = tokens_per_source(profile, variants) / tokens_per_source(profile, max(1, round(rates.variants)))
        seconds["rewrite"] *= asked
    return {stage: (item_s, "measured") for stage, item_s in seconds.items()}


def _roofline_seconds(
    profile: Profile, library: Library, sizes: Counter[tuple[int, int]], variants: int
) -> tuple[tuple[int, int], float, dict[Stage, float]]:
    """The commonest picture size, this machine's peak, and seconds an item by stage."""
    size = sizes.most_common(1)[0][0]
    peak, plans = _measured_peak(profile), dict[str, float](plan_flops(profile, library, size))
    denoiser = profile.paint.denoiser
    if plan_precision(library, "denoiser") == "int8":
        # As many operations of the other precision as take the time of its integers.
        plans[denoiser] *= peak / _measured_peak(profile, integers=True)
    flops = item_flops(profile, plans, variants)
    # Pictures of other sizes cost about as their area.
    area = sum(height * width * count for (height, width), count in sizes.items()) / sizes.total()
    flops["paint"] *= area / (size[0] * size[1])
    return size, peak, {stage: count / (SHARE_OF_PEAK * peak) for stage, count in flops.items()}


def _measured_peak(profile: Profile, integers: bool = False) -> float:
    """Operations a second of matrix products in the profile's precision, or of integers, where the CPU has them."""
    assert profile.runtime.precision != "f16", "GPUs are projected"
    own = resolve_precision(profile.runtime.precision)
    if integers:
        with suppress(CounterfactoryError):
            return measure_peak("int8", profile.runtime.threads, _PEAK_SIDES, _PEAK_ROUNDS)
    return measure_peak(own, profile.runtime.threads, _PEAK_SIDES, _PEAK_ROUNDS)


def _stages(
    seconds: dict[Stage, tuple[float, Basis]], loads: dict[str, float], sources: int, variants: int
) -> tuple[StageEstimate, ...]:
    stages = []
    for stage in (stage for stage in STAGES if stage in seconds):
        items = sources if stage in _PER_SOURCE else sources * variants
        item_s, basis = seconds[stage]
        stages.append(StageEstimate(stage, items, items * item_s, loads[stage], basis))
    return tuple(stages)
