"""Models are opened when asked for and closed when a stage needs their room: a run in little memory makes one suite."""

from __future__ import annotations

import gc
import weakref
from bisect import bisect_left
from dataclasses import replace
from pathlib import Path
from subprocess import run
from sys import executable
from types import SimpleNamespace

import pytest
from conftest import Street, quick_profile

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.estimate import estimate
from counterfactory.engine.inputs import Inputs
from counterfactory.engine.journey import Journey
from counterfactory.engine.language.llm_request import Usage
from counterfactory.engine.meter.meter import Meter
from counterfactory.engine.models import model_pool
from counterfactory.engine.models.model_pool import ModelPool
from counterfactory.engine.models.networks import library_of, networks_of
from counterfactory.engine.pocket.tasks import street_task
from counterfactory.engine.profile.paint import TextSettings
from counterfactory.engine.profile.profile import Profile, load_profile
from counterfactory.engine.request import SuiteRequest
from counterfactory.engine.runtime.session import Port, Signature
from counterfactory.engine.schedule.residency import PlanCost, Residency
from counterfactory.engine.sources.data_set import find_sources
from counterfactory.engine.suite import Suite
from counterfactory.engine.suite.run_record import RunSummary

SESSION = SimpleNamespace(signature=Signature((Port("x", (2, 3), "float32"),), ()))
SETTINGS = SuiteRequest(street_task("classification"), variants=1, controls=0, edits=(1, 1), seed=0)


@pytest.fixture
def quick(packed_models: Path) -> Profile:
    return replace(quick_profile(packed_models), shard_sources=1)


def travel(profile: Profile, street: Street, path: Path) -> tuple[RunSummary, bytes]:
    with Suite.open(path) as suite:
        report = Journey(profile, SETTINGS).run(Inputs(find_sources(street.root)[0][:2]), suite)
    return report, (path / "metadata.parquet").read_bytes()


def within(profile: Profile, gigabytes: float) -> Profile:
    return replace(profile, runtime=replace(profile.runtime, memory_gb=gigabytes))


def tight(profile: Profile, monkeypatch: pytest.MonkeyPatch) -> float:
    """As little memory as the neediest stage takes, in 10^9 bytes: found with the planner that estimates use."""
    library = library_of(profile)
    facts = estimate.known_facts(profile, library, None)  # counted once, not for every try

    def fits(megabytes: int) -> bool:
        try:
            return estimate.residency_of(within(profile, megabytes / 1000), library) is not None
        except CounterfactoryError:
            return False

    with monkeypatch.context() as patched:
        patched.setattr(estimate, "known_facts", lambda *_, **__: facts)
        return bisect_left(range(1, 100_000), True, key=fits) / 1000 + 0.001


@pytest.mark.slow
@pytest.mark.usefixtures("shared_plans")  # what the pool holds comes and goes; networks are compiled once
def test_little_memory_loads_more_often_and_makes_the_same_suite(
    quick: Profile, street: Street, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    roomy, expected = travel(quick, street, tmp_path / "roomy")
    cramped, found = travel(within(quick, tight(quick, monkeypatch)), street, tmp_path / "cramped")
    assert found == expected
    plans = networks_of(quick).plans
    assert {use.plan: use.loads for use in roomy.plans if use.loads} == dict.fromkeys(plans, 1)
    assert sum(use.loads for use in cramped.plans) > len(plans), "nothing was ever dropped"


def test_memory_that_no_stage_fits_is_refused_at_once(quick: Profile, street: Street, tmp_path: Path) -> None:
    with pytest.raises(CounterfactoryError, match=r"stage .* needs .* and the device has"):
        travel(within(quick, 0.001), street, tmp_path / "s")
    assert not list((tmp_path / "s").rglob("*.png"))


@pytest.mark.parametrize("denoiser", ["denoiser", "denoiser_few_int8"])
def test_only_what_a_stage_drops_is_closed(quick: Profile, denoiser: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan's name may be another than its network's, and a model of several plans goes with any of them."""
    monkeypatch.setattr(model_pool, "open_plan", lambda *_: SESSION)
    profile = replace(quick, paint=replace(quick.paint, denoiser=denoiser))
    painting = ("clip_text", "hint", denoiser, "vae_decoder")
    costs = [*(PlanCost(plan, 1, 1.0) for plan in ("clip_text", "hint", "vae_decoder")), PlanCost(denoiser, 2, 0.5)]
    stages = {"paint": painting, "check": ("clip_text", "clip_image")}
    residency = Residency(stages, [*costs, PlanCost("clip_image", 2, 1.0)], 5)
    models = ModelPool(library_of(profile), Meter(lambda _: None), residency)
    models.enter("paint")
    text, plans = models.clip_text(), models.paint_plans(64, 64)
    assert models.paint_plans(64, 64) is plans
    models.enter("check")
    assert models.clip_text() is text
    assert models.paint_plans(64, 64) is not plans


def test_the_text_encoder_of_checks_does_not_follow_the_painter_s_batch(quick: Profile) -> None:
    other = replace(quick, paint=replace(quick.paint, batch=3, decode_batch=3))
    for before, after in zip(networks_of(quick).of("check"), networks_of(other).of("check"), strict=True):
        assert before == after
    changed = networks_of(replace(quick, text=TextSettings(5)))["clip_text"]
    assert (changed.batch, set(changed.rows)) == (5, {"paint", "check"})


# Networks with a core of OpenVINO each come and go as no stack of them would; then Ctrl-C comes.
COME_AND_GO = """
import gc, signal, sys
from pathlib import Path
from counterfactory.engine.language.openvino_llm import OpenVinoLlm
from counterfactory.engine.runtime.openvino import open_session

def opened():
    return open_session(models / "clip_image.xml", batch=1, precision="f32")

models = Path(sys.argv[1])
signal.signal(signal.SIGINT, signal.default_int_handler)
plan = opened()
llm = OpenVinoLlm(models / "llm", precision="f32", threads=2)
plan = None
gc.collect()
plan = opened()
llm = None
gc.collect()
plan = None
gc.collect()
try:
    signal.raise_signal(signal.SIGINT)
except KeyboardInterrupt:
    print("interrupted")
"""


def test_ctrl_c_still_arrives_after_models_came_and_went() -> None:
    models = str(load_profile("pocket").models.path)
    ended = run([executable, "-c", COME_AND_GO, models], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (0, "interrupted\n"), ended.stderr


def test_answers_of_a_language_model_move_the_meter_while_they_are_written(
    quick: Profile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thousands are one call; and the model is not held by it."""
    opened = [Answering()]
    monkeypatch.setattr(model_pool, "open_llm", lambda *_: opened.pop())
    meter = Meter(lambda _: None)
    pool = ModelPool(library_of(quick), meter)
    before, seen = meter.moves() if pool.llm() else 0, weakref.ref(pool.llm())
    pool.llm().usage = Usage(7, 3)
    assert meter.moves() == before + 10
    pool._models.clear()
    gc.collect()
    assert seen() is None
    assert meter.moves() == before


class Answering:
    usage = Usage()
