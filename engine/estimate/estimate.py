"""The estimate: what a run would cost on this machine, and which networks would be in its memory when.

A profile and sources arrive. Where this machine has run the profile before, a stage's time comes from the rates that
were measured then; where not, from formulas over operations and the peak: measured on a CPU, of the data sheet for a
GPU that is not here. Every stage says which it is. Nothing is generated and no network is opened.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Literal

from ..content_keys import STAGES, Stage
from ..errors import CounterfactoryError
from ..meter.machine import machine_memory
from ..meter.meter import device_hours_per_1k
from ..models.library import Library
from ..models.network import Networks
from ..models.networks import library_of
from ..models.plan_facts import PlanFacts
from ..profile.profile import Profile
from ..runtime.openvino import resolve_precision
from ..schedule.residency import PlanCost, Residency, Timeline
from ..sources.source import Source
from . import formulas
from .formulas import PerSource, Reach, item_s, known_facts, moved_s, plan_cost
from .measured import Rates, load_rates
from .peak import PeakPrecision, measure_peak

GPU_BYTES = 24 * 10**9
# Core-seconds a megapixel of pictures that are drawn by rule (bench/first_run.py); and a photograph's usual size.
DRAWN_S = 0.12
_USUAL_SIZE = (853, 1280)
# Pictures that are drawn at once where the profile counts GPUs, on as many cores (stages/paint/paint_light.py).
_DRAWERS = 4
# Bytes a pixel of a picture on the disk: 1.3 of photographs, 1.6 of rendered streets.
BYTES_A_PIXEL = 1.4
# Seconds that a server is taken to need for a picture.
SERVED_S = 10.0
# A second share of a GPU's data sheet that projections state next to the profile's.
OTHER_SHARE = 0.6
# The rest is for pictures, intermediate results and the runtime itself.
SHARE_FOR_PLANS = 0.9
# Smaller products and fewer runs than a bench takes: near enough, and done in a second or two.
_PEAK_SIDES, _PEAK_ROUNDS = (1024, 2048), 3

Basis = Literal["measured", "roofline", "assumed"]


@dataclass(frozen=True)
class StageEstimate:
    """A stage of the whole run: `items` take `compute_s`, on the `basis` given, and its plans `load_s` to load.

    `moved_s` are copies between host and GPU, where they were not measured with the rest.
    """

    stage: Stage | Literal["baseline"]
    items: int
    compute_s: float
    moved_s: float
    load_s: float
    basis: Basis

    @property
    def wall_s(self) -> float:
        """All of it, one after another."""
        return self.compute_s + self.moved_s + self.load_s


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

    `baselines` are as many as there are where light can show all edits, `disk_bytes` those of all pictures. `holdings`
    are of this machine's memory (or the one asked about) first. `accepted_share` is of the variants asked for: as last
    measured, else as the profile assumes for a GPU. `share` is how much of a GPU's data sheet is taken to be reached,
    None on a CPU. `size` is the pictures' (height, width) that operations are counted at, `peak_flops` the measured
    peak; both None where neither was needed.
    """

    sources: int
    variants: int
    controls: int
    devices: int
    device: str
    stages: tuple[StageEstimate, ...]
    plans: tuple[PlanEstimate, ...]
    holdings: tuple[Holding, ...]
    accepted_share: float | None
    accepted_measured: bool
    share: float | None
    size: tuple[int, int] | None
    peak_flops: float | None
    assumptions: tuple[str, ...]
    baselines: int = 0
    disk_bytes: int = 0

    @property
    def pictures(self) -> int:
        """All that a suite of it holds, the sources' own among them."""
        return self.sources + self.variants + self.controls + self.baselines

    def at(self, share: float) -> Estimate:
        """The same run if this share of the GPU's data sheet were reached; copies, loading and measured times stay."""
        assert self.share is not None, "a CPU has no data sheet"
        faster = {"measured": 1.0, "roofline": share / self.share, "assumed": 1.0}
        stages = tuple(replace(stage, compute_s=stage.compute_s / faster[stage.basis]) for stage in self.stages)
        return replace(self, share=share, stages=stages)

    @property
    def wall_s(self) -> float:
        """Seconds from start to end, loading included."""
        return sum(stage.wall_s for stage in self.stages)

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
        return device_hours_per_1k(self.device_hours, self.variants * (self.accepted_share or 0))

    @property
    def basis(self) -> Literal["measured", "roofline", "mixed"]:
        """What the stages' times rest on."""
        networks = {stage.basis for stage in self.stages} - {"assumed"}
        return "mixed" if len(networks) > 1 else "measured" if networks == {"measured"} else "roofline"


