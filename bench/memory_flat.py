"""Claim: a run's peak memory does not grow with the suite: 2,000 variants take at most 1.1 times what 200 take.

Each run is a whole journey of the pocket profile in a fresh process, on scenes of the street world that were rendered
beforehand, five variants per source. `ratio` is the large run's peak resident memory over the small one's: lower is
better. Peaks are the kernel's (VmHWM), libraries, weights and plans included; what they are without any run, an
from counterfactory.engine.inputs import Inputs
from counterfactory.engine.inputs import Inputs
import of everything and nothing else, is printed beside them.

    python bench/memory_flat.py [--small 200] [--large 2000] [--rounds 1]
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import cv2
from measure import figures_of, finish

from counterfactory.engine.inputs import Inputs
from counterfactory.engine.journey import Journey
from counterfactory.engine.meter.energy import peak_memory_bytes
from counterfactory.engine.pocket.tasks import street_task
from counterfactory.engine.pocket.worlds import EMBEDDED
from counterfactory.engine.profile.profile import load_profile
from counterfactory.engine.request import SuiteRequest
from counterfactory.engine.sources.data_set import find_sources
from counterfactory.engine.suite import Suite

VARIANTS_PER_SOURCE = 5
BAR = 1.1


def draw(streets: Path, count: int) -> None:
    """Render scenes into class folders."""
    for i in range(count):
        scene = EMBEDDED.scene(56, i)
        path = streets / scene.label / f"{i:05d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        cv2.imwrite(str(path), cv2.cvtColor(EMBEDDED.draw(scene).picture, cv2.COLOR_RGB2BGR))


def one_run(streets: Path, count: int) -> None:
    """Make a suite of the first `count` sources and print what it took; 0 sources: nothing but the imports."""
    taken: dict[str, float] = {"variants": 0, "wall_s": 0.0}
    if count:
        sources, _ = find_sources(streets)
        chosen = sorted(sources, key=lambda source: source.name.split("/")[-1])[:count]
        settings = SuiteRequest(
            street_task("classification"), variants=VARIANTS_PER_SOURCE, controls=0, edits=(1, 3), seed=0
        )
        with tempfile.TemporaryDirectory() as folder, Suite.open(Path(folder) / "suite") as suite:
            report = Journey(load_profile("pocket"), settings).run(Inputs(chosen), suite)
        taken = {"variants": report.variants, "wall_s": report.wall_s}
    print(json.dumps(taken | {"peak_mb": peak_memory_bytes() / 1e6}))


def in_fresh_process(streets: Path, variants: int) -> dict[str, float]:
    """`one_run` in a process of its own."""
    command = [sys.executable, __file__, "--run", str(streets), "--small", str(variants)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    taken: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    print(
        f"asked {variants:6d}   made {taken['variants']:6.0f}   {taken['wall_s']:7.1f} s   {taken['peak_mb']:7.1f} MB"
    )
    return taken


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", type=int, default=200, help="variants")
    parser.add_argument("--large", type=int, default=2000, help="variants")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--run", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.run is not None:
        one_run(asked.run, -(-asked.small // VARIANTS_PER_SOURCE))
        return
    with tempfile.TemporaryDirectory() as folder:
        streets = Path(folder) / "streets"
        draw(streets, -(-max(asked.small, asked.large) // VARIANTS_PER_SOURCE))
        idle = in_fresh_process(streets, 0)
        small, large = [], []
        for _ in range(asked.rounds):
            small.append(in_fresh_process(streets, asked.small))
            large.append(in_fresh_process(streets, asked.large))
    small_mb, large_mb = ([run["peak_mb"] for run in runs] for runs in (small, large))
    ratios = [b / a for a, b in zip(small_mb, large_mb, strict=True)]
    more = f"{asked.large / asked.small:g} times the variants"
    print(f"peak memory x {statistics.median(ratios):.3f} (at most {BAR}) for {more}")
    finish(
        "memory_flat",
        None,
        **figures_of(ratios, asked.rounds),
        bar=BAR,
        met=max(ratios) <= BAR,
        lower_is_better=True,
        small={"variants": small[0]["variants"], "peak_mb": round(statistics.median(small_mb), 1)},
        large={"variants": large[0]["variants"], "peak_mb": round(statistics.median(large_mb), 1)},
        imports_mb=idle["peak_mb"],
    )


if __name__ == "__main__":
    main()
