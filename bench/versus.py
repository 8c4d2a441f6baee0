"""The engine against a peer: do they make the same things, and how many times as fast is the engine?

For a way of using the libraries it computes ratios of seconds per accepted variant, one per round, and what agrees. The
peer may take fewer sources than the engine, so both are counted by what they make. Neither side's loading counts. A
ratio between different outputs means nothing: where they disagree, there is none.

The ratio is at equal work and equal precision: weights, steps and guidance of both are the profile's, and neither
multiplies integers; beside `reference`, which computes in float32, the engine does too. Two more stand apart, where the
profile has them. "int8" is the engine as it is delivered, whose denoiser multiplies integers, at equal work. Against
the "teacher" the peer paints with the weights, steps and guidance that the denoiser was distilled from, which is what a
user without the student would do; whether the pictures are as good is tested there (equal_quality.py). What they make
is compared with the engine's pictures of the same weights and steps.
"""

from __future__ import annotations

import gc
import statistics
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from ceiling import Device, gpu_yardstick
from equal_quality import compare_quality
from journeys import Bench, Run, Work, fully_guided, in_f32, pictures_of, unquantised, work_of
from measure import Ratio, Spent, Yardstick, compare, now, psnr, spent
from peer_networks import box_networks, pocket_networks
from reference import DIFFUSERS_BATCHED, ON_GPU, OPENVINO, REFERENCE, Made, Peer, rows_of

from counterfactory.engine.estimate.flops import multiplies_integers
from counterfactory.engine.models.networks import library_of
from counterfactory.engine.pocket.captions import read_facts
from counterfactory.engine.profile.profile import Profile, painting_as_teacher
from counterfactory.engine.runtime.openvino import resolve_precision
from counterfactory.engine.stages.check.verdict import failing
from counterfactory.engine.suite import read_metadata
from counterfactory.export.production.graph import Request


@dataclass(frozen=True)
class Bound:
    """What counts as the same: share of captions with equal facts, mean PSNR of equal variants in dB."""

    captions: float
    psnr: float


# In float32 on both sides only the order of sums differs (72 dB seen). Where a side computes in bf16, every layer of
# every step rounds to 8 bits, and near ties among words fall either way (53 dB seen). Other variants of the same source
# lie near 12 dB, which is printed beside, so the bounds tell a picture from its neighbours.
EXACT, ROUNDED = Bound(0.95, 60.0), Bound(0.8, 35.0)
# An engine that denoises in int8 is compared twice. As it is timed it rounds every product's sides to 8 bits (38 dB
# seen): the bound says that it paints the same pictures, and docs/decisions.md whether they are as good.
# With the denoiser that it was made of, the peer's own bound holds.
INTEGERS = Bound(0.8, 30.0)


@dataclass(frozen=True)
class Comparison:
    ratio: Ratio
    runs: list[Run]
    told: dict[str, Any]


@dataclass(frozen=True)
class Comparisons:
    """At equal `work` and precision; the same with the engine in `int8`, where it is delivered so; and against the
    `teacher` of a denoiser that has one.
    """

    work: Comparison
    int8: Comparison | None
    teacher: Comparison | None


def against(
    bench: Bench, name: str, most: int, rounds: int, compiled: bool,
    box_of: Callable[[Profile], Request | None] = lambda _: None, yardstick: Yardstick | None = None,
) -> Comparisons:  # fmt: skip
    """Engine and peer `name` by turns, after a run of the engine into the suite "first", in every way that there is.

    The peer takes at most `most` sources. `box_of` says where the networks of a GPU box's profile come from, None for
    the pocket's. Ends the bench where outputs disagree.
    """
    works, taught = work_of(bench, "first", most), painting_as_teacher(bench.profile)

    def compared_with(engine: Profile, peer: Profile, way: str, box: Request | None) -> Comparison:
        own = replace(bench, profile=engine)
        return compare_with_peer(own, peer, name, works, rounds, compiled, box, yardstick, way)

    level, box = bench.profile, box_of(bench.profile)
    integers = precision_of(level) == "int8"
    if box is None:  # networks of a box are in float16 on both sides
        level = in_f32(level) if name == "reference" else unquantised(level) if integers else level
    return Comparisons(
        compared_with(level, level, "equal work", box),
        compared_with(bench.profile, bench.profile, "int8", box) if integers else None,
        None if taught is bench.profile else compared_with(bench.profile, taught, "teacher", box_of(taught)),
    )