def estimate(
    profile: Profile,
    sources: Sequence[Source] | int,
    variants: int,
    memory_bytes: int | None = None,
    *,
    controls: int = 0,
    baseline: bool = False,
) -> Estimate:
    """Predict a run over `sources` (at least one, or a number of sources of the profile's size) with `variants`
    variants and `controls` controls each, and where there is to be a `baseline` one of each variant.

    `memory_bytes` is the machine's memory; without it the profile's number holds. Where the profile has none, the
    machine is asked, and the estimate also says what 24 GB would hold. Raises CounterfactoryError when a stage does not
    fit the memory or a model file is missing.
    """
    library, rates, sizes = library_of(profile), load_rates(profile), painted_sizes(sources, profile)
    networks, shards = library.networks, -(-sizes.total() // profile.shard_sources)
    plans = _plans(profile, library, rates)
    named = memory_bytes or round(profile.runtime.memory_gb * 1e9)
    here = _holding(networks, plans, named or machine_memory(), shards)
    if here.timeline is None:
        raise CounterfactoryError(here.problem)
    seconds = {} if rates is None else _measured_seconds(networks, rates, variants)
    # A GPU's facts are of pictures of the profile's own size.
    side = profile.image.short_side
    size = (side, side) if profile.device is not None else sizes.most_common(1)[0][0]
    areas = sum(height * width * count for (height, width), count in sizes.items())
    each = PerSource(variants, controls, areas / sizes.total() / (size[0] * size[1]))
    peak, assumptions = None, tuple[str, ...]()
    if profile.painter is not None and profile.painter.server is not None and "paint" not in seconds:
        seconds["paint"] = SERVED_S / profile.painter.server.parallel, "roofline"
        assumptions += (f"the server takes {SERVED_S:g} s a picture, which nobody knows before it was asked",)
    elif profile.by_rule and "paint" not in seconds:
        megapixels = areas / sizes.total() / 1e6
        seconds["paint"] = DRAWN_S * megapixels / profile.runtime.devices, "roofline"
        assumptions += (f"a picture takes {DRAWN_S:g} core-seconds a megapixel to be drawn, checked and written",)
    roofline = not seconds.keys() >= set(networks.stages)
    if roofline:
        reach, peak, facts = _reach(profile, library, size)
        seconds = {stage: (item, "roofline") for stage, item in item_s(networks, facts, reach, each).items()} | seconds
        assumptions += formulas.time_assumptions(profile, networks, variants)
    if not all(plan.measured_bytes and plan.measured_load for plan in plans):
        assumptions += formulas.cost_assumptions(profile)
    stages, baselines = _stages(profile, networks, seconds, here.timeline, plans, sizes.total(), each), 0
    if baseline:
        baselines, cores = sizes.total() * variants, profile.runtime.devices if profile.device is None else _DRAWERS
        drawn_s = DRAWN_S * areas / 1e6 * variants / cores
        stages += (StageEstimate("baseline", baselines, drawn_s, 0.0, 0.0, "assumed"),)
        assumptions += (f"light can show all edits, and a baseline takes {DRAWN_S:g} core-seconds a megapixel",)
    disk_bytes = round(areas * (1 + variants + controls + (variants if baseline else 0)) * BYTES_A_PIXEL)
    accepted = _accepted(profile, rates)
    return Estimate(
        sources=sizes.total(),
        variants=sizes.total() * variants,
        controls=sizes.total() * controls,
        devices=profile.runtime.devices,
        device=profile.runtime.unit,
        stages=stages,
        plans=plans,
        holdings=(here,) if named else (here, _holding(networks, plans, GPU_BYTES, shards)),
        accepted_share=accepted,
        accepted_measured=rates is not None and rates.accepted_share is not None,
        share=None if profile.device is None else profile.device.share,
        size=size if roofline and profile.device is None else None,
        peak_flops=peak,
        assumptions=assumptions,
        baselines=baselines,
        disk_bytes=disk_bytes,
    )


def _accepted(profile: Profile, rates: Rates | None) -> float | None:
    """The share of variants that will be accepted, 0 to 1: as measured here, or assumed of a GPU; None if unknown."""
    if rates is not None and rates.accepted_share is not None:
        return rates.accepted_share
    return None if profile.device is None else profile.device.accepted


def least_accepted(profile: Profile) -> float:
    """The share of variants, 0 to 1, of which no fewer should be accepted while a suite is made: half of what an
    estimate says; 0, which is fallen short of where none is, if it says nothing.
    """
    return (_accepted(profile, load_rates(profile)) or 0.0) / 2


def residency_of(profile: Profile, library: Library) -> Residency | None:
    """Which plans are open when in a run; None where the profile's memory is not limited, and nothing is closed.

    Raises CounterfactoryError when the plans of one stage do not fit that memory together.
    """
    if not profile.runtime.memory_gb:
        return None
    memory_bytes = round(profile.runtime.memory_gb * 1e9)
    return _residency(library.networks, _plans(profile, library, load_rates(profile)), memory_bytes)


def plan_budget(memory_bytes: int) -> int:
    """Bytes of so much memory that plans may take."""
    return int(SHARE_FOR_PLANS * memory_bytes)


def painted_sizes(sources: Sequence[Source] | int, profile: Profile) -> Counter[tuple[int, int]]:
    """How many sources are painted at each (height, width); a mere number of sources counts as square ones, or as
    photographs of a usual size where each keeps its own.
    """
    image = profile.image
    if isinstance(sources, int) and image.own_size:
        return Counter({_USUAL_SIZE: sources})
    if isinstance(sources, int):
        return Counter({(image.short_side, image.short_side): sources})
    return Counter(image.size_for(*source.size) for source in sources)


def _plans(profile: Profile, library: Library, rates: Rates | None) -> tuple[PlanEstimate, ...]:
    measured = {} if rates is None else rates.plans
    facts = known_facts(profile, library, size=None)
    plans = []
    for network in library.networks:
        fact, rate = facts[network.plan], measured.get(network.plan)
        cost = plan_cost(profile, network, fact)
        seen = None if rate is None else rate.bytes
        if profile.runtime.on_gpu and seen is not None:
            # What is seen while a plan is loaded leaves out what its first batches take: it can add, never save. It may
            # have the block in it that plans share. Less than the weights is another memory's.
            seen = max(seen - cost.scratch_bytes, cost.bytes) if seen >= fact.weight_bytes else None
        if rate is not None:
            cost = replace(cost, bytes=cost.bytes if seen is None else seen, load_s=rate.load_s)
        plans.append(PlanEstimate(cost, seen is not None, rate is not None))
    return tuple(plans)


def _residency(networks: Networks, plans: Sequence[PlanEstimate], memory_bytes: int) -> Residency:
    needs: dict[str, list[str]] = {stage: [one.plan for one in networks.of(stage)] for stage in networks.stages}
    return Residency(needs, [plan.cost for plan in plans], plan_budget(memory_bytes))


def _holding(networks: Networks, plans: Sequence[PlanEstimate], memory_bytes: int, shards: int) -> Holding:
    try:
        return Holding(memory_bytes, _residency(networks, plans, memory_bytes).timeline(shards))
    except CounterfactoryError as error:
        return Holding(memory_bytes, None, str(error))


def _measured_seconds(networks: Networks, rates: Rates, variants: int) -> dict[Stage, tuple[float, Basis]]:
    seconds = {stage: rates.stages[stage].item_s for stage in STAGES if stage in rates.stages}
    if "rewrite" in seconds and rates.variants:
        # A source of more variants is asked more questions.
        questions = networks["llm"].rows["rewrite"]
        seconds["rewrite"] *= questions.of_source(variants) / questions.of_source(max(1, round(rates.variants)))
    return {stage: (item, "measured") for stage, item in seconds.items()}


def _reach(
    profile: Profile, library: Library, size: tuple[int, int]
) -> tuple[Reach, float | None, dict[str, PlanFacts]]:
    """What is reached of the machine, the measured peak of a CPU (None for a GPU), and facts of pictures of `size`."""
    facts = known_facts(profile, library, size)
    if (device := profile.device) is not None:
        flops = 1e12 * device.tflops * device.share
        return Reach(flops, flops, 1e9 * device.gb_per_s * device.share), None, facts
    how = (profile.runtime.threads, _PEAK_SIDES, _PEAK_ROUNDS)
    peak = int8_peak = measure_peak(cpu_precision(profile), *how)
    if any(fact.integers for fact in facts.values()):
        with suppress(CounterfactoryError):  # a CPU without such arithmetic takes them in the other
            int8_peak = measure_peak("int8", *how)
    return Reach(formulas.SHARE_OF_PEAK * peak, formulas.SHARE_OF_PEAK * int8_peak), peak, facts


def cpu_precision(profile: Profile) -> PeakPrecision:
    """The precision of a profile's networks on a CPU, but for those that round to integers."""
    assert profile.runtime.precision != "f16", "GPUs are projected"
    return resolve_precision(profile.runtime.precision)


def _stages(
    profile: Profile,
    networks: Networks,
    seconds: dict[Stage, tuple[float, Basis]],
    timeline: Timeline,
    plans: Sequence[PlanEstimate],
    sources: int,
    each: PerSource,
) -> tuple[StageEstimate, ...]:
    plan_s = {plan.cost.name: plan.cost.load_s for plan in plans}
    # Where loading was measured, so was a plan's first time.
    new = {plan.cost.name for plan in plans if profile.device is not None and not plan.measured_load}
    load_s: dict[str, float] = dict.fromkeys(STAGES, 0.0)
    for step in timeline.first:
        load_s[step.stage] += formulas.FIRST_USE_S * len(new & set(step.load))
        new -= set(step.load)
    for shard, times in Counter(timeline.shards).items():
        for step in shard:
            load_s[step.stage] += times * sum(plan_s[name] for name in step.load)
    moved = {} if profile.device is None else moved_s(networks, profile.device, each)
    stages = []
    for stage in (stage for stage in STAGES if stage in seconds):
        items, (item, basis) = sources * each.items(stage), seconds[stage]
        copies = items * moved.get(stage, 0.0) if basis == "roofline" else 0.0
        stages.append(StageEstimate(stage, items, items * item, copies, load_s[stage], basis))
    return tuple(stages)
