"""What every bench shares: timing by turns on an idle machine, the machine's name, and the JSON object that ends it.

Other work on the machine slows the two sides of a comparison unequally: a fixed team of threads waits for its slowest,
independent streams do not. So each round stands between two runs of one matrix product, and where these say that the
machine was busy the round does not count.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from datetime import date
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from counterfactory.engine.cli.terminal import Terminal
from counterfactory.engine.estimate.peak import products
from counterfactory.engine.files.caches import cache_folder
from counterfactory.engine.meter.machine import machine as this_machine
from counterfactory.engine.profile.profile import Profile
from counterfactory.engine.profile.runtime import ModelPaths
from counterfactory.engine.report.table import Table
from counterfactory.engine.runtime.openvino import open_core, resolve_precision
from counterfactory.engine.runtime.quiet_openvino import ov
from counterfactory.export.pocket.packed import gather

T = TypeVar("T")
Pixels = NDArray[np.uint8]
ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PERFORMANCE = DOCS / "performance.json"
CLI = (sys.executable, "-m", "counterfactory.engine")
# How far a round's matrix products may be from the fastest, and their threads from having all cores.
TOLERANCE = 0.1
_SIDE, _IN_A_ROW = 1024, 32


def bench_cache() -> Path:
    """Where networks too large to make each time are kept."""
    return (cache_folder() or Path(tempfile.gettempdir()) / "counterfactory") / "bench"


def picture_at(path: Path) -> Pixels:
    """A picture of a file, RGB [H, W, 3]."""
    return np.asarray(Image.open(path).convert("RGB"))


def psnr(a: Pixels, b: Pixels, where: NDArray[np.bool_] | None = None) -> float:
    """dB between 8-bit pictures [H, W, 3], of the pixels `where` [H, W]; 138 where they are equal."""
    errors = np.square(a.astype(np.float64) - b)
    return float(10 * np.log10(255**2 / max(1e-9, float((errors if where is None else errors[where]).mean()))))


def with_masters(profile: Profile) -> Profile:
    """A profile of the embedded models over all of them in one folder, in the user's cache: masters and restoring."""
    if profile.models.folder != "pocket":
        return profile
    return replace(profile, models=ModelPaths(str(gather(bench_cache() / "packed"))))


@dataclass(frozen=True)
class Spent:
    """Seconds of something: on the wall, and of cores, all threads of this process together."""

    wall_s: float
    cpu_s: float

    def __sub__(self, other: Spent) -> Spent:
        return Spent(self.wall_s - other.wall_s, self.cpu_s - other.cpu_s)

    def __truediv__(self, count: float) -> Spent:
        return Spent(self.wall_s / count, self.cpu_s / count)


Clock = Callable[[], Spent]


def now() -> Spent:
    """Readings of the clocks; differences of two mean something."""
    return Spent(time.perf_counter(), time.process_time())


def spent(work: Callable[[], object], clock: Clock = now) -> Spent:
    began = clock()
    work()
    return clock() - began


def seconds(work: Callable[[], object]) -> float:
    return spent(work).wall_s


def run_command(command: Iterable[str | Path], **how: Any) -> tuple[float, Any]:
    """Wall time of a command that ends well, and what it used (`resource.struct_rusage`); `how` is Popen's."""
    words = [str(word) for word in command]
    began = time.perf_counter()
    _, status, used = os.wait4(subprocess.Popen(words, **{"stdout": subprocess.DEVNULL, **how}).pid, 0)
    if status:
        raise SystemExit(f"{shlex.join(words)} ended with {os.waitstatus_to_exitcode(status)}")
    return time.perf_counter() - began, used


