"""Claim: a suite's bytes do not depend on shard size or order, and across batch sizes only rounding differs.

Runs the whole journey on rendered scenes with shards of 1, 7 and 100 sources, in both orders, and with plans of batch
1, 4 and 16, of which one or two are evaluated side by side. The last line is JSON: whether bytes were equal, and the
PSNR in dB between plans (null: equal pictures).
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
from journeys import Bench, render_sources
from measure import Pixels, bench_parser, finish, picture_at, psnr, with_masters

from counterfactory.engine.pocket.tasks import street_task
from counterfactory.engine.profile.profile import Profile, load_profile
from counterfactory.engine.request import SuiteRequest
from counterfactory.engine.sources.source import Source
from counterfactory.engine.suite import read_metadata


def digests(suite: Path) -> dict[str, str]:
    files = [*suite.rglob("*.png"), suite / "metadata.parquet"]
    return {str(f.relative_to(suite)): hashlib.sha256(f.read_bytes()).hexdigest() for f in files}


def pictures(suite: Path) -> dict[tuple[str, str, int], Pixels]:
    return {(row.source, row.kind, row.number): picture_at(suite / row.file_name) for row in read_metadata(suite)}


def between(a: Path, b: Path) -> float | None:
    """PSNR over all pictures of two suites, dB; None when they are equal."""
    left, right = pictures(a), pictures(b)
    assert left.keys() == right.keys(), "two plans made different variants"
    ours, theirs = (np.stack([pictures[key] for key in left]) for pictures in (left, right))
    return None if np.array_equal(ours, theirs) else round(psnr(ours, theirs), 2)


def main() -> None:
    parser = bench_parser(__doc__)
    parser.add_argument("--sources", type=int, default=12)
    asked = parser.parse_args()
    profile = with_masters(load_profile("pocket"))
    paint = profile.paint
    settings = SuiteRequest(street_task("classification"), variants=2, controls=1, edits=(1, 2), seed=0)
    with tempfile.TemporaryDirectory() as folder:
        sources = render_sources(Path(folder) / "streets", asked.sources)

        def make(name: str, its: Profile = profile, ordered: Sequence[Source] = sources) -> Path:
            Bench(its, settings, ordered, Path(folder)).run(name)
            return Path(folder) / name

        base = digests(make("base"))
        equal = {"repeated": digests(make("again")) == base}
        for size in (1, 7, 100):
            equal[f"shard_{size}"] = digests(make(f"shard{size}", replace(profile, shard_sources=size))) == base
        equal["reversed"] = digests(make("reversed", ordered=sources[::-1])) == base
        suites = {}
        for batch, streams in ((1, 1), (4, 1), (4, 2), (16, 2)):
            name = f"{batch}x{streams}"
            suites[name] = make(name, replace(profile, paint=replace(paint, batch=batch, streams=streams)))
        psnr_db = {f"{a}_{b}": between(suites[a], suites[b]) for a, b in combinations(suites, 2)}
    for name, same in equal.items():
        print(f"{name:10} {'the same bytes' if same else 'DIFFERENT BYTES'}")
    for name, decibel in psnr_db.items():
        told = "the same pictures" if decibel is None else f"PSNR {decibel} dB"
        print(f"batch {name.replace('_', ' and '):12} {told}")
    finish("reproducibility", denoiser=paint.denoiser, equal=equal, psnr_db=psnr_db, pictures=len(base) - 1)


if __name__ == "__main__":
    main()
