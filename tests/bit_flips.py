"""Single bits of a suite's ledger, table and record, turned one at a time and read in this process: what is read is
what was written, or it is said that it is not. A row that its own digest denies counts as said: it is made again.
"""

from __future__ import annotations

import os
import random
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import corruptions

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.suite import read_metadata, read_run
from counterfactory.engine.suite.ledger import Ledger

# Where the small suites lie: flips are many, and no disk needs to see them.
MEMORY = Path("/dev/shm")
Read = Callable[[Path], Any]


def _read_ledger(stages: list[str]) -> Read:
    def read(suite: Path) -> Any:
        ledger = Ledger(suite / "ledger.sqlite", read_only=True)
        try:
            rows = {stage: {key: row for page in ledger.walk(stage) for key, row in page.items()} for stage in stages}
            return rows, ledger.denied
        finally:
            ledger.close()

    return read


def _stages(suite: Path) -> list[str]:
    ledger = Ledger(suite / "ledger.sqlite", read_only=True)
    try:
        return [stage for (stage,) in ledger._db.execute("SELECT DISTINCT stage FROM results ORDER BY stage")]
    finally:
        ledger.close()


def _became(suite: Path, read: Read, whole: Any) -> str:
    try:
        came = read(suite)
    except CounterfactoryError:
        return "told"
    if came == whole:
        return "harmless"
    if isinstance(whole, tuple):  # the ledger's rows, and how many were denied
        (rows, denied), (before, _) = came, whole
        kept = all(row == before[stage].get(key) for stage in rows for key, row in rows[stage].items())
        # A row that is not found is made again.
        return ("told" if denied else "harmless") if kept else "silent"
    return "silent"


def flips(count: int, seed: int) -> Iterator[tuple[str, str]]:
    """For so many bits, by turns of each file, the file and what became of it: told, harmless or silent."""
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        suite = corruptions.make(Path(folder))
        reads: dict[str, Read] = {
            "ledger.sqlite": _read_ledger(_stages(suite)),
            "metadata.parquet": read_metadata,
            "run.json": read_run,
        }
        wholes = {name: read(suite) for name, read in reads.items()}
        for number in range(count):
            name = list(reads)[number % len(reads)]
            handle = os.open(suite / name, os.O_RDWR)
            at = rng.randrange(os.fstat(handle).st_size)
            before = os.pread(handle, 1, at)
            os.pwrite(handle, bytes([before[0] ^ 1 << rng.randrange(8)]), at)
            try:
                became = _became(suite, reads[name], wholes[name])
            finally:
                os.pwrite(handle, before, at)
                os.close(handle)
            yield name, became


def run(count: int, seed: int) -> tuple[int, int, Counter[tuple[str, str]]]:
    """How many bits were tried, how many were silent, and what became of those of each file."""
    came = Counter(flips(count, seed))
    return came.total(), sum(times for (_, became), times in came.items() if became == "silent"), came
