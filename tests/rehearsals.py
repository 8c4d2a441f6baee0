"""The way of every shipped profile with networks, in small, to its end: `python tests/rehearsals.py [--write]`.

Each is `counterfactory rehearse` itself: networks exported and compiled, a suite by ONNX Runtime and one by OpenVINO,
both compared, and the bench. Profiles of one folder share what they export. `--write` keeps those that hold in
docs/a10g.json, as rehearsed_profiles.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from full_size import FIGURES, PROFILES
from mutants import write_figures

from counterfactory.engine.profile.profile import load_profile


def folder_of(name: str, work: Path) -> Path:
    """Where a profile is rehearsed below `work`: its networks lie with those of all profiles of its folder."""
    keep, shared = work / name, work / Path(load_profile(name).models.folder).name
    for folder in (keep, shared):
        folder.mkdir(parents=True, exist_ok=True)
    if not (keep / "networks").exists():
        (keep / "networks").symlink_to(shared)
    return keep


def rehearse(name: str, work: Path) -> dict[str, Any]:
    """What `rehearse --json` says of a profile, and its status; its errors where it says nothing."""
    words = ["rehearse", "--profile", name, "--keep", str(folder_of(name, work)), "--json"]
    command = [sys.executable, "-m", "counterfactory.engine", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    told: dict[str, Any] = (
        json.loads(done.stdout) if done.stdout.startswith("{") else {"steps": [], "error": done.stderr}
    )
    return {**told, "status": done.returncode}


def main(argv: Sequence[str]) -> int:
    """Rehearse, print, write; returns the exit status, 1 where a profile does not hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("profiles", nargs="*", metavar="PROFILE", help=f"some of {', '.join(PROFILES)} (all)")
    parser.add_argument("--write", action="store_true", help="keep those that hold in docs/a10g.json")
    parser.add_argument("--work", type=Path, metavar="DIR", help="folder of what is made, which stays (none)")
    args = parser.parse_args(argv)
    held = []
    with nullcontext(args.work) if args.work else tempfile.TemporaryDirectory() as work:
        for name in args.profiles or PROFILES:
            told = rehearse(name, Path(work))
            held += [name] if told["status"] == 0 else []
            for step in told["steps"]:
                print(f"{name}  {step['step']}  {step['result']}  {step['seconds']:.0f} s", flush=True)  # noqa: T201
            print(told.get("error", ""), end="", flush=True)  # noqa: T201
            if args.write:
                known = json.loads(FIGURES.read_text()).get("rehearsed_profiles", [])
                listed = {*(one for one in known if one not in (args.profiles or PROFILES)), *held}
                write_figures(FIGURES, {"rehearsed_profiles": [one for one in PROFILES if one in listed]})
    return int(len(held) < len(args.profiles or PROFILES))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