def compare_with_peer(
    bench: Bench, profile: Profile, name: str, works: Sequence[Work], rounds: int, compiled: bool, box: Request | None,
    yardstick: Yardstick | None, way: str,
) -> Comparison:  # fmt: skip
    """The engine as the bench has it and a peer that takes its networks and steps from `profile`, by turns. Suites of
    this are made in the bench's folder `way`.
    """
    bench = replace(bench, folder=bench.folder / way)
    bench.folder.mkdir(exist_ok=True)
    began = now()
    peer = peer_of(profile, name, compiled, box)
    opened = now()
    first = peer.run(works, bench.folder / "peer")
    load_s, warm_s = (opened - began).wall_s, (now() - opened).wall_s
    told: dict[str, Any] = {"engine_precision": precision_of(bench.profile)}
    if way == "teacher" and box is None:
        told |= compare_quality(bench.folder.parent / "first", first.pictures, bench.profile)
    told |= {**agreement(replace(bench, profile=profile), name, works, first, box is not None)}
    accepted = accepted_of(first, profile)
    if not accepted:
        raise SystemExit(f"no variant of {name} passes the checks, so there is nothing to count")
    steps, rows = profile.paint.sampler.steps, rows_of(profile.paint, peer.way.dynamic)
    print(f"peer       {name}: {accepted} accepted of {len(works)} sources' {len(first.pictures)} variants")
    told_of = f"{profile.paint.denoiser} in {steps} steps, {rows} rows a variant"
    print(f"           {way}: {told_of}; the engine in {told['engine_precision']}")
    print(f"           loaded in {load_s:.1f} s; its first run took {warm_s:.1f} s and is not counted")
    if yardstick is None and peer.device == "cuda":
        yardstick = gpu_yardstick()
    ratio, runs, made = by_turns(bench, peer, works, accepted, rounds, yardstick)
    last = made[-1]
    stages = ", ".join(f"{stage} {took:.1f}" for stage, took in last.seconds.items())
    print(f"           seconds by stage, last run: {stages}; {last.tokens:,} tokens written")
    told |= {"peer": name, "peer_device": peer.device, "peer_steps": steps, "peer_rows": rows}
    told |= {"peer_accepted": accepted, "peer_s_per_accepted": ratio.baseline.wall_s, "peer_load_s": load_s}
    told["engine_s_per_accepted"] = ratio.candidate.wall_s
    told["peer_moving_s"] = statistics.median(run.load_s for run in made)
    told["engine_load_s"] = statistics.median(run.report.models_load_s for run in runs)
    told["peer_stage_s"] = {stage: round(took, 4) for stage, took in last.seconds.items()}
    if last.event_s:
        print("           by the GPU's events: " + ", ".join(f"{s} {took:.1f}" for s, took in last.event_s.items()))
        told["peer_event_s"] = {stage: round(took, 4) for stage, took in last.event_s.items()}
    # Devices held, loading left out on both sides, as in the ratio.
    for side, took in (("peer", ratio.baseline.wall_s), ("engine", ratio.candidate.wall_s)):
        told[f"{side}_device_hours_per_1k"] = 1000 * profile.runtime.devices * took / 3600
    return Comparison(ratio, runs, told)


def precision_of(profile: Profile) -> str:
    """What the engine's products are of."""
    name = profile.runtime.precision
    if profile.runtime.on_gpu or name == "f16":
        return name
    library = library_of(profile)
    return "int8" if multiplies_integers(library.graph(library.networks["denoiser"])) else resolve_precision(name)


def peer_of(profile: Profile, name: str, compiled: bool, box: Request | None) -> Peer:
    device: Device = "cuda" if profile.runtime.on_gpu else "cpu"
    mode: Literal["default", "max-autotune"] | None = "max-autotune" if device == "cuda" else "default"
    mode = mode if compiled else None
    if box is None:
        way = {"reference": REFERENCE, "openvino": OPENVINO}.get(name, replace(DIFFUSERS_BATCHED, compiled=mode))
        return Peer(profile, way, pocket_networks(profile))
    way = replace(ON_GPU, compiled=mode, dtype=ON_GPU.dtype if device == "cuda" else torch.float32)
    return Peer(profile, way, box_networks(profile, box), device)


def by_turns(
    bench: Bench, peer: Peer, works: Sequence[Work], accepted: int, rounds: int, yardstick: Yardstick | None
) -> tuple[Ratio, list[Run], list[Made]]:
    """The ratio of seconds per accepted variant, of which the peer makes `accepted`, and both sides' runs in it."""
    runs: list[Run] = []
    made: list[Made] = []

    def engine() -> Spent:
        runs.append(bench.run(f"round{len(runs)}"))
        return runs[-1].spent / runs[-1].report.accepted

    def other() -> Spent:
        gc.collect()  # the engine's networks leave the device before the peer's come
        took = spent(lambda: made.append(peer.run(works, bench.folder / "peer")))
        return replace(took, wall_s=took.wall_s - made[-1].load_s) / accepted

    # Both have run once: the suite "first", and the peer's outputs that were compared with it.
    ratio = compare(other, engine, rounds, warm=False, yardstick=yardstick)
    return ratio, [runs[i] for i in ratio.kept], [made[i] for i in ratio.kept]


