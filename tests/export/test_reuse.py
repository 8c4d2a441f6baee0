"""Profiles of a box: one folder for several, where what they share is exported once and what differs has a name of its
own; and what is made for a profile that inverts, an editor and an encoder of pictures, and no hints.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import asdict, fields, replace
from itertools import combinations
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
from exporter import parsed
from torch.utils.flop_counter import FlopCounterMode

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.models.networks import library_of, networks_of
from counterfactory.engine.models.plan_facts import plan_facts
from counterfactory.engine.profile.profile import Profile, load_profile
from counterfactory.engine.profile.runtime import ModelPaths
from counterfactory.engine.runtime.plans import onnx_digest, read_key
from counterfactory.export.graphs.parity import assert_parity
from counterfactory.export.production import command, denoiser, reuse, vae
from counterfactory.export.production.artefact import Asked, Row
from counterfactory.export.production.graph import Graph, Request
from counterfactory.export.production.workspace import Workspace

BOX = ("a10g", "a10g-fast", "lance")


@pytest.fixture
def untraced(here: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Networks are built and none is traced: what is written is a manifest with the content of an empty graph."""

    def export_graph(build: Callable[[], Graph], out: Path, asked: Asked, **_: Any) -> list[Row]:
        graph = build()
        path = out / "onnx" / graph.name / "model.onnx"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{graph.name} {asked.precision}")
        manifest = {"name": graph.name, "onnx_sha256": onnx_digest(path), "activation_bytes": 0, "profiles": graph.plan}
        path.with_name("manifest.json").write_text(json.dumps(manifest, default=asdict))
        values = dict.fromkeys((one.name for one in fields(Row)), 0) | {"onnx_bytes": path.stat().st_size}
        return [Row(**values | {"name": graph.name, "islands": (), "fp32_layers": ()})]

    monkeypatch.setattr(command, "export_graph", export_graph)


def export(out: Path, profile: str, *said: str) -> list[str]:
    """What the command says while it exports two networks of the small random set, or those that are said."""
    lines: list[str] = []
    usual = ("--random", "--small", "--only", "hint,denoiser", "--islands", "timestep,normalisation")
    assert command.run(parsed(*usual, "--out", str(out), "--profile", profile, *said), lines.append) == 0
    return lines


def test_profiles_of_the_box_share_a_folder_and_what_is_equal() -> None:
    """A plan of one name is of one batch and of one origin, whichever profile it is exported for."""
    profiles = [load_profile(name) for name in BOX]
    assert len({library_of(profile).folder for profile in profiles}) == 1
    assert len({library_of(profile).llm_path for profile in profiles}) == 1
    for one, other in combinations(profiles, 2):
        requests = [command._request(parsed("--profile", profile.name), profile) for profile in (one, other)]
        for network in networks_of(one):
            if network.name == "llm" or network.name not in networks_of(other):
                continue
            twin = networks_of(other)[network.name]
            made = [reuse.made_of(network.name, request, Asked()) for request in requests]
            assert made[0] is not None
            if network.plan == twin.plan:
                assert (network.batch, network.sizes) == (twin.batch, twin.sizes)
                assert made[0] == made[1], (one.name, other.name, network.name)
            else:
                assert made[0] != made[1], f"{network.plan} and {twin.plan} are the same"
    names = [set(networks_of(profile).plans) for profile in profiles]
    assert names[1] - names[0] == {"denoiser_hyper", "vae_decoder_tiny"}
    assert names[2] - names[0] == {"opt_decoder_beams", "blip2_vision_beams", "editor", "vae_encoder"}
    assert names[0] - names[2] == {"opt_decoder", "blip2_vision", "denoiser", "denoiser_shallow", "hint"}
    for profile in profiles:
        assert plan_facts(profile).keys() >= set(networks_of(profile).plans)


def test_beams_are_the_same_plan_to_openvino() -> None:
    pocket = load_profile("pocket")
    decoding = replace(pocket.caption.decoding, mode="beam", beams=3)
    beams = replace(pocket, caption=replace(pocket.caption, decoding=decoding))
    assert networks_of(beams).plans == networks_of(pocket).plans


