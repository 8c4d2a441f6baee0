"""Metrics files: read back by a parser of the exposition format, and written where nothing can be written."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import pytest
from clocks import Clock
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families
from test_meter import domain, no_nvml

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.meter.cards import REASONS, Card
from counterfactory.engine.meter.energy import EnergyMeter
from counterfactory.engine.meter.meter import Meter
from counterfactory.engine.meter.metrics_file import MetricsFile, as_record
from counterfactory.engine.meter.prometheus import prometheus_text

Samples = dict[frozenset[tuple[str, str]], float]
PAINT = frozenset({("stage", "paint")})


def parse(text: str) -> dict[str, Samples]:
    """The samples of each metric, by labels, as Prometheus' own client reads them."""
    found: dict[str, Samples] = {}
    for family in text_string_to_metric_families(text):
        assert family.documentation
        assert family.samples
        for sample in family.samples:
            assert family.type == ("counter" if sample.name.endswith("_total") else "gauge")
            samples = found.setdefault(sample.name, {})
            assert samples.setdefault(frozenset(sample.labels.items()), sample.value) is sample.value
    return found


def a_run() -> tuple[Meter, Clock]:
    """A meter half-way through painting."""
    clock = Clock()
    meter = Meter(lambda _: None, clock=clock)
    with meter.stage("rewrite"):
        clock.now += 4
        meter.tokens("rewrite", 1000, 250)
        meter.advance("rewrite", 24, 24, computed=20)
    with meter.stage("paint"):
        with meter.loading("denoiser"):
            clock.now += 1.5
        clock.now += 3
        meter.work("paint", "denoiser").add(6, 8, 2.5)
        meter.advance("paint", 60, 120, computed=9)
    meter.verdicts(50, 10)
    return meter, clock


def of(samples: Samples, **labels: str) -> float:
    return samples[frozenset(labels.items())]


def test_prometheus_text_says_what_the_meter_says(tmp_path: Path) -> None:
    meter, clock = a_run()
    MetricsFile(tmp_path / "run.prom", clock=clock, devices=2).write(meter)
    text = (tmp_path / "run.prom").read_text()
    found = {name.removeprefix("counterfactory_"): samples for name, samples in parse(text).items()}
    paint = {name: samples[PAINT] for name, samples in found.items() if PAINT in samples}
    expected = (
        "items_total 60, made_items_total 9, goal_items 120, wall_seconds_total 4.5, load_seconds_total 1.5, "
        "busy_seconds_total 2.5, idle_seconds 0.5, items_per_second 2, batches_total 1, rows_total 6, "
        "batch_fill_ratio 0.75, prompt_tokens_total 0, generated_tokens_total 0"
    )
    assert paint == {f"stage_{name}": float(value) for name, value in map(str.split, expected.split(", "))}
    tokens = [of(found[f"stage_{kind}_tokens_total"], stage="rewrite") for kind in ("prompt", "generated")]
    assert tokens == [1000, 250]
    assert "rewrite" not in str(found["stage_batch_fill_ratio"])
    plan = [f"plan_{name}_total" for name in ("rows", "busy_seconds", "load_seconds")]
    assert [of(found[name], stage="paint", plan="denoiser") for name in plan] == [6, 2.5, 1.5]
    assert [of(found["variants_total"], verdict=verdict) for verdict in ("accepted", "rejected")] == [50, 10]
    hours = 2 * 8.5 / 3600
    run = {"elapsed_seconds": 8.5, "device_hours_total": hours, "device_hours_per_1000_accepted": 20 * hours}
    assert {name: of(found[name]) for name in run} == pytest.approx(run)
    assert of(found["peak_memory_bytes"]) > 1_000_000
    assert of(found["finished"]) == 0
    assert "energy_joules_total" not in found


