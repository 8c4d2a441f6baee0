"""One folder for several profiles: what they share is exported once, and what differs has a name of its own."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from exporter import parsed

from counterfactory.engine.models.networks import library_of, networks_of
from counterfactory.engine.models.plan_facts import plan_facts
from counterfactory.engine.profile.profile import load_profile
from counterfactory.engine.runtime.plans import onnx_digest, read_key
from counterfactory.export.production import command, reuse
from counterfactory.export.production.artefact import Asked, Row
from counterfactory.export.production.graph import Graph, Request

BOX = ("a10g", "a10g-fast", "lance")


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exports in this process, which has torch loaded."""
    monkeypatch.setattr(command, "_alone", lambda work, *arguments: work(*arguments))


@pytest.fixture
def untraced(here: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Networks are built and none is traced: what is written is a manifest with the content of an empty graph."""

    def export_graph(build: Callable[[], Graph], out: Path, asked: Asked, **_: Any) -> list[Row]:
        graph = build()
        path = out / "onnx" / graph.name / "model.onnx"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{graph.name} {asked.precision}")
        path.with_name("manifest.json").write_text(json.dumps({"name": graph.name, "onnx_sha256": onnx_digest(path)}))
        values = dict.fromkeys((one.name for one in fields(Row)), 0)
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
    assert names[1] - names[0] == {"denoiser_lcm"}
    assert names[2] - names[0] == {"opt_decoder_beams", "blip2_vision_beams", "editor", "vae_encoder"}
    assert names[0] - names[2] == {"opt_decoder", "blip2_vision", "denoiser", "hint"}
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
    assert graphs == {"hint", "denoiser", "denoiser_lcm"}
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert {row["name"] for row in json.loads((tmp_path / "export.json").read_text())} == graphs
    manifest = json.loads((tmp_path / "onnx" / "denoiser_lcm" / "manifest.json").read_text())
    assert manifest["name"] == "denoiser_lcm"


def test_a_graph_is_made_anew_when_it_is_of_something_else(untraced: None, tmp_path: Path) -> None:
    for said in ((), ("--precision", "fp32"), ("--precision", "fp32", "--again")):
        assert export(tmp_path, "a10g", "--only", "hint", *said)[0] == "hint ..."
    assert export(tmp_path, "a10g", "--only", "hint", "--precision", "fp32")[0].startswith("hint: exported before")
    manifest = tmp_path / "onnx" / "hint" / "manifest.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "onnx_sha256": "0" * 64}))
    assert export(tmp_path, "a10g", "--only", "hint", "--precision", "fp32")[0] == "hint ..."


def test_a_kept_graph_is_only_compiled(here: None, tmp_path: Path) -> None:
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
    (tmp_path / "plans" / "hint.plan.json").unlink()
    assert export(tmp_path, "a10g", *plans)[0] == "hint: exported before, compiled ..."
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
