"""Runs that something goes wrong with, tried for real: Ray's processes on this machine, `light` in place of a GPU.

    python tests/recoveries.py [--write] [--only NAME ...]

Each case is the command `generate` with a fault (recovery_faults.py), and the same command again where it ended with an
error. It counts as lost where the suite in the end does not have the bytes of an undisturbed one, or where the command
ended otherwise than its case says, or said nothing of what went wrong. `--write` keeps `recoveries` and
`recoveries_lost` in docs/a10g.json. The last line is JSON; the status is 1 where one is lost.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from light_sets import photographs
from mutants import write_figures
from recovery_faults import FAULT, FOLDER
from streets import write_streets

from counterfactory.engine.suite.contents import suite_digest
from counterfactory.engine.suite.verify import verify_suite

DOCS = Path(__file__).parents[1] / "docs" / "a10g.json"
SOURCES = 16
HERE = str(Path(__file__).parent)
DRIVE = [sys.executable, "-c", "import recovery_faults; recovery_faults.drive()"]


@dataclass(frozen=True)
class Case:
    """A fault, whether on Ray's workers, the status that its first command ends with, and a word that it says."""

    name: str
    on_ray: bool
    status: int
    word: str
    profile: str = "light"


CASES = (
    Case("kill -9 of a worker", True, 0, "lost a worker"),
    Case("a worker that hangs", True, 0, "has not finished a shard"),
    Case("a lost context", True, 0, "cudaErrorLaunchFailure"),
    Case("a GPU that stays broken", True, 0, "gave up a worker"),
    Case("a bug, once", True, 0, "ZeroDivisionError"),
    Case("a source that breaks workers", True, 2, "b/0005"),
    Case("a worker that cannot start", True, 0, "it has release"),
    Case("workers that never begin", True, 0, "has not begun"),
    Case("kill -9 of the driver", True, -signal.SIGKILL, "ended without a word"),
    Case("kill -9 of the run, without Ray", False, -signal.SIGKILL, "ended without a word"),
    Case("a lost context, without Ray", False, 75, "run the same command again"),
    Case("no room half-way", False, 2, "free some space"),
    Case("a read-only cache of compiled networks", False, 0, "compiled networks are not kept", "pocket"),
)
# Those that a test has time for.
FEW = ("a lost context", "kill -9 of the run, without Ray", "a lost context, without Ray")


@dataclass(frozen=True)
class Outcome:
    """What came of a case: the statuses of its commands, what was said, and why it counts as lost."""

    name: str
    statuses: tuple[int, ...]
    said: str
    seconds: float
    lost: str


