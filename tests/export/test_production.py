"""The production networks' way from a module to its artefact: graphs, plans, scratch memory, the command, and what
`export facts` counts of the graphs in a folder.
"""

from __future__ import annotations

import errno
import json
import os
import pickle
import re
import shutil
import signal
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import onnx
import openvino as ov
import pytest
import torch
from exporter import parsed
from onnx import TensorProto, helper, numpy_helper
from small_graphs import saved
from torch import nn

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.keys import content_key, file_digest
from counterfactory.engine.models.networks import networks_of
from counterfactory.engine.models.plan_facts import plan_facts
from counterfactory.engine.profile.profile import Profile, load_profile
from counterfactory.engine.profile.runtime import ModelPaths
from counterfactory.engine.runtime.opening import is_unplanned, plan_state
from counterfactory.engine.runtime.openvino import open_session
from counterfactory.engine.runtime.plans import onnx_digest, read_key
from counterfactory.engine.runtime.session import Array, row_axis
from counterfactory.export.graphs.parity import assert_parity, relative_error
from counterfactory.export.graphs.weights import digest, fill
from counterfactory.export.precision.stored import Stored
from counterfactory.export.production import artefact, blip2, command, denoiser, examples
from counterfactory.export.production.artefact import Asked, Row, export_graph
from counterfactory.export.production.aside import alone
from counterfactory.export.production.facts import facts
from counterfactory.export.production.graph import Graph, Request, static
from counterfactory.export.production.workspace import Workspace

SMALL = Request(small=True)


# --- the way to an artefact ---


