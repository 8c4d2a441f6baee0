"""Which runtime opens what a profile names; what is missing is an error by name, never another runtime."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.models.library import Library
from counterfactory.engine.profile import ModelPaths, Profile, load_profile, profile_names
from counterfactory.engine.runtime.llm import LlmSettings, model_digest, open_llm
from counterfactory.engine.runtime.opening import arithmetic, open_plan, plan_file
from counterfactory.engine.runtime.session import RuntimeSettings
from counterfactory.export.onnx import to_onnx

TENSORRT = RuntimeSettings("tensorrt", "f16", 0, 24)
ONNX = RuntimeSettings("onnxruntime", "f16", 0, 24)


@pytest.fixture
def profile(tmp_path: Path) -> Profile:
    return replace(load_profile("a10g"), models=ModelPaths(str(tmp_path)))


def test_every_profile_that_comes_with_us_is_complete() -> None:
    assert set(profile_names()) == {"pocket", "a10g", "a10g-fast", "lance"}
    for name in profile_names():
        profile = load_profile(name)
        assert profile.name == name
        assert (profile.device is None) == (profile.runtime.backend == "openvino")


def test_a_gpu_is_held_once_and_computes_in_f16() -> None:
    assert (TENSORRT.unit, TENSORRT.devices, arithmetic(TENSORRT)) == ("GPU", 1, "f16")
    cpu = RuntimeSettings("openvino", "f32", 3, 0)
    assert (cpu.unit, cpu.devices, arithmetic(cpu)) == ("core", 3, "f32")


@pytest.mark.parametrize(("backend", "precision"), [("tensorrt", "bf16"), ("onnxruntime", "auto"), ("openvino", "f16")])
def test_precisions_belong_to_their_runtimes(backend: str, precision: str) -> None:
    with pytest.raises(ValueError, match="precision"):
        RuntimeSettings(backend, precision, 0, 0)  # type: ignore[arg-type]


def test_a_missing_plan_is_named(tmp_path: Path) -> None:
    with pytest.raises(CounterfactoryError, match=r"denoiser\.plan is missing"):
        open_plan(tmp_path, "denoiser", TENSORRT, 4)
    with pytest.raises(CounterfactoryError, match=r"model\.onnx is missing"):
        open_plan(tmp_path, "denoiser", ONNX, 4)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU: that its lack is told goes unchecked")
def test_a_graph_for_a_gpu_never_runs_on_the_cpu(tmp_path: Path) -> None:
    file = plan_file(tmp_path, "net", "onnxruntime")
    file.parent.mkdir(parents=True)
    to_onnx(nn.Linear(3, 2), {"x": torch.randn(2, 3)}, ["y"], file, {"x": {0: "batch"}})
    with pytest.raises(CounterfactoryError, match=r"CUDA"):
        open_plan(tmp_path, "net", ONNX, 2)


def test_models_of_a_folder_have_a_digest_that_follows_their_content(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "weights.safetensors").write_bytes(b"a" * 100)
    first = model_digest(tmp_path)
    assert model_digest(tmp_path) == first
    (tmp_path / "config.json").write_text('{"bits": 4}')
    changed = model_digest(tmp_path)
    (tmp_path / "weights.safetensors").write_bytes(b"a" * 101)
    assert len({first, changed, model_digest(tmp_path)}) == 3
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(CounterfactoryError, match="is empty"):
        model_digest(empty)


def test_a_stage_s_key_needs_its_files(profile: Profile) -> None:
    with pytest.raises(CounterfactoryError, match=r"llm-exl2.* is missing"):
        Library(profile).digest("rewrite")
    with pytest.raises(CounterfactoryError, match=r"blip2_vision\.plan is missing"):
        Library(profile).digest("caption")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU: that its lack is told goes unchecked")
@pytest.mark.parametrize("backend", ["exllamav2", "exllamav3"])
def test_a_language_model_for_a_gpu_never_runs_on_the_cpu(backend: str, profile: Profile, tmp_path: Path) -> None:
    for name in ("config.json", "tokenizer.json", "model.safetensors"):
        (tmp_path / name).write_text("{}")
    with pytest.raises(CounterfactoryError, match=backend):
        open_llm(tmp_path, replace(profile.llm, backend=backend), profile.runtime)  # type: ignore[arg-type]


def test_settings_of_the_language_model_go_with_its_runtime(profile: Profile) -> None:
    with pytest.raises(ValueError, match=r"has no table \[llm.exllama\]"):
        LlmSettings("genai", "llm.gguf", "pocket", profile.llm.exllama)
    with pytest.raises(ValueError, match=r"needs a table \[llm.exllama\]"):
        LlmSettings("exllamav3", "folder", "llama2")
    with pytest.raises(ValueError, match="model is empty"):
        LlmSettings("genai", "", "pocket")


def test_answers_are_kept_under_what_they_were_drawn_with(profile: Profile) -> None:
    exllama = profile.llm.exllama
    assert exllama is not None
    warm, cold = (replace(profile.llm, exllama=replace(exllama, temperature=t)) for t in (0.5, 0.0))
    assert warm.sampling != cold.sampling == load_profile("pocket").llm.sampling


@pytest.mark.parametrize("name", ["pocket", "a10g"])
def test_a_device_stands_with_the_runtimes_that_have_one(name: str) -> None:
    profile = load_profile(name)
    other = load_profile("a10g" if name == "pocket" else "pocket")
    with pytest.raises(ValueError, match=r"table \[device\]"):
        replace(profile, device=other.device)
