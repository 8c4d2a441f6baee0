"""The GPUs that all small plans are compiled for, without one: `python tests/targets.py [--write] [TARGET ...]`.

Every network of a10g is exported in small and compiled by TensorRT-RTX for each target; a target counts whose plans are
all there, with keys that name it. `--write` keeps the list in docs/a10g.json, as targets; those that were not asked for
stay in it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from full_size import FIGURES
from mutants import write_figures

from counterfactory.engine.models.networks import networks_of
from counterfactory.engine.profile.profile import load_profile
from counterfactory.engine.profile.small import ISLANDS
from counterfactory.engine.runtime.plans import read_key
from counterfactory.export.plans.tensorrt import TARGETS, THIS


def export(folder: Path, *more: str) -> subprocess.CompletedProcess[str]:
    """Export a10g's small networks to `folder`, or what is missing of them."""
    words = ["a10g", "--random", "--small", "--islands", ISLANDS, "--out", str(folder), *more]
    command = [sys.executable, "-m", "counterfactory.export", *words]
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)


def compiled_for(folder: Path, target: str) -> bool:
    """Whether every plan of a10g in `folder` is there and is for `target`."""
    plans = [network.plan for network in networks_of(load_profile("a10g")) if network.name != "llm"]
    files = [folder / "plans" / f"{plan}.plan" for plan in plans]
    return all(file.is_file() and read_key(file).device == target.upper() for file in files)


def main(argv: Sequence[str]) -> int:
    """Compile, print, write; returns the exit status, 1 where nothing was compiled."""
    parser = argparse.ArgumentParser(description="Which GPUs are small plans compiled for?")
    parser.add_argument("targets", nargs="*", default=[name for name in TARGETS if name != THIS])
    parser.add_argument("--networks", type=Path, help="folder of the export, which stays (none)")
    parser.add_argument("--write", action="store_true", help="keep the list in docs/a10g.json")
    args = parser.parse_args(argv)
    done = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = args.networks or Path(scratch)
        for target in args.targets:
            ran = export(folder, "--plans", "--library", "tensorrt-rtx", "--target", target)
            last = (ran.stdout.strip().splitlines() or [""])[-1]
            right = ran.returncode == 0 and compiled_for(folder, target)
            done += [target] if right else []
            if args.write:
                known = json.loads(FIGURES.read_text()).get("targets", [])
                listed = {*(one for one in known if one not in args.targets), *done}
                write_figures(FIGURES, {"targets": [one for one in TARGETS if one in listed]})
            print(f"{target}  {'all plans' if right else last}", flush=True)  # noqa: T201 - a command's output
    return int(not done)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