def test_only_what_differs_is_exported_again(untraced: None, tmp_path: Path) -> None:
    first = export(tmp_path, "a10g")
    assert [line for line in first if line.endswith("...")] == ["hint ...", "denoiser ..."]
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("model.onnx")}
    second = export(tmp_path, "a10g-fast")
    assert second[0] == "hint: exported before; say --again to make it anew"
    assert [line for line in second if line.endswith("...")] == ["denoiser ..."]
    graphs = {path.parent.name for path in tmp_path.rglob("model.onnx")}
    assert graphs == {"hint", "denoiser", "denoiser_hyper"}
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert {row["name"] for row in json.loads((tmp_path / "export.json").read_text())} == graphs
    manifest = json.loads((tmp_path / "onnx" / "denoiser_hyper" / "manifest.json").read_text())
    assert manifest["name"] == "denoiser_hyper"


def test_a_graph_is_made_anew_when_it_is_of_something_else(untraced: None, tmp_path: Path) -> None:
    for said in ((), ("--precision", "fp32"), ("--precision", "fp32", "--again")):
        assert export(tmp_path, "a10g", "--only", "hint", *said)[0] == "hint ..."
    assert export(tmp_path, "a10g", "--only", "hint", "--precision", "fp32")[0].startswith("hint: exported before")
    manifest = tmp_path / "onnx" / "hint" / "manifest.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "onnx_sha256": "0" * 64}))
    assert export(tmp_path, "a10g", "--only", "hint", "--precision", "fp32")[0] == "hint ..."


def test_what_another_commit_wrote_or_a_copy_cut_is_made_anew(untraced: None, tmp_path: Path) -> None:
    """By the same command, and what is whole beside it stays."""
    export(tmp_path, "a10g")
    hint = tmp_path / "onnx" / "hint"
    manifest, record = hint / "manifest.json", tmp_path / "export.json"
    known: dict[str, Any] = json.loads(manifest.read_text())
    other = [{"latents": {"least": [1], "most": [2]}}]
    for damaged in (
        *(
            json.dumps({name: value for name, value in known.items() if name != gone})
            for gone in known
            if gone != "name"
        ),
        *(json.dumps(known | {"profiles": profiles}) for profiles in (other, [], None, {"min": [1]})),
        *(json.dumps(known | {"activation_bytes": count}) for count in (None, "much", -1)),
        *("", "[]", "null", json.dumps(known)[:-9]),
    ):
        manifest.write_text(damaged)
        assert export(tmp_path, "a10g")[0] == "hint ...", damaged
        assert export(tmp_path, "a10g")[0].startswith("hint: exported before"), damaged
    for file, text in ((hint / "model.onnx", "hi"), (hint / "made_of.json", "[")):
        file.write_text(text)
        said = export(tmp_path, "a10g")
        assert [line for line in said if line.endswith("...")] == ["hint ..."], file
    rows = json.loads(record.read_text())
    less = [{name: value for name, value in row.items() if name != "parameters"} for row in rows]
    for damaged in (json.dumps(less), json.dumps([{**row, "more": 1} for row in rows]), "[{", "{}", "null", "[3]"):
        record.write_text(damaged)
        assert [line for line in export(tmp_path, "a10g") if line.endswith("...")] == ["hint ...", "denoiser ..."]
        assert {row["name"] for row in json.loads(record.read_text())} == {"hint", "denoiser"}


