"""The formulas by hand: rows and tokens by the table of networks, products or weights, memory; what they refuse."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from counterfactory.engine.cli import estimate_text as forecast
from counterfactory.engine.cli.arguments import main
from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.estimate import formulas
from counterfactory.engine.estimate.estimate import estimate
from counterfactory.engine.estimate.flops import count_flops
from counterfactory.engine.estimate.formulas import PerSource, Reach, item_s, known_facts, plan_cost
from counterfactory.engine.estimate.measured import PlanRate, Rates, profile_key, save_rates
from counterfactory.engine.models.networks import library_of, networks_of
from counterfactory.engine.models.plan_facts import PlanFacts, load_facts, plan_facts
from counterfactory.engine.profile.paint import ReuseSettings
from counterfactory.engine.profile.profile import Profile, load_profile
from counterfactory.engine.profile.runtime import ModelPaths
from counterfactory.engine.runtime.plans import PlanKey, write_key
from counterfactory.engine.runtime.quiet_openvino import ov
from counterfactory.export.production.graph import batches_of

T, G = 1e12, 10**9
REACH = Reach(50 * T, 100 * T, 250 * G)
FACTS = {
    "blip2_vision": PlanFacts(1 * T, 2 * G, 0),
    "opt_decoder": PlanFacts(0.01 * T, 10 * G, 100),
    "llm": PlanFacts(0.02 * T, 5 * G, 1000),
    "clip_text": PlanFacts(0.1 * T, G, 0),
    "clip_image": PlanFacts(0.2 * T, G, 0),
    "hint": PlanFacts(0.5 * T, G, 0),
    "denoiser": PlanFacts(1 * T, 2 * G, 0),
    "denoiser_shallow": PlanFacts(0.25 * T, G, 0),
    "vae_decoder": PlanFacts(2 * T, G, 0),
}


@pytest.fixture
def profile() -> Profile:
    found = load_profile("a10g")
    decoding = replace(found.caption.decoding, max_tokens=50)
    return replace(
        found,
        grounding=None,
        caption=replace(found.caption, batch=8, texts=2, decoding=decoding, label_prefix=None),
        rewrite=replace(found.rewrite, max_keywords=6),
        paint=replace(found.paint, sampler=replace(found.paint.sampler, steps=20), reuse=None),
    )


def seconds(profile: Profile, facts: dict[str, PlanFacts], variants: int, reach: Reach = REACH) -> dict[str, float]:
    return {**item_s(networks_of(profile), facts, reach, PerSource(variants, 0))}


def test_compute_bound_work_takes_operations_over_their_own_peak(profile: Profile) -> None:
    found = seconds(profile, FACTS, variants=5)
    assert found["paint"] == pytest.approx((0.1 + 0.5 / 5 + 30 * 1 + 2) / 50)
    assert found["check"] == pytest.approx((0.2 * 1.2 + 0.1 * (2 + 1 / 5)) / 50)
    assert "edges" not in found
    plain = replace(profile, paint=replace(profile.paint, guidance=replace(profile.paint.guidance, scale=1.0)))
    assert found["paint"] - seconds(plain, FACTS, 5)["paint"] == pytest.approx(10 / 50)
    whole = FACTS | {"denoiser": replace(FACTS["denoiser"], integers=True)}
    assert seconds(profile, FACTS, 5)["paint"] - seconds(profile, whole, 5)["paint"] == pytest.approx(30 / 100)


def test_rows_that_use_deep_features_again_cost_their_own_plan_and_memory(profile: Profile) -> None:
    """16 of 30 rows are whole; of 36 + 16 variants the features of two rows each stay on the device."""
    again = replace(profile, paint=replace(profile.paint, reuse=ReuseSettings(2)))
    assert seconds(again, FACTS, 5)["paint"] == pytest.approx((0.1 + 0.5 / 5 + 16 * 1 + 14 * 0.25 + 2) / 50)
    kept, plain = (networks_of(one)["denoiser"].kept_bytes for one in (again, profile))
    areas = [height * width / 512**2 for height, width in profile.image.sizes]
    features = sum(52 * 2 * area * 320 * 64 * 64 * 4 for area in areas)
    assert features < kept - plain < 1.3 * features + 16 * plain / 36
    onnx = replace(again, runtime=replace(again.runtime, backend="onnxruntime", provider="tensorrt"))
    one = 4 * (320 * 64 * 64 + 77 * 768 + 2 * 4 * 64 * 64 + 320 * 64 * 64)  # the feature is as large as a hint
    assert {networks_of(onnx)[name].moved_bytes for name in ("denoiser", "denoiser_shallow")} == {one}


def test_a_caption_s_tokens_wait_for_the_weights_or_for_the_products(profile: Profile) -> None:
    read = 10 / 250  # seconds per step, more than 16 rows' 0.16 TFLOP take
    prompt = 0.01 * 16 * 32 / 50
    assert seconds(profile, FACTS, 5)["caption"] == pytest.approx(1 / 50 + (prompt + 50 * read) / 8)
    slow = FACTS | {"opt_decoder": PlanFacts(1 * T, 10 * G, 100)}
    assert seconds(profile, slow, 5)["caption"] == pytest.approx(1 / 50 + (16 * 32 / 50 + 50 * 16 / 50) / 8)


def test_captions_that_are_written_again_fill_no_batch(profile: Profile) -> None:
    """18 % of them, 4.5 at once: as many batches as captions of 18 % x 8 / 4.5 of the sources would take."""
    again = replace(profile, caption=replace(profile.caption, label_prefix="a photo of a {label}"))
    plain, found = seconds(profile, FACTS, 5), seconds(again, FACTS, 5)
    assert found["caption"] == pytest.approx(plain["caption"] * (1 + 0.18 * 8 / 4.5))
    assert {stage for stage in plain if plain[stage] != found[stage]} == {"caption"}
    few = replace(again, caption=replace(again.caption, batch=3))
    assert networks_of(few)["opt_decoder"].rows["caption"].per_source == pytest.approx(2 * 1.18)
    said = "18 % of the captions are written again after their label, {} at once"
    assert said.format(4.5) in formulas.time_assumptions(again, networks_of(again), 5)
    assert said.format(3) in formulas.time_assumptions(few, networks_of(few), 5)
    assert not any("again" in line for line in formulas.time_assumptions(profile, networks_of(profile), 5))


def test_questions_are_asked_in_full_batches(profile: Profile) -> None:
    read, written = 0.02 / 50, (5 / 250) / 32
    before = 30 * read + 40 * written + 3 * (40 * read + 20 * written)
    one = 25 * read + 30 * written
    assert seconds(profile, FACTS, 5)["rewrite"] == pytest.approx(before + 5 * one)
    assert seconds(profile, FACTS, 10)["rewrite"] == pytest.approx(before + 10 * one)
    # Where products take longer than weights all tokens cost the same.
    slow = Reach(T, T)
    assert seconds(profile, FACTS, 5, slow)["rewrite"] == pytest.approx(0.02 * (70 + 3 * 60 + 5 * 55))
    held = replace(profile, rewrite=replace(profile.rewrite, verbatim=True))
    assert seconds(held, FACTS, 5, slow)["rewrite"] == pytest.approx(0.02 * (70 + 3 * 60 + 5 * 42))


def test_rows_of_the_language_model_need_pages(profile: Profile) -> None:
    """A prompt of 290 tokens and 192 for its answer are two pages of 256 each."""
    exllama = profile.llm.exllama
    assert exllama is not None

    def rows(cache_tokens: int) -> int:
        held = replace(profile.llm, exllama=replace(exllama, cache_tokens=cache_tokens))
        return networks_of(replace(profile, llm=held))["llm"].batch

    assert [rows(tokens) for tokens in (256, 16_128, 16_384, 32_768)] == [1, 31, 32, 32]


def test_copies_take_the_bus_s_time_whatever_the_gpu_reaches(profile: Profile) -> None:
    assert profile.device is not None
    found = estimate(profile, 25_000, 5)
    (paint,) = [stage for stage in found.stages if stage.stage == "paint"]
    texts, hints, latents, pixels = 77 * 768, 320 * 64 * 64, 4 * 64 * 64, 512 * 512
    # Painting stays on the device: noise, edges and some 2,048 bytes for 16 rows go up, pictures in bytes come down.
    each = texts + latents + 30 * 2048 / 4 / 16 + 3 * pixels / 4 + pixels / 5
    assert paint.moved_s == pytest.approx(125_000 * 4 * each / (1e9 * profile.device.bus_gb_per_s), rel=1e-4)
    fast = load_profile("a10g-fast")  # in two steps of one row each; LCM draws noise at every step, 4 in 4 rows
    lcm = replace(fast, paint=replace(fast.paint, sampler=load_profile("cpu").paint.sampler))
    for few, noise in ((fast, 4 * latents / 2), (lcm, 4 * latents)):
        assert networks_of(few)["denoiser"].moved_bytes == pytest.approx(noise + 2048 / few.paint.batch, abs=1)
    queued, onnx = (
        replace(profile, runtime=replace(profile.runtime, backend="onnxruntime", provider=provider))
        for provider in ("cuda", "tensorrt")
    )
    assert networks_of(queued)["denoiser"].moved_bytes == networks_of(profile)["denoiser"].moved_bytes
    assert networks_of(onnx)["denoiser"].moved_bytes == 4 * (hints + texts + 2 * latents)
    assert networks_of(onnx)["vae_decoder"].moved_bytes == 4 * (latents + 3 * pixels)
    assert [stage.moved_s for stage in found.at(0.6).stages] == [stage.moved_s for stage in found.stages]
    slower = replace(profile, device=replace(profile.device, bus_gb_per_s=profile.device.bus_gb_per_s / 2))
    more = estimate(slower, 25_000, 5)
    moved = sum(stage.moved_s for stage in found.stages)
    assert moved > 0
    assert more.wall_s - found.wall_s == pytest.approx(moved)


def test_what_painting_keeps_on_a_gpu_is_counted_with_its_denoiser(profile: Profile) -> None:
    """Of 36 variants: latents, history and predictions, a hint and a text each; and some more; at each size."""
    fact, network = PlanFacts(1.0, 1000, 0), networks_of(profile)["denoiser"]
    kept = plan_cost(profile, network, fact).bytes - 1000
    areas = [height * width / 512**2 for height, width in profile.image.sizes]
    variants = sum(36 * (area * (6 * 65_536 + 5_242_880) + 77 * 768 * 4) for area in areas)
    assert len(areas) == 7
    assert variants < kept < 1.3 * variants
    compiled = replace(fact, held_bytes=2000, scratch_bytes=5)
    assert plan_cost(profile, network, compiled).bytes == 2000 + kept
    for provider, bytes_kept in (("cuda", network.kept_bytes), ("tensorrt", 0)):
        onnx = replace(profile, runtime=replace(profile.runtime, backend="onnxruntime", provider=provider))
        assert networks_of(onnx)["denoiser"].kept_bytes == bytes_kept


def test_a_plan_s_first_use_is_counted_once(profile: Profile) -> None:
    few, many = (estimate(replace(profile, shard_sources=n), 10_000, 5) for n in (10_000, 1_000))
    for found in (few, many):
        timeline = found.holdings[0].timeline
        assert timeline is not None
        once = formulas.FIRST_USE_S * len(networks_of(profile).plans)
        assert sum(stage.load_s for stage in found.stages) == pytest.approx(timeline.load_s + once)
    assert many.wall_s > few.wall_s + 60


def test_plans_hold_their_weights_and_the_language_model_its_cache(profile: Profile) -> None:
    costs = {n.plan: plan_cost(profile, n, FACTS[n.plan]) for n in networks_of(profile)}
    kept = networks_of(profile)["denoiser"].kept_bytes
    assert (costs["denoiser"].bytes, costs["denoiser"].scratch_bytes) == (2 * G + kept, 0.5 * G)
    assert profile.llm.exllama is not None
    assert profile.llm.exllama.cache == "q8"
    # A cache of 8 bits: values, a scale in 16 for each 32, one layer of 40 in 16. A twentieth is scratch of its own.
    a_token = 1000 * (8 / 16 + 1 / 32 + 1 / 40)
    assert costs["llm"].bytes == 1.05 * 5 * G + profile.llm.exllama.cache_tokens * a_token
    assert costs["opt_decoder"].bytes == 10 * G + 16 * (33 + 49) * 100
    assert costs["opt_decoder"].scratch_bytes == 0.5 * G
    assert profile.device is not None
    assert costs["opt_decoder"].load_s == pytest.approx(10 / profile.device.disk_gb_per_s)


def test_a_graph_that_was_exported_says_what_it_computes_in(profile: Profile, tmp_path: Path) -> None:
    """Plans share it; sessions of ONNX Runtime have an arena each, one for every size."""
    manifest = tmp_path / "onnx" / "denoiser" / "manifest.json"
    manifest.parent.mkdir(parents=True)
    manifest.write_text(json.dumps({"onnx_sha256": "a" * 64, "activation_bytes": 7 * G}))
    told = replace(profile, models=replace(profile.models, folder=str(tmp_path)))
    before, after = ({p.cost.name: p.cost for p in estimate(one, 64, 5, 100 * G).plans} for one in (profile, told))
    assert after["denoiser"] == replace(before["denoiser"], scratch_bytes=7 * G)
    network, fact = networks_of(profile)["denoiser"], PlanFacts(1.0, G, 0)
    onnx = replace(profile, runtime=replace(profile.runtime, backend="onnxruntime", provider="cuda"))
    kept = plan_cost(onnx, network, fact).bytes
    cost = plan_cost(onnx, network, replace(fact, activation_bytes=1000))
    assert (cost.bytes, cost.scratch_bytes) == (kept + 7 * 1000, 0)


def test_a_compiled_plan_holds_what_its_compiler_says(profile: Profile, tmp_path: Path) -> None:
    """Weights, inputs and outputs by its key, caches among them; a plan without a key is still guessed."""
    (tmp_path / "plans").mkdir()
    for name in ("denoiser", "opt_decoder"):
        (tmp_path / "plans" / f"{name}.plan").write_bytes(b"plan")
        key = PlanKey("a" * 64, (), "fp16", "tensorrt 11.0", "SM86", "b" * 64, 1.0, None, 2 * G, 3 * G, G)
        write_key(tmp_path / "plans" / f"{name}.plan", key)
    compiled = replace(profile, models=replace(profile.models, folder=str(tmp_path)))
    before = {plan.cost.name: plan.cost for plan in estimate(profile, 64, 5, 100 * G).plans}
    after = {plan.cost.name: plan.cost for plan in estimate(compiled, 64, 5, 100 * G).plans}
    cache = round(networks_of(profile)["opt_decoder"].cached_tokens * plan_facts(profile)["opt_decoder"].cache_bytes)
    assert cache == 16 * (32 + 1 + 49) * 2 * 32 * 4096 * 2, "rows, positions, keys and values, layers, width, bytes"
    assert after == before | {
        "denoiser": replace(
            before["denoiser"], bytes=3 * G + networks_of(profile)["denoiser"].kept_bytes, scratch_bytes=3 * G
        ),
        "opt_decoder": replace(before["opt_decoder"], bytes=3 * G, scratch_bytes=3 * G),
    }
    assert before["opt_decoder"].bytes == plan_facts(profile)["opt_decoder"].weight_bytes + cache


def test_bytes_seen_on_a_gpu_can_add_and_never_save(profile: Profile) -> None:
    """Less than the weights is another memory's figure; anything else leaves out what the first batches take."""

    def found() -> dict[str, tuple[int, bool]]:
        return {plan.cost.name: (plan.cost.bytes, plan.measured_bytes) for plan in estimate(profile, 64, 5).plans}

    projected, facts = found(), known_facts(profile, library_of(profile), None)
    weights = {name: fact.weight_bytes for name, fact in facts.items()}
    assert weights["denoiser"] > 10**9
    # With the block that plans compute in, which may have grown meanwhile.
    scratch = {plan.cost.name: plan.cost.scratch_bytes for plan in estimate(profile, 64, 5).plans}
    text = projected["clip_text"][0] + 7 + scratch["clip_text"]
    seen = {"denoiser": weights["denoiser"] - 1, "hint": weights["hint"], "clip_text": text, "llm": 300_000_000}
    save_rates(Rates(profile_key(profile), {}, {name: PlanRate(3.0, taken) for name, taken in seen.items()}))
    assert found() == projected | {
        "hint": (projected["hint"][0], True),
        "clip_text": (projected["clip_text"][0] + 7, True),
    }


