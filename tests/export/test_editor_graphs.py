"""What a box's export makes for a profile that inverts: an editor and an encoder of pictures, and no hints."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from unittest import mock

import pytest
import torch
from exporter import parsed
from torch.utils.flop_counter import FlopCounterMode

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.models.plan_facts import plan_facts
from counterfactory.engine.profile.profile import Profile, load_profile
from counterfactory.engine.profile.runtime import ModelPaths
from counterfactory.export.graphs.parity import assert_parity
from counterfactory.export.production import command, denoiser, reuse, vae
from counterfactory.export.production.artefact import Asked
from counterfactory.export.production.graph import Graph, Request
from counterfactory.export.production.workspace import Workspace


def inverting(control_scale: float = 0.0) -> Profile:
    """LANCE's profile, and with a scale a ControlNet beside."""
    paint, usual = replace(load_profile("lance").paint, control_scale=control_scale), load_profile("a10g").weights
    return replace(load_profile("lance"), paint=paint, **({"weights": usual} if control_scale else {}))


def request(profile: Profile) -> Request:
    return command._request(parsed("--random", "--small"), profile)


def nobody(graph: Graph) -> dict[str, torch.Tensor]:
    """The inputs, of rows that follow nobody: they are the UNet's alone."""
    given = graph.inputs
    own = {"self_rows": torch.arange(2), "cross_map": 0 * given["cross_map"]}
    return {**given, **own, "cross_own": torch.ones_like(given["cross_own"])}


def test_an_editor_stands_in_the_denoiser_s_place() -> None:
    painted, edited = request(load_profile("a10g")), request(inverting())
    others = set(command.graphs_of(painted)) & set(command.graphs_of(edited))
    assert set(command.graphs_of(painted)) - others == {"hint"}
    assert set(command.graphs_of(edited)) - others == {"vae_encoder"}
    assert (painted.plan("denoiser"), edited.plan("denoiser")) == ("denoiser", "editor")
    graph = command.graphs_of(edited)["denoiser"]()
    assert list(graph.inputs)[:3] == ["latents", "timestep", "text"]
    assert "hint_embedding" not in graph.inputs
    assert graph.outputs == ("prediction", "attention")
    assert [set(plan) for plan in graph.plan] == [set(graph.inputs)] * len(edited.pictures)
    with torch.no_grad():
        prediction, attention = graph.module(*graph.inputs.values())
        inputs = nobody(graph)
        plain, _ = graph.module(*inputs.values())
        unet = denoiser.build_unet(edited)
        wanted = unet(*(inputs[name] for name in ("latents", "timestep", "text")), return_dict=False)[0]
    assert_parity(plain, wanted, "f32")
    assert prediction.shape == wanted.shape
    assert attention.shape[0] == 2
    made = [reuse.made_of("denoiser", one, Asked()) for one in (painted, edited)]
    assert made[0] != made[1]


@pytest.mark.parametrize("controls", [1, 2])
def test_an_editor_follows_hints_as_the_denoiser_does_where_the_profile_has_a_scale(controls: int) -> None:
    edited = replace(request(inverting(1.0)), controls=controls)
    hints = set(command.graphs_of(edited)) - set(command.graphs_of(request(inverting())))
    assert hints == {"hint", "hint_1"} if controls > 1 else {"hint"}
    graph = command.graphs_of(edited)["denoiser"]()
    assert list(graph.inputs)[-2:] == ["hint_embedding", "control_scale"]
    assert [set(plan) for plan in graph.plan] == [set(graph.inputs)] * len(edited.pictures)
    painter = denoiser.denoiser_graph(replace(edited, editor=None))
    assert graph.axes["hint_embedding"] == painter.axes["hint_embedding"]
    assert [plan["hint_embedding"] for plan in graph.plan] == [plan["hint_embedding"] for plan in painter.plan]
    inputs = nobody(graph)
    if controls > 1:
        inputs["control_scale"] = torch.tensor([[0.5, 1.0], [2.0, 0.0]])
    with torch.no_grad():
        found, _ = graph.module(*inputs.values())
        wanted = painter.module(*(inputs[name] for name in painter.inputs))
    assert_parity(found, wanted, "f32")
    made = [reuse.made_of("denoiser", request(inverting(scale)), Asked()) for scale in (0.0, 1.0)]
    assert made[0] != made[1]


def test_pictures_become_the_latents_that_the_autoencoder_means() -> None:
    edited = request(inverting())
    graph = vae.encoder_graph(edited)
    autoencoder = vae.build(edited)
    with torch.no_grad():
        found = graph.module(*graph.inputs.values())
        wanted = autoencoder.encode(graph.inputs["pixel_values"]).latent_dist.mode() * autoencoder.config.scaling_factor
    assert_parity(found, wanted, "f32")
    assert [set(plan) for plan in graph.plan] == [{"pixel_values"}] * len(edited.pictures)


def test_int8_of_an_editor_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "load_profile", lambda name: inverting())
    with pytest.raises(CounterfactoryError, match="--int8 is calibrated by painting from noise, and profile lance inv"):
        command.run(parsed("--random", "--small", "--int8", "--out", "nowhere"))


def test_plans_beside_others_of_which_nothing_is_known_are_not_compiled(tmp_path: Path) -> None:
    """facts.json of an export before this profile's: it has no editor's encoder."""
    graph = tmp_path / "onnx" / "editor" / "model.onnx"
    graph.parent.mkdir(parents=True)
    graph.write_bytes(b"0" * 1000)
    lance = replace(inverting(), models=ModelPaths(str(tmp_path)))
    assert Workspace(lance, tmp_path).of("editor", graph) is not None
    rows = [{**asdict(fact), "name": name} for name, fact in plan_facts(lance).items() if name != "vae_encoder"]
    (tmp_path / "facts.json").write_text(json.dumps(rows))
    with pytest.raises(
        CounterfactoryError, match="knows nothing of vae_encoder, which stage paint holds beside editor"
    ):
        Workspace(lance, tmp_path).of("editor", graph)


def test_the_facts_of_an_editor_are_those_of_its_modules() -> None:
    """Operations of a row at 512 x 512, two for each multiply-accumulate, and weights in fp16."""
    facts = plan_facts(replace(inverting(), models=ModelPaths("/nowhere")))
    full, empty = replace(request(inverting()), small=False), {"normal": lambda _, *shape: torch.zeros(shape)}
    with mock.patch.multiple(denoiser, **empty), mock.patch.multiple(vae, **empty), torch.device("meta"):
        made = {"editor": denoiser.denoiser_graph(full), "vae_encoder": vae.encoder_graph(full)}
        for name, graph in made.items():
            shapes = {port: (1, *shape.max[1:]) for port, shape in graph.plan[0].items()}
            inputs = [torch.zeros(shape, dtype=graph.inputs[port].dtype) for port, shape in shapes.items()]
            with FlopCounterMode(display=False) as counted, torch.no_grad():
                graph.module(*inputs)
            assert facts[name].flops == pytest.approx(counted.get_total_flops(), rel=1e-3)
            assert 0 <= facts[name].weight_bytes - 2 * graph.parameters < 1e6, "the graph's own description"
