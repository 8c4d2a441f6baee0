"""Claim: setup of the profile cpu and a run over photographs stay within 8 GB, and the estimate knew what a run takes.

    counterfactory setup --profile cpu [--weights DIR]
    python bench/stages.py --profile cpu [--photos DIR] [--variants N] [--write]

Each step of setup and each stage of the run: seconds on the wall, core-seconds, and memory at its peak, mapped files,
which the system may drop, left out. A stage's networks load within it. The estimate is that of a machine that has never
run the profile.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

from measure import DOCS, bench_parser, finish, keep_figures, show, stamp

from counterfactory.engine.api import verbs
from counterfactory.engine.cli.setup import TRIAL
from counterfactory.engine.content_keys import STAGES
from counterfactory.engine.estimate.estimate import estimate
from counterfactory.engine.meter.meter import Progress
from counterfactory.engine.profile.profile import load_profile
from counterfactory.engine.sources.data_set import find_sources
from counterfactory.export.production.peak import PeakMemory

_SUMS = {"setup_s": "seconds", "setup_core_s": "core_s"}


class StagePeaks:
    """The most memory within each stage, which ends where all of its items are done."""

    def __init__(self) -> None:
        self.bytes: dict[str, int] = {}
        self.core_s: dict[str, float] = {}
        self._watch, self._worked = PeakMemory(), 0.0

    def begin(self) -> None:
        self._watch, self._worked = PeakMemory(), time.process_time()
        self._watch.__enter__()

    def advance(self, progress: Progress) -> None:
        if progress.done == progress.total and progress.stage in STAGES:
            self._watch.__exit__()
            self.bytes[progress.stage] = self._watch.bytes
            self.core_s[progress.stage] = time.process_time() - self._worked
            self.begin()


def setup_steps(folder: Path) -> dict[str, dict[str, float]]:
    """What each network of a profile took to be made, by its name."""
    rows = {row["name"]: row for row in json.loads((folder / "export.json").read_text())}
    for file in (*folder.glob("*/made_of.json"), *folder.glob("onnx/*/made_of.json")):
        row = json.loads(file.read_text())
        rows |= {file.parent.name: row} if "core_seconds" in row else {}
    return {name: step(row["seconds"], row["core_seconds"], row["peak_memory_bytes"]) for name, row in rows.items()}


def step(seconds: float, core_s: float, peak: int, **more: float) -> dict[str, float]:
    """What the table and the figures say of a step."""
    between = {name: round(value, 1) for name, value in more.items()}
    return {"seconds": round(seconds, 1), **between, "core_s": round(core_s, 1), "peak_gb": round(peak / 1e9, 2)}


def journey(photos: Path, named: str, variants: int) -> dict[str, Any]:
    """What a run over photographs takes by stage, and what the estimate said."""
    profile, peaks = load_profile(named), StagePeaks()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = folder
        sources, _ = find_sources(photos)
        expected: dict[str, float] = {
            stage.stage: stage.wall_s for stage in estimate(profile, sources, variants).stages
        }
        task = Path(folder) / "trial.toml"
        task.write_text(TRIAL)
        peaks.begin()
        suite = verbs.generate(
            photos, out=Path(folder) / "suite", profile=named, task_file=task, variants=variants, controls=0,
            allow_ungrounded=True, on_progress=peaks.advance,
        )  # fmt: skip
    summary = suite.summary
    assert summary is not None, "a run that just ended"
    stages: dict[str, dict[str, float]] = {}
    for cost in (cost for cost in summary.stages if cost.stage in peaks.bytes):
        more = {"load_s": cost.load_s, "estimated_s": expected.get(cost.stage, 0.0)}
        row = step(cost.wall_s, peaks.core_s[cost.stage], peaks.bytes[cost.stage], **more)
        stages[cost.stage] = {"items": cost.items, **row}
    return {"journey_s": round(summary.wall_s, 1), "journey_variants": summary.variants, "journey_stages": stages}


def main() -> None:
    parser = bench_parser(__doc__, write="docs/cpu.json")
    parser.add_argument("--profile", default="cpu")
    parser.add_argument("--photos", type=Path, help="photographs for a run (without: setup alone)")
    parser.add_argument("--variants", type=int, default=2, help="of each photograph (%(default)s)")
    asked = parser.parse_args()
    made = setup_steps(load_profile(asked.profile).models.path)
    ran = {} if asked.photos is None else journey(asked.photos, asked.profile, asked.variants)
    stages: dict[str, dict[str, Any]] = ran.get("journey_stages", {})
    for title, parts in (("Setup, without the download", made), ("A run over photographs", stages)):
        if parts:
            columns = list(next(iter(parts.values())))
            show(title, ("step", *columns), [(name, *map(str, part.values())) for name, part in parts.items()])
    every = [*made.values(), *stages.values()]
    sums = {name: round(sum(part[of] for part in made.values()), 1) for name, of in _SUMS.items()}
    figures: dict[str, Any] = {"peak_gb": max(part["peak_gb"] for part in every), **sums, "setup_steps": made, **ran}
    if asked.write:
        keep_figures(DOCS / "cpu.json", {**figures, **{f"stages_{name}": value for name, value in stamp().items()}})
    finish(f"profile {asked.profile}: setup and a run over photographs, step by step", **figures)


if __name__ == "__main__":
    main()