def test_on_a_cpu_plans_hold_packed_weights_and_their_graph() -> None:
    pocket = load_profile("pocket")
    fact = PlanFacts(0.0, 1000, 0, graph_bytes=10)
    for precision, factor in (("bf16", 2), ("f32", 3)):
        profile = replace(pocket, runtime=replace(pocket.runtime, precision=precision))
        networks = networks_of(profile)
        try:
            cost = plan_cost(profile, networks["hint"], fact)
        except CounterfactoryError:  # bf16 asked of a CPU without it
            continue
        assert (cost.bytes, cost.load_s) == (1000 * factor + 600, pytest.approx((1000 * factor + 600) / 1e8))
        assert plan_cost(profile, networks["llm"], fact).bytes == cost.bytes + 50_000_000


# Counting on a CPU


def test_a_caption_costs_all_its_steps() -> None:
    profile = load_profile("pocket")
    check = profile.check.having(min_valid=None)
    check = replace(check, recaption=None, recaption_of=None, valid=None)  # else pictures are read as well
    profile = replace(profile, check=check)
    decoder = profile.models.path / "opt_decoder.xml"

    def step(new: int, past: int) -> int:
        lengths = {"inputs_embeds": new, "position_ids": new, "past_keys": past, "past_values": past}
        return count_flops(decoder, 1, lengths=lengths)

    start = 16 + 1  # the pocket captioner's queries, and the token that begins a caption
    first, second, last = step(start, 0), step(1, start), step(1, start + 62)
    tokens = profile.caption.decoding.max_tokens
    assert tokens == 64
    facts = known_facts(profile, library_of(profile), (128, 128))
    vision = facts["blip2_vision"].flops
    assert vision == count_flops(profile.models.path / "blip2_vision.xml", 1) > 0
    caption = seconds(profile, facts, 5, Reach(1.0, 1.0))["caption"]
    assert caption == pytest.approx(vision + first + (tokens - 1) * (second + last) / 2, rel=1e-6)


