"""The estimate: what was measured is used, what was not is counted, and it says which; hostile caches cost nothing."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import openvino as ov
import pytest
from conftest import Street
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from counterfactory.engine.cli.arguments import main
from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.estimate import estimate as module
from counterfactory.engine.estimate import measured as rates
from counterfactory.engine.estimate import peak
from counterfactory.engine.estimate.estimate import Estimate, StageEstimate, estimate, painted_sizes
from counterfactory.engine.estimate.flops import count_flops
from counterfactory.engine.estimate.formulas import PerSource, Reach, item_s, known_facts
from counterfactory.engine.estimate.measured import PlanRate, Rates, StageRate, load_rates, profile_key, save_rates
from counterfactory.engine.meter.machine import machine_memory
from counterfactory.engine.meter.meter import PlanUse, StageCost
from counterfactory.engine.models.network import STAGES
from counterfactory.engine.models.networks import library_of, networks_of
from counterfactory.engine.profile.profile import Profile, load_profile, painting_as_teacher
from counterfactory.engine.profile.runtime import ModelPaths
from counterfactory.engine.runtime.openvino import open_core
from counterfactory.engine.sources.data_set import find_sources
from counterfactory.engine.sources.source import Source

PEAK = 1e12
DENOISERS = ("denoiser_few", "denoiser_few_int8")


pytestmark = pytest.mark.usefixtures("counted_once")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The test's own, still empty cache of rates, and a peak that is known."""
    monkeypatch.setattr(module, "measure_peak", lambda *_: PEAK)
    return tmp_path / "cache" / "counterfactory" / "rates.json"


@pytest.fixture(scope="module")
def profile(packed_models: Path) -> Profile:
    return replace(load_profile("pocket"), models=ModelPaths(str(packed_models)))


def counted(profile: Profile, variants: int, int8_peak: float = PEAK) -> dict[str, float]:
    """Seconds per item by stage, of pictures of 128 x 128."""
    facts, reach = known_facts(profile, library_of(profile), (128, 128)), Reach(0.3 * PEAK, 0.3 * int8_peak)
    return {**item_s(networks_of(profile), facts, reach, PerSource(variants, 0))}


def of(found: Estimate) -> dict[str, StageEstimate]:
    return {stage.stage: stage for stage in found.stages}


@pytest.fixture
def sources(street: Street) -> list[Source]:
    return find_sources(street.root)[0]


def measured(profile: Profile, **changes: Any) -> Rates:
    """Rates of every stage and plan."""
    stages = {stage: StageRate(0.25 * (i + 1), 100) for i, stage in enumerate(STAGES)}
    plans = {name: PlanRate(2.0, 10_000_000) for name in networks_of(profile).plans}
    return replace(Rates(profile_key(profile), stages, plans, 5.0, 0.8), **changes)


# Rates


def test_rates_are_one_profile_s_and_machine_s(profile: Profile, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert load_rates(profile) is None
    save_rates(measured(profile))
    assert rates.rates_file() == cache
    assert load_rates(profile) == measured(profile)
    assert load_rates(replace(profile, name="mine", shard_sources=7)) == measured(profile)
    other = replace(profile, image=replace(profile.image, short_side=160))
    assert load_rates(other) is None
    save_rates(replace(measured(other), accepted_share=0.1))
    assert load_rates(profile) == measured(profile)
    monkeypatch.setattr(rates, "machine", lambda: "another CPU, 2 cores")
    assert load_rates(profile) is None


def test_a_run_adds_to_what_earlier_runs_measured(profile: Profile) -> None:
    save_rates(measured(profile))
    few = Rates(profile_key(profile), {"paint": StageRate(9.0, 31)}, {"llm": PlanRate(7.0, None)})
    save_rates(few)
    found = load_rates(profile)
    assert found is not None
    assert found.stages == measured(profile).stages  # 31 items say less than 100
    assert found.plans["llm"] == PlanRate(7.0, 10_000_000)
    assert found.plans["hint"] == PlanRate(2.0, 10_000_000)
    assert (found.variants, found.accepted_share) == (5.0, 0.8)
    save_rates(replace(few, stages={"paint": StageRate(9.0, 32)}, accepted_share=0.0))
    found = load_rates(profile)
    assert found is not None
    assert found.stages["paint"] == StageRate(9.0, 32)
    assert found.stages["check"] == measured(profile).stages["check"]
    assert found.accepted_share == 0.0


def test_old_profiles_make_room(profile: Profile, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rates, "_MOST_ENTRIES", 3)
    first = measured(profile)
    save_rates(first)
    for i in range(4):
        save_rates(replace(first, profile_key=f"{i:016x}" * 4))
        if i == 1:
            save_rates(first)  # used again
    assert len(json.loads(cache.read_text())["rates"]) == 3
    assert load_rates(profile) == first
    save_rates(replace(first, profile_key="f" * 64))
    assert load_rates(profile) is None


plain_json = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=40) | plain_json.map(lambda v: json.dumps({"version": 1, "rates": v}).encode()))
def test_a_foreign_file_is_ignored_and_replaced(profile: Profile, cache: Path, content: bytes) -> None:
    cache.parent.mkdir(parents=True, exist_ok=True)
    cache.write_bytes(content)
    assert load_rates(profile) is None
    save_rates(measured(profile))
    assert load_rates(profile) == measured(profile)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("stages", "paint", "item_s"), -1.0),
        (("stages", "paint", "item_s"), math.nan),
        (("stages", "paint", "items"), 0),
        (("stages", "paint"), None),
        (("plans", "llm", "bytes"), -1),
        (("plans", "llm", "load_s"), "soon"),
        (("plans", "llm", "else"), 1),
        (("accepted_share",), 1.5),
        (("variants",), True),
        (("stages",), []),
    ],
)
def test_an_entry_without_sense_is_absent(path: tuple[str, ...], value: object, profile: Profile, cache: Path) -> None:
    other = replace(measured(profile), profile_key="f" * 64)
    save_rates(other)
    save_rates(measured(profile))
    data = json.loads(cache.read_text())
    at = data["rates"][list(data["rates"])[-1]]
    for name in path[:-1]:
        at = at[name]
    at[path[-1]] = value
    cache.write_text(json.dumps(data))
    assert load_rates(profile) is None
    save_rates(measured(profile))
    assert load_rates(profile) == measured(profile)
    # A file with a number that JSON does not have is none: it counts as absent as a whole.
    assert len(json.loads(cache.read_text())["rates"]) == (1 if value != value else 2)