def test_cards_are_told_as_they_are_at_each_record(tmp_path: Path) -> None:
    """What a card does not tell has no sample, and no 0."""
    hot = Card(0, "NVIDIA A10G", 91, 900, 6251, ("hw_slowdown", "hw_thermal_slowdown"), 3, 1)
    cards = [hot, Card(2, "GRID A10-8Q")]
    for name in ("run.prom", "run.jsonl"):
        MetricsFile(tmp_path / name, cards=lambda: cards).write(a_run()[0])
    found = parse((tmp_path / "run.prom").read_text())
    labels = {"number": "0", "name": "NVIDIA A10G"}
    samples = {name: found[f"counterfactory_card_{name}"] for name in METRICS_OF_CARDS}
    assert {name: of(values, **labels) for name, values in samples.items()} == METRICS_OF_CARDS
    assert {len(values) for values in samples.values()} == {1}
    throttled = found["counterfactory_card_throttled"]
    slowed = [reason for reason in REASONS.values() if of(throttled, **labels, reason=reason)]
    assert (tuple(slowed), len(throttled)) == (hot.throttle, len(REASONS))
    (record,) = lines(tmp_path / "run.jsonl")
    assert record["cards"] == json.loads(json.dumps([asdict(card) for card in cards]))
    MetricsFile(tmp_path / "run.prom").write(a_run()[0])
    assert "card_" not in (tmp_path / "run.prom").read_text()


METRICS_OF_CARDS = {
    "temperature_celsius": 91,
    "sm_clock_megahertz": 900,
    "memory_clock_megahertz": 6251,
    "ecc_corrected_total": 3,
    "ecc_uncorrected_total": 1,
}
names = st.text(max_size=12) | st.sampled_from(['"', "\\", "\n", '\\"', "\\n", 'a="b",c', "}", "# TYPE x counter"])


@given(st.dictionaries(st.tuples(names, names), st.integers(0, 10**12), min_size=1, max_size=5))
@settings(max_examples=50)
def test_any_name_survives_the_text(rows: dict[tuple[str, str], int]) -> None:
    meter = Meter(lambda _: None)
    for (stage, plan), count in rows.items():
        meter.work(stage, plan).add(count, count, 0.25)
    found = parse(prometheus_text(as_record(meter, 1, None, False)))
    expected = {frozenset({("stage", stage), ("plan", plan)}): count for (stage, plan), count in rows.items()}
    assert found["counterfactory_plan_rows_total"] == expected


def test_counters_never_fall_while_a_batch_is_counted() -> None:
    meter, clock = a_run()
    texts = []
    with meter.stage("paint"):
        texts.append(prometheus_text(as_record(meter, 2, 10.0, False)))
        clock.now += 5
        texts.append(prometheus_text(as_record(meter, 2, 20.0, False)))
        meter.work("paint", "denoiser").add(8, 8, 5.0)
        texts.append(prometheus_text(as_record(meter, 2, 30.0, False)))
    before, under_way, counted = map(parse, texts)
    for earlier, later in ((before, under_way), (under_way, counted)):
        for name, samples in earlier.items():
            if name.endswith("_total"):
                assert all(later[name][labels] >= value for labels, value in samples.items())
    idle = [of(found["counterfactory_stage_idle_seconds"], stage="paint") for found in (before, under_way, counted)]
    assert idle == [0.5, 5.5, 0.5]


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_json_lines_say_what_the_meter_says(tmp_path: Path) -> None:
    meter, clock = a_run()
    path = tmp_path / "run.jsonl"
    MetricsFile(path, clock=clock, devices=2).write(meter)
    (record,) = lines(path)
    assert abs(float(str(record["time"])) - time.time()) < 60
    assert record["stages"] == [{**asdict(cost), "total": meter.totals[cost.stage]} for cost in meter.costs()]
    assert record["plans"] == list(map(asdict, meter.plans()))
    assert (record["accepted"], record["rejected"], record["elapsed_s"]) == (50, 10, 8.5)
    assert record["device_hours_per_1k"] == pytest.approx(2 * 8.5 / 3600 * 20)
    assert record["energy_j"] is None
    assert record["final"] is False


def test_a_record_an_interval_and_one_at_the_end(tmp_path: Path) -> None:
    clock = Clock()
    path = tmp_path / "run.jsonl"
    path.write_text('{"elapsed_s": -1, "final": true}\n')  # of an earlier run
    metrics = MetricsFile(path, interval_s=2.0, clock=clock)
    meter = Meter(lambda _: None, metrics.write, clock)
    for _ in range(10):  # at 0, 0.5 ... 4.5 s
        meter.advance("read", 1, 10)
        clock.now += 0.5
    metrics.write(meter, final=True)
    assert [record["elapsed_s"] for record in lines(path)] == [-1, 0, 2, 4, 5]
    assert [record["final"] for record in lines(path)] == [True, False, False, False, True]