def test_a_decoder_that_attends_reads_no_queries(tmp_path: Path) -> None:
    """Florence-2's: what was seen is attended to by each of a caption's tokens, and read by none."""
    op, width, seen = ov.opset13, 8, 5
    words = op.parameter([-1, -1, width], np.float32, name="inputs_embeds")
    kept = op.parameter([-1, -1, width], np.float32, name="cache_keys")
    eyes = op.parameter([-1, seen, width], np.float32, name="query_embeds")
    product = op.matmul(words, op.constant(np.ones((width, width), np.float32)), False, False)
    looked = op.matmul(product, eyes, False, True)
    remembered = op.matmul(product, op.transpose(kept, op.constant([1, 0, 2])), False, True)
    ports = {"inputs_embeds": words, "cache_keys": kept, "query_embeds": eyes}
    for name, port in ports.items():
        port.output(0).get_tensor().set_names({name})
    model = ov.Model([looked, remembered], list(ports.values()))
    ov.save_model(model, tmp_path / "opt_decoder.xml", compress_to_fp16=False)
    profile = replace(load_profile("cpu"), models=ModelPaths(str(tmp_path)))
    library = library_of(profile)
    decoder = library.networks["opt_decoder"]
    assert decoder.tokens is not None

    def step(past: int) -> int:
        return 2 * width * (width + seen + past)

    written = profile.caption.decoding.max_tokens
    whole = step(0) + sum(step(1 + i) for i in range(written - 1))
    tokens = decoder.tokens.read + written
    assert formulas._flops(library, decoder, (512, 512)) * tokens == pytest.approx(whole, rel=1e-6)