class Mixing(nn.Module):
    """Everything that the export treats apart, in two layers: a product, a norm and attention's softmax."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(24, 32), nn.LayerNorm(32), nn.Linear(32, 8)
        fill(self, 3)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        mixed = self.norm(self.first(states))
        out: torch.Tensor = self.last((mixed @ mixed.transpose(1, 2) / 6).softmax(-1) @ mixed)
        return out


def mixing() -> Graph:
    inputs = {"states": torch.randn(2, 5, 24, generator=torch.Generator().manual_seed(1))}
    return Graph("mixing", Mixing().eval(), inputs, ("mixed",), {"states": {0: "batch"}}, static(2, inputs))


def ran(path: Path, feeds: dict[str, Array]) -> dict[str, Array]:
    """Through OpenVINO, which had no part in making it."""
    compiled = ov.Core().compile_model(path, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    found = compiled(feeds)
    return {port.get_any_name(): found[port] for port in compiled.outputs}


def error_of(run: Callable[[dict[str, Array]], dict[str, Array]], rows: int) -> float:
    """What a form of Mixing errs on fresh rows."""
    states = torch.randn(rows, 5, 24)
    with torch.no_grad():
        return relative_error(run({"states": states.numpy()})["mixed"], Mixing()(states).numpy())


@pytest.mark.parametrize("precision", ["fp16", "fp32"])
def test_an_artefact_says_what_it_is(tmp_path: Path, precision: Any) -> None:
    (row,) = export_graph(mixing, tmp_path, Asked(precision), random=True)
    path = tmp_path / "onnx" / "mixing" / "model.onnx"
    manifest = json.loads(path.with_name("manifest.json").read_text())
    assert manifest["onnx_sha256"] == onnx_digest(path)
    assert manifest["weights_sha256"] == digest(Mixing())
    assert (manifest["classes"], manifest["examples"]) == ([], "noise")
    assert manifest["inputs"] == [{"name": "states", "dtype": "float32", "shape": ["batch", 5, 24]}]
    assert manifest["outputs"] == [{"name": "mixed", "dtype": "float32", "shape": ["batch", 5, 8]}]
    assert manifest["parity"] == {"error": row.parity_error, "bound": row.parity_bound, "precision": precision}
    assert manifest["versions"]["onnx"] == onnx.__version__
    assert (manifest["random"], manifest["precision"], manifest["opset"]) == (True, precision, 23)
    shape = {"min": [2, 5, 24], "opt": [2, 5, 24], "max": [2, 5, 24]}
    assert manifest["profiles"] == [{"states": shape}]
    assert row.faults == []
    assert (row.compiled, row.why) == (False, "plans were not asked for")
    assert row.onnx_bytes == sum(file.stat().st_size for file in path.parent.iterdir() if "manifest" not in file.name)
    assert not (tmp_path / "work" / "mixing").exists()
    error = error_of(partial(ran, path), 7)
    assert error <= row.parity_bound
    if precision == "fp16":
        assert error > 1e-6
        stored = Stored.read(path)
        shapes = {stored.weight(name).shape: stored.weight(name).dtype for name in stored.weights()}
        assert shapes[24, 32] == np.float16  # the first layer, turned for ONNX


def test_openvinos_form_is_what_engines_on_cpus_open(tmp_path: Path) -> None:
    (row,) = export_graph(mixing, tmp_path, Asked("openvino"), random=True)
    path = tmp_path / "mixing.xml"
    assert {file.name for file in tmp_path.iterdir()} - {"cache"} == {"mixing.xml", "mixing.bin", "onnx"}
    manifest = json.loads((tmp_path / "onnx" / "mixing" / "manifest.json").read_text())
    assert manifest["onnx_sha256"] == content_key([file_digest(path), file_digest(path.with_suffix(".bin"))])
    assert manifest["inputs"] == [{"name": "states", "dtype": "float32", "shape": [None, 5, 24]}]
    assert manifest["outputs"] == [{"name": "mixed", "dtype": "float32", "shape": [None, 5, 8]}]
    assert (manifest["precision"], manifest["weights_sha256"]) == ("openvino", digest(Mixing()))
    assert row.onnx_bytes == path.stat().st_size + path.with_suffix(".bin").stat().st_size
    constants = (op for op in ov.Core().read_model(path).get_ops() if op.get_type_name() == "Constant")
    assert {op.get_element_type().get_type_name() for op in constants if op.data.size > 100} == {"f16"}
    session = open_session(path, batch=4, precision="f32")
    assert 1e-6 < error_of(session.run, 4) <= row.parity_bound
    assert row.faults == []


def test_islands_that_are_given_are_not_looked_for(tmp_path: Path) -> None:
    (row,) = export_graph(mixing, tmp_path, Asked(islands=("softmax",)), random=True)
    assert row.islands == ("softmax",)
    manifest = json.loads((tmp_path / "onnx" / "mixing" / "manifest.json").read_text())
    assert (manifest["islands"], manifest["measured"]) == (["softmax"], {})
    nodes = onnx.load(str(tmp_path / "onnx" / "mixing" / "model.onnx")).graph.node
    assert {node.op_type for node in nodes if node.name.startswith("island/")} == {"Softmax"}


# --- scratch memory ---


def profile_of(memory_gb: float, **paint: Any) -> Profile:
    usual = load_profile("a10g")
    runtime, paints = replace(usual.runtime, memory_gb=memory_gb), replace(usual.paint, **paint)
    return replace(usual, runtime=runtime, paint=paints, models=ModelPaths("/nowhere"))


def test_a_plan_may_take_its_share_of_what_the_device_leaves(tmp_path: Path) -> None:
    """By hand: nine tenths of 24 GB, less the plans of the stage with a quarter beside their weights, shared evenly."""
    profile = profile_of(24)
    weights = {name: fact.weight_bytes for name, fact in plan_facts(profile).items()}
    graph = tmp_path / "own" / "model.onnx"
    graph.parent.mkdir()
    for name, size in (("model.onnx", 600), ("model.onnx.data", 400), ("manifest.json", 77)):
        graph.with_name(name).write_bytes(b"0" * size)

    def assert_share(plan: str, held: float, profile: Profile = profile) -> None:
        assert Workspace(profile, tmp_path).of(plan, graph) == pytest.approx((0.9 * 24e9 - held) / 2, abs=5)

    others = ("clip_text", "hint", "vae_decoder", "denoiser_shallow")
    kept = networks_of(profile)["denoiser"].kept_bytes  # what painting holds beside its plans
    paint = sum(1.25 * weights[name] for name in others) + 1.25 * 1000 + kept
    assert_share("denoiser", paint)
    assert_share("clip_image", 1.25 * 1000 + 1.25 * weights["clip_text"])
    # The text encoder is open in both, and painting leaves less to each of its plans.
    assert_share("clip_text", paint - 1.25 * weights["clip_text"] + 1.25 * weights["denoiser"])
    # What a profile does without would be one more to paint with, and another form of the denoiser stands in its place.
    for extra in ("hed", "hint_1"):
        assert_share(extra, paint + 1.25 * weights["denoiser"])
    assert_share("denoiser", paint, profile_of(24, denoiser="denoiser_int8"))
    # A graph that was exported already counts as it is.
    (tmp_path / "onnx" / "hint").mkdir(parents=True)
    (tmp_path / "onnx" / "hint" / "model.onnx").write_bytes(b"0" * 4)
    assert_share("denoiser", paint - 1.25 * (weights["hint"] - 4))
    assert Workspace(profile_of(0), tmp_path).of("denoiser", graph) is None
    said = rf"stage paint holds clip_text .* denoiser {1000 + kept:,} .* leaves 0,.*; lower \[paint\] batch .*memory_gb"
    with pytest.raises(CounterfactoryError, match=said):
        Workspace(profile_of(0.4), tmp_path).of("denoiser", graph)


def test_scratch_memory_is_never_less_than_the_graph_computes_in(tmp_path: Path) -> None:
    """Half of what is left where that is more, all that it needs where it fits, and else a sentence with the bytes."""
    graph = tmp_path / "own" / "model.onnx"
    graph.parent.mkdir()
    graph.write_bytes(b"0" * 1000)
    scratch = Workspace(profile_of(24), tmp_path)
    half = scratch.of("vae_decoder", graph)
    assert half is not None
    assert scratch.of("vae_decoder", graph, half // 2) == half
    assert scratch.of("vae_decoder", graph, half) == round(1.25 * half), "a compiler has buffers of its own"
    networks, weights = networks_of(profile_of(24)), plan_facts(profile_of(24))
    others = {network.plan for network in networks.of("paint")} - {"vae_decoder"}
    held = sum(weights[plan].weight_bytes for plan in others) + 1000 + networks["denoiser"].kept_bytes
    left = int(0.9 * 24e9) - held
    assert scratch.of("vae_decoder", graph, left) == left
    said = rf"leaves {left:,}, and vae_decoder computes in {left + 1:,} .*; lower \[paint\] decode_batch .* memory_gb"
    with pytest.raises(CounterfactoryError, match=said):
        scratch.of("vae_decoder", graph, left + 1)


# By the compiler that needs no GPU.
TO_PLANS = Asked(plans=True, library="tensorrt_rtx")


def compiled(build: Callable[[], Graph], out: Path, asked: Asked) -> list[Row]:
    return artefact.compile_rows(export_graph(build, out, asked, random=True), out, asked)


def test_the_compiler_is_told_and_the_plan_says(tmp_path: Path) -> None:
    rtx = pytest.importorskip("tensorrt_rtx", reason="tensorrt_rtx is not installed: what it is told goes unchecked")
    asked = replace(TO_PLANS, workspace=Workspace(profile_of(24), tmp_path), islands=("normalisation", "softmax"))
    (row,) = compiled(mixing, tmp_path, asked)
    wanted = Workspace(profile_of(24), tmp_path).of("mixing", tmp_path / "onnx" / "mixing" / "model.onnx")
    assert row.compiled, row.why
    assert row.workspace_bytes == wanted
    assert wanted is not None
    assert wanted > 10**9
    assert read_key(tmp_path / "plans" / "mixing.plan").workspace_bytes == wanted
    assert row.library == f"tensorrt_rtx {rtx.__version__}"
    (free,) = compiled(mixing, tmp_path, replace(asked, workspace=None))
    assert (free.compiled, free.workspace_bytes) == (True, None)
    assert read_key(tmp_path / "plans" / "mixing.plan").workspace_bytes is None


def test_a_device_without_room_is_said_and_the_graph_is_kept(tmp_path: Path) -> None:
    asked = replace(TO_PLANS, workspace=Workspace(profile_of(3), tmp_path), islands=("softmax",))
    (row,) = compiled(mixing, tmp_path, asked)
    assert not row.compiled
    assert row.why.startswith("stage paint holds")
    assert " of the 2,700,000,000 bytes that the device has for plans, which leaves 0, and mixing computes" in row.why
    assert not list((tmp_path / "plans").glob("*.plan"))
    assert (tmp_path / "onnx" / "mixing" / "manifest.json").is_file()


def test_the_command_takes_the_memory_of_its_profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Any] = {}

    def export_all(request: Request, out: Path, **rest: Any) -> list[str]:
        seen.update(rest, request=request)
        return []

    monkeypatch.setattr(command, "export_all", export_all)
    assert command.run(parsed("--out", str(tmp_path), "--random", "--profile", "lance")) == 0
    assert seen["asked"].workspace == Workspace(load_profile("lance"), tmp_path)
    assert pickle.loads(pickle.dumps(seen["asked"])) == seen["asked"], "each graph is made in a process of its own"


def test_a_graph_that_computes_something_else_is_no_artefact(tmp_path: Path) -> None:
    class Forgetful(Mixing):
        def forward(self, states: torch.Tensor) -> torch.Tensor:
            found = super().forward(states)
            return found * 1.01 if torch.compiler.is_exporting() else found

    with pytest.raises(CounterfactoryError, match=r"mixing in float32 is off by 1\.0\de-02, its bound is 1e-04"):
        export_graph(lambda: replace(mixing(), module=Forgetful().eval()), tmp_path, Asked(), random=True)
    assert not (tmp_path / "onnx").exists()


def write_manifest(out: Path, name: str) -> Path:
    manifest = out / "onnx" / name / "manifest.json"
    manifest.parent.mkdir(parents=True, exist_ok=True)
    manifest.write_text(json.dumps({"onnx_sha256": name}))
    return manifest


def test_the_command_writes_a_row_a_graph_and_says_what_failed(
    here: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = Row("hed", 1, "fp16", 1e-3, 1e-2, 9, ("softmax",), True, 5, 2.5, 3.5)
    made = {"hed": [row], "hint": [replace(row, name="hint", parity_error=0.5)]}

    def one(name: str, *_: Any) -> list[Row]:
        if name == "denoiser":
            raise CounterfactoryError("no weights of diffusion were named")
        write_manifest(tmp_path, name)
        return made[name]

    held: list[list[str]] = []

    def compiled(rows: list[Row], *_: Any) -> list[Row]:
        held.append([row.name for row in rows])
        return [replace(row, why="no library") for row in rows]

    monkeypatch.setattr(command, "export_one", one)
    monkeypatch.setattr(command, "compile_rows", compiled)
    faults = command.export_all(SMALL, tmp_path, only=["hed", "hint", "denoiser"], asked=Asked(plans=True))
    of_hint = ["hint is off by 5.00e-01, its bound is 0.01", "hint was not compiled: no library"]
    others = ["denoiser: no weights of diffusion were named", "hed was not compiled: no library"]
    assert faults == of_hint + others
    assert held == [["hint"], ["hed"]], "what was exported is compiled after it, on its own"
    made["hint"] = [replace(row, name="hint")]
    assert command.export_all(SMALL, tmp_path, only=["hint"], asked=Asked(), again=True) == []
    rows = {one["name"]: one for one in json.loads((tmp_path / "export.json").read_text())}
    assert list(rows) == ["hed", "hint"]
    assert rows["hint"]["parity_error"] == 1e-3
    assert rows["hed"]["islands"] == ["softmax"]
    with pytest.raises(CounterfactoryError, match="no graph head; there are opt_decoder"):
        command.export_all(SMALL, tmp_path, only=["head"], asked=Asked())


def test_how_far_an_export_is_counts_what_was_made_and_not_what_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is foretold by what is there already, which takes no time, nor by tiny graphs and those that failed."""
    clock, said = [0.0], list[str]()
    took = {"clip_text": 0.0, "hint": 20.0, "denoiser": 50.0, "vae_decoder": 30.0, "clip_image": 40.0, "hed": 10.0}
    written = {"clip_text": 1e9, "hint": 1e7, "vae_decoder": 2e9, "clip_image": 9e9, "hed": 1e9}

    def rows(name: str, *_: Any) -> list[Row]:
        clock[0] += took[name]
        if name == "denoiser":
            raise CounterfactoryError("no weights of diffusion were named")
        error = 1.0 if name == "clip_image" else 1e-3
        return [Row(name, 1, "fp16", error, 1e-2, int(written[name]), (), True, 5, 2.5, 3.5)]

    monkeypatch.setattr(command, "_rows", rows)
    monkeypatch.setattr(command, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    sizes = {"clip_text": 1.0, "hint": 0.01, "denoiser": 4.0, "vae_decoder": 2.0, "clip_image": 9.0, "hed": 1.0}
    command.export_all(SMALL, tmp_path, only=list(took), asked=Asked(), say=said.append, sizes=sizes)
    assert [line for line in said if line.startswith("graphs: ")] == [
        "graphs: 1.0 of 17.0 GB done",
        "graphs: 1.0 of 17.0 GB done",
        "graphs: 3.0 of 17.0 GB done",
        "graphs: 4.0 of 17.0 GB done",
    ]
    said.clear()
    sound = ["clip_text", "hint", "vae_decoder", "hed"]
    command.export_all(SMALL, tmp_path, only=sound, asked=Asked(), say=said.append, sizes=sizes)
    assert [line for line in said if line.startswith("graphs: ")] == [
        "graphs: 1.0 of 4.0 GB done",
        "graphs: 1.0 of 4.0 GB done",
        "graphs: 3.0 of 4.0 GB done, about 0:00:25 left",
        "graphs: 4.0 of 4.0 GB done",
    ]
    said.clear()
    command.export_all(SMALL, tmp_path, only=list(took), asked=Asked(), say=said.append)
    assert not [line for line in said if line.startswith("graphs: ")]


ASKED = ["--random", "--small", "--only", "hed,hint"]


def test_two_exports_into_one_folder_keep_out_of_each_others_way(
    here: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one says whose folder it is, and the first one goes on."""
    second = tmp_path / "second.txt"

    def one(name: str, request: Request, out: Path, *_: Any) -> list[Row]:
        with pytest.raises(
            CounterfactoryError, match=rf"{tmp_path} is in use by process \d+: wait until it ends, or name"
        ):
            command.run(parsed(*ASKED, "--out", str(out)))
        second.write_text("refused")
        write_manifest(out, name)
        return [Row(name, 1, "fp16", 1e-3, 1e-2, 9, (), True, 5, 2.5, 3.5)]

    monkeypatch.setattr(command, "export_one", one)
    assert command.run(parsed(*ASKED, "--out", str(tmp_path))) == 0
    assert second.is_file()
    assert command.run(parsed(*ASKED, "--out", str(tmp_path), "--again")) == 0, "let go of when it ends"


class Usage(NamedTuple):
    free: int


def killed(name: str, *_: Any) -> list[Row]:
    """As the system ends a process whose mapped page finds no room, and its files stay."""
    os.kill(os.getpid(), signal.SIGKILL)
    return []


def full(name: str, request: Request, out: Path, *_: Any) -> list[Row]:
    raise OSError(errno.ENOSPC, "No space left on device", str(out / "onnx" / name / "model.onnx.data"))


def failing(name: str, *_: Any) -> list[Row]:
    raise RuntimeError("a library found a disk too small")


@pytest.mark.parametrize(
    ("ends", "said"),
    [
        (
            full,
            r"cannot write .*onnx/hint/model\.onnx\.data: no space left .*; free some space and run the same command",
        ),
        (
            killed,
            r"the system ended its process, with .* GB of memory, .* GB of disk free now: make room and run the same",
        ),
        (
            failing,
            r"it failed on a full disk, with .* 0\.0 GB of disk free now: make room and run the same command again",
        ),
    ],
    ids=["full", "killed", "library"],
)
def test_no_room_is_one_sentence_and_the_same_command_goes_on(
    ends: Callable[..., list[Row]], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What comes before and after it is made all the same."""
    made: list[str] = []

    def ended(work: Callable[..., Any], *arguments: Any) -> Any:
        name, out = arguments[0], arguments[2]
        if name == "hint" and ends is not None:
            (out / "work" / name).mkdir(parents=True)
            (out / "plans").mkdir()
            (out / "plans" / f"{name}.plan.{os.getpid()}.tmp").touch()
            return alone(ends, *arguments) if ends is killed else ends(*arguments)
        made.append(name)
        write_manifest(out, name)
        return [Row(name, 1, "fp16", 1e-3, 1e-2, 9, (), True, 5, 2.5, 3.5)]

    monkeypatch.setattr(command, "alone", ended)
    free = 0 if ends is failing else 10**12
    monkeypatch.setattr(command, "shutil", SimpleNamespace(rmtree=shutil.rmtree, disk_usage=lambda _: Usage(free)))
    lines: list[str] = []
    words = ["--random", "--small", "--only", "clip_text,hint,hed", "--out", str(tmp_path)]
    assert command.run(parsed(*words), lines.append) == 1
    assert made == ["clip_text", "hed"]
    (fault,) = [line for line in lines if line.startswith("error: ")]
    assert re.match(rf"error: hint: {said}", fault), fault
    assert [*(tmp_path / "plans").iterdir()] == []
    assert not (tmp_path / "work").exists(), "what a process that was ended leaves takes the room of the next one"
    assert {row["name"] for row in json.loads((tmp_path / "export.json").read_text())} == {"clip_text", "hed"}


@pytest.mark.parametrize("fault", [RuntimeError("a library's"), FileNotFoundError(errno.ENOENT, "none", "weights")])
def test_a_fault_of_another_kind_is_no_want_of_room(
    fault: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> list[Row]:
        raise fault

    monkeypatch.setattr(command, "alone", fails)
    with pytest.raises(type(fault)) as found:
        command.run(parsed(*ASKED, "--out", str(tmp_path)))
    assert found.value is fault


@pytest.mark.parametrize(
    ("free_gb", "captioner", "compiled"),
    [(17.4, "6.7b", False), (17.6, "6.7b", True), (9.4, "2.7b", False), (9.6, "2.7b", True), (1.0, "florence2", True)],
)
def test_a_decoder_that_the_host_cannot_compile_is_said_first_and_gets_no_plan(
    free_gb: float, captioner: str, compiled: bool, here: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything is fetched; half of what is free is swap. It is left out and no fault, and found all the same."""
    monkeypatch.setattr(command, "free_memory", lambda: (int(free_gb * 5e8), int(free_gb * 5e8)))
    monkeypatch.setattr(command, "require_compiler", lambda *_: None)
    said, made, planned = list[str](), list[str](), list[str]()

    def one(name: str, request: Request, out: Path, *_: Any) -> list[Row]:
        assert compiled or "opt_decoder: compiling it takes" in said[0]
        made.append(name)
        write_manifest(out, name).with_name("model.onnx").touch()
        return [Row(name, 1, "fp16", 1e-3, 1e-2, 9, (), True, 5, 2.5, 3.5)]

    def compile_rows(rows: list[Row], *_: Any) -> list[Row]:
        planned.extend(row.name for row in rows)
        return [replace(row, compiled=True, why="") for row in rows]

    monkeypatch.setattr(command, "export_one", one)
    monkeypatch.setattr(command, "compile_rows", compile_rows)
    words = ["--random", "--plans", "--captioner", captioner, "--only", "opt_decoder,hint", "--out", str(tmp_path)]
    assert command.run(parsed(*words), said.append) == 0
    assert made[0] == "opt_decoder", "what takes most comes first"
    assert planned == (["opt_decoder", "hint"] if compiled else ["hint"])
    assert is_unplanned(tmp_path, "opt_decoder", "tensorrt") is not compiled
    assert plan_state(tmp_path, "opt_decoder", "tensorrt")[0] == ("missing" if compiled else "found")
    if not compiled:  # once there is memory it gets its plan
        monkeypatch.setattr(command, "free_memory", lambda: (32 * 10**9, 0))
        assert command.run(parsed(*words, "--again"), said.append) == 0
        assert planned[-2:] == ["opt_decoder", "hint"]
        assert not is_unplanned(tmp_path, "opt_decoder", "tensorrt")


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        (["--random", "--hed", "x"], "--random was asked for together with weights"),
        (["--profile", "pocket"], r"pocket has no table \[weights\]: name weights .* or say --random"),
        (["--hed", "x", "--small"], "--small has random weights by nature"),
        (["--random", "--batch", "denoiser=none"], "--batch takes NAME=ROWS"),
        (["--random", "--batch", "painter=4"], "--batch takes NAME=ROWS"),
        (["--random", "--islands", "timestep,atlantis"], "no island atlantis; there are timestep"),
        (["--random", "--controls", "0"], "there is a ControlNet at least"),
    ],
)
def test_requests_that_make_no_sense_are_refused(tmp_path: Path, said: list[str], complaint: str) -> None:
    with pytest.raises(CounterfactoryError, match=complaint):
        command.run(parsed("--out", str(tmp_path), *said))


def test_plans_take_the_batches_and_sizes_that_are_asked_for() -> None:
    request = command._request(parsed("--out", "x", "--random", "--batch", "hed=3"), load_profile("a10g"))
    assert request.batch("hed") == 3
    assert request.batch("denoiser") == 16
    assert request.pictures == load_profile("a10g").image.buckets
    assert len(request.pictures) == 7
    assert (request.prompt_tokens, request.caption_tokens) == (46, 50), "room for a label of 32 bytes"
    lance = command._request(parsed("--out", "x", "--random"), load_profile("lance"))
    assert (lance.prompt_tokens, lance.caption_tokens, lance.beams) == (46, 100, 5)
    (shapes,) = blip2.decoder_graph(SMALL).plan
    assert "cache_rows" not in shapes, "only beams go on from one another"
    assert shapes["cache_keys"].bounds(0)[0] == 0
    assert {shape.bounds(row_axis(name)) for name, shape in shapes.items()} == {(2, 2, 2)}


def test_the_captioners_cache_is_as_long_as_its_captions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Queries and prompt at once, and room for them and the caption: 0.5 MB per row and token at full size."""
    opt = blip2.build_opt(SMALL)
    monkeypatch.setattr(blip2, "build_opt", lambda request: opt)
    plan = blip2.decoder_graph(Request(prompt_tokens=5, caption_tokens=20)).plan[0]
    assert plan["inputs_embeds"].bounds(1) == (1, 37, 37)
    assert plan["position_ids"].bounds(1) == (1, 37, 37)
    assert plan["cache_keys"].bounds(0) == plan["cache_values"].bounds(0) == (0, 37, 56)


# --- the real classes, small, all the way ---


@pytest.mark.slow
def test_the_fused_denoiser_in_fp16_and_int8(tmp_path: Path) -> None:
    paint = partial(examples.painting, SMALL)
    build = partial(denoiser.denoiser_graph, SMALL)
    rows = export_graph(build, tmp_path, Asked(int8=True), random=True, painting=paint)
    assert [row.name for row in rows] == ["denoiser", "denoiser_int8"]
    assert [row.faults for row in rows] == [[], []]
    assert "timestep" in rows[0].islands
    feeds = {name: value.numpy() for name, value in denoiser.example_inputs(3, (16, 16), small=True, seed=9).items()}
    graph = denoiser.denoiser_graph(SMALL)
    with torch.no_grad():
        wanted = graph.module(*(torch.from_numpy(array) for array in feeds.values()))[0].numpy()
    half, integers = (ran(tmp_path / "onnx" / row.name / "model.onnx", feeds)["prediction"] for row in rows)
    assert_parity(half, wanted, "fp16")
    assert 1e-3 < relative_error(integers, wanted) < 0.25
    nodes = onnx.load(str(tmp_path / "onnx" / "denoiser_int8" / "model.onnx"), load_external_data=False).graph
    kinds = {tensor.name: tensor.data_type for tensor in nodes.initializer}
    stored = [t.name for t in nodes.initializer if t.data_type == onnx.TensorProto.INT8 and len(t.dims) > 1]
    assert len(stored) > 40
    assert kinds["unet.conv_out.weight"] == onnx.TensorProto.FLOAT16
    sizes = {row.name: row.onnx_bytes for row in rows}
    assert sizes["denoiser_int8"] < 1.5 * sizes["denoiser"]  # scales and zeros weigh more than weights at this size


# The inputs of the plans that every suite needs, of which those of some follow the picture.
_USUAL: dict[str, tuple[str, ...]] = dict.fromkeys(("blip2_vision", "clip_text", "clip_image"), ())
_USUAL |= {"hint": ("hint",), "denoiser": ("latents", "hint_embedding"), "vae_decoder": ("latents",)}
_WIDTH, _SIDE = 8, 3


def write_graph(out: Path, name: str, *pictured: str) -> None:
    """A graph that convolves its first input to _WIDTH channels, a pixel at a time, and has the others beside it."""
    shape = ["batch", 4, "height", "width"] if pictured else ["batch", 4, _SIDE, _SIDE]
    first, *others = pictured or ("fixed",)
    ports = [helper.make_tensor_value_info(one, TensorProto.FLOAT, shape) for one in (first, *others)]
    weights = numpy_helper.from_array(np.ones((_WIDTH, 4, 1, 1), np.float32), "weights")
    nodes = [helper.make_node("Conv", [first, "weights"], ["out"])]
    nodes += [helper.make_node("Neg", [one], [f"of_{one}"]) for one in others]
    outputs = [helper.make_tensor_value_info(node.output[0], TensorProto.FLOAT, None) for node in nodes]
    graph = helper.make_graph(nodes, name, ports, outputs, [weights])
    path = saved(graph, out / "onnx" / name / "model.onnx", check=False)  # shapes of outputs are left out
    path.with_name("manifest.json").write_text('{"random": true}')


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """An export of those plans."""
    (tmp_path / "latent.json").write_text('{"factor": 8, "channels": 4}')
    for name, pictured in _USUAL.items():
        write_graph(tmp_path, name, *pictured)
    return tmp_path


def test_plans_of_every_suite_are_counted_for_a_picture_of_the_short_side(out: Path) -> None:
    rows = {row["name"]: row for row in facts(out)}
    assert set(rows) == {*_USUAL, "opt_decoder", "llm"}
    a_pixel = 2 * 4 * _WIDTH
    assert rows["clip_text"]["flops"] == a_pixel * _SIDE**2
    assert rows["hint"]["flops"] == a_pixel * 512**2
    assert rows["denoiser"]["flops"] == rows["vae_decoder"]["flops"] == a_pixel * 64**2
    assert rows["denoiser"]["weight_bytes"] == (out / "onnx" / "denoiser" / "model.onnx").stat().st_size
    assert rows["denoiser"]["random"] is True
    shutil.rmtree(out / "onnx" / "hint")
    with pytest.raises(CounterfactoryError, match="the facts of hint need its graph in"):
        facts(out)


@pytest.mark.parametrize("pictured", [("latents",), ("latents", "hint_embedding")], ids=["alone", "with edges"])
def test_an_editor_and_its_encoder_are_counted_where_they_were_exported(out: Path, pictured: tuple[str, ...]) -> None:
    write_graph(out, "editor", *pictured)
    write_graph(out, "vae_encoder", "pixel_values")
    rows = {row["name"]: row for row in facts(out)}
    assert rows["editor"]["flops"] == 2 * 4 * _WIDTH * 64**2
    assert rows["vae_encoder"]["flops"] == 2 * 4 * _WIDTH * 512**2
