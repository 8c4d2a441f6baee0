"""Claim: a suite's bytes do not depend on shard size or order, and across batch sizes only rounding differs.

Runs the whole journey on rendered scenes with shards of 1, 7 and 100 sources, in both orders, and with plans of batch
1, 4 and 16, of which one or two are evaluated side by side. The last line is JSON: whether bytes were equal, and the
PSNR in dB between plans (null: equal pictures).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import tempfile
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import cv2
import numpy as np
from measure import with_masters
from numpy.typing import NDArray

from counterfactory.engine.inputs import Inputs
from counterfactory.engine.journey import Journey
from counterfactory.engine.pocket.tasks import street_task
from counterfactory.engine.pocket.worlds import EMBEDDED
from counterfactory.engine.profile.profile import Profile, load_profile
from counterfactory.engine.request import SuiteRequest
from counterfactory.engine.runtime.openvino import resolve_precision
from counterfactory.engine.sources.data_set import find_sources
from counterfactory.engine.suite import Suite, read_metadata


def make(profile: Profile, streets: Path, suite_path: Path, backward: bool = False) -> Path:
    """Generate a suite of two variants per source."""
    sources, _ = find_sources(streets)
    settings = SuiteRequest(street_task("classification"), variants=2, controls=1, edits=(1, 2), seed=0)
    with Suite.open(suite_path) as suite:
        Journey(profile, settings).run(Inputs(sources[::-1] if backward else sources), suite)
    return suite_path


def digests(suite: Path) -> dict[str, str]:
    """Of every image and of the table."""
    files = [*suite.rglob("*.png"), suite / "metadata.parquet"]
    return {str(f.relative_to(suite)): hashlib.sha256(f.read_bytes()).hexdigest() for f in files}


def pictures(suite: Path) -> dict[tuple[str, str, int], NDArray[np.float64]]:
    """By source, kind and number."""
    rows = read_metadata(suite)
    return {(r.source, r.kind, r.number): np.asarray(cv2.imread(str(suite / r.file_name)), np.float64) for r in rows}


def psnr(a: Path, b: Path) -> float | None:
    """Over all pictures of two suites, dB; None when they are equal."""
    left, right = pictures(a), pictures(b)
    assert left.keys() == right.keys(), "two plans made different variants"
    error = float(np.mean([np.mean((left[key] - right[key]) ** 2) for key in left]))
    return None if error == 0 else round(10 * float(np.log10(255**2 / error)), 2)


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sources", type=int, default=12)
    parser.add_argument("--denoiser", help="the plan that paints, where not the profile's")
    asked = parser.parse_args()
    profile = with_masters(load_profile("pocket"))
    denoiser = asked.denoiser or profile.paint.denoiser
    profile = replace(profile, paint=replace(profile.paint, denoiser=denoiser))
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for i in range(asked.sources):
            scene = EMBEDDED.scene(55, i)
            path = root / "streets" / scene.label / f"{i:04d}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            cv2.imwrite(str(path), cv2.cvtColor(EMBEDDED.draw(scene).picture, cv2.COLOR_RGB2BGR))
        streets = root / "streets"
        base = digests(make(profile, streets, root / "base"))
        equal = {"repeated": digests(make(profile, streets, root / "again")) == base}
        for size in (1, 7, 100):
            sharded = replace(profile, shard_sources=size)
            equal[f"shard_{size}"] = digests(make(sharded, streets, root / f"shard{size}")) == base
        equal["reversed"] = digests(make(profile, streets, root / "reversed", backward=True)) == base
        suites = {}
        for batch, streams in ((1, 1), (4, 1), (4, 2), (16, 2)):
            other = replace(profile, paint=replace(profile.paint, batch=batch, streams=streams))
            name = f"{batch}x{streams}"
            suites[name] = make(other, streets, root / name)
        between = {f"{a}_{b}": psnr(suites[a], suites[b]) for a, b in combinations(suites, 2)}
    for name, same in equal.items():
        print(f"{name:10} {'the same bytes' if same else 'DIFFERENT BYTES'}")
    for name, decibel in between.items():
        told = "the same pictures" if decibel is None else f"PSNR {decibel} dB"
        print(f"batch {name.replace('_', ' and '):12} {told}")
    machine = f"{platform.machine()}, {os.cpu_count()} cores, {resolve_precision('auto')}"
    result = {
        "claim": "reproducibility",
        "denoiser": denoiser,
        "equal": equal,
        "psnr_db": between,
        "pictures": len(base) - 1,
        "machine": machine,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
