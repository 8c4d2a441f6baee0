"""Claim: once a first run has compiled the pocket profile's networks, a later one has all of them open in under 1.2 s.

Every opening is one of a new process, by turns with an empty cache (the networks are compiled and kept, as in a first
run) and with a full one (as in every later run). It opens what the demo opens, as the demo does it: the content keys of
all stages, every network with its tokenizer and tables, the two models under test. Importing Python's modules, the same
for both, is shown and not counted.

Before that the outputs of every plan, for the same random inputs, are compared between both, byte by byte. The seconds
by network are the meter's, on the wall. The last line is JSON.

    python bench/opening.py [--rounds 5]
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from measure import Spent, compare, finish, now

from counterfactory.engine.content_keys import STAGES
from counterfactory.engine.meter.meter import Meter
from counterfactory.engine.models.model_pool import ModelPool
from counterfactory.engine.models.networks import library_of
from counterfactory.engine.pocket.judges import Classifier, Segmenter
from counterfactory.engine.pocket.worlds import SIZE
from counterfactory.engine.profile.profile import load_profile
from counterfactory.engine.runtime.blob_cache import SWITCH
from counterfactory.engine.runtime.opening import open_plan
from counterfactory.engine.runtime.session import Session

BAR_S = 1.2


@dataclass(frozen=True)
class Opening:
    """What opening everything took: all of it, importing before it, and on the wall each network's part."""

    all: Spent
    imports: Spent
    networks: Mapping[str, float]


def open_all() -> Opening:
    """Open everything, in this process, which has opened nothing before."""
    imports = now()
    library = library_of(load_profile("pocket"))
    meter = Meter(lambda _: None)
    models = ModelPool(library, meter)
    for stage in STAGES:
        library.digest(stage)
    digests = now()
    with meter.stage("opening"):
        models.blip2()
        models.llm()
        models.clip_text()
        models.paint_plans(SIZE, SIZE)
        models.clip_image()
    judges = now()
    for judge in (Classifier, Segmenter):
        judge.load(library.folder, blobs=library.blobs)
    ended = now()
    networks = {"content keys": (digests - imports).wall_s}
    networks |= {use.plan: use.load_s for use in meter.plans()}
    networks["tokenizers, tables"] = (judges - digests).wall_s - sum(use.load_s for use in meter.plans())
    networks["models under test"] = (ended - judges).wall_s
    if library.blobs is not None and library.blobs.problem is not None:
        raise SystemExit(library.blobs.problem)
    # The process's own clock began with it.
    return Opening(ended - imports, Spent(0.0, imports.cpu_s), networks)


def outputs() -> dict[str, str]:
    """By plan, the digest of its outputs for the same random inputs, run twice."""
    library = library_of(load_profile("pocket"))
    found = {}
    for network in library.networks:
        if network.name != "llm":  # whose answers tests compare
            sizes = library.sizes(network, SIZE, SIZE)
            plan = open_plan(
                library.folder,
                network.plan,
                library.runtime,
                network.batch,
                sizes,
                network.streams,
                blobs=library.blobs,
            )
            found[network.plan] = _digest(plan)
    return found


def _digest(plan: Session) -> str:
    random, digest = np.random.default_rng(0), hashlib.sha256()
    feeds: dict[str, Any] = {}
    for port in plan.signature.inputs:
        shape = [3 if axis is None else axis for axis in port.shape]
        whole = np.issubdtype(port.dtype, np.integer)
        feeds[port.name] = (random.integers(0, 4, shape) if whole else random.standard_normal(shape)).astype(port.dtype)
    for _ in range(2):
        for values in plan.run(feeds).values():
            digest.update(values.tobytes())
    return digest.hexdigest()


def in_a_new_process(what: str, cache: Path) -> Any:
    """What `open_all` or `outputs` say, by a process of their own with its compiled networks in `cache`."""
    command = [sys.executable, __file__, "--only", what]
    done = subprocess.run(command, env={**os.environ, SWITCH: str(cache)}, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def opening(cache: Path) -> Opening:
    """Everything opened by a process of its own."""
    said = in_a_new_process("open", cache)
    return Opening(Spent(*said["all"]), Spent(*said["imports"]), said["networks"])


def table(compiled: Sequence[Opening], kept: Sequence[Opening]) -> list[str]:
    """Medians by network."""
    lines = [f"{'':<20} compiled      kept  times"]
    for name in kept[0].networks:
        first, later = (statistics.median(one.networks[name] for one in side) for side in (compiled, kept))
        lines.append(f"{name:<20} {first:7.3f} s {later:7.3f} s {first / later:6.1f}")
    return lines


def main() -> None:
    """Compare the outputs, then the openings, and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=["open", "outputs"], help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.only == "outputs":
        print(json.dumps(outputs()))
        return
    if asked.only == "open":
        took = open_all()
        told = {"all": [took.all.wall_s, took.all.cpu_s], "imports": [0.0, took.imports.cpu_s]}
        print(json.dumps({**told, "networks": dict(took.networks)}))
        return
    compiled: list[Opening] = []
    kept: list[Opening] = []
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder) / "kept"
        first, later = (in_a_new_process("outputs", cache) for _ in range(2))
        if first != later:
            different = sorted(name for name in first if first[name] != later.get(name))
            raise SystemExit(f"networks that were kept give other bytes: {', '.join(different)}")
        print(f"outputs of {len(first)} plans, compiled and kept: the same bytes")
        opening(cache)  # the models under test and the language model are kept as well

        def compile_all() -> Spent:
            with tempfile.TemporaryDirectory(dir=folder) as empty:
                compiled.append(opening(Path(empty) / "compiled"))
            return shown("compiled", compiled[-1])

        def take_kept() -> Spent:
            kept.append(opening(cache))
            return shown("kept", kept[-1])

        found = compare(compile_all, take_kept, asked.rounds, warm=False)
    for line in table([compiled[i] for i in found.kept], [kept[i] for i in found.kept]):
        print(line)
    imports = statistics.median(one.imports.cpu_s for one in (*compiled, *kept))
    reached = found.candidate.wall_s <= BAR_S
    print(f"everything open: {found.candidate.wall_s:.2f} s against {found.baseline.wall_s:.2f} s, {found}")
    print(f"bar {BAR_S} s: {'reached' if reached else 'missed'}; importing before it: {imports:.2f} CPU-seconds")
    parts = {name: statistics.median(one.networks[name] for one in kept) for name in kept[0].networks}
    finish(
        "everything open in a later run", found, bar_s=BAR_S, reached=reached, imports_cpu_s=imports, kept_parts_s=parts
    )


def shown(name: str, one: Opening) -> Spent:
    """The line of a round, which stands also where the machine was busy."""
    print(f"{name:<9} {one.all.wall_s:6.2f} s, {one.all.cpu_s:5.2f} CPU-seconds", flush=True)
    return one.all


if __name__ == "__main__":
    main()