def test_a_kept_graph_is_only_compiled(here: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cuda.bindings.runtime", None)
    pytest.importorskip("tensorrt_rtx", reason="tensorrt_rtx is not installed: that kept graphs compile goes unchecked")
    plans = ("--only", "hint", "--plans", "--library", "tensorrt-rtx")
    export(tmp_path, "a10g", "--only", "hint")
    said = export(tmp_path, "a10g", *plans)
    assert said[0] == "hint: exported before, compiled ..."
    key = read_key(tmp_path / "plans" / "hint.plan")
    (row,) = json.loads((tmp_path / "export.json").read_text())
    assert row["compiled"]
    assert row["library"] == key.library
    assert row["parity_error"] > 0
    assert export(tmp_path, "a10g", *plans)[0] == "hint: exported before; say --again to make it anew"
    for target in ("sm75", "sm80", "sm89", "sm120"):  # another card's plan takes the place of this one's
        assert export(tmp_path, "a10g", *plans, "--target", target)[0] == "hint: exported before, compiled ..."
        assert read_key(tmp_path / "plans" / "hint.plan").device == target.upper()
    plan = tmp_path / "plans" / "hint.plan"
    plan.with_name("hint.plan.json").unlink()
    assert export(tmp_path, "a10g", *plans)[0] == "hint: exported before, compiled ..."
    whole = plan.read_bytes()
    for damaged in (whole[: len(whole) // 2], b"", whole[:-1] + bytes([whole[-1] ^ 1])):
        plan.write_bytes(damaged)
        assert export(tmp_path, "a10g", *plans)[0] == "hint: exported before, compiled ..."
        assert plan.stat().st_size == len(whole)
    key = json.loads(plan.with_name("hint.plan.json").read_text())
    plan.with_name("hint.plan.json").write_text(json.dumps(key | {"library": "tensorrt_rtx 1.6.0.1"}))
    assert export(tmp_path, "a10g", *plans)[0] == "hint: exported before, compiled ..."
    assert export(tmp_path, "a10g", *plans)[0] == "hint: exported before; say --again to make it anew"
    export(tmp_path, "a10g", "--only", "hint", "--again")
    assert export(tmp_path, "a10g", *plans)[0] == "hint: exported before, compiled ..."
    assert json.loads((tmp_path / "export.json").read_text())[0]["compiled"]
    for target, said in (("sm90", "compiles for sm75"), ("this", "cuda-bindings")):
        with pytest.raises(CounterfactoryError, match=said):
            command.run(parsed("--random", "--small", *plans, "--target", target, "--out", str(tmp_path)))
    (tmp_path / "plans" / "hint.plan").unlink()
    (tmp_path / "onnx" / "hint" / "model.onnx").unlink()
    assert export(tmp_path, "a10g", *plans)[0] == "hint ..."


def test_weights_in_a_folder_are_exported_each_time(tmp_path: Path) -> None:
    profile = load_profile("a10g")
    request = command._request(parsed("--clip", str(tmp_path)), profile)
    assert reuse.made_of("clip_text", request, Asked()) is None
    assert reuse.made_of("blip2_vision", request, Asked()) is not None
    commit = f"openai/clip-vit-large-patch14@{'a1' * 20}"
    other = reuse.made_of("clip_text", command._request(parsed("--clip", commit), profile), Asked())
    usual = reuse.made_of("clip_text", command._request(parsed(), profile), Asked())
    assert other is not None
    assert other != usual


def test_the_hints_of_several_controlnets_are_known_by_the_first_ones_rows() -> None:
    two = Request(small=True, controls=2)
    first, second = (reuse.made_of(name, two, Asked()) for name in ("hint", "hint_1"))
    assert first is not None
    assert first == second


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
    assert set(command.graphs_of(painted)) - others == {"hint", "denoiser_shallow"}
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
    said = "knows nothing of vae_encoder, which stage paint holds beside editor"
    with pytest.raises(CounterfactoryError, match=said):
        Workspace(lance, tmp_path).of("editor", graph)


def test_facts_are_those_of_the_modules() -> None:
    """Operations of a row at 512 x 512, two for each multiply-accumulate, and weights in fp16."""
    nowhere, box = ModelPaths("/nowhere"), load_profile("a10g")
    assert box.weights is not None
    tiny = replace(box, models=nowhere, weights=replace(box.weights, tiny_vae="somewhere/taesd"))
    editing = plan_facts(replace(inverting(), models=nowhere))
    facts = {**plan_facts(tiny), "editor": editing["editor"], "vae_encoder": editing["vae_encoder"]}
    full, empty = replace(request(inverting()), small=False), {"normal": lambda _, *shape: torch.zeros(shape)}
    with mock.patch.multiple(denoiser, **empty), mock.patch.multiple(vae, **empty), torch.device("meta"):
        made = {"editor": denoiser.denoiser_graph(full), "vae_encoder": vae.encoder_graph(full)}
        made["vae_decoder_tiny"] = vae.decoder_graph(replace(full, tiny_vae=True))
        for name, graph in made.items():
            shapes = {port: (1, *shape.max[1:]) for port, shape in graph.plan[0].items()}
            inputs = [torch.zeros(shape, dtype=graph.inputs[port].dtype) for port, shape in shapes.items()]
            with FlopCounterMode(display=False) as counted, torch.no_grad():
                graph.module(*inputs)
            assert facts[name].flops == pytest.approx(counted.get_total_flops(), rel=1e-3)
            assert 0 <= facts[name].weight_bytes - 2 * graph.parameters < 1e6, "the graph's own description"