def test_energy_is_in_every_record(tmp_path: Path) -> None:
    counter = domain(tmp_path, "intel-rapl:0", "package-0", 0)
    energy = EnergyMeter(tmp_path, no_nvml)
    counter.write_text("5000000")
    MetricsFile(tmp_path / "run.prom", energy=energy).write(a_run()[0])
    MetricsFile(tmp_path / "run.jsonl", energy=energy).write(a_run()[0])
    assert of(parse((tmp_path / "run.prom").read_text())["counterfactory_energy_joules_total"]) == 5
    assert lines(tmp_path / "run.jsonl")[0]["energy_j"] == 5


def test_prometheus_text_is_replaced_whole(tmp_path: Path) -> None:
    """A reader that has the file open sees one record to its end; another user's collector may read it."""
    path = tmp_path / "run.prom"
    path.write_text("counterfactory_finished 1\n")
    meter, clock = a_run()
    metrics = MetricsFile(path, clock=clock)
    assert parse(path.read_text()) == {}, "an earlier run's do not pass for this one's"
    metrics.write(meter)
    first = path.read_text()
    with path.open() as reader:
        meter.verdicts(1, 0)
        metrics.write(meter, final=True)
        assert reader.read() == first
    assert of(parse(path.read_text())["counterfactory_finished"]) == 1
    assert [entry.name for entry in tmp_path.iterdir()] == ["run.prom"]
    umask = os.umask(0)
    os.umask(umask)
    assert path.stat().st_mode & 0o777 == 0o666 & ~umask


@pytest.mark.parametrize("name", ["run.prom", "run.jsonl"])
@pytest.mark.parametrize("folder", ["absent", "", "file"])
def test_what_cannot_be_written_is_found_at_the_start(tmp_path: Path, name: str, folder: str) -> None:
    """Into no folder, to a folder, and into a file."""
    path = tmp_path / folder / name
    (tmp_path / "file").touch()
    if not folder:
        path.mkdir()
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(CounterfactoryError, match=re.escape(str(path))):
        MetricsFile(path)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("name", ["run.prom", "run.jsonl"])
def test_a_folder_that_goes_away_is_told_once_and_never_stops_the_run(tmp_path: Path, name: str) -> None:
    path = tmp_path / "metrics" / name
    path.parent.mkdir()
    meter, _ = a_run()
    metrics = MetricsFile(path)
    assert metrics.write(meter, final=True) is None
    assert metrics.problem is None
    shutil.rmtree(path.parent)
    problem = metrics.write(meter, final=True)
    assert problem is not None
    assert str(path) in problem
    assert metrics.write(meter, final=True) is None
    assert metrics.problem == problem
    path.parent.mkdir()
    metrics.write(meter, final=True)
    assert path.stat().st_size > 0


@contextmanager
def files_end_at(size: int) -> Iterator[None]:
    """As on a full disk, what is written beyond `size` bytes of a file fails, and what fits before it is kept."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("name", ["run.prom", "run.jsonl"])
def test_a_full_disk_leaves_the_records_before_and_no_half_line(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    meter, _ = a_run()
    metrics = MetricsFile(path)
    metrics.write(meter)
    before = path.read_text()
    with files_end_at(100 if name == "run.prom" else len(before) + 100):
        problem = metrics.write(meter, final=True)
    assert problem is not None
    assert path.read_text() == before
    metrics.write(meter, final=True)
    assert [entry.name for entry in tmp_path.iterdir()] == [name]
    if name == "run.jsonl":
        assert [record["final"] for record in lines(path)] == [False, True]


def test_hours_of_earlier_sessions_count_for_what_they_made(tmp_path: Path) -> None:
    meter, _ = a_run()
    MetricsFile(tmp_path / "run.jsonl", devices=2, earlier_device_hours=5.0).write(meter)
    (found,) = lines(tmp_path / "run.jsonl")
    assert found["device_hours_per_1k"] == pytest.approx(1000 * (5.0 + found["device_hours"]) / meter.accepted)
