"""Comparisons on a machine that does other things as well: a simulated one, and (slow) this one under a load."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from measure import TOLERANCE, Bracket, Ratio, Spent, compare, finish, keep_quiet, quiet, seconds

CORES = 2


@dataclass
class Machine:
    """Two cores with a clock of their own; `loaded` says at which seconds another process burns one of them.

    Streams lose a quarter of the machine to it then, a fixed team of threads waits for its slower half, and the
    matrix product is such a team.
    """

    loaded: Callable[[float], bool]
    wall_s: float = 0.0
    cpu_s: float = 0.0
    # What the machine does at the same load, faster or slower than the first time.
    speed: float = 1.0

    def now(self) -> Spent:
        return Spent(self.wall_s, self.cpu_s)

    def work(self, idle_s: float, slowed: float) -> None:
        wall = idle_s / self.speed * (slowed if self.loaded(self.wall_s) else 1)
        self.wall_s += wall
        self.cpu_s += CORES * idle_s / self.speed

    def team(self) -> None:
        self.work(8.0, slowed=3.0)

    def streams(self) -> None:
        self.work(2.0, slowed=4 / 3)

    def product(self) -> Bracket:
        before = self.now()
        self.work(0.1, slowed=2.0)
        took = self.now() - before
        return Bracket(took.wall_s, took.cpu_s / took.wall_s / CORES)


def measured(machine: Machine, rounds: int) -> Ratio:
    return compare(machine.team, machine.streams, rounds, yardstick=machine.product, clock=machine.now)


def test_a_quiet_machine_keeps_every_round() -> None:
    ratio = measured(Machine(lambda _: False), 5)
    assert ratio.values == pytest.approx([4.0] * 5)
    assert (ratio.asked, ratio.kept) == (5, (0, 1, 2, 3, 4))
    assert (ratio.baseline.wall_s, ratio.candidate.wall_s) == pytest.approx((8, 2))
    assert (ratio.baseline.cpu_s, ratio.candidate.cpu_s) == pytest.approx((16, 4))


def test_load_beside_some_rounds_does_not_move_the_ratio() -> None:
    """Of eight rounds the last four are loaded: their ratio would be nine."""
    machine = Machine(lambda wall: wall > 10 + 4 * 10.1 + 0.05)
    ratio = measured(machine, 8)
    assert 4 / 1.15 < ratio.median < 4 * 1.15
    assert ratio.kept == (0, 1, 2, 3)
    assert "4 more dropped: busy machine" in str(ratio)


@pytest.mark.parametrize(
    ("loaded", "rounds"),
    [(lambda _: True, 4), (lambda wall: wall > 35, 6)],
    ids=["all the time", "after the second round"],
)
def test_it_says_that_it_cannot_tell_once_it_cannot(loaded: Callable[[float], bool], rounds: int) -> None:
    """Also under a load that never ends, beside which every product takes as long as the fastest. The rounds that are
    left could not make half of seven.
    """
    said = rf"cannot tell: the machine was busy in 4 of {rounds} rounds, 7 were asked for; run again"
    with pytest.raises(SystemExit, match=said):
        measured(Machine(loaded), 7)


def test_a_machine_that_slows_down_is_noticed() -> None:
    """Without another process: the cores are all there, and do less."""
    machine = Machine(lambda _: False)
    taken = []

    def throttled(i: int) -> float:
        machine.speed = 1.0 if i < 3 else 0.8
        machine.team()
        taken.append(i)
        return machine.wall_s

    rounds = keep_quiet(throttled, 4, machine.product)
    assert taken == [0, 1, 2, 3]
    assert rounds.kept == (0, 1, 2)


@pytest.mark.parametrize(
    ("wall_s", "share", "idle", "idle_if_uneven"),
    [
        (1.0, 1.0, True, True),
        (1 + TOLERANCE - 0.001, 1.0, True, True),
        (1 + TOLERANCE + 0.001, 1.0, False, True),
        (1.0, 1 - TOLERANCE + 0.001, True, True),
        (1.0, 1 - TOLERANCE - 0.001, False, False),
        (1.5, 0.8, False, False),
    ],
)
def test_a_tenth_decides(wall_s: float, share: float, idle: bool, idle_if_uneven: bool) -> None:
    """On an uneven machine products take half as long again at times; there only the share of the cores counts."""
    brackets = [Bracket(1.0, 1.0), Bracket(wall_s, share)]
    assert quiet(brackets) == [True, idle]
    assert quiet([replace(bracket, uneven=True) for bracket in brackets]) == [True, idle_if_uneven]


def test_what_an_uneven_machine_leaves_at_worst_is_told() -> None:
    """Of rounds at half the speed, every second one: each has the ratio 4, and of different rounds it could be 2."""

    def told(uneven: bool) -> Ratio:
        machine = Machine(lambda _: False)
        speeds = iter([1.0, 0.5] * 4)

        def product() -> Bracket:
            took = machine.product()
            machine.speed = next(speeds)
            return replace(took, uneven=uneven)

        return compare(machine.team, machine.streams, 4, False, product, machine.now)

    ratio = told(True)
    assert (ratio.kept, ratio.median) == ((0, 1, 2, 3), pytest.approx(4.0))
    assert ratio.least == pytest.approx(2.0)
    assert "at worst 2.00" in str(ratio)
    with pytest.raises(SystemExit, match="cannot tell"):
        told(False)


def test_who_goes_first_alternates_and_sides_may_measure_themselves() -> None:
    called: list[str] = []

    def side(name: str, wall_s: float) -> Callable[[], Spent]:
        def work() -> Spent:
            called.append(name)
            return Spent(wall_s, 1.0)

        return work

    idle = Machine(lambda _: False).product
    ratio = compare(side("a", 6.0), side("b", 2.0), 3, warm=False, yardstick=idle)
    assert "".join(called) == "abbaab"
    assert ratio.values == (3.0, 3.0, 3.0)


def test_a_bench_prints_its_figures_and_keeps_them_beside_those_of_others(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "performance.json"
    monkeypatch.setattr("measure.PERFORMANCE", file)
    monkeypatch.setattr("sys.argv", ["/somewhere/bench/run.py", "--against", "reference", "--write"])
    ratio = Ratio((2.0, 3.0), Spent(6, 12), Spent(3, 3), asked=3, kept=(0, 2), least=1.5)
    finish("run", ratio, keep="reference", ratio_equal_work=1.23456, stages=[{"stage": "read"}])
    row = json.loads(capsys.readouterr().out)
    wanted = {"ratio": 2.5, "ratio_min": 2, "ratio_max": 3, "ratio_least": 1.5, "ratio_equal_work": 1.2346}
    wanted |= {"rounds": 3, "rounds_dropped": 1, "baseline_s": 6, "baseline_cpu_s": 12}
    wanted |= {"candidate_s": 3, "candidate_cpu_s": 3}
    assert row.items() >= wanted.items()
    assert row["stages"] == [{"stage": "read"}]
    finish("run", keep="alone", wall_s=4.0)
    finish("run", wall_s=5.0)
    kept = json.loads(file.read_text())
    assert list(kept) == ["reference", "alone"]
    assert kept["reference"].items() >= wanted.items()
    assert kept["reference"]["command"] == "python bench/run.py --against reference --write"
    assert {"machine", "date"} < set(kept["reference"])
    assert "stages" not in kept["reference"]


@pytest.mark.slow
def test_the_real_product_notices_a_load() -> None:
    """As many burning processes as cores take half of every core."""
    burners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count() or 1)]
    try:
        with pytest.raises(SystemExit, match="cannot tell"):
            keep_quiet(lambda _: seconds(lambda: None), 2)
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()
