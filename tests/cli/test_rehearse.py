"""`counterfactory rehearse`: what it asks of the exporter, what it leaves out, and that a step that fails is seen.

The whole of it, over networks that were exported, is in test_assembled.py.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from command_line import Command
from conftest import MadeSuite
from onnx import TensorProto, helper, numpy_helper, save
from PIL import Image
from wiring import options_by_command

from counterfactory.engine.cli import rehearse
from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.models.networks import networks_of
from counterfactory.engine.profile.profile import Profile, load_profile
from counterfactory.engine.profile.runtime import ModelPaths
from counterfactory.engine.profile.small import ISLANDS, RUNTIMES, write_small

BOXES = ("a10g", "a10g-fast", "lance", "gpu", "cpu")
ROW = {"name": "denoiser", "parity_error": 0.001, "compiled": True}


@pytest.fixture
def ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The exporter's command lines; it makes a row, every journey ends well, and a checkout is in `tmp_path`."""
    commands: list[list[str]] = []
    (tmp_path / "checkout" / "bench").mkdir(parents=True)
    (tmp_path / "checkout" / "bench" / "run.py").touch()
    monkeypatch.setattr(rehearse, "__file__", str(tmp_path / "checkout" / "engine" / "cli" / "rehearse.py"))

    def run(command: list[str], *_: Any) -> None:
        commands.append(list(command))
        folder = Path(command[command.index("--out") + 1])
        folder.mkdir(exist_ok=True)
        (folder / "export.json").write_text(json.dumps([ROW]))

    monkeypatch.setattr(rehearse, "run_program", run)
    monkeypatch.setattr(rehearse.Rehearsal, "journey", lambda *_: "well")
    monkeypatch.setattr(rehearse.Rehearsal, "compared", lambda *_: "equal")
    monkeypatch.setattr(rehearse.Rehearsal, "measured", lambda *_: "fast")
    return commands