class Recoveries:
    """Tries cases below a folder; suites are compared with one that nothing went wrong with, and seconds with those of
    one that was made in the same way.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.sources = folder, {"light": folder / "photos", "pocket": folder / "streets" / "images"}
        photographs(self.sources["light"], range(SOURCES))
        self.digests: dict[str, str | None] = {}

    def run(self, cases: Sequence[Case], on_ray_too: bool = True) -> list[Outcome]:
        usual_s: dict[tuple[str, bool], float] = {}
        if any(case.profile == "pocket" for case in cases):
            write_streets(self.folder / "streets", 2)
        for profile, on_ray in sorted({(case.profile, case.on_ray and on_ray_too) for case in cases}):
            usual = self._try(Case("nothing", on_ray, 0, "", profile), self.folder / f"{profile[0]}{on_ray:d}")
            assert usual.statuses == (0,), usual.lost
            usual_s[profile, on_ray] = usual.seconds
        outcomes = []
        for number, case in enumerate(cases):
            outcomes.append(one := self._try(case, self.folder / str(number)))
            seconds = one.seconds - usual_s.get((case.profile, case.on_ray), 0.0)
            print(
                f"{case.name:40} {one.statuses!s:8} {seconds:6.1f} s  {one.lost or 'the same'}\n    {one.said}",
                flush=True,
            )
        return outcomes

    def _try(self, case: Case, folder: Path) -> Outcome:
        folder.mkdir()
        suite, statuses, told, seconds = folder / "suite", list[int](), "", 0.0
        environment = self._place(case, folder)
        for _ in range(2):
            began = time.monotonic()
            status, words = self._command(self._words(case, suite), folder, environment)
            seconds += time.monotonic() - began
            statuses, told = [*statuses, status], told + words
            if status == 0:
                break
            (folder / "mended").touch()
            if status < 0:
                seen, words = self._command(["status", str(suite)], folder, environment)
                told += words if seen == 4 else f"status is {seen}"
            if case.name == "no room half-way":
                subprocess.run(["mount", "-o", "remount,size=64m", str(suite)], check=True)
        said = next((line for line in told.splitlines() if case.word in line), "")
        digest = self.digests.setdefault(case.profile, suite_digest(suite) if suite.is_dir() else None)
        lost = ""
        if statuses[0] != case.status or statuses[-1] != 0:
            lost = f"ended with {statuses}: {told[-300:]}"
        elif not said and case.word:
            lost = f"did not say {case.word!r}: {told[:500]}"
        elif digest is None or suite_digest(suite) != digest or not verify_suite(suite).sound:
            lost = "other bytes"
        for place in ("suite", "cache"):
            if (folder / place).is_mount():
                subprocess.run(["umount", str(folder / place)], check=True)
        return Outcome(case.name, tuple(statuses), said.strip(), seconds, lost)

    def _words(self, case: Case, suite: Path) -> list[str]:
        sources = str(self.sources[case.profile])
        words = ["generate", sources, "--out", str(suite), "--profile", case.profile, "--variants", "3"]
        return [*words, "--shard", "2", "--anyway", *(["--ray", "local", "--workers", "2"] if case.on_ray else [])]

    def _place(self, case: Case, folder: Path) -> dict[str, str]:
        """The environment of the case's commands, and the disks that it needs; Ray's sockets take short paths only."""
        (folder / "t").mkdir()
        environment = {FAULT: case.name, FOLDER: str(folder), "TMPDIR": str(folder / "t")}
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, (HERE, os.environ.get("PYTHONPATH"))))
        if case.name == "no room half-way":
            self._mount(folder / "suite", "size=300k")
        if case.profile == "pocket":
            environment["COUNTERFACTORY_COMPILED"] = str(folder / "cache")
        if case.name == "a read-only cache of compiled networks":
            self._mount(folder / "cache", "ro,mode=0755")
        return environment

    def _mount(self, place: Path, options: str) -> None:
        place.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)], check=True)

    def _command(self, words: list[str], folder: Path, more: dict[str, str]) -> tuple[int, str]:
        ended = subprocess.run(
            [*DRIVE, *words], env={**os.environ, **more}, capture_output=True, text=True, check=False
        )
        end_processes(f"{FOLDER}={folder}")
        return ended.returncode, ended.stderr + ended.stdout


def end_processes(mark: str) -> None:
    """Ends what a killed driver of Ray left: the processes with this in their environment."""
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if mark.encode() in path.read_bytes().split(b"\0"):
                os.kill(int(path.parent.name), signal.SIGKILL)


def main() -> None:
    parser = argparse.ArgumentParser(description="Runs that something goes wrong with.")
    parser.add_argument("--write", action="store_true", help="keep the figures in docs/a10g.json")
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=[case.name for case in CASES])
    args = parser.parse_args()
    cases = [case for case in CASES if args.only is None or case.name in args.only]
    with tempfile.TemporaryDirectory(prefix="rec-", ignore_cleanup_errors=True) as folder:
        outcomes = Recoveries(Path(folder)).run(cases)
    figures = {"recoveries": len(outcomes), "recoveries_lost": sum(bool(outcome.lost) for outcome in outcomes)}
    if args.write and args.only is None:
        write_figures(DOCS, figures)
    print(json.dumps(figures))
    sys.exit(figures["recoveries_lost"] > 0)


if __name__ == "__main__":
    main()