def test_a_choice_from_menus_is_one_question_a_source() -> None:
    """A rule writes what was chosen, so that further variants ask nothing."""
    profile = load_profile("cpu")
    assert profile.rewrite.menus
    facts = dict.fromkeys(networks_of(profile).plans, PlanFacts(0.0, 0, 0)) | {"llm": PlanFacts(1.0, 1, 0)}
    (question,) = networks_of(profile)["llm"].questions
    for variants in (1, 5):
        tokens = question.tokens.read + question.tokens.written
        assert seconds(profile, facts, variants, Reach(1.0, 1.0))["rewrite"] == tokens
    written = replace(profile, rewrite=replace(profile.rewrite, menus=False))
    one, five = (seconds(written, facts, count, Reach(1.0, 1.0))["rewrite"] for count in (1, 5))
    assert five > one


@pytest.mark.slow
def test_plans_are_counted_at_the_picture_s_size() -> None:
    profile = load_profile("pocket")
    square, wide, unsized = (known_facts(profile, library_of(profile), size) for size in ((128, 128), (128, 256), None))
    for plan in ("hint", "vae_decoder"):
        assert wide[plan].flops == 2 * square[plan].flops
    denoiser = profile.paint.denoiser
    assert 1.9 * square[denoiser].flops < wide[denoiser].flops < 3 * square[denoiser].flops
    assert wide["clip_image"].flops == square["clip_image"].flops > 0
    assert 1e9 < square[denoiser].flops < 2e9
    assert [plan for plan, fact in square.items() if fact.integers] == [denoiser]
    assert all(fact.flops == 0 and fact.weight_bytes == square[plan].weight_bytes for plan, fact in unsized.items())


