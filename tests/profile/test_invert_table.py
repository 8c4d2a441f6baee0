"""[invert]: an editor in the painter's place, and LANCE's own settings and plans."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from counterfactory.engine.estimate.estimate import estimate
from counterfactory.engine.models.network import Rows
from counterfactory.engine.models.networks import networks_of
from counterfactory.engine.models.plan_facts import plan_facts
from counterfactory.engine.profile.paint import GuidanceSettings, InvertSettings, rows_per_source
from counterfactory.engine.profile.profile import Profile, load_profile
from counterfactory.engine.profile.runtime import ModelPaths


def test_the_profile_that_inverts_has_an_editor_in_the_painter_s_place() -> None:
    lance, pocket = load_profile("pocket-lance"), load_profile("pocket")
    assert lance.invert is not None
    assert (lance.rewrite.edits, load_profile("lance").rewrite.edits, pocket.rewrite.edits) == ((1, 1), (1, 1), None)
    found, painter = networks_of(lance), networks_of(pocket)
    plans = [network.plan for network in found if "paint" in network.rows]
    assert plans == ["clip_text", "hint", "denoiser", "vae_encoder", "vae_decoder", "clip_image"]
    tried = len(lance.invert.fractions)
    assert found["clip_text"].rows["paint"] == Rows(2, 2, 0)
    assert found["hint"].rows["paint"] == found["vae_encoder"].rows["paint"] == Rows(1)
    assert found["vae_decoder"].rows["paint"] == Rows(1, tried, 1)
    assert found["denoiser"].rows["paint"].per_source == rows_per_source(lance.paint, lance.invert)
    assert found["denoiser"].sizes == {"latents": "latents", "hint_embedding": "latents"}
    assert (found["denoiser"].form, painter["denoiser"].form) == ("with controls", None)
    alone = networks_of(replace(lance, paint=replace(lance.paint, control_scale=0.0)))
    assert "hint" not in alone
    assert alone["denoiser"].sizes == {"latents": "latents"}
    assert alone["denoiser"].form == "without controls"
    assert alone["denoiser"].moved_bytes == found["denoiser"].moved_bytes - found["hint"].moved_bytes + 4 * 128**2


# LANCE: its own settings, an editor without a ControlNet, and what is known of its plans.


@pytest.fixture
def lance(tmp_path: Path) -> Profile:
    """The profile, with a folder in which nothing was exported."""
    return replace(load_profile("lance"), models=ModelPaths(str(tmp_path)))


def with_edges(lance: Profile) -> Profile:
    """The profile of one who names a ControlNet."""
    return replace(lance, paint=replace(lance.paint, control_scale=1.0), weights=load_profile("a10g").weights)


def test_it_edits_as_lance_does(lance: Profile) -> None:
    paint, invert = lance.paint, lance.invert
    assert (paint.sampler.kind, paint.sampler.steps, paint.guidance) == ("ddim", 50, GuidanceSettings(7.5, 0.0, 1.0))
    shares, local = (0.4, 0.5, 0.6, 0.7, 0.8, 0.9), ("subject", "object", "adjective")
    assert invert == InvertSettings(0.0, 0, shares, 0.8, 2.0, local, local_threshold=0.3, detail_levels=0.0)
    assert set(invert.local_types) < set(lance.rewrite.types)
    networks = networks_of(lance)
    plans = [network.plan for network in networks if "paint" in network.rows]
    assert plans == ["clip_text", "editor", "vae_encoder", "vae_decoder", "clip_image"]
    editor, decoder = networks["denoiser"], networks["vae_decoder"]
    # Five steps each at so many rows, guided; the source's row beside each of 50 steps.
    parted = 1, 1, 1, 1, 2, 3, 4, 5, 6, 6
    assert editor.rows["paint"] == Rows(50, 50 + 2 * 5 * sum(parted), 0)
    assert decoder.rows["paint"] == Rows(0, 6, 1)
    assert networks["clip_image"].rows["paint"] == Rows(1, 6, 1)
    assert (editor.form, editor.kept_bytes) == ("without controls", 0)


def test_a_controlnet_is_named_where_one_follows(lance: Profile) -> None:
    assert not lance.follows_maps
    assert lance.weights is not None
    assert lance.weights.controlnets == ()
    assert "hint" not in networks_of(lance)
    assert "hint" in networks_of(with_edges(lance))
    message = r"\[weights\] controlnets names none: name what follows the sources' edges, or invert"
    with pytest.raises(ValueError, match=message):
        replace(lance, paint=replace(lance.paint, control_scale=1.0))
    with pytest.raises(ValueError, match=message):
        replace(load_profile("a10g"), weights=lance.weights)
    with pytest.raises(ValueError, match=r"\[weights\] names nothing somewhere"):
        replace(lance.weights, controlnets=("",))


def test_the_editor_is_counted_without_a_controlnet_where_it_has_none(lance: Profile, tmp_path: Path) -> None:
    usual = replace(load_profile("a10g"), models=lance.models)
    painter, editor = plan_facts(usual)["denoiser"], plan_facts(lance)["editor"]
    # Of Stable Diffusion's 1.07 TFLOP a row the ControlNet takes 0.27, and of its weights 361 M.
    assert painter.flops - editor.flops == pytest.approx(0.266e12, rel=0.02)
    assert painter.weight_bytes - editor.weight_bytes == pytest.approx(2 * 361e6, rel=0.01)
    renamed = replace(lance, paint=replace(lance.paint, denoiser="editor_lcm"))
    assert plan_facts(renamed)["editor_lcm"] == editor
    assert plan_facts(with_edges(lance))["editor"] == painter
    # What was exported is what it is.
    rows = [{**asdict(fact), "name": name} for name, fact in plan_facts(usual).items()]
    (tmp_path / "facts.json").write_text(json.dumps([*rows, {**asdict(painter), "name": "editor", "flops": 7}]))
    assert plan_facts(with_edges(lance))["editor"].flops == plan_facts(lance)["editor"].flops == 7
    (tmp_path / "facts.json").write_text(json.dumps(rows))
    assert plan_facts(lance)["editor"] == painter


def test_controls_of_an_editor_cost_a_decode_and_a_look(lance: Profile) -> None:
    """Nothing of them is denoised: estimates and copies count what the editor does."""
    plain, beside = (estimate(lance, 1000, 5, controls=count) for count in (0, 2))
    paint = [stage for found in (plain, beside) for stage in found.stages if stage.stage == "paint"]
    facts, networks = plan_facts(lance), networks_of(lance)
    assert lance.device is not None
    reached = 1e12 * lance.device.tflops * lance.device.share
    more = facts["vae_decoder"].flops + facts["clip_image"].flops
    assert paint[1].compute_s - paint[0].compute_s == pytest.approx(2000 * more / reached)
    moved = networks["vae_decoder"].moved_bytes + networks["clip_image"].moved_bytes
    assert paint[1].moved_s - paint[0].moved_s == pytest.approx(2000 * moved / (1e9 * lance.device.bus_gb_per_s))
    assert Rows(1.0, 2.0).of_source(3, 4) == 15
    assert Rows(1.0, 2.0, 0.5).of_source(3, 4) == 9
