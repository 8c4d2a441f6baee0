"""The meter's sums against a plain tally, and its counters under threads; energy from trees of made-up counters."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from types import SimpleNamespace
from typing import Any

import pytest
from clocks import Clock
from hypothesis import given, settings
from hypothesis import strategies as st

from counterfactory.engine.meter import memory
from counterfactory.engine.meter.energy import EnergyMeter
from counterfactory.engine.meter.meter import Meter, PlanUse, Progress, StageCost, sum_costs, sum_uses
from counterfactory.engine.meter.metrics_file import as_record


def made() -> tuple[Meter, Clock, list[Progress]]:
    clock, heard = Clock(), list[Progress]()
    return Meter(heard.append, clock=clock), clock, heard


def test_what_made_or_ran_nothing_has_no_rate() -> None:
    """Rows without a capacity are counted and leave the fill alone."""
    meter, clock, _ = made()
    with meter.stage("caption"):
        clock.now += 1
        meter.advance("caption", 24, 24)
    meter.work("rewrite", "llm").add(100, 0, 1.0)
    caption, rewrite = meter.costs()
    assert (caption.items, caption.items_per_s, caption.fill, rewrite.fill) == (24, None, None, None)
    meter.work("rewrite", "other").add(3, 4, 1.0)
    assert (meter.costs()[1].rows, meter.costs()[1].fill) == (103, 0.75)
    assert as_record(meter, 1, None, final=False)["device_hours_per_1k"] is None, "nothing was accepted"


def test_an_open_stage_counts_up_to_now() -> None:
    meter, clock, _ = made()
    with meter.stage("paint"):
        clock.now += 3
        assert meter.costs()[0].wall_s == 3
    clock.now += 10
    assert meter.costs()[0].wall_s == 3
    assert meter.elapsed_s == 13


def test_time_counts_where_a_stage_or_a_loading_fails_and_stages_do_not_nest() -> None:
    meter, clock, _ = made()
    with pytest.raises(KeyError), meter.stage("paint"), meter.loading("vae"):  # noqa: PT012
        clock.now += 2
        raise KeyError
    assert (meter.costs()[0].wall_s, [use.load_s for use in meter.plans()]) == (2, [2])
    with meter.stage("check"):
        pass
    meter, _, _ = made()
    with meter.stage("paint"), pytest.raises(RuntimeError, match=r"'check'.*'paint'"), meter.stage("check"):
        pass


def test_advances_are_told_with_their_sums() -> None:
    meter, _, heard = made()
    meter.advance("caption", 2, 10)
    meter.advance("paint", 0, 50)
    meter.advance("caption", 3, 10, computed=3)
    assert heard == [Progress("caption", 2, 10), Progress("paint", 0, 50), Progress("caption", 5, 10)]
    assert meter.totals == {"caption": 10, "paint": 50}


def test_every_change_is_told_after_it_counts() -> None:
    seen: list[Any] = []
    clock = Clock()

    def on_change(meter: Meter) -> None:
        costs = meter.costs()[0]
        seen.append((costs.items, costs.wall_s, costs.load_s, costs.generated_tokens, meter.accepted))

    meter = Meter(lambda _: None, on_change, clock)
    with meter.stage("a"):
        meter.advance("a", 7, 7)
        with meter.loading("p"):
            clock.now += 1
        meter.tokens("a", 3, 4)
        meter.verdicts(5, 6)
        clock.now += 1
    assert seen == [(7, 0, 0, 0, 0), (7, 1, 1, 0, 0), (7, 1, 1, 4, 0), (7, 1, 1, 4, 5), (7, 2, 1, 4, 5)]


names = st.sampled_from(["read", "caption", "paint"])
seconds = st.integers(0, 64).map(lambda n: n / 8)  # eighths add up exactly
events = st.one_of(
    st.tuples(st.just("load"), names, seconds),
    st.tuples(st.just("work"), names, st.tuples(st.integers(0, 8), seconds)),
    st.tuples(st.just("advance"), st.integers(0, 9), st.integers(0, 9)),
    st.tuples(st.just("tokens"), st.integers(0, 99), st.integers(0, 99)),
    st.tuples(st.just("wait"), st.none(), seconds),
)


@given(st.lists(st.tuples(names, st.lists(events, max_size=6)), max_size=8))
def test_any_run_adds_up(visits: list[tuple[str, list[tuple[str, Any, Any]]]]) -> None:
    """Every figure equals the sum over the log of what happened, however stages and plans took turns."""
    meter, clock, _ = made()
    log: list[tuple[str, str, Any, Any]] = []
    for stage, happened in visits:
        with meter.stage(stage):
            for kind, first, second in happened:
                log.append((stage, kind, first, second))
                if kind == "load":
                    with meter.loading(first):
                        clock.now += second
                elif kind == "work":
                    clock.now += second[1]
                    meter.work(meter.current, first).add(second[0], 8, second[1])
                elif kind == "advance":
                    meter.advance(stage, first, 1000, computed=second)
                elif kind == "tokens":
                    meter.tokens(stage, first, second)
                else:
                    clock.now += second
    costs = {cost.stage: cost for cost in meter.costs()}
    assert list(costs) == list(dict.fromkeys(stage for stage, _ in visits))
    for stage, cost in costs.items():
        of = [(kind, first, second) for name, kind, first, second in log if name == stage]
        work = [second for kind, _, second in of if kind == "work"]
        assert cost.load_s == sum(second for kind, _, second in of if kind == "load")
        assert cost.busy_s == sum(spent for _, spent in work)
        assert cost.idle_s == sum(second for kind, _, second in of if kind == "wait")
        assert cost.wall_s == cost.load_s + cost.busy_s + cost.idle_s
        assert (cost.calls, cost.rows) == (len(work), sum(rows for rows, _ in work))
        assert cost.fill == (sum(rows for rows, _ in work) / (8 * len(work)) if work else None)
        assert cost.items == sum(first for kind, first, _ in of if kind == "advance")
        assert cost.made == sum(second for kind, _, second in of if kind == "advance")
        assert cost.prompt_tokens == sum(first for kind, first, _ in of if kind == "tokens")
        assert cost.generated_tokens == sum(second for kind, _, second in of if kind == "tokens")
    for plan in meter.plans():
        mine = [(kind, second) for name, kind, first, second in log if (name, first) == (plan.stage, plan.plan)]
        assert plan.rows == sum(second[0] for kind, second in mine if kind == "work")
        assert plan.busy_s == sum(second[1] for kind, second in mine if kind == "work")
        assert plan.load_s == sum(second for kind, second in mine if kind == "load")
    assert meter.elapsed_s == sum(cost.wall_s for cost in costs.values())


class Held(float):
    """A sum that waits until it is released."""

    begun, released = Event(), Event()

    def __add__(self, other: float) -> float:
        self.begun.set()
        assert self.released.wait(10)
        return float(self) + other


def test_costs_never_show_half_a_batch() -> None:
    meter, _, _ = made()
    work = meter.work("paint", "vae")
    work.busy_s = Held(0)
    adding = Thread(target=work.add, args=(8, 8, 1.0))
    adding.start()
    assert Held.begun.wait(10)
    seen: list[Any] = []
    reading = Thread(target=lambda: seen.append(meter.costs()[0]))
    reading.start()
    reading.join(0.05)
    Held.released.set()
    adding.join()
    reading.join()
    assert (seen[0].rows, seen[0].busy_s) in ((0, 0.0), (8, 1.0))


def domain(root: Path, folder: str, name: str, uj: int, most: int = 9_999_999) -> Path:
    """A domain of RAPL as the kernel shows it."""
    path = root / folder
    path.mkdir(parents=True)
    (path / "name").write_text(name + "\n")
    (path / "energy_uj").write_text(f"{uj}\n")
    (path / "max_energy_range_uj").write_text(f"{most}\n")
    return path / "energy_uj"


def no_nvml() -> Any:
    raise ModuleNotFoundError("pynvml")


def test_energy_is_of_packages_alone(tmp_path: Path) -> None:
    assert EnergyMeter(tmp_path / "absent", no_nvml).joules() is None
    counters = [domain(tmp_path, f"intel-rapl:{i}", f"package-{i}", 1_000_000) for i in range(2)]
    others = {"intel-rapl:0:0": "core", "intel-rapl:2": "psys", "intel-rapl-mmio:0": "package-0"}
    paths = [domain(tmp_path, folder, name, 0) for folder, name in others.items()]
    meter = EnergyMeter(tmp_path, no_nvml)
    assert meter.joules() == 0
    for path, count in zip((*counters, *paths), (3500000, 1250000, 7000000, 7000000, 7000000), strict=True):
        path.write_text(str(count))
    assert meter.joules() == pytest.approx(2.75)
    assert meter.sources == ("rapl",)


@given(most=st.integers(10, 10**9), parts=st.lists(st.floats(0, 0.99), max_size=8), start=st.floats(0, 1))
@settings(max_examples=50)
def test_energy_goes_on_past_a_wrap(tmp_path_factory: Any, most: int, parts: list[float], start: float) -> None:
    """Whatever passes between two readings, less than one round, is counted."""
    total = int(start * most)
    root = tmp_path_factory.mktemp("rapl")
    counter = domain(root, "intel-rapl:0", "package-0", total, most)
    meter, passed = EnergyMeter(root, no_nvml), 0
    for part in parts:
        passed += int(part * most)
        counter.write_text(str((total + passed) % (most + 1)))
        assert meter.joules() == pytest.approx(passed * 1e-6)


def test_a_package_that_cannot_be_read_is_not_left_out_of_a_sum(tmp_path: Path) -> None:
    domain(tmp_path, "intel-rapl:0", "package-0", 5)
    second = domain(tmp_path, "intel-rapl:1", "package-1", 5)
    second.write_text("")  # no number
    assert EnergyMeter(tmp_path, no_nvml).joules() is None
    second.unlink()
    assert EnergyMeter(tmp_path, no_nvml).joules() is None
    second.mkdir()
    assert EnergyMeter(tmp_path, no_nvml).joules() is None


def test_energy_that_can_no_longer_be_read_is_unknown(tmp_path: Path) -> None:
    counter = domain(tmp_path, "intel-rapl:0", "package-0", 5)
    meter = EnergyMeter(tmp_path, no_nvml)
    assert meter.joules() == 0
    counter.unlink()
    assert meter.joules() is None
    counter.write_text("10")
    assert meter.joules() is None


def nvml_of(energy: Callable[[int], int]) -> SimpleNamespace:
    """Two GPUs."""
    return SimpleNamespace(
        nvmlInit=lambda: None,
        nvmlDeviceGetCount=lambda: 2,
        nvmlDeviceGetHandleByIndex=lambda index: index,
        nvmlDeviceGetTotalEnergyConsumption=energy,
    )


def test_gpus_count_millijoules_beside_processors(tmp_path: Path) -> None:
    counter = domain(tmp_path, "intel-rapl:0", "package-0", 0)
    used = [500_000, 2_000_000]
    meter = EnergyMeter(tmp_path, lambda: nvml_of(used.__getitem__))
    used[0] += 1500
    used[1] += 500
    counter.write_text("1000000")
    assert meter.joules() == pytest.approx(3.0)
    assert meter.sources == ("rapl", "nvml")
    used[1] = 250  # the driver was loaded again
    assert meter.joules() == pytest.approx(3.25)


def test_a_gpu_that_cannot_tell_leaves_the_processors(tmp_path: Path) -> None:
    def unsupported(_: int) -> int:
        raise RuntimeError("Not Supported")

    domain(tmp_path, "intel-rapl:0", "package-0", 0)
    assert EnergyMeter(tmp_path, lambda: nvml_of(unsupported)).sources == ("rapl",)


_PEAK = "from counterfactory.engine.meter.memory import Memory; peak = Memory().peak\n"
_GROWS = "before = peak(); held = bytearray(b'x') * 200_000_000; del held; print(before, peak())"
_STARTS_ANOTHER = (
    "import subprocess, sys\nheld = bytearray(b'x') * 200_000_000\n"
    f"print(subprocess.check_output([sys.executable, '-c', {_PEAK + 'print(peak())'!r}], text=True), peak())"
)


@pytest.mark.parametrize("program", [_GROWS, _STARTS_ANOTHER], ids=["grows", "starts another"])
def test_peak_memory_is_the_most_this_process_ever_held(program: str) -> None:
    """What is given back still counts; what the starting process holds does not."""
    said = subprocess.check_output([sys.executable, "-c", _PEAK + program], text=True)
    small, large = map(int, said.split())
    assert 1_000_000 < small < 100_000_000
    assert 200_000_000 <= large < 400_000_000


def test_peak_memory_without_proc(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    expected = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    monkeypatch.setattr(memory, "_STATUS", tmp_path / "absent")
    assert memory.Memory().peak() >= expected > 1_000_000


def test_costs_of_several_boxes_add_up() -> None:
    one = StageCost("paint", 6, 4, 10.0, 1.0, 7.0, 2.0, 0.4, 2, 8, 1.0, 30, 20)
    other = StageCost("paint", 2, 1, 5.0, 1.0, 3.0, 1.0, 0.2, 1, 2, 0.5, 3, 2)
    read = StageCost("read", 0, 0, 1.0, 0.0, 0.0, 1.0, None, 0, 0, None, 0, 0)
    assert sum_costs([one, read, other]) == (
        StageCost("paint", 8, 5, 15.0, 2.0, 10.0, 3.0, 5 / 15, 3, 10, 10 / 12, 33, 22),
        read,
    )
    uses = [PlanUse("vae", "paint", 2, 8, 1.0, 7.0, 1.0, 1, 900), PlanUse("vae", "paint", 1, 2, 0.5, 3.0, 1.0, 1, 1000)]
    assert sum_uses(uses) == (PlanUse("vae", "paint", 3, 10, 10 / 12, 10.0, 2.0, 2, 1000),)
    assert sum_costs([]) == sum_uses([]) == ()


def test_devices_that_other_boxes_hold_are_what_counts() -> None:
    meter = Meter(lambda _: None, clock=lambda: 0.0)
    meter.held = lambda: (3, 7200.0)
    assert meter.device_hours(64) == 2.0
    assert as_record(meter, 64, None, final=True)["devices"] == 3
