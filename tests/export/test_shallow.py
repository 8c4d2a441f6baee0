"""The exported forms of a denoiser whose deep features serve several steps, against the whole network of diffusers'
modules in which they are overwritten.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from diffusers import ControlNetModel, UNet2DConditionModel
from exporter import parsed

from counterfactory.engine.models.networks import networks_of
from counterfactory.engine.models.plan_facts import plan_facts
from counterfactory.engine.profile.paint import ReuseSettings
from counterfactory.engine.profile.profile import load_profile
from counterfactory.export.graphs import modules
from counterfactory.export.graphs.parity import relative_error
from counterfactory.export.production import command, denoiser, reuse
from counterfactory.export.production.artefact import Asked
from counterfactory.export.production.graph import exported_networks, names_of

# Layers of attention to the text at the latents' own size, as Stable Diffusion has them, and two layers a block.
WIDE: dict[str, Any] = {"layers_per_block": 2, "block_out_channels": (16, 16, 24, 24), "cross_attention_dim": 12}
WIDE |= {"attention_head_dim": 4, "norm_num_groups": 8}


def wide(controls: int) -> tuple[UNet2DConditionModel, list[ControlNetModel]]:
    torch.manual_seed(0)
    unet = UNet2DConditionModel(sample_size=16, **WIDE).eval()
    widths = (8, 16)
    controlnets = [ControlNetModel(**WIDE, conditioning_embedding_out_channels=widths).eval() for _ in range(controls)]
    for one in controlnets:
        denoiser.fill_zero_convolutions(one)
    return unet, controlnets


@torch.no_grad()
@pytest.mark.parametrize("controls", [1, 2])
def test_shallow_layers_are_the_whole_network_s(controls: int) -> None:
    unet, controlnets = wide(controls)
    shallow, whole = modules.ShallowDenoiser(unet, *controlnets), modules.WholeDenoiser(unet, *controlnets)
    fused, several = modules.FusedDenoiser(unet, *controlnets), (controls,) if controls > 1 else ()
    given = {"latents": torch.randn(2, 4, 16, 16), "timestep": torch.tensor([800, 100]), "text": torch.randn(2, 5, 12)}
    given |= {"hint_embedding": torch.randn(2, *several, 16, 16, 16), "control_scale": torch.rand(2, *several) + 0.5}
    others = {**given, "latents": torch.randn(2, 4, 16, 16), "text": torch.randn(2, 5, 12)}
    predicted, deep = whole(**given)
    assert torch.equal(predicted, fused(**given))
    assert relative_error(shallow(**given, deep=deep), predicted) < 1e-5
    _, before = whole(**others)

    def overwritten(_: Any, passed: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        return torch.cat([before, passed[0][:, before.shape[1] :]], 1), *passed[1:]

    hook = unet.up_blocks[-1].resnets[1].register_forward_pre_hook(overwritten)
    reference = fused(**given)
    hook.remove()
    assert relative_error(shallow(**given, deep=before), reference) < 1e-5
    assert relative_error(reference, predicted) > 1e-2
    for name in given:  # of all that is read each moves the answer
        moved = {**given, name: given[name] * 0 + 1}
        assert relative_error(shallow(**moved, deep=before), reference) > 1e-4, name
    assert shallow.reads_text
    held = {id(one) for one in shallow.parameters()}
    assert held < {id(one) for one in fused.parameters()}
    assert sum(one.numel() for one in shallow.parameters()) < 0.12 * sum(one.numel() for one in fused.parameters())


def test_a_profile_that_uses_features_again_exports_both_forms(tmp_path: Path) -> None:
    profile = load_profile("a10g")
    plain, again = (replace(profile, paint=replace(profile.paint, reuse=one)) for one in (None, ReuseSettings(2)))
    requests = [command._request(parsed("--random", "--small"), one) for one in (plain, again)]
    assert set(command.graphs_of(requests[1])) - set(command.graphs_of(requests[0])) == {"denoiser_shallow"}
    graphs = [command.graphs_of(one)["denoiser"]() for one in requests]
    assert [graph.outputs for graph in graphs] == [("prediction",), ("prediction", "deep")]
    shallow = command.graphs_of(requests[1])["denoiser_shallow"]()
    # No layer of the small networks' first block reads the text.
    assert list(shallow.inputs) == ["latents", "timestep", "hint_embedding", "control_scale", "deep"]
    assert [set(plan) for plan in shallow.plan] == [set(shallow.inputs)] * len(requests[1].pictures)
    with torch.no_grad():
        predicted, deep = graphs[1].module(*graphs[1].inputs.values())
        given = {**graphs[1].inputs, "deep": deep}
        found = shallow.module(*(given[name] for name in shallow.inputs))
    assert shallow.inputs["deep"].shape == deep.shape
    assert relative_error(found, predicted) < 1e-5
    made = [reuse.made_of("denoiser", one, Asked()) for one in requests]
    assert made[0] != made[1]
    assert "deep" not in (made[0] or {})


def test_plans_and_rows_of_both_forms() -> None:
    profile = load_profile("a10g")
    again = replace(profile, paint=replace(profile.paint, denoiser="denoiser_lcm_int8", reuse=ReuseSettings(2)))
    networks = networks_of(again)
    whole, shallow = networks["denoiser"], networks["denoiser_shallow"]
    assert (whole.rows["paint"].per_variant, shallow.rows["paint"].per_variant) == (16, 14)
    assert (whole.form, shallow.form) == ("whole", "shallow")
    assert (whole.plan, shallow.plan) == ("denoiser_lcm_int8", "denoiser_lcm_shallow")
    assert set(shallow.sizes) == {"latents", "hint_embedding", "deep"}
    assert set(whole.sizes) == {"latents", "hint_embedding"}
    assert names_of(again)["denoiser_shallow"] == "denoiser_lcm_shallow"
    assert plan_facts(again)["denoiser_lcm_shallow"].flops < 0.25 * plan_facts(again)["denoiser"].flops
    cpu = load_profile("pocket-full")
    cut = replace(cpu, paint=replace(cpu.paint, reuse=ReuseSettings(2)))
    assert networks_of(cut)["denoiser_shallow"].plan == "denoiser_shallow"
    assert "deep" not in networks_of(cut)["denoiser_shallow"].sizes
    assert "denoiser_shallow" not in exported_networks(cut)  # OpenVINO cuts it from the denoiser's file
    assert "denoiser_shallow" in exported_networks(again)