# GPUs that are not here


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

    def loading(shard: int) -> float:
        """The share of a run that loading takes, with 60 % of the data sheet reached."""
        found = estimate(replace(profile, shard_sources=shard), 25_000, 5).at(0.6)
        return sum(stage.load_s for stage in found.stages) / found.wall_s

    assert loading(profile.shard_sources) < min(0.02, loading(512) / 2), "shards are large enough"


def test_a_projection_says_what_an_accepted_variant_costs_at_two_utilisations() -> None:
    profile = load_profile("a10g")
    assert profile.device is not None
    found = estimate(profile, 25_000, 5)
    assert (found.share, found.accepted_share, found.accepted_measured) == (0.5, 0.9, False)
    assert found.device_hours_per_1k_accepted == pytest.approx(found.device_hours_per_1k / 0.9)
    # Reaching more is the same as a profile that assumes more, and loading is no faster.
    faster = replace(profile, device=replace(profile.device, share=0.6))
    assert found.at(0.6).wall_s == pytest.approx(estimate(faster, 25_000, 5).wall_s)
    assert [stage.load_s for stage in found.at(0.6).stages] == [stage.load_s for stage in found.stages]
    data = forecast.as_data(found)
    assert data["other_share"]["device_hours_per_1k_accepted"] == found.at(0.6).device_hours_per_1k_accepted
    measured = replace(found, stages=tuple(replace(stage, basis="measured") for stage in found.stages))
    assert measured.at(0.6).wall_s == measured.wall_s
    assert "other_share" not in forecast.as_data(measured)


