"""What a run's networks cost: one table of formulas, for CPUs and for GPUs.

Facts of each plan arrive (operations, weights), counted in the graphs of a CPU's folder or read from an export's
facts.json, and what the machine is taken to reach. Seconds per row, seconds per item of each stage, and what a loaded
plan holds follow by arithmetic. Where they do not follow (how much of a peak is reached, how much memory a runtime
adds) there is a constant here, and `time_assumptions` and `cost_assumptions` say it in words.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from ..content_keys import Stage
from ..errors import CounterfactoryError
from ..models.library import Library
from ..models.network import Network, Networks, Rows, Tokens
from ..models.networks import SILENT_SHARE, SILENT_TOGETHER
from ..models.plan_facts import PlanFacts, plan_facts
from ..profile.profile import Profile
from ..profile.runtime import DeviceSettings
from ..runtime.opening import arithmetic
from ..schedule.residency import PlanCost
from .flops import count_flops, flops_per_token, input_names, multiplies_integers, output_length, weight_bytes

# Of the measured peak of large matrix products on a CPU. Small networks stay below it, Stable Diffusion's above.
SHARE_OF_PEAK = 0.3

# On a CPU, memory of a loaded plan over its (fp16) weights: as stored, and packed for the kernels.
_BYTES_PER_WEIGHT_BYTE = {"bf16": 2, "f32": 3}
# The runtime keeps a description of every operation; seen were 46 to 85 bytes per byte of the graph's XML.
_BYTES_PER_GRAPH_BYTE = 60
_CPU_LLM_CACHE_BYTES = 50_000_000
_CPU_LOAD_BYTES_PER_S = 1e8
# On a GPU, what a plan is taken to hold in addition to its weights, as a share of them, until it is exported or
# compiled, which says how much: activations and workspace of a batch. A decoder's are of a token; the language model's
# are not shared with plans.
_EXTRA_OF_WEIGHTS, _EXTRA_OF_DECODER, _EXTRA_OF_LLM = 0.25, 0.05, 0.05
# Of each plan that a GPU opens for the first time in a run: kernels are built there, CUDA graphs recorded. Assumed.
FIRST_USE_S = 20.0


@dataclass(frozen=True)
class PerSource:
    """What is asked of each source: variants, and controls, which are painted and never written.

    `area` is the mean area of pictures over that of the size that operations and copies are counted at.
    """

    variants: int
    controls: int
    area: float = 1.0

    def items(self, stage: Stage) -> int:
        """Items of a source in a stage: the source itself, or its pictures to paint."""
        return 1 if stage in ("caption", "rewrite", "edges") else self.variants + self.controls

    def rows(self, rows: Rows, stage: Stage) -> float:
        return rows.of_source(self.variants, 0 if stage == "rewrite" else self.controls)

    def per_item(self, stage: Stage, taken: Iterable[float]) -> float:
        """What an item takes, where a source takes so much in each network of the stage."""
        return sum(taken) * (self.area if stage in ("edges", "paint") else 1.0) / self.items(stage)


@dataclass(frozen=True)
class Reach:
    """What is reached of a machine per second: operations, operations in 8-bit integers, bytes of weights read."""

    flops: float
    int8_flops: float
    bytes: float = math.inf  # on a CPU, products take longer than weights


def known_facts(profile: Profile, library: Library, size: tuple[int, int] | None) -> dict[str, PlanFacts]:
    """The facts of a profile's plans, by plan: of an export for a GPU, else counted in the library's graphs.

    Counted for pictures of `size` (height, width in pixels); without it, operations are 0. Raises CounterfactoryError
    for a plan without facts, and for a file that is missing or cannot be counted.
    """
    if profile.device is None:
        return {network.plan: _count_facts(library, network, size) for network in library.networks}
    facts = plan_facts(profile)
    for plan in library.networks.plans:
        if plan not in facts:
            raise CounterfactoryError(
                f"nothing is known of plan {plan}; export it, then `python -m counterfactory.export facts --out FOLDER`"
            )
    for plan, fact in facts.items():
        held, scratch = library.plan_bytes(plan)
        computed_in = library.activation_bytes(plan)
        facts[plan] = replace(fact, held_bytes=held, scratch_bytes=scratch, activation_bytes=computed_in)
    return facts


def _count_facts(library: Library, network: Network, size: tuple[int, int] | None) -> PlanFacts:
    graph = library.graph(network)
    return PlanFacts(
        flops=0.0 if size is None else _flops(library, network, size),
        weight_bytes=weight_bytes(graph),
        cache_bytes=0,
        graph_bytes=graph.stat().st_size if graph.suffix == ".xml" else 0,
        integers=size is not None and multiplies_integers(graph),
    )


def _flops(library: Library, network: Network, size: tuple[int, int]) -> float:
    """Operations of one row, of decoders of one token."""
    graph = library.graph(network)
    if network.questions:
        return flops_per_token(graph)
    if network.tokens is None:
        # Of a GPU's shallow form there is a graph, which takes deep features.
        cut = network.form == "shallow" and "deep" not in network.sizes
        return count_flops(graph, 1, library.sizes(network, *size), shallow=cut)
    # The captioner's decoder takes its cache as an input. The queries and the first token are read at once, the others
    # behind a cache that grows; a step's cost is a straight line over its length, so that the middle stands for all.
    # Florence-2's decoder is given what it attends to with every step, and does not read it.
    written, inputs = network.tokens.written, input_names(graph)
    start = 1
    if "query_embeds" not in inputs:
        start += output_length(library.graph(library.networks["blip2_vision"]), "query_embeds", 1)

    def step(new: int, past: int) -> int:
        lengths = {name: new if name in ("inputs_embeds", "position_ids") else past for name in inputs}
        return count_flops(graph, 1, lengths=lengths)

    whole = step(start, 0) + (written - 1) * step(1, start + max(0, written - 2) // 2)
    return whole / (network.tokens.read + written)


def row_s(network: Network, fact: PlanFacts, reach: Reach, tokens: Tokens | None) -> float:
    """Seconds of one row in a full batch, of a decoder with so many tokens.

    A decoder computes the tokens that it reads at once; for each token that it writes it waits for the products, or for
    all weights to be read, which the rows of a batch share.
    """
    product_s = fact.flops / (reach.int8_flops if fact.integers else reach.flops)
    if tokens is None:
        return product_s
    read_s = fact.weight_bytes / reach.bytes / network.batch
    return tokens.read * product_s + tokens.written * max(product_s, read_s)


def item_s(networks: Networks, facts: Mapping[str, PlanFacts], reach: Reach, each: PerSource) -> dict[Stage, float]:
    """Seconds per item of each stage that has networks: a source, or one of its pictures."""

    def source_s(network: Network, stage: Stage) -> float:
        kinds: Iterable[tuple[Rows, Tokens | None]] = [(kind.rows, kind.tokens) for kind in network.questions]
        kinds = kinds or [(network.rows[stage], network.tokens)]
        fact = facts[network.plan]
        return sum(each.rows(rows, stage) * row_s(network, fact, reach, tokens) for rows, tokens in kinds)

    return {stage: each.per_item(stage, [source_s(n, stage) for n in networks.of(stage)]) for stage in networks.stages}


def moved_s(networks: Networks, device: DeviceSettings, each: PerSource) -> dict[Stage, float]:
    """Seconds per item of each stage that copies between host and GPU take, nothing else going on meanwhile."""
    per_s = 1e9 * device.bus_gb_per_s
    return {
        stage: each.per_item(stage, (each.rows(n.rows[stage], stage) * n.moved_bytes for n in networks.of(stage)))
        / per_s
        for stage in networks.stages
    }


def plan_cost(profile: Profile, network: Network, fact: PlanFacts) -> PlanCost:
    """What a plan is taken to hold once it is loaded, and the seconds of loading it."""
    times = 1
    if profile.runtime.backend != "tensorrt" and network.sizes:  # a session for each size, with weights of its own
        times = max(1, len(profile.image.sizes))
        fact = replace(fact, weight_bytes=times * fact.weight_bytes, graph_bytes=times * fact.graph_bytes)
    if profile.device is None:
        loaded = fact.weight_bytes * _BYTES_PER_WEIGHT_BYTE[arithmetic(profile.runtime)]
        loaded += fact.graph_bytes * _BYTES_PER_GRAPH_BYTE
        cache = _CPU_LLM_CACHE_BYTES if network.name == "llm" else 0
        return PlanCost(network.plan, loaded + cache, loaded / _CPU_LOAD_BYTES_PER_S)
    caches = network.cached_tokens * fact.cache_bytes
    load_s = fact.weight_bytes / (1e9 * profile.device.disk_gb_per_s)
    if fact.held_bytes is not None and fact.scratch_bytes is not None:
        return PlanCost(network.plan, fact.held_bytes + network.kept_bytes, load_s, fact.scratch_bytes)
    held = round(fact.weight_bytes + caches) + network.kept_bytes
    if network.name == "llm":  # what it computes in is its own
        return PlanCost(network.plan, held + round(_EXTRA_OF_LLM * fact.weight_bytes), load_s)
    if fact.activation_bytes is not None and profile.runtime.backend != "tensorrt":  # an arena for each session
        return PlanCost(network.plan, held + times * fact.activation_bytes, load_s)
    if fact.activation_bytes is not None:
        return PlanCost(network.plan, held, load_s, fact.activation_bytes)
    share = _EXTRA_OF_DECODER if network.name == "opt_decoder" else _EXTRA_OF_WEIGHTS
    return PlanCost(network.plan, held, load_s, round(share * fact.weight_bytes))


def time_assumptions(profile: Profile, networks: Networks, variants: int) -> tuple[str, ...]:
    """What `item_s` and its use take for granted, in words."""
    device, llm, rows = profile.device, networks["llm"], profile.caption.rows
    reached: tuple[str, ...] = (f"networks reach {100 * SHARE_OF_PEAK:.0f} % of the peak",)
    if device is not None:
        reached = (
            f"a projection: nothing of it was measured on the GPU ({device.name})",
            *(["the language model computes on 8 cores beside it, assumed"] if profile.llm.on_cpu else []),
            f"{100 * device.share:.0f} % of {device.tflops:g} TFLOP/s and of {device.gb_per_s:g} GB/s are reached",
            f"copies between host and GPU at {device.bus_gb_per_s:g} GB/s wait and are waited for",
            f"each plan's first use takes {FIRST_USE_S:g} s more, once a run",
            "pictures of other sizes take as their area, though attention takes more",
        )
    again: tuple[str, ...] = ()
    if profile.caption.label_prefix is not None:
        together = min(profile.caption.batch, SILENT_TOGETHER)
        again = (
            f"{100 * SILENT_SHARE:.0f} % of the captions are written again after their label, {together:g} at once",
        )
    captions: tuple[str, ...] = ()
    if profile.captioned:
        written = profile.caption.decoding.max_tokens
        captions = (f"captions have all {written} tokens, {rows} row{'s' * (rows > 1)} per image",)
    questions = ", ".join(f"{kind.tokens.read} + {kind.tokens.written}" for kind in llm.questions)
    return (
        *reached,
        *captions,
        *again,
        f"{llm.rows['rewrite'].of_source(variants):,.0f} questions per source, {llm.batch} at once",
        f"tokens of questions, read + written: {questions}",
        "reading, writing and waiting take no time",
    )


def cost_assumptions(profile: Profile) -> tuple[str, ...]:
    """What `plan_cost` takes for granted, in words."""
    if profile.device is not None:
        return (
            "a plan that is not compiled takes its weights, its cache or what painting keeps, and to compute in what "
            f"its graph's values take at once, before it is exported {_EXTRA_OF_WEIGHTS:g} x its weights (the "
            f"captioner's decoder {_EXTRA_OF_DECODER:g} x), a compiled one what its compiler says; plans compute in "
            f"one block, as large as the largest need; they load at {profile.device.disk_gb_per_s:g} GB/s",
        )
    factor = _BYTES_PER_WEIGHT_BYTE[arithmetic(profile.runtime)]
    return (
        f"~ GB: {factor} x the stored weights and {_BYTES_PER_GRAPH_BYTE} x the graph's XML",
        f"~ GB of llm: its cache of {_CPU_LLM_CACHE_BYTES / 1e9:.2f} GB as well",
        f"~ load s: {_CPU_LOAD_BYTES_PER_S / 1e9:g} GB per second, without that cache",
    )