def agreement(bench: Bench, name: str, works: Sequence[Work], made: Made, of_box: bool) -> dict[str, float]:
    """How far engine and peer agree when both guide the same steps, whole ones: the engine as timed, and with no
    integers in it.

    The latter in f32 for the reference; for another peer only where the engine is timed in int8. Networks of a box have
    no second form, and LCM's pictures on the two sides are of different noise.
    """
    if of_box and bench.profile.paint.sampler.kind == "lcm":
        print("agreement  not compared: diffusers' LCM draws noise of its own")
        return {}
    few = replace(bench, sources=[work.source for work in works])
    # No peer uses deep features again; the engine's whole plan computes them at every step as well.
    whole = replace(bench.profile, paint=replace(bench.profile.paint, reuse=None))
    guided = fully_guided(whole) if name == "reference" else whole
    ways = {"as timed": (guided, ROUNDED, "")}
    if not of_box:
        library = library_of(guided)
        integers = multiplies_integers(library.graph(library.networks["denoiser"]))
        ways = {"as timed": (guided, INTEGERS if integers else ROUNDED, "")}
        if name == "reference":
            ways["in f32"] = (in_f32(guided), EXACT, "_f32")
        elif integers:
            ways["without int8"] = (unquantised(guided), ROUNDED, "_unquantised")
    found: dict[str, float] = {}
    for told, (profile, bound, suffix) in ways.items():
        suite = f"agreement{suffix}"
        replace(few, profile=profile).run(suite)
        # No peer writes a caption again behind a label.
        sampled = profile.caption.decoding.mode == "nucleus" or profile.caption.label_prefix is not None
        reached = compared(bench.folder / suite, made, bound, f"{name}, engine {told}", sampled)
        found |= {f"{key}{suffix}": value for key, value in reached.items()}
    equals = [answer == call.answer for call, answer in made.answers]
    found["answers_equal"] = sum(equals) / len(equals)
    grammar = "by the engine's own adapter" if of_box else "written without a grammar"
    print(f"agreement  {found['answers_equal']:.0%} of its {len(equals)} answers, {grammar}, are the engine's")
    return found


def compared(suite: Path, made: Made, bound: Bound, told: str, sampled: bool) -> dict[str, float]:
    """Captions and pictures of a suite against the peer's; variants of other texts have other keys and are left out.

    `sampled` captions are drawn by each side's own random numbers, or by other rules, and not compared.
    """
    captions = {row.source_key: row.caption for row in read_metadata(suite)}
    both = [(captions[key], said) for key, said in made.captions.items() if key in captions]
    # Two phrasings of one fact are equally likely to the captioner, and rounding decides between them.
    equal = float(np.mean([float(read_facts(ours) == read_facts(theirs)) for ours, theirs in both] or [0.0]))
    painted = pictures_of(suite)
    if not painted.keys() & made.pictures.keys():
        said = "both painted no picture of one text, so nothing can be compared: take more --sources"
        raise SystemExit(f"{told}: {said}")
    decibel = [psnr(painted[key], picture) for key, picture in made.pictures.items() if key in painted]
    mean = float(np.mean(decibel))
    line = f"{len(decibel)} pictures {mean:.1f} dB (worst {min(decibel):.1f})"
    asked = f"{bound.psnr:.0f} dB"
    if not sampled:
        line, asked = f"captions state the same {equal:.0%}, {line}", f"{bound.captions:.0%} and {asked}"
    print(f"agreement  {told}: {line}")
    print(f"           asked {asked}; other variants of a source: {apart(suite)}")
    differ = equal < bound.captions and not sampled
    if differ or mean < bound.psnr or len(decibel) < len(made.pictures) / 4:
        raise SystemExit(f"{told}: outputs disagree, so no ratio would mean anything: {line}")
    reached = {"psnr_db": mean, "psnr_worst_db": min(decibel)}
    return reached if sampled else {"captions_equal": equal} | reached


def apart(suite: Path) -> str:
    """Mean PSNR between different variants of one source, in words."""
    painted, keys = pictures_of(suite), defaultdict(list)
    for row in read_metadata(suite):
        if row.kind == "variant":
            keys[row.source_key].append(row.key)
    pairs = (pair for same in keys.values() for pair in combinations(same, 2))
    decibel = [psnr(painted[a], painted[b]) for a, b in pairs]
    return f"{np.mean(decibel):.1f} dB" if decibel else "none to compare"


def accepted_of(made: Made, profile: Profile) -> int:
    """Variants of a peer that pass the profile's checks."""
    return sum(failing(scores, profile.check, "variant") is None for scores in made.scores.values())