def test_the_command_takes_a_number_of_sources(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["estimate", "--profile", "a10g", "--sources", "25000", "--variants", "5", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["variants"], told["device"]) == (125_000, "GPU")
    assert main(["estimate", "--profile", "a10g"]) == 2
    assert "either SOURCES" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["", "{}", '[{"name": "llm"}]', '[{"name": "llm", "flops": 1}]'])
def test_facts_that_cannot_be_read_are_refused_by_name(text: str, tmp_path: Path) -> None:
    (tmp_path / "facts.json").write_text(text)
    with pytest.raises(CounterfactoryError, match=r"facts\.json.*export the facts of plans again"):
        load_facts(tmp_path / "facts.json")


def test_plans_are_exported_for_the_batches_of_their_profile() -> None:
    expected = (
        "blip2_vision 24, opt_decoder 48, sentence 32, clip_text 16, hed 4, hint 4, denoiser 16, denoiser_shallow 16, "
        "vae_decoder 4, clip_image 16"
    )
    found = batches_of(load_profile("a10g"))
    assert ", ".join(f"{name} {batch}" for name, batch in found.items()) == expected
    lance = load_profile("lance")
    assert batches_of(lance)["opt_decoder"] == lance.caption.batch * lance.caption.decoding.beams


def test_the_decoder_that_is_named_or_exported_is_counted(tmp_path: Path) -> None:
    """TAESD's instead of the pipeline's: by the profile before an export, by the export's own word after it."""
    profile = replace(load_profile("a10g"), models=ModelPaths(str(tmp_path)))
    assert profile.weights is not None
    small = replace(profile, weights=replace(profile.weights, tiny_vae="somewhere/taesd"))
    full, tiny = plan_facts(profile)["vae_decoder"], plan_facts(small)["vae_decoder_tiny"]
    assert full.flops == pytest.approx(2.51e12, rel=0.01)
    assert tiny.flops == pytest.approx(0.141e12, rel=0.01)
    assert "vae_decoder_tiny" not in plan_facts(profile)
    reach = Reach(70e12, 70e12)
    paint = [
        item_s(networks_of(one), known_facts(one, library_of(one), None), reach, PerSource(5, 0))["paint"]
        for one in (profile, small)
    ]
    assert paint[0] - paint[1] == pytest.approx((full.flops - tiny.flops) / 70e12)
    for one in (profile, small):
        manifest = tmp_path / "onnx" / one.decoder / "manifest.json"
        manifest.parent.mkdir(parents=True)
        for classes, found in (("AutoencoderTiny", tiny), ("AutoencoderKL", full)):
            manifest.write_text(json.dumps({"onnx_sha256": "0" * 64, "classes": [classes]}))
            assert plan_facts(one)[one.decoder] == found
    (tmp_path / "facts.json").write_text(json.dumps([{"name": "vae_decoder", **asdict(full)}]))
    assert plan_facts(small)["vae_decoder_tiny"] == tiny, "another profile's decoder alone was exported"


def test_controls_are_painted_and_checked_and_never_written(profile: Profile) -> None:
    plain, beside = (estimate(profile, 1000, 5, controls=count) for count in (0, 1))
    assert (beside.variants, beside.controls) == (plain.variants, 1000) == (5000, 1000)
    seconds = [{stage.stage: stage.compute_s for stage in found.stages} for found in (plain, beside)]
    for stage in ("paint", "check"):
        assert seconds[1][stage] == pytest.approx(seconds[0][stage] * 6 / 5, rel=0.05)
    for stage in ("caption", "rewrite"):
        assert seconds[1][stage] == seconds[0][stage]
    assert beside.device_hours_per_1k > plain.device_hours_per_1k
