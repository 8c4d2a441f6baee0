"""Claim: a suite made by many workers has the bytes of one box, whatever is killed, and scales with them.

    python bench/cluster.py [--only kills,efficiency,memory,listing] [--repetitions 20] [--write]

`kills`: `generate --ray local` with three workers of which two are killed with SIGKILL at random times, beside one box
that makes the same suite alone. `efficiency`: two workers on two cores, each pinned to its own, against twice one, by
the times of the shards in the log, the first of each worker left out; it takes a machine that does nothing else.
`memory`: the peak of a driver over 1,000 and over 100,000 small sources with one variant each; its workers, in the same
process, hand over drawn parts, and nothing is synced. `listing`: 1,000,000 names of one file in folders of 10,000,
listed; and what that takes beyond 1,000 of them. The profile is `light`, on drawn photographs. `--write` keeps the
figures of the parts that ran in docs/cluster.json.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from measure import CLI, DOCS, ROOT, bench_parser, finish, keep_figures, machine
from PIL import Image

from counterfactory.engine.suite.contents import suite_digest
from counterfactory.engine.suite.verify import verify_suite

WORKERS, KILLS = 3, 2


def photographs(root: Path, count: int, size: tuple[int, int] = (480, 360)) -> Path:
    """Smooth pictures of two classes."""
    for index in range(count):
        numbers = np.random.default_rng(index)
        small = Image.fromarray(numbers.integers(30, 226, (9, 12, 3), dtype=np.uint8))
        path = root / "ab"[index % 2] / f"{index:06d}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        small.resize(size, Image.Resampling.BICUBIC).save(path, quality=92)
    return root


def command(photos: Path, out: Path, *more: str) -> list[str]:
    return [*CLI, "generate", str(photos), "--profile", "light", "--shard", "2", "--out", str(out), "--json", *more]


def workers_of(driver: int) -> list[int]:
    """Processes of Ray below the driver's that are workers which take shards."""
    parents, named = {}, list[int]()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            pid, status = int(folder.name), (folder / "stat").read_text()
            parents[pid] = int(status.rpartition(")")[2].split()[1])
            if (folder / "cmdline").read_bytes().startswith(b"ray::ShardWorker"):
                named.append(pid)
        except OSError:
            continue

    def below(pid: int) -> bool:
        while pid > 1:
            if pid == driver:
                return True
            pid = parents.get(pid, 0)
        return False

    return [pid for pid in named if below(pid)]


def shards_done(suite: Path) -> int:
    try:
        return int(json.loads((suite / "status.json").read_text())["done"])
    except (OSError, ValueError):
        return 0