def test_an_unwritable_cache_costs_nothing(profile: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    save_rates(measured(profile))
    assert load_rates(profile) is None
    assert (tmp_path / "file").read_text() == "no folder"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # the standard has such paths ignored
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert rates.rates_file() == tmp_path / "home" / ".cache" / "counterfactory" / "rates.json"


def spent(stage: str, items: int, made: int, busy_s: float, idle_s: float, calls: int = 1) -> StageCost:
    return StageCost(stage, items, made, 50.0 + busy_s + idle_s, 50.0, busy_s, idle_s, None, calls, 0, None, 0, 0)


def test_rates_of_a_run(profile: Profile) -> None:
    stages = (
        spent("read", 0, 0, 0.0, 3.0, calls=0),
        spent("caption", 10, 10, 4.0, 1.0),
        spent("rewrite", 10, 10, 20.0, 0.0),
        spent("edges", 10, 8, 0.0, 1.0, calls=0),  # found without a network
        spent("paint", 45, 40, 70.0, 10.0),
        spent("check", 45, 0, 0.0, 1.0, calls=0),
    )
    plans = (
        PlanUse("clip_text", "paint", 1, 1, None, 1.0, 3.0, 1, 0),
        PlanUse("clip_text", "check", 1, 1, None, 1.0, 1.0, 1, 0),
        PlanUse("llm", "rewrite", 1, 1, None, 1.0, 12.0, 2, 123),
        PlanUse("hint", "paint", 1, 1, None, 1.0, 0.0, 0, 0),
    )
    report: Any = SimpleNamespace(sources=10, accepted=30, stages=stages, plans=plans)
    found = rates.measured_rates(profile, report, 5)
    wanted = {"caption": (0.5, 10), "rewrite": (2.0, 10), "edges": (0.125, 8), "paint": (2.0, 40)}
    assert found.stages == {stage: StageRate(*rate) for stage, rate in wanted.items()}
    assert found.plans == {"clip_text": PlanRate(2.0, None), "llm": PlanRate(6.0, 123)}
    assert (found.variants, found.accepted_share) == (5.0, 0.6)
    assert found.profile_key == profile_key(profile)
    with_baselines = rates.measured_rates(profile, report, 5, baseline=True)
    assert with_baselines.stages == {name: rate for name, rate in found.stages.items() if name != "paint"}
    report.stages = (spent("caption", 10, 2, 4.0, 1.0), *stages[2:])
    assert rates.measured_rates(profile, report, 5).stages.keys() == {"caption", "edges", "paint"}


# The peak


def test_the_peak_is_of_the_product_and_the_precision_that_it_is_taken_for(tmp_path: Path) -> None:
    ov.save_model(peak.products(64), tmp_path / "peak.xml")
    assert count_flops(tmp_path / "peak.xml", 64) == 4 * 2 * 64**3
    assert 1e6 < peak.measure_peak("f32", 1, sides=(64, 96), rounds=2) < 1e15
    compiled = open_core().compile_model(peak.products(64), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    for precision in ("bf16", "int8"):
        with pytest.raises(CounterfactoryError, match=f"asked for in {precision} and run in f32"):
            peak._refuse_another_precision(compiled, precision)  # type: ignore[arg-type]  # a loop over literals


# The estimate


def test_without_rates_it_is_the_roofline(profile: Profile, sources: list[Source]) -> None:
    found = estimate(profile, sources, variants=4)
    assert found.basis == "roofline"
    assert found.size == (128, 128)
    each = counted(profile, 4)
    assert list(of(found)) == list(each) == ["caption", "rewrite", "paint", "check"]
    for stage in found.stages:
        assert stage.items == (3 if stage.stage in ("caption", "rewrite") else 12)
        assert stage.compute_s == pytest.approx(stage.items * each[stage.stage])
    assert found.wall_s == pytest.approx(sum(s.wall_s for s in found.stages))
    assert found.device_hours_per_1k == pytest.approx(found.devices * found.wall_s / 3600 / 12 * 1000)
    assert (found.accepted_share, found.device_hours_per_1k_accepted) == (None, None)
    assert any("30 % of the peak" in note for note in found.assumptions)


def test_integers_have_their_own_peak(profile: Profile, sources: list[Source], monkeypatch: pytest.MonkeyPatch) -> None:
    full = painting_as_teacher(profile).paint  # in which denoising is most of painting
    forms = {name: replace(profile, paint=replace(full, denoiser=name)) for name in DENOISERS}
    peaks = {"bf16": PEAK, "f32": PEAK, "int8": 4 * PEAK}

    def peak_of(precision: str, *_: object) -> float:
        if precision not in peaks:
            raise CounterfactoryError("this CPU has no such arithmetic")
        return peaks[precision]

    def seconds(name: str) -> dict[str, float]:
        return {stage.stage: stage.compute_s for stage in estimate(forms[name], sources, variants=4).stages}

    monkeypatch.setattr(module, "measure_peak", peak_of)
    plain, found = map(seconds, DENOISERS)
    assert found["paint"] == pytest.approx(12 * counted(forms["denoiser_few_int8"], 4, int8_peak=4 * PEAK)["paint"])
    assert found["paint"] < 0.5 * plain["paint"]
    assert {**found, "paint": 0} == {**plain, "paint": 0}
    del peaks["int8"]
    assert seconds("denoiser_few_int8") == pytest.approx(plain)


def test_rates_leave_nothing_to_count(profile: Profile, sources: list[Source], monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> float:
        raise AssertionError("the peak was measured for nothing")

    monkeypatch.setattr(module, "measure_peak", refused)
    save_rates(measured(profile))
    found = estimate(profile, sources, variants=5)
    assert found.basis == "measured"
    assert [stage.compute_s for stage in found.stages] == [3 * 0.25, 3 * 0.5, 3 * 0.75, 15 * 1.0, 15 * 1.25]
    assert [stage.load_s for stage in found.stages] == [4.0, 2.0, 0.0, 8.0, 2.0]
    assert found.device_hours_per_1k_accepted == pytest.approx(found.device_hours_per_1k / 0.8)
    assert found.assumptions == ()
    assert found.peak_flops is None
    more = estimate(profile, sources, variants=10)
    assert profile.rewrite.max_keywords == 6
    assert more.stages[1].compute_s == pytest.approx(3 * 0.5 * (1 + 3 + 10) / (1 + 3 + 5))


def test_a_stage_without_a_rate_is_counted(profile: Profile, sources: list[Source]) -> None:
    known = measured(profile)
    save_rates(replace(known, stages={"caption": known.stages["caption"]}, plans={"llm": PlanRate(9.0, None)}))
    found = estimate(profile, sources, variants=5)
    assert found.basis == "mixed"
    assert [stage.basis for stage in found.stages] == ["measured", "roofline", "roofline", "roofline"]
    assert found.stages[0].compute_s == 3 * 0.25
    assert of(found)["paint"].compute_s == pytest.approx(15 * counted(profile, 5)["paint"])
    llm = next(plan for plan in found.plans if plan.cost.name == "llm")
    assert (llm.cost.load_s, llm.measured_load, llm.measured_bytes) == (9.0, True, False)
    # With its cache, which takes more than the weights and the graph.
    assert 50_000_000 < llm.cost.bytes < 100_000_000


def test_little_memory_loads_again_for_every_shard(profile: Profile, sources: list[Source]) -> None:
    save_rates(measured(profile))  # eight plans of 10 MB, four of them for painting
    shards = replace(profile, shard_sources=1)
    roomy = estimate(shards, sources, 5, memory_bytes=100_000_000)
    tight = estimate(shards, sources, 5, memory_bytes=45_000_000)
    assert sum(stage.load_s for stage in roomy.stages) == 8 * 2.0
    assert sum(stage.load_s for stage in tight.stages) > 2 * 8 * 2.0
    assert tight.wall_s > roomy.wall_s
    assert len(tight.holdings) == 1
    timeline = tight.holdings[0].timeline
    assert timeline is not None
    assert timeline.peak_bytes == 40_000_000
    with pytest.raises(CounterfactoryError, match=rf"stage paint needs .*{profile.paint.denoiser} 10,000,000"):
        estimate(shards, sources, 5, memory_bytes=44_000_000)


def test_24_gb_are_told_beside(profile: Profile, sources: list[Source], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "machine_memory", lambda: 60 * 10**9)
    large = {name: PlanRate(1.0, 6 * 10**9) for name in networks_of(profile).plans}
    save_rates(measured(profile, plans=large))
    here, gpu = estimate(profile, sources, 5).holdings
    assert (here.memory_bytes, gpu.memory_bytes) == (60 * 10**9, 24 * 10**9)
    assert here.timeline is not None
    assert gpu.timeline is None
    assert "stage paint" in gpu.problem


def test_memory_is_the_container_s_where_it_has_less(tmp_path: Path) -> None:
    whole = machine_memory(tmp_path / "none")
    assert whole > 10**8
    for text, expected in (("max\n", whole), ("123456789\n", 123456789)):
        (tmp_path / "limit").write_text(text)
        assert machine_memory(tmp_path / "limit") == expected


def test_painted_sizes_count_and_larger_ones_cost_more(profile: Profile, tmp_path: Path, sources: list[Source]) -> None:
    folder = tmp_path / "mixed"
    folder.mkdir()
    for name, size in {"a": (400, 400), "b": (640, 320), "c": (320, 640), "d": (410, 400)}.items():
        Image.fromarray(np.zeros((size[1], size[0], 3), np.uint8)).save(folder / f"{name}.png")
    found = find_sources(folder)[0]
    assert painted_sizes(found, profile) == {(128, 128): 2, (128, 256): 1, (256, 128): 1}
    mixed, square = estimate(profile, found, 5), estimate(profile, sources, 5)
    assert of(mixed)["paint"].compute_s / 4 == pytest.approx(of(square)["paint"].compute_s / 3 * 6 / 4)
    assert of(mixed)["check"].compute_s / 4 == pytest.approx(of(square)["check"].compute_s / 3)


# The command


def run(capsys: pytest.CaptureFixture[str], *args: str | Path) -> tuple[int, str, str]:
    try:
        status = main(["estimate", *(str(arg) for arg in args)])
    except SystemExit as stop:  # argparse
        status = stop.code if isinstance(stop.code, int) else 1
    captured = capsys.readouterr()
    return status, captured.out, captured.err


@pytest.mark.parametrize("known", [False, True])
def test_the_command_fits_80_columns(known: bool, street: Street, capsys: pytest.CaptureFixture[str]) -> None:
    if known:
        save_rates(measured(load_profile("pocket")))
    status, out, _ = run(capsys, street.root, "--variants", "4000")
    assert status == 0
    assert max(map(len, out.splitlines())) <= 80
    assert "12,000 variants and 3 controls of 3 sources" in out
    assert ("measured rates of this machine" in out) == known
    assert ("roofline" in out) == (not known)
    assert ("TFLOP/s" in out) == (not known)
    assert ("accepted" in out) == known
    assert "24 GB" in out
    for plan in (load_profile("pocket").paint.denoiser, "opt_decoder"):
        assert out.count(plan) == 1  # both memories hold all: one table


def test_the_command_for_machines(street: Street, capsys: pytest.CaptureFixture[str]) -> None:
    next((street.root / "images").iterdir()).joinpath("broken.png").write_text("no image")
    status, out, err = run(capsys, street.root, "--sample", "2", "--variants", "3", "--memory", "5", "--json")
    assert (status, "broken" in err) == (1, True)
    found = json.loads(out)
    assert (found["sources"], found["variants"], found["basis"]) == (2, 6, "roofline")
    stages = ["caption", "rewrite", "paint", "check"]
    assert [stage["stage"] for stage in found["stages"]] == stages
    assert found["wall_s"] == pytest.approx(sum(s["compute_s"] + s["moved_s"] + s["load_s"] for s in found["stages"]))
    (holding,) = found["holdings"]
    assert holding["memory_bytes"] == 5 * 10**9
    assert [step["stage"] for step in holding["first"]] == stages
    assert set(holding["first"][2]["load"]) == {n.plan for n in networks_of(load_profile("pocket")).of("paint")}


def test_the_command_refuses_too_little_memory(street: Street, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(capsys, street.root, "--memory=0.06")  # captioning would fit
    assert (status, out) == (2, "")
    assert "stage rewrite needs llm" in err
    assert "Traceback" not in err