def in_fresh_process(work: Callable[..., T], *arguments: Any) -> T:
    """What `work` gives in a process of its own, whose memory nothing else has raised."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(work, *arguments).result()


@dataclass(frozen=True)
class Bracket:
    """The fixed matrix product, once: its wall time, and the share that it got of the cores that it asked for.

    `uneven`: this machine's cores are faster at one time than at another, so that the wall time tells nothing.
    """

    wall_s: float
    share: float
    uneven: bool = False


Yardstick = Callable[[], Bracket]


def available_cores() -> int:
    """Cores that this process may use, by its affinity and its control group's quota."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = Path("/sys/fs/cgroup/cpu.max")
    if quota.exists():
        most, period = quota.read_text().split()
        if most != "max":
            cores = min(cores, max(1, int(most) // int(period)))
    return cores


def open_yardstick(uneven: bool = False) -> Yardstick:
    """The fixed matrix product, float32 on all cores, some 0.2 s long; on an `uneven` machine (`Bracket`) or not.

    By OpenVINO, which takes the number of threads that it is told whatever the environment says, and which most of
    what is measured runs on.
    """
    cores = available_cores()
    config = {"INFERENCE_PRECISION_HINT": "f32", "NUM_STREAMS": 1, "INFERENCE_NUM_THREADS": cores}
    request = open_core().compile_model(products(_SIDE, in_a_row=_IN_A_ROW), "CPU", config).create_infer_request()
    request.set_input_tensor(ov.Tensor(np.full((_SIDE, _SIDE), 0.5, np.float32)))
    request.infer()  # the first run allocates

    def product() -> Bracket:
        took = spent(request.infer)
        return Bracket(took.wall_s, took.cpu_s / took.wall_s / cores, uneven)

    return product


def quiet(brackets: Sequence[Bracket]) -> list[bool]:
    """Whether the machine was idle beside each bracket.

    The fastest of them says what the machine can do. That alone would not show other work that lasts as long as the
    bench: the product's threads then wait for cores all the time, and get less than they asked for. Where the machine
    is uneven the latter alone tells.
    """
    fastest = min(bracket.wall_s for bracket in brackets)
    return [(b.uneven or b.wall_s <= (1 + TOLERANCE) * fastest) and b.share >= 1 - TOLERANCE for b in brackets]


@dataclass(frozen=True)
class Rounds(Generic[T]):
    """What rounds on an idle machine gave, the numbers of these rounds, and how many rounds there were in all."""

    results: tuple[T, ...]
    kept: tuple[int, ...]
    asked: int


def keep_quiet(work: Callable[[int], T], rounds: int, yardstick: Yardstick | None = None) -> Rounds[T]:
    """Results of `work(i)` for `rounds` rounds but those beside which the machine was busy.

    Before the first round, between rounds and after the last the fixed matrix product is timed; a round is kept when
    the products on both its sides say idle. Raises SystemExit as soon as fewer than half of the rounds can be left: a
    faster product later makes no busy round idle.
    """
    product = yardstick or open_yardstick()
    brackets, results = [product()], []
    kept: tuple[int, ...] = ()
    for i in range(rounds):
        results.append(work(i))
        brackets.append(product())
        idle = quiet(brackets)
        kept = tuple(j for j in range(i + 1) if idle[j] and idle[j + 1])
        busy = i + 1 - len(kept)
        if 2 * busy > rounds or busy == rounds:
            walls, shares = ([getattr(b, name) for b in brackets] for name in ("wall_s", "share"))
            said = f"cannot tell: the machine was busy in {busy} of {i + 1} rounds, {rounds} were asked for"
            beside = f"beside them a fixed matrix product took {min(walls):.3f} to {max(walls):.3f} s"
            got = f"got {min(shares):.0%} to {max(shares):.0%} of the cores"
            raise SystemExit(f"{said}; run again on an idle machine ({beside} and {got})")
    return Rounds(tuple(results[i] for i in kept), kept, rounds)


@dataclass(frozen=True)
class Ratio:
    """How many times as fast the candidate was as the baseline: one value per round that counts, and medians of what
    each side took. `asked` is the number of rounds, those that were dropped included.

    `least` is the fastest run of the baseline over the slowest of the candidate, of whatever rounds: what a machine of
    uneven speed leaves of the ratio at worst.
    """

    values: tuple[float, ...]
    baseline: Spent
    candidate: Spent
    asked: int
    kept: tuple[int, ...]
    least: float

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def figures(self) -> dict[str, Any]:
        ratios = {"ratio": self.median, "ratio_min": min(self.values), "ratio_max": max(self.values)}
        rounds = {"rounds": self.asked, "rounds_dropped": self.asked - len(self.values), "ratio_least": self.least}
        baseline = {"baseline_s": self.baseline.wall_s, "baseline_cpu_s": self.baseline.cpu_s}
        candidate = {"candidate_s": self.candidate.wall_s, "candidate_cpu_s": self.candidate.cpu_s}
        return ratios | rounds | baseline | candidate

    def __str__(self) -> str:
        busy = self.asked - len(self.values)
        dropped = f", {busy} more dropped: busy machine" if busy else ""
        cores = f"{self.baseline.cpu_s:.3g} against {self.candidate.cpu_s:.3g} CPU-seconds"
        spread = f"{min(self.values):.2f} to {max(self.values):.2f}, at worst {self.least:.2f}"
        return f"{self.median:.2f}x ({spread}, {len(self.values)} rounds{dropped}; {cores})"


def compare(
    baseline: Callable[[], object], candidate: Callable[[], object], rounds: int, warm: bool = True,
    yardstick: Yardstick | None = None, clock: Clock = now,
) -> Ratio:  # fmt: skip
    """Time both by turns, `rounds` times each, after one untimed call each (`warm`).

    Who goes first alternates; rounds on a busy machine do not count: see `keep_quiet`. A side that returns a `Spent`
    has measured itself, as those do that leave something out or count per variant.
    """

    def side(work: Callable[[], object]) -> Spent:
        results: list[object] = []
        took = spent(lambda: results.append(work()), clock)
        return results[0] if isinstance(results[0], Spent) else took

    def both(i: int) -> tuple[Spent, Spent]:
        if i % 2:
            second = side(candidate)
            return side(baseline), second
        return side(baseline), side(candidate)

    if warm:
        baseline()
        candidate()
    idle = keep_quiet(both, rounds, yardstick)
    values = tuple(a.wall_s / b.wall_s for a, b in idle.results)
    first, second = (
        Spent(statistics.median(s.wall_s for s in of), statistics.median(s.cpu_s for s in of))
        for of in zip(*idle.results, strict=True)
    )
    least = min(a.wall_s for a, _ in idle.results) / max(b.wall_s for _, b in idle.results)
    return Ratio(values, first, second, idle.asked, idle.kept, least)


def machine() -> str:
    """CPU, cores and the precision that "auto" means."""
    return f"{this_machine()}, {resolve_precision('auto')}"


def command_line() -> str:
    """How this bench was called."""
    return shlex.join(["python", f"bench/{Path(sys.argv[0]).name}", *sys.argv[1:]])


def stamp() -> dict[str, str]:
    """The machine, how this bench was called, and the day."""
    return {"machine": machine(), "command": command_line(), "date": date.today().isoformat()}


def keep_figures(file: Path, figures: Mapping[str, Any]) -> None:
    """Write figures into a JSON file whose other keys are another bench's and stay."""
    kept = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    file.write_text(json.dumps({**kept, **figures}, indent=2) + "\n", encoding="utf-8")


def bench_parser(doc: str | None, *, uneven: bool = False, write: str = "") -> argparse.ArgumentParser:
    """A bench's command line, with the options that several have; `write` names the file that keeps figures."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    if uneven:
        told = "keep rounds on CPUs whose speed varies, if nothing else ran on them"
        parser.add_argument("--uneven", action="store_true", help=told)
    if write:
        parser.add_argument("--write", action="store_true", help=f"keep the figures in {write}")
    return parser


def show(title: str, columns: Iterable[str], rows: Iterable[tuple[str, ...]]) -> None:
    Terminal().show(Table(title, tuple(columns), tuple(rows)))


def finish(
    claim: str, compared: Ratio | None = None, *, file: Path | None = None, keep: str | None = None,
    into: Path | None = None, **more: Any,
) -> None:  # fmt: skip
    """Print the line that ends every bench, one JSON object; `file` gets it too.

    docs/performance.json keeps it under the name `keep`, lists left out, with the command and the day; a bench's own
    file, `into`, keeps `more`.
    """
    row = {"claim": claim} | ({} if compared is None else compared.figures) | {"machine": machine()} | more
    row = {k: round(v, 4) if isinstance(v, float) else v for k, v in row.items()}
    line = json.dumps(row)
    print(line)
    if file is not None:
        file.write_text(line + "\n")
    if keep is not None:
        keep_figures(PERFORMANCE, {keep: {k: v for k, v in row.items() if not isinstance(v, list)} | stamp()})
    if into:
        keep_figures(into, more)
