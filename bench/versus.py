"""The engine against a peer: do they make the same things, and how many times as fast is the engine?

For a way of using the libraries it computes ratios of seconds per accepted variant, one per round, and what agrees. The
peer may take fewer sources than the engine, so both are counted by what they make. Neither side's loading counts. A
ratio between different outputs means nothing: where they disagree, there is none.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from journeys import Bench, Image, Run, Work, fully_guided, in_f32, pictures_of, unquantised, work_of
from measure import Ratio, Spent, compare, seconds, spent
from reference import DIFFUSERS_BATCHED, REFERENCE, Made, Peer

from counterfactory.engine.config.networks import library_of
from counterfactory.engine.config.profile import Profile
from counterfactory.engine.estimate.flops import multiplies_integers
from counterfactory.engine.pocket.captions import read_facts
from counterfactory.engine.stages.check import verdict
from counterfactory.engine.suite import read_metadata


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
# seen): the bound says that it paints the same pictures, and whether they are as good is judged by int8_quality.py.
# With the denoiser that it was made of, the peer's own bound holds.
INTEGERS = Bound(0.8, 30.0)


def against(bench: Bench, name: str, most: int, rounds: int, compiled: bool) -> tuple[Ratio, list[Run], dict[str, Any]]:
    """Engine and peer `name` by turns, after a run of the engine into the suite "first".

    The peer takes at most `most` sources. Returns the ratio, the engine's runs, and what else is worth telling. Ends
    the bench where outputs disagree.
    """
    way = REFERENCE if name == "reference" else replace(DIFFUSERS_BATCHED, compiled=compiled)
    peers: list[Peer] = []
    load_s = seconds(lambda: peers.append(Peer(bench.profile, way)))
    peer, works = peers[0], work_of(bench, "first", most)
    made: list[Made] = []
    warm_s = seconds(lambda: made.append(peer.run(works, bench.folder / "peer")))
    told: dict[str, Any] = {**agreement(bench, name, works, made[0])}
    accepted = accepted_of(made[0], bench.profile)
    if not accepted:
        raise SystemExit(f"no variant of {name} passes the checks, so there is nothing to count")
    print(f"peer       {name}: {accepted} accepted of {len(works)} sources' {len(made[0].pictures)} variants")
    print(f"           loaded in {load_s:.1f} s; its first run took {warm_s:.1f} s and is not counted")
    ratio, runs = by_turns(bench, peer, works, accepted, rounds)
    stages = ", ".join(f"{stage} {took:.1f}" for stage, took in made[0].seconds.items())
    print(f"           seconds by stage, first run: {stages}; {made[0].tokens:,} tokens written")
    told |= {
        "peer": name,
        "peer_accepted": accepted,
        "peer_s_per_accepted": ratio.baseline.wall_s,
        "engine_s_per_accepted": ratio.candidate.wall_s,
        "peer_load_s": load_s,
        "engine_load_s": statistics.median(run.report.models_load_s for run in runs),
    }
    return ratio, runs, told


def by_turns(bench: Bench, peer: Peer, works: Sequence[Work], accepted: int, rounds: int) -> tuple[Ratio, list[Run]]:
    """The ratio of seconds per accepted variant, of which the peer makes `accepted`, and the engine's runs in it."""
    runs: list[Run] = []

    def engine() -> Spent:
        runs.append(bench.run(f"round{len(runs)}"))
        return runs[-1].spent / runs[-1].report.accepted

    def other() -> Spent:
        return spent(lambda: peer.run(works, bench.folder / "peer")) / accepted

    # Both have run once: the suite "first", and the peer's outputs that were compared with it.
    ratio = compare(other, engine, rounds, warm=False)
    return ratio, [runs[i] for i in ratio.kept]


def agreement(bench: Bench, name: str, works: Sequence[Work], made: Made) -> dict[str, float]:
    """How far engine and peer agree when both guide every step: the engine as timed, and with no integers in it.

    The latter in f32 for the reference; for another peer only where the engine is timed in int8.
    """
    few, guided = replace(bench, sources=[work.source for work in works]), fully_guided(bench.profile)
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
        reached = compared(bench.folder / suite, made, bound, f"{name}, engine {told}")
        found |= {f"{key}{suffix}": value for key, value in reached.items()}
    equals = [answer == call.answer for call, answer in made.answers]
    found["answers_equal"] = sum(equals) / len(equals)
    equal = f"{found['answers_equal']:.0%} of its {len(equals)} answers, written without a grammar"
    print(f"agreement  {equal}, are the engine's")
    return found


def compared(suite: Path, made: Made, bound: Bound, told: str) -> dict[str, float]:
    """Captions and pictures of a suite against the peer's; variants of other texts have other keys and are left out."""
    captions = {row.source_key: row.caption for row in read_metadata(suite)}
    both = [(captions[key], said) for key, said in made.captions.items() if key in captions]
    # Two phrasings of one fact are equally likely to the captioner, and rounding decides between them.
    equal = float(np.mean([float(read_facts(ours) == read_facts(theirs)) for ours, theirs in both] or [0.0]))
    painted = pictures_of(suite)
    decibel = [psnr(painted[key], picture) for key, picture in made.pictures.items() if key in painted] or [0.0]
    mean = float(np.mean(decibel))
    line = f"captions state the same {equal:.0%}, {len(decibel)} pictures {mean:.1f} dB (worst {min(decibel):.1f})"
    print(f"agreement  {told}: {line}")
    print(f"           asked {bound.captions:.0%} and {bound.psnr:.0f} dB; other variants of a source: {apart(suite)}")
    if equal < bound.captions or mean < bound.psnr or len(decibel) < len(made.pictures) / 4:
        raise SystemExit(f"{told}: outputs disagree, so no ratio would mean anything: {line}")
    return {"captions_equal": equal, "psnr_db": mean, "psnr_worst_db": min(decibel)}


def apart(suite: Path) -> str:
    """Mean PSNR between different variants of one source, in words."""
    painted, keys = pictures_of(suite), defaultdict(list)
    for row in read_metadata(suite):
        keys[row.source_key].append(row.variant_key)
    pairs = (pair for same in keys.values() for pair in combinations(same, 2))
    decibel = [psnr(painted[a], painted[b]) for a, b in pairs]
    return f"{np.mean(decibel):.1f} dB" if decibel else "none to compare"


def psnr(a: Image, b: Image) -> float:
    """In dB; equal pictures count as 99."""
    error = float(np.mean((a.astype(np.float64) - b) ** 2))
    return min(99.0, 10 * float(np.log10(255**2 / error))) if error else 99.0


def accepted_of(made: Made, profile: Profile) -> int:
    """Variants of a peer that pass the profile's checks."""
    return sum(verdict(scores, profile.check) is None for scores in made.scores.values())
