"""Claim: `verify` reads 125,000 pictures about as fast as `sha256sum` does.

    python bench/verify.py [--files 12000] [--rounds 5] [--write]

Pictures of 30 kB, a table that lists them and a ledger that has their digests make a suite; they are not synced. Then,
by turns and from the page cache: `counterfactory verify` of the whole suite as a command of its own and within a
process, `sha256sum` of the same files in one process and in as many as there are cores, and reading them alone (`cat`).
A machine that is busy slows all of them. `--write` puts the figures into docs/performance.json.
"""

from __future__ import annotations

import hashlib
import statistics
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from measure import CLI, available_cores, bench_parser, finish, seconds
from simulated_suites import PAINTING, classes_suite, write_file

from counterfactory.engine.suite import PictureRow, Suite
from counterfactory.engine.suite.run_record import RunRecord, Standing
from counterfactory.engine.suite.verify import verify_suite

_BYTES = 30_000


def main() -> None:
    parser = bench_parser(__doc__, write="docs/performance.json")
    parser.add_argument("--files", type=int, default=12_000, metavar="N", help="pictures (%(default)s)")
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="rounds (%(default)s)")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        figures = measure(Path(folder) / "suite", asked.files, asked.rounds)
    finish("verify", keep="verify" if asked.write else None, **figures)


def measure(suite: Path, files: int, rounds: int) -> dict[str, Any]:
    """Seconds of each way, the median of the rounds, and how often `sha256sum` goes into `verify`."""
    names = make_suite(suite, files)
    listed = suite.parent / "names"
    listed.write_bytes(b"\0".join(name.encode() for name in names))
    cores = available_cores()

    def through(*command: str) -> None:
        with listed.open("rb") as file:
            subprocess.run(["xargs", "-0", *command], stdin=file, stdout=subprocess.DEVNULL, check=True, cwd=suite)

    def inside() -> None:
        faults = verify_suite(suite).faults
        assert not faults, f"nothing was measured: {faults[0]}"

    command = [*CLI, "verify", str(suite), "--json"]
    ways = {
        "verify_s": inside,
        "verify_command_s": lambda: subprocess.run(command, stdout=subprocess.DEVNULL, check=True),
        "sha256sum_s": lambda: through("sha256sum"),
        "sha256sum_parallel_s": lambda: through("-P", str(cores), "-n", "500", "sha256sum"),
        "read_s": lambda: through("cat"),
    }
    inside()  # everything is in the page cache from here on
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            times[name].append(seconds(way))
    medians = {name: round(statistics.median(of), 3) for name, of in times.items()}
    size = sum((suite / name).stat().st_size for name in names)
    pairs = [ours / theirs for ours, theirs in zip(times["verify_s"], times["sha256sum_s"], strict=True)]
    rate, times_of = size / 1e6 / medians["verify_s"], statistics.median(pairs)
    counted = {"files": len(names), "mb": round(size / 1e6, 1)}
    return {**medians, **counted, "verify_mb_per_s": round(rate, 1), "of_sha256sum": round(times_of, 2)}


def make_suite(folder: Path, files: int) -> list[str]:
    """A suite of so many pictures; their names."""
    rng, rows = np.random.default_rng(0), list[PictureRow]()
    written = dict[str, list[Any]]()
    for number, (row, _) in enumerate(zip(*classes_suite(20, -(-files // 7)), strict=True)):
        top = "originals" if row.kind == "original" else "images"
        name, data = f"{top}/{row.source}/{number:016x}.png", rng.bytes(_BYTES)
        written[name], digest = write_file(folder, name, data), hashlib.sha256(data).hexdigest()
        painted = None if row.kind == "original" else PAINTING
        rows.append(replace(row, file_name=name, sha256=digest, original=name, control=None, painting=painted))
    record = RunRecord((), Standing(1, 0, 0, 0, 0, (), (), {}))
    (folder / "suite.lock").touch()
    with Suite.open(folder) as suite:
        suite.ledger.put("suite/files", written)
        suite.write_metadata(rows, lambda contents: suite.write_run(record.with_contents(contents)))
    return list(written)


if __name__ == "__main__":
    main()
