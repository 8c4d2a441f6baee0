"""The projection's arithmetic by hand, and what it refuses."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from counterfactory.engine.cli.arguments import main
from counterfactory.engine.config.device import DeviceSettings, PlanFacts, load_facts
from counterfactory.engine.config.networks import networks_of
from counterfactory.engine.config.profile import Profile, load_profile, plan_facts
from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.estimate.estimate import estimate
from counterfactory.engine.estimate.projected import project, projected_costs
from counterfactory.export.production.graph import batches_of

T, G = 1e12, 10**9
DEVICE = DeviceSettings("GPU", tflops=100, memory_gb=24, gb_per_s=500, share=0.5)  # 50 TFLOP/s, 250 GB/s
FACTS = {
    "blip2_vision": PlanFacts(1 * T, 2 * G, 0),
    "opt_decoder": PlanFacts(0.01 * T, 10 * G, 100),
    "llm": PlanFacts(0.02 * T, 5 * G, 1000),
    "clip_text": PlanFacts(0.1 * T, G, 0),
    "clip_image": PlanFacts(0.2 * T, G, 0),
    "hint": PlanFacts(0.5 * T, G, 0),
    "denoiser": PlanFacts(1 * T, 2 * G, 0),
    "vae_decoder": PlanFacts(2 * T, G, 0),
}


@pytest.fixture
def profile() -> Profile:
    found = load_profile("a10g")
    decoding = replace(found.caption.decoding, max_tokens=50)
    return replace(
        found,
        caption=replace(found.caption, batch=8, texts=2, decoding=decoding),
        rewrite=replace(found.rewrite, max_keywords=6),
        paint=replace(found.paint, sampler=replace(found.paint.sampler, steps=20)),
    )


def test_compute_bound_work_takes_operations_over_the_peak(profile: Profile) -> None:
    found = project(profile, DEVICE, FACTS, variants=5)
    assert found["paint"] == pytest.approx((0.1 + 0.5 / 5 + 40 * 1 + 2) / 50)
    assert found["check"] == pytest.approx((0.2 * 1.2 + 0.1 / 5) / 50)


def test_a_caption_s_tokens_wait_for_the_weights_or_for_the_products(profile: Profile) -> None:
    read = 10 / 250  # seconds a step, more than 16 rows' 0.16 TFLOP take
    prompt = 0.01 * 16 * 32 / 50
    assert project(profile, DEVICE, FACTS, 5)["caption"] == pytest.approx(1 / 50 + (prompt + 50 * read) / 8)
    slow = FACTS | {"opt_decoder": PlanFacts(1 * T, 10 * G, 100)}
    assert project(profile, DEVICE, slow, 5)["caption"] == pytest.approx(1 / 50 + (16 * 32 / 50 + 50 * 16 / 50) / 8)


def test_questions_are_asked_in_full_batches(profile: Profile) -> None:
    one = 0.02 * 120 / 50 + 40 * (5 / 250) / 32
    assert project(profile, DEVICE, FACTS, 5)["rewrite"] == pytest.approx((1 + 3 + 5) * one)
    assert project(profile, DEVICE, FACTS, 10)["rewrite"] == pytest.approx((1 + 3 + 10) * one)


def test_plans_hold_their_weights_and_the_language_model_its_cache(profile: Profile) -> None:
    costs = projected_costs(profile, FACTS)
    assert costs["denoiser"].bytes == 2.5 * G
    assert profile.llm.exllama is not None
    assert costs["llm"].bytes == 5 * G + profile.llm.exllama.cache_tokens * 500
    assert costs["opt_decoder"].bytes == 10.5 * G + 2 * 16 * (32 + 50) * 100
    assert costs["opt_decoder"].load_s == pytest.approx(10 / 1.5)


@pytest.mark.parametrize("name", ["a10g", "a10g-fast", "lance"])
def test_profiles_for_the_gpu_are_estimated_where_there_is_none(name: str) -> None:
    profile = load_profile(name)
    found = estimate(profile, 25_000, 5)
    assert (found.basis, found.device, found.devices) == ("roofline", "GPU", 1)
    assert found.variants == 125_000
    holding = found.holdings[0]
    assert holding.memory_bytes == 24 * G
    assert holding.timeline is not None
    assert any("nothing of it was measured" in note for note in found.assumptions)
    assert found.device_hours_per_1k == pytest.approx(found.wall_s / 3600 / 125)
    assert set(plan_facts(profile)) >= set(networks_of(profile).plans)


def test_few_steps_cost_less() -> None:
    slow, fast = (estimate(load_profile(name), 1000, 5).device_hours_per_1k for name in ("a10g", "a10g-fast"))
    assert fast < 0.5 * slow


def test_the_command_takes_a_number_of_sources(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["estimate", "--profile", "a10g", "--sources", "25000", "--variants", "5", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["variants"], told["device"]) == (125_000, "GPU")
    assert main(["estimate", "--profile", "a10g"]) == 2
    assert "either SOURCES" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["", "{}", '[{"name": "llm"}]', '[{"name": "llm", "flops": 1}]'])
def test_facts_that_cannot_be_read_are_refused_by_name(text: str, tmp_path: Path) -> None:
    (tmp_path / "facts.json").write_text(text)
    with pytest.raises(CounterfactoryError, match=r"facts\.json.*export them again"):
        load_facts(tmp_path / "facts.json")


@pytest.mark.parametrize("change", [{"tflops": 0}, {"share": 0}, {"share": 1.1}, {"gb_per_s": -1}])
def test_a_device_that_cannot_be_is_refused(change: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="share"):
        replace(DEVICE, **change)


def test_plans_are_exported_for_the_batches_of_their_profile() -> None:
    assert batches_of(load_profile("a10g")) == {
        "blip2_vision": 8,
        "opt_decoder": 16,
        "clip_text": 16,
        "hed": 4,
        "hint": 1,
        "denoiser": 16,
        "vae_decoder": 4,
        "clip_image": 16,
    }
    lance = load_profile("lance")
    assert batches_of(lance)["opt_decoder"] == lance.caption.batch * lance.caption.decoding.beams
