"""A run on a disk that fails: at an operation of its files it is killed, or the disk is full, broken or slow, and then
the same command runs again. The suite has to be, byte for byte, what it would have been.

Faults come from file_faults.c, which is compiled here and loaded before libc into a process that has imported the
engine; each run is forked from that. A scenario begins with a copy of a suite, or none, and is one command.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import io
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

KINDS = ("kill", "half a write and kill", "no space", "input/output error", "short write")
# What a run is to make, beginning with the suite of another.
SCENARIOS = {"new": (None, 2), "grow": (1, 3), "shrink": (3, 1)}


@dataclass(frozen=True)
class Fault:
    """What the disk did at operation `at`, how the run ended, and whether anything was `lost` after the second."""

    scenario: str
    kind: str
    at: int
    status: int
    lost: str


def compile_faults(folder: Path) -> Path:
    """The library, built into the folder by the machine's C compiler."""
    library = folder / "file_faults.so"
    source = Path(__file__).with_suffix(".c")
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
    return library


def run(count: int, seed: int) -> list[Fault]:
    """Tries so many faults, spread evenly over operations, kinds and scenarios, in a process of their own."""
    with tempfile.TemporaryDirectory() as folder:
        library = compile_faults(Path(folder))
        made = subprocess.run(
            [sys.executable, __file__, str(count), str(seed)],
            env={**os.environ, "LD_PRELOAD": str(library), "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    return [Fault(a, b, int(c), int(d), e) for a, b, c, d, e in (line.split("\t") for line in made.stdout.splitlines())]


def _generate(work: Path, suite: Path, variants: int, at: int = 0, kind: int = 0) -> tuple[int, int]:
    """The status of the command in a child of this process, and how many operations it did."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        library = ctypes.CDLL(None)
        library.fault_arm(at, kind, os.fsencode(suite))
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 1)
        os.dup2(null, 2)
        from counterfactory.engine.cli.arguments import main

        status = 99
        try:
            status = main(_command(work, suite, variants))
        except SystemExit as leaving:
            status = leaving.code if isinstance(leaving.code, int) else 1
        finally:
            os.write(writing, library.fault_count().to_bytes(4, "little"))
            os._exit(status)
    os.close(writing)
    _, status = os.waitpid(child, 0)
    with os.fdopen(reading, "rb") as pipe:
        return os.waitstatus_to_exitcode(status), int.from_bytes(pipe.read(4), "little")


def _command(work: Path, suite: Path, variants: int) -> list[str]:
    words = ("generate", work / "photos", "--out", suite, "--profile", "light", "--variants", variants, "--json")
    return [*map(str, words)]


def contents(suite: Path) -> dict[str, str]:
    """The digests of all files that say what a suite is, by name; ledger, run.json and status.json also hold times."""
    files = {path.relative_to(suite).as_posix(): path for path in suite.rglob("*") if path.is_file()}
    left_out = ("ledger.sqlite", "run.json", "status.json", "suite.lock")
    return {
        name: hashlib.sha256(path.read_bytes()).hexdigest()
        for name, path in files.items()
        if not name.startswith(left_out)
    }


def _faults(work: Path, count: int, seed: int) -> Iterator[Fault]:
    rng = random.Random(seed)
    names = list(SCENARIOS)
    begun: dict[str, Path] = {}
    wanted: dict[str, dict[str, str]] = {}
    operations: dict[str, int] = {}
    for name, (before, variants) in SCENARIOS.items():
        begun[name] = work / f"before-{name}"
        if before is not None:
            assert _generate(work, begun[name], before)[0] == 0
        whole = work / f"whole-{name}"
        if before is not None:
            shutil.copytree(begun[name], whole)
        status, operations[name] = _generate(work, whole, variants)
        assert status == 0, status
        wanted[name] = contents(whole)
    for number in range(count):
        name, kind = names[number % len(names)], number // len(names) % len(KINDS)
        rounds = -(-count // (len(names) * len(KINDS)))
        step = operations[name] / rounds
        at = 1 + min(operations[name] - 1, int((number // (len(names) * len(KINDS)) + rng.random()) * step))
        suite = work / "suite"
        if begun[name].exists():
            shutil.copytree(begun[name], suite)
        status, _ = _generate(work, suite, SCENARIOS[name][1], at, kind)
        again, _ = _generate(work, suite, SCENARIOS[name][1])
        came = contents(suite)
        differ = sorted(path for path in came.keys() | wanted[name].keys() if came.get(path) != wanted[name].get(path))
        lost = f"status {again}" if again else " ".join(differ)
        yield Fault(name, KINDS[kind], at, status, lost)
        shutil.rmtree(suite)


def _main() -> None:
    import numpy as np
    from PIL import Image

    from counterfactory.engine.cli.arguments import main

    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder).resolve()
        for number in range(3):
            place = work / "photos" / ("bus", "car")[number % 2] / f"{number}.png"
            place.parent.mkdir(parents=True, exist_ok=True)
            pixels = np.random.default_rng(number).integers(0, 255, (8, 12, 3)).astype(np.uint8)
            Image.fromarray(pixels).resize((96, 64)).save(place)
        # What a command imports is imported before the forks.
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            main(_command(work, work / "warm", 1))
        for fault in _faults(work, int(sys.argv[1]), int(sys.argv[2])):
            print("\t".join(map(str, (fault.scenario, fault.kind, fault.at, fault.status, fault.lost))), flush=True)


if __name__ == "__main__":
    _main()
