"""The doctor on boxes of every kind: what it finds, and the one command that comes next."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from counterfactory.engine.cli import doctor
from counterfactory.engine.cli.arguments import main
from counterfactory.engine.config.profile import ModelPaths, Profile, load_profile
from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.runtime.plans import PlanKey, Shapes, write_key
from counterfactory.engine.runtime.session import RuntimeSettings
from counterfactory.engine.runtime.trt_library import library_name, load_library

try:
    COMPILER = library_name(load_library())
except CounterfactoryError:  # then no release is wanted
    COMPILER = "tensorrt_rtx 1.0"


@dataclass
class Nvml:
    """As much of pynvml as a box with `names` for GPUs answers."""

    names: list[str]

    def nvmlInit(self) -> None:  # noqa: N802
        pass

    def nvmlSystemGetDriverVersion(self) -> bytes:  # noqa: N802
        return b"550.54"

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return len(self.names)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:  # noqa: N802
        return index

    def nvmlDeviceGetName(self, handle: int) -> str:  # noqa: N802
        return self.names[handle]

    def nvmlDeviceGetCudaComputeCapability(self, handle: int) -> tuple[int, int]:  # noqa: N802
        return 8, 6

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> Any:  # noqa: N802
        return SimpleNamespace(total=24 * 10**9, free=23 * 10**9)


def none() -> Any:
    raise ImportError("pynvml")


@pytest.fixture
def profile(tmp_path: Path) -> Profile:
    return replace(load_profile("a10g"), models=ModelPaths(str(tmp_path)))


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "version", lambda name: "1.0")


def export(folder: Path, plan: str) -> Path:
    """A plan and its key as an export leaves them."""
    file = folder / "plans" / f"{plan}.plan"
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(plan.encode())
    shape = Shapes.static(1, 2)
    write_key(file, PlanKey("0" * 64, {"x": shape}, "f16", COMPILER, "SM86", "0" * 64, 1.0))
    return file


def test_this_machine_runs_the_pocket_profile(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["ready"]
    assert found["packages"].keys() == {"openvino", "llguidance"}
    assert {plan["state"] for plan in found["plans"]} == {"found"}
    assert found["next"].startswith("counterfactory generate")
    assert found["memory_bytes"] > 10**9


def test_lines_fit_a_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["doctor", "--profile", "a10g"]) == 0
    out = capsys.readouterr().out
    assert "missing" in out
    assert "next" in out


def test_without_a_gpu_the_next_thing_is_the_driver(profile: Profile) -> None:
    found = doctor.examine(profile, none)
    assert not found.ready
    assert found.gpus == ()
    assert found.next.startswith("nvidia-smi")
    assert any("none that a driver tells of" in line for line in doctor.lines(found))


def test_then_the_packages(profile: Profile, monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        if name == "exllamav2":
            raise doctor.PackageNotFoundError(name)
        return "1.0"

    monkeypatch.setattr(doctor, "version", version)
    found = doctor.examine(profile, lambda: Nvml(["NVIDIA A10G"]))
    assert found.packages["exllamav2"] is None
    assert found.next == "pip install 'counterfactory[cuda]'"
    assert any("A10G, SM86, 23.0 of 24.0 GB free, driver 550.54" in line for line in doctor.lines(found))


@pytest.mark.usefixtures("installed")
def test_then_the_plans_then_the_language_model_then_a_run(profile: Profile, tmp_path: Path) -> None:
    def look() -> doctor.Examination:
        return doctor.examine(profile, lambda: Nvml(["NVIDIA A10G"]))

    assert look().next == f"python -m counterfactory.export a10g --out {tmp_path}"
    for plan in look().plans:
        if plan.name != "llm":
            export(tmp_path, plan.name)
    assert look().next == "python -m counterfactory.export llm --profile a10g"
    (tmp_path / profile.llm.model).mkdir()
    assert look().ready
    assert look().next.startswith("counterfactory generate SOURCES")


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("provider", ["cuda", "tensorrt"])
def test_onnxruntime_s_provider_is_told_and_has_to_be_there(
    provider: str, profile: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = RuntimeSettings("onnxruntime", "f16", 0, 24, provider)  # type: ignore[arg-type]
    has = ["CPUExecutionProvider"]
    library = SimpleNamespace(__version__="1.0", get_available_providers=lambda: has)
    monkeypatch.setitem(sys.modules, "onnxruntime", library)  # type: ignore[arg-type]

    def look() -> doctor.Examination:
        return doctor.examine(replace(profile, runtime=runtime), lambda: Nvml(["NVIDIA A10G"]))

    found, name = look(), {"cuda": "CUDAExecutionProvider", "tensorrt": "TensorrtExecutionProvider"}[provider]
    assert f"has no {name}, only CPUExecutionProvider" in found.runtime.fault
    assert not found.ready
    assert found.next.startswith("pip uninstall onnxruntime && pip install")
    assert any(found.runtime.fault in line for line in doctor.lines(found))
    has.append(name)
    found = look()
    assert found.runtime.fault == ""
    assert f"onnxruntime, f16, {name}: it needs a GPU" in found.runtime.uses
    assert (str(tmp_path / "engines") in found.runtime.uses) == (provider == "tensorrt")
    assert found.next == f"python -m counterfactory.export a10g --out {tmp_path}"
    for plan in found.plans:
        file = tmp_path / "onnx" / plan.name / "model.onnx"
        file.parent.mkdir(parents=True)
        file.touch()
    (tmp_path / profile.llm.model).mkdir()
    assert look().ready


@pytest.mark.usefixtures("installed")
def test_a_plan_of_another_graph_is_stale(profile: Profile, tmp_path: Path) -> None:
    export(tmp_path, "denoiser")
    manifest = tmp_path / "onnx" / "denoiser" / "manifest.json"
    manifest.parent.mkdir(parents=True)
    manifest.write_text(json.dumps({"onnx_sha256": "1" * 64}))
    states = {plan.name: plan for plan in doctor.examine(profile, none).plans}
    assert states["denoiser"].state == "stale"
    assert "was made of ONNX graph" in states["denoiser"].reason
    assert states["hint"].state == "missing"
    table = doctor.plan_table(doctor.examine(profile, none))
    assert {row[1] for row in table.rows} == {"stale", "missing"}