@pytest.mark.parametrize("name", BOXES)
@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_box_s_profile_fits_its_small_networks(name: str, runtime: str, tmp_path: Path) -> None:
    """Of the box's it keeps what its networks are; no table is left of what they have not."""
    small, own = write_small(tmp_path / "p.toml", name, tmp_path, RUNTIMES[runtime]), load_profile(name)
    profile = load_profile(str(small))
    assert (profile.runtime.on_gpu, profile.device, profile.llm.style) == (False, None, "pocket")
    assert {(h // 16, w // 16) for h, w in own.image.sizes} == set(profile.image.sizes)
    assert profile.paint.sampler.kind == own.paint.sampler.kind
    assert (profile.invert is None) == (own.invert is None)
    assert profile.check.thresholds.keys() <= own.check.thresholds.keys()
    assert profile.check.strict == {}
    assert {n.name for n in networks_of(profile)} == {n.name for n in networks_of(own)} - {"sentence"}
    # And a file that extends it by its path.
    (tmp_path / "own.toml").write_text(f'name = "own"\nextends = "{name}"\n')
    again = write_small(tmp_path / "deep" / "q.toml", str(tmp_path / "own.toml"), tmp_path, RUNTIMES[runtime])
    assert load_profile(str(again)).name == "small-own"


def test_the_exporter_is_asked_for_the_profile_s_networks(ran: list[list[str]], tmp_path: Path, run: Command) -> None:
    kept = tmp_path / "deep" / "kept"
    told = run.json("rehearse", "--profile", "a10g-fast", "--keep", kept, "--target", "sm89")
    assert options_by_command()["rehearse"] == {"--profile", "--target", "--exporter", "--keep", "--json"}
    steps = [step["step"] for step in told["steps"]]
    assert steps == ["export", "compile", "onnxruntime", "openvino", "compare", "bench"]
    assert told["holds"] is True
    assert [step["result"] for step in told["steps"]] == [
        "1 networks, off by 1.0e-03 at most",
        "1 of 1 plans for SM89 by TensorRT-RTX",
        *("well", "well", "equal", "fast"),
    ]
    assert told.keys() == {"profile", "holds", "seconds", "steps"}
    assert 0 <= told["seconds"] == sum(step["seconds"] for step in told["steps"]) < 600
    exported, compiled = ran
    assert exported[:6] == [sys.executable, "-m", "counterfactory.export", "a10g", "--profile", "a10g-fast"]
    assert exported[6:13] == ["--random", "--small", "--islands", ISLANDS, "--precision", "fp16", "--only"]
    asked = dict(pairwise(exported))
    assert (asked["--profile"], asked["--out"]) == ("a10g-fast", str(kept / "networks"))
    assert (asked["--controls"], "--captioner" in asked, "--random-tiny-vae" in asked) == ("1", False, True)
    names = {network.name for network in networks_of(load_profile("a10g-fast"))} - {"llm"}
    assert set(asked["--only"].split(",")) == names
    assert compiled[-5:] == ["--plans", "--library", "tensorrt-rtx", "--target", "sm89"]
    assert compiled[: len(exported)] == exported
    assert sorted(p.name for p in kept.iterdir()) == ["networks", "scenes"]


def test_nothing_is_left_behind(ran: list[list[str]], run: Command) -> None:
    run.json("rehearse")
    assert not Path(ran[0][ran[0].index("--out") + 1]).parent.exists()


def test_what_cannot_be_is_left_out_and_said(
    ran: list[list[str]], monkeypatch: pytest.MonkeyPatch, run: Command
) -> None:
    monkeypatch.setattr(rehearse, "missing_modules", lambda *_: ["tensorrt_rtx"])
    steps = {step["step"]: step for step in run.json("rehearse", "--profile", "lance")["steps"]}
    assert steps["compile"]["holds"] is None
    assert "pip install '.[tensorrt-rtx]'" in steps["compile"]["result"]
    assert steps["openvino"]["result"].startswith("left out: it makes editors")
    assert "compare" not in steps
    steps = {step["step"]: step for step in run.json("rehearse", "--profile", "cpu")["steps"]}
    assert "needs no plans" in steps["compile"]["result"]
    asked = dict(pairwise(ran[-1]))
    assert (asked["--captioner"], "--random-tiny-vae" in asked) == ("florence2", True)
    for name in ("pocket", "light"):
        run.refuses("rehearse is for profiles whose networks are exported", "rehearse", "--profile", name)


def test_a_step_that_fails_is_seen(ran: list[list[str]], monkeypatch: pytest.MonkeyPatch, run: Command) -> None:
    """The table says why, what builds on it is not tried, and the status tells."""

    def fails(*_: Any) -> str:
        raise CounterfactoryError("pictures are 12 dB apart")

    monkeypatch.setattr(rehearse.Rehearsal, "compared", fails)
    monkeypatch.setenv("COLUMNS", "80")
    status, out, _ = run("rehearse")
    assert status == 3
    assert re.search(r"^step +result +seconds$", out, re.MULTILINE)
    assert re.search(r"compare +pictures are 12 dB apart +\d", out)
    assert re.search(r"^fails, \d+ s$", out, re.MULTILINE)
    assert max(map(len, out.splitlines())) <= 80
    monkeypatch.setattr(rehearse, "run_program", fails)
    told = run.json("rehearse", status=3)
    assert [step["step"] for step in told["steps"]] == ["export"]
    assert told["holds"] is False


def test_a_python_without_the_exporter_s_packages_is_told_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Command
) -> None:
    bare = tmp_path / "python"
    bare.write_text("#!/bin/sh\necho torch diffusers\n")
    bare.chmod(0o755)
    lacking = f"{bare} lacks torch, diffusers: {bare} -m pip install '.[export]'"
    run.refuses(lacking, "rehearse", "--exporter", bare)


def test_decibels() -> None:
    picture = np.full((4, 4, 3), 100, np.uint8)
    assert rehearse._decibels(picture, picture) == 99.0
    assert rehearse._decibels(picture, picture + 1) == pytest.approx(48.13, abs=0.01)
    assert rehearse._decibels(picture, picture - 50) == pytest.approx(14.15, abs=0.01)


@pytest.fixture
def rehearsal(tmp_path: Path) -> rehearse.Rehearsal:
    return rehearse.Rehearsal(load_profile("a10g"), "a10g", tmp_path, sys.executable, rehearse.Terminal(as_json=True))


class Program:
    """Stands for the programs that a rehearsal starts, and ends as `done` says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.done = (0, "", "")
        self.asked: list[tuple[list[str], dict[str, Any]]] = []
        monkeypatch.setattr(rehearse.subprocess, "run", self)

    def __call__(self, command: list[str], **more: Any) -> subprocess.CompletedProcess[str]:
        assert more.pop("capture_output")
        assert more.pop("text")
        self.asked.append((command, more))
        return subprocess.CompletedProcess(command, *self.done)


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> Program:
    """No graph lies there to be named."""
    monkeypatch.setattr(rehearse, "_name_onnx", lambda *_: None)
    return Program(monkeypatch)


def test_a_journey_is_generate_s(
    rehearsal: rehearse.Rehearsal, program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[tuple[str, Profile, Any]] = []
    for name in ("_write_openvino", "_name_onnx"):
        monkeypatch.setattr(rehearse, name, lambda *named, of=name: written.append((of, *named)))
    program.done = (0, '{"accepted": 3, "variants": 4, "wall_s": 8.0}', "")
    for runtime in RUNTIMES:
        assert rehearsal.journey(runtime) == "3 of 4 variants accepted, 0.50 a second with loading"
        command, more = program.asked[-1]
        assert command[:4] == [sys.executable, "-m", "counterfactory.engine", "generate"]
        assert command[4:] == [
            *(str(tmp_path / "scenes" / "images"), "--task", "classification", "--allow-ungrounded"),
            *("--variants", "2", "--profile", str(tmp_path / f"{runtime}.toml"), "--json"),
            *("--out", str(tmp_path / runtime)),
        ]
        assert more["env"]["XDG_CACHE_HOME"] == str(tmp_path / "cache")
        assert more["check"] is False
        assert load_profile(command[-4]).runtime.backend == runtime
    assert [(name, profile.runtime.backend) for name, profile, _ in written] == [
        ("_name_onnx", "onnxruntime"),
        ("_write_openvino", "openvino"),
    ]
    onnx = tmp_path / "networks" / "onnx"
    assert all(graphs == {n: onnx / n for n in graphs} and len(graphs) == 9 for *_, graphs in written)


@pytest.mark.parametrize(
    ("done", "said"),
    [
        ((0, '{"accepted": 0, "variants": 4, "wall_s": 1.0}', "a\nnone was accepted\n \n"), "none was accepted"),
        ((2, '{"accepted": 1}', "error: no\n"), "error: no"),
        ((7, "", " \n"), "generate ended with status 7"),
    ],
)
def test_a_journey_that_makes_nothing_fails(
    rehearsal: rehearse.Rehearsal, program: Program, done: tuple[int, str, str], said: str
) -> None:
    program.done = done
    with pytest.raises(CounterfactoryError, match=f"^{said}$"):
        rehearsal.journey("onnxruntime")


def test_suites_are_held_to_each_other(
    rehearsal: rehearse.Rehearsal, made_suite: MadeSuite, monkeypatch: pytest.MonkeyPatch
) -> None:
    suites = dict.fromkeys(RUNTIMES, made_suite.rows)
    monkeypatch.setattr(rehearse, "read_metadata", lambda suite: suites[suite.name])
    for name in RUNTIMES:
        shutil.copytree(made_suite.path, rehearsal.folder / name)
    variants = [row for row in made_suite.rows if row.kind != "original"]
    assert rehearsal.compared() == f"{len(variants)} pictures, 99 dB apart at most (the least is 45)"
    for at, of in enumerate(made_suite.rows[:2]):  # an original's picture is not painted
        picture = rehearsal.folder / "openvino" / of.file_name
        Image.fromarray(np.asarray(Image.open(picture)) ^ np.uint8(8 * at)).save(picture)
    with pytest.raises(CounterfactoryError, match=r"^pictures are 30 dB apart, and 45 are the least$"):
        rehearsal.compared()
    suites["openvino"] = [replace(row, caption="another.") for row in made_suite.rows]
    first = made_suite.rows[0].source
    with pytest.raises(CounterfactoryError, match=f"^the two runtimes read {first} otherwise: their networks differ$"):
        rehearsal.compared()
    suites["openvino"] = made_suite.rows[1:]
    with pytest.raises(CounterfactoryError, match=r"^the two runtimes chose other edits: their networks differ$"):
        rehearsal.compared()


def test_the_bench_runs_on_the_small_networks(rehearsal: rehearse.Rehearsal, program: Program, tmp_path: Path) -> None:
    file = tmp_path / "bench.json"
    file.write_text('{"accepted": 2, "wall_s": 3.25, "ceiling_share": 0.0123}')
    assert rehearsal.measured(Path("/checkout/bench/run.py")) == "2 accepted in 3.2 s, 1.2 % of the peak"
    ((command, more),) = program.asked
    assert command == [
        *(sys.executable, "/checkout/bench/run.py", "--profile", str(tmp_path / "onnxruntime.toml")),
        *("--sources", "2", "--variants", "1", "--json", str(file)),
    ]
    assert (more["env"]["XDG_CACHE_HOME"], more["cwd"]) == (str(tmp_path / "cache"), Path("/checkout"))
    for told, said in (("a\nno memory\n", "no memory"), ("", "it ended without a word")):
        program.done = (1, "", told)
        with pytest.raises(CounterfactoryError, match=f"^{said}$"):
            rehearsal.measured(Path("/checkout/bench/run.py"))


def test_the_bench_is_the_checkout_s_and_follows_onnx_runtime_alone(
    ran: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Command
) -> None:
    benches: list[Path] = []

    def measured(_: rehearse.Rehearsal, bench: Path) -> str:
        benches.append(bench)
        return "fast"

    monkeypatch.setattr(rehearse.Rehearsal, "measured", measured)
    run.json("rehearse")
    bench = tmp_path / "checkout" / "bench" / "run.py"
    assert benches == [bench]
    monkeypatch.setattr(rehearse, "find_spec", lambda name: None if name == "onnxruntime" else name)
    steps = {step["step"]: step for step in run.json("rehearse")["steps"]}
    why = "left out: this Python has no ONNX Runtime: pip install onnxruntime"
    assert steps["onnxruntime"] == {"step": "onnxruntime", "result": why, "seconds": 0.0, "holds": None}
    assert steps.keys().isdisjoint({"compare", "bench"})
    bench.unlink()
    (left_out,) = [step for step in run.json("rehearse")["steps"] if step["step"] == "bench"]
    assert left_out["result"] == "left out: no checkout is here; the engine's own rates are above"
    assert len(benches) == 1


@pytest.mark.parametrize(
    ("name", "exported"), [("gpu", "blip2_vision_beams"), ("lance", "blip2_vision_beams"), ("cpu", "blip2_vision")]
)
def test_a_graph_has_the_name_by_which_each_runtime_opens_it(
    name: str, exported: str, rehearsal: rehearse.Rehearsal, tmp_path: Path
) -> None:
    """With beams the captioner's graphs are called otherwise, but for OpenVINO, which needs no other form."""
    own = replace(rehearsal, profile=load_profile(name), named_as=name)
    for folder in own.graphs.values():
        folder.mkdir(parents=True)
        write_ramp(folder / "model.onnx")
    assert own.graphs["blip2_vision"] == tmp_path / "networks" / "onnx" / exported
    asked, rehearsed = (
        load_profile(str(write_small(tmp_path / f"{runtime}.toml", name, own.networks, RUNTIMES[runtime])))
        for runtime in ("onnxruntime", "openvino")
    )
    rehearse._name_onnx(asked, own.graphs)
    rehearse._name_onnx(asked, own.graphs)  # where they are kept
    for network in networks_of(asked):
        assert network.name == "llm" or (own.networks / "onnx" / network.plan / "model.onnx").is_file()
    rehearse._write_openvino(rehearsed, own.graphs)
    plans = {network.plan for network in networks_of(rehearsed)} - {"llm"}
    assert {file.stem for file in own.networks.glob("*.xml")} == plans
    assert "blip2_vision" in plans


def write_ramp(graph: Path) -> bytes:
    """A graph that multiplies; the bytes of its weights."""
    ramp = np.linspace(0, 1, 7, dtype=np.float32)
    scaled = helper.make_node("Mul", ["x", "ramp"], ["y"])
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [7]) for name in ("x", "y")]
    weights = [numpy_helper.from_array(ramp, "ramp")]
    save(helper.make_model(helper.make_graph([scaled], "g", ports[:1], ports[1:], weights), ir_version=10), graph)
    return ramp.tobytes()


def test_graphs_become_openvino_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    networks = (SimpleNamespace(name="llm", plan="llm"), SimpleNamespace(name="hint", plan="hint_small"))
    monkeypatch.setattr(rehearse, "networks_of", lambda _: networks)
    (tmp_path / "onnx" / "hint").mkdir(parents=True)
    weights = write_ramp(tmp_path / "onnx" / "hint" / "model.onnx")
    profile = replace(load_profile("pocket"), models=ModelPaths(str(tmp_path)))
    rehearse._write_openvino(profile, {"hint": tmp_path / "onnx" / "hint"})
    (made,) = tmp_path.glob("*.xml")
    assert made.name == "hint_small.xml"
    assert made.with_suffix(".bin").read_bytes() == weights, "32 bits each"
