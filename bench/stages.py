"""Claim: setup of the profile cpu and a run over photographs stay within 8 GB, and the estimate knew what a run takes.

    counterfactory setup --profile cpu [--weights DIR]
    python bench/stages.py --profile cpu --photos DIR [--variants N] [--write]

Each step of setup and each stage of the run: seconds on the wall, core-seconds, and memory at its peak, mapped files,
which the system may drop, left out. A stage's networks load within it. The estimate is that of a machine that has never
run the profile.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from datetime import date
from pathlib import Path
from typing import Any

from measure import bench_parser, finish, keep_figures, machine, show

from counterfactory.engine.api import verbs
from counterfactory.engine.cli.setup import TRIAL
from counterfactory.engine.content_keys import STAGES
from counterfactory.engine.estimate.estimate import estimate
from counterfactory.engine.meter.meter import Progress
from counterfactory.engine.profile.profile import load_profile
from counterfactory.engine.sources.data_set import find_sources
from counterfactory.export.production.peak import PeakMemory

FIGURES = Path(__file__).parents[1] / "docs" / "cpu.json"


class StagePeaks:
    """The most memory within each stage, which ends where all of its items are done."""

    def __init__(self) -> None:
        self.bytes: dict[str, int] = {}
        self.core_s: dict[str, float] = {}
        self._watch = PeakMemory()
        self._watch.__enter__()
        self._worked = time.process_time()

    def advance(self, progress: Progress) -> None:
        """Called with each stage's progress."""
        if progress.done == progress.total and progress.stage in STAGES:
            self._watch.__exit__()
            now = time.process_time()
            self.bytes[progress.stage], self.core_s[progress.stage] = self._watch.bytes, now - self._worked
            self._watch, self._worked = PeakMemory(), now
            self._watch.__enter__()


def setup_steps(folder: Path) -> dict[str, dict[str, float]]:
    """What each network of a profile took to be made, by its name."""
    rows = {row["name"]: row for row in json.loads((folder / "export.json").read_text())}
    for stamp in (*folder.glob("*/made_of.json"), *folder.glob("onnx/*/made_of.json")):
        row = json.loads(stamp.read_text())
        rows |= {stamp.parent.name: row} if "core_seconds" in row else {}
    return {
        name: {
            "seconds": round(row["seconds"], 1),
            "core_s": round(row["core_seconds"], 1),
            "peak_gb": round(row["peak_memory_bytes"] / 1e9, 2),
        }
        for name, row in rows.items()
    }


def main() -> None:
    """Estimate, run, print."""
    parser = bench_parser(__doc__, write="docs/cpu.json")
    parser.add_argument("--profile", default="cpu")
    parser.add_argument("--photos", type=Path, required=True)
    parser.add_argument("--variants", type=int, default=2, help="of each photograph (%(default)s)")
    asked = parser.parse_args()
    profile = load_profile(asked.profile)
    sources = find_sources(asked.photos).sources
    peaks = StagePeaks()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = folder
        expected = {stage.stage: stage.wall_s for stage in estimate(profile, sources, asked.variants).stages}
        task = Path(folder) / "trial.toml"
        task.write_text(TRIAL)
        suite = verbs.generate(
            asked.photos, out=Path(folder) / "suite", profile=asked.profile, task_file=task, variants=asked.variants,
            controls=0, allow_ungrounded=True, on_progress=peaks.advance,
        )  # fmt: skip
    summary = suite.summary
    assert summary is not None, "a run that just ended"
    stages: dict[str, dict[str, Any]] = {
        cost.stage: {
            "items": cost.items,
            "seconds": round(cost.wall_s, 1),
            "load_s": round(cost.load_s, 1),
            "core_s": round(peaks.core_s[cost.stage], 1),
            "estimated_s": round(expected.get(cost.stage, 0.0), 1),
            "peak_gb": round(peaks.bytes[cost.stage] / 1e9, 2),
        }
        for cost in summary.stages
        if cost.stage in peaks.bytes
    }
    made = setup_steps(profile.models.path)
    for title, parts in (("Setup, without the download", made), ("A run over photographs", stages)):
        columns = list(next(iter(parts.values())))
        show(title, ("step", *columns), [(name, *map(str, part.values())) for name, part in parts.items()])
    figures: dict[str, Any] = {
        "peak_gb": max(part["peak_gb"] for parts in (made, stages) for part in parts.values()),
        "setup_s": round(sum(step["seconds"] for step in made.values()), 1),
        "setup_steps": made,
        "journey_s": round(summary.wall_s, 1),
        "journey_variants": summary.variants,
        "journey_stages": stages,
    }
    if asked.write:
        command = " ".join(["python", "bench/stages.py", *sys.argv[1:]])
        of = {"machine": machine(), "command": command, "date": date.today().isoformat()}
        keep_figures(FIGURES, {**figures, **{f"stages_{name}": value for name, value in of.items()}})
    finish(f"profile {profile.name}: {summary.variants} variants of {summary.sources} photographs", **figures)


if __name__ == "__main__":
    main()