def kill_some(photos: Path, out: Path, shards: int, luck: random.Random) -> tuple[int, str]:
    """A run of three workers of which two are killed, each at a random point of the run; how many were, and what the
    run warned of.
    """
    at = sorted(luck.random() * shards * 0.9 for _ in range(KILLS))
    ray = command(photos, out, "--ray", "local", "--workers", str(WORKERS))
    driver = subprocess.Popen(ray, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    killed = 0
    while driver.poll() is None:
        there = workers_of(driver.pid)
        if killed < KILLS and there and shards_done(out) + luck.random() >= at[killed]:
            os.kill(luck.choice(there), signal.SIGKILL)
            killed += 1
        time.sleep(0.02)
    assert driver.stderr is not None
    told = driver.stderr.read()
    if driver.returncode:
        raise SystemExit(told)
    return killed, told


def kills(folder: Path, repetitions: int, seed: int) -> dict[str, Any]:
    """Whether the bytes are those of one box after every repetition."""
    photos, luck = photographs(folder / "photos", 24, (320, 240)), random.Random(seed)
    subprocess.run(command(photos, folder / "one"), check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    digest, same, killed, lost = suite_digest(folder / "one"), 0, 0, 0
    for number in range(repetitions):
        out = folder / "many"
        count, told = kill_some(photos, out, 12, luck)
        verification = verify_suite(out)
        same += verification.sound and verification.digest == digest and not (out / "parts").exists()
        in_hand = told.count("lost a worker")
        killed, lost = killed + count, lost + in_hand
        print(f"{number + 1:3}  {count} killed, {in_hand} with a shard in hand, {same} the same", flush=True)
        shutil.rmtree(out)
    counts = {"workers": WORKERS, "kills": killed, "kills_with_a_shard": lost}
    return counts | {"repetitions": repetitions, "same_bytes": same}


def pin(pid: int, core: int) -> None:
    """Has a process and its threads run on one core; new threads stay on their parents'."""
    for task in Path(f"/proc/{pid}/task").glob("*"):
        with suppress(OSError):
            os.sched_setaffinity(int(task.name), {core})


def efficiency(folder: Path) -> dict[str, Any]:
    """How much of twice one worker's rate two have."""
    photos, rates = photographs(folder / "photos", 96), list[float]()
    for workers in (1, 2):
        out, log = folder / f"suite{workers}", folder / f"log{workers}"
        more = ("--ray", "local", "--workers", str(workers), "--shard-log", str(log))
        driver = subprocess.Popen(command(photos, out, *more), stdout=subprocess.DEVNULL)
        while driver.poll() is None:
            for core, pid in enumerate(sorted(workers_of(driver.pid))):
                pin(pid, core)
            time.sleep(0.2)
        assert driver.returncode == 0
        times = [json.loads(line)["time"] for line in log.read_text().splitlines()]
        rates.append((len(times) - workers) / (times[-1] - times[workers - 1]))
        print(f"{workers} workers: {rates[-1]:.3f} shards a second", flush=True)
    return {"efficiency": round(rates[1] / (2 * rates[0]), 3), "shards_per_s": [round(rate, 3) for rate in rates]}


def output_of(code: str) -> list[str]:
    """The words that a program of Python prints, in a process of its own."""
    return subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.PIPE, text=True).stdout.split()


_DRIVER = """
import os, sys, resource
sys.path[:0] = [{tests!r}]
os.fsync = lambda handle: None  # what is kept is not asked here
import drawn_parts
from counterfactory.engine.api.verbs import generate
drawn_parts.install()
generate({photos!r}, out={out!r}, profile="light", variants=1, controls=0, edits=1, shard=250, anyway=True, ray="auto",
         warn=lambda text: None)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def memory(folder: Path, most: int) -> dict[str, Any]:
    """The driver's peak in 10^6 bytes at 1,000 and at `most` sources."""
    peaks = list[int]()
    for count in (1000, most):
        photos, out = photographs(folder / f"photos{count}", count, (32, 24)), folder / f"suite{count}"
        said = output_of(_DRIVER.format(tests=str(ROOT / "tests"), photos=str(photos), out=str(out)))
        peaks.append(round(float(said[-1]) * 1.048576))
        print(f"{count:,} sources: {peaks[-1]} MB at the peak", flush=True)
        shutil.rmtree(out)
    return {"driver_mb_1k": peaks[0], f"driver_mb_{most // 1000}k": peaks[1]}


_LISTING = """
import time
from counterfactory.engine.sources.layouts import SetOptions, list_set
began = time.perf_counter()
count = len(list_set({photos!r}, SetOptions()).entries)
rate = count / (time.perf_counter() - began)
print(rate, *(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


def listing(folder: Path, most: int) -> dict[str, Any]:
    """Files listed a second, and the peak in 10^6 bytes at 1,000 and at `most` files."""
    rate, peaks = 0.0, list[int]()
    for count in (1000, most):
        photos = folder / str(count)
        for number in range(count):
            place = photos / f"{number // 10_000:04d}" / f"{number:07d}.jpg"
            if number % 10_000 == 0:  # file systems limit the links to a file
                first = photographs(folder / f"{count}-{number}", 1, (32, 24)) / "a" / "000000.jpg"
                place.parent.mkdir(parents=True)
            os.link(first, place)
        rate, peak_kib = map(float, output_of(_LISTING.format(photos=str(photos))))
        peaks.append(round(peak_kib * 1.024e-3))
        print(f"{count:,} files: {rate:,.0f} a second, {peaks[-1]} MB at the peak", flush=True)
    return {"files_per_s": round(rate), "listing_mb_1k": peaks[0], f"listing_mb_{most // 1000}k": peaks[1]}


def main() -> None:
    parser = bench_parser(__doc__, write="docs/cluster.json")
    parser.add_argument("--only", default="kills,efficiency,memory,listing", help="parts, with commas (%(default)s)")
    parser.add_argument("--repetitions", type=int, default=20, metavar="N", help="of kills (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the kills' times (%(default)s)")
    parser.add_argument("--sources", type=int, default=100_000, metavar="N", help="of `memory` (%(default)s)")
    parser.add_argument("--files", type=int, default=1_000_000, metavar="N", help="of `listing` (%(default)s)")
    asked = parser.parse_args()
    figures: dict[str, Any] = {}
    for part in asked.only.split(","):
        with tempfile.TemporaryDirectory() as folder:
            figures |= PARTS[part](Path(folder), asked)
        figures |= {"machine": machine(), "command": "python bench/cluster.py --write"}
        if asked.write:
            keep_figures(DOCS / "cluster.json", figures)
    finish("cluster", **figures)


PARTS: dict[str, Callable[[Path, Any], dict[str, Any]]] = {
    "kills": lambda folder, asked: kills(folder, asked.repetitions, asked.seed),
    "efficiency": lambda folder, _: efficiency(folder),
    "memory": lambda folder, asked: memory(folder, asked.sources),
    "listing": lambda folder, asked: listing(folder, asked.files),
}

if __name__ == "__main__":
    main()
