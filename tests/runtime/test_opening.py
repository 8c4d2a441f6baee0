"""Which runtime opens what a profile names; what is missing is an error by name, never another runtime."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from onnx import ModelProto, TensorProto, helper
from onnx import load as load_graph
from small_graphs import pair_graph, saved

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.language.open_llm import model_digest, open_llm
from counterfactory.engine.models.networks import library_of
from counterfactory.engine.profile.profile import Profile, load_profile
from counterfactory.engine.profile.runtime import ModelPaths, RuntimeSettings
from counterfactory.engine.runtime.opening import arithmetic, note_unplanned, open_plan, plan_digest, plan_file
from counterfactory.engine.runtime.plans import Shapes, onnx_digest

COMPILED = RuntimeSettings("onnxruntime", "f16", 0, 24, "tensorrt")
TENSORRT = RuntimeSettings("tensorrt", "f16", 0, 24)
ONNX = RuntimeSettings("onnxruntime", "f16", 0, 24, "cuda")


@pytest.fixture
def profile(tmp_path: Path) -> Profile:
    return replace(load_profile("a10g"), models=ModelPaths(str(tmp_path)))


def test_a_gpu_is_held_once_and_computes_in_f16() -> None:
    assert (TENSORRT.unit, TENSORRT.devices, arithmetic(TENSORRT)) == ("GPU", 1, "f16")
    for cpu in (RuntimeSettings("openvino", "f32", 3, 0), RuntimeSettings("onnxruntime", "f32", 3, 0, "cpu")):
        assert (cpu.unit, cpu.devices, arithmetic(cpu)) == ("core", 3, "f32")


def test_a_missing_plan_is_named(tmp_path: Path) -> None:
    for runtime, name in ((TENSORRT, r"denoiser\.plan"), (ONNX, r"model\.onnx")):
        with pytest.raises(CounterfactoryError, match=f"{name} is missing"):
            open_plan(tmp_path, "denoiser", runtime, 4)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU: that its lack is told goes unchecked")
def test_a_graph_for_a_gpu_never_runs_on_the_cpu(tmp_path: Path) -> None:
    pair_graph(plan_file(tmp_path, "net", "onnxruntime"))
    with pytest.raises(CounterfactoryError, match=r"CUDA"):
        open_plan(tmp_path, "net", ONNX, 2)


# ONNX Runtime by its providers.


@dataclass
class Opener:
    """ONNX Runtime as installed but for its providers: it keeps what a session is asked for, and opens none."""

    asked: list[tuple[str, list[Any]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        library = pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed: its options go unchecked")
        self.__version__, self.SessionOptions = library.__version__, library.SessionOptions

    def get_available_providers(self) -> list[str]:
        return ["TensorrtExecutionProvider", "CUDAExecutionProvider", "CPUExecutionProvider"]

    def preload_dlls(self) -> None:
        pass

    def set_default_logger_severity(self, severity: int) -> None:
        assert severity == 4, "its warnings would stand among our words"

    def InferenceSession(self, source: str, options: Any, providers: list[Any], **_: Any) -> Any:  # noqa: N802
        self.asked.append((source, providers))
        raise RuntimeError("no GPU")


@pytest.fixture
def opener(monkeypatch: pytest.MonkeyPatch) -> Opener:
    library = Opener()
    monkeypatch.setitem(sys.modules, "onnxruntime", library)  # type: ignore[arg-type]
    return library


SHAPES = {"x": Shapes((2, 1, 4), (2, 1, 4), (2, 6, 4)), "past": Shapes((2, 0, 4), (2, 8, 4), (2, 12, 4))}


def exported(folder: Path, shapes: Mapping[str, Shapes] | None) -> Path:
    """A decoder's graph as an export leaves it; with `shapes` its manifest as well."""
    axes = {"x": ["batch", "tokens", 4], "past": ["batch", "past", 4], "y": ["batch", "both", 4]}
    x, past, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name, dims in axes.items())
    graph = helper.make_graph([helper.make_node("Concat", ["past", "x"], ["y"], axis=1)], "growing", [x, past], [y])
    file = saved(graph, plan_file(folder, "net", "onnxruntime"))
    if shapes is not None:
        told = {"onnx_sha256": onnx_digest(file), "profiles": [{name: asdict(one) for name, one in shapes.items()}]}
        file.with_name("manifest.json").write_text(json.dumps(told))
    return file


def test_the_tensorrt_provider_gets_exported_shapes_and_a_folder_of_its_own(opener: Opener, tmp_path: Path) -> None:
    file = exported(tmp_path, SHAPES)
    with pytest.raises(CounterfactoryError, match=r"with TensorrtExecutionProvider: no GPU; it needs a GPU"):
        open_plan(tmp_path, "net", COMPILED, 2)
    ((source, ((name, options), (behind, _))),) = opener.asked
    assert (source, name, behind) == (str(file), "TensorrtExecutionProvider", "CUDAExecutionProvider")
    assert options["trt_profile_min_shapes"] == "past:2x0x4,x:2x1x4"
    assert options["trt_profile_opt_shapes"] == "past:2x8x4,x:2x1x4"
    assert options["trt_profile_max_shapes"] == "past:2x12x4,x:2x6x4"
    (kept,) = (tmp_path / "engines").iterdir()
    assert kept.name.startswith(f"net-{opener.__version__}-")
    assert options["trt_ep_context_file_path"] == str(kept / "model_ctx.onnx")
    assert options["trt_timing_cache_path"] == str(kept)


def test_whoever_opens_a_plan_is_told_that_its_engine_is_not_kept(opener: Opener, tmp_path: Path) -> None:
    exported(tmp_path, SHAPES)
    (tmp_path / "engines").touch()
    told = list[str]()
    with pytest.raises(CounterfactoryError, match=r"with TensorrtExecutionProvider: no GPU"):
        open_plan(tmp_path, "net", COMPILED, 2, report=told.append)
    assert [str(tmp_path / "engines") in one for one in told] == [True]


def test_the_cuda_provider_compiles_and_keeps_nothing(opener: Opener, tmp_path: Path) -> None:
    exported(tmp_path, SHAPES)
    with pytest.raises(CounterfactoryError, match="with CUDAExecutionProvider: no GPU"):
        open_plan(tmp_path, "net", ONNX, 2)
    ((_, ((name, options),)),) = opener.asked
    assert (name, options["enable_cuda_graph"]) == ("CUDAExecutionProvider", "0")
    assert not (tmp_path / "engines").exists()


def test_a_graph_that_got_no_plan_is_opened_by_the_cuda_provider(opener: Opener, tmp_path: Path) -> None:
    """With TensorRT, where the export noted it; its content is the graph's. Others are not, and a plan comes first."""
    file = exported(tmp_path, SHAPES)
    with pytest.raises(CounterfactoryError, match=r"net\.plan is missing"):
        open_plan(tmp_path, "net", TENSORRT, 2)
    note_unplanned(tmp_path, "net", True)
    with pytest.raises(CounterfactoryError, match="with CUDAExecutionProvider: no GPU"):
        open_plan(tmp_path, "net", TENSORRT, 2)
    ((source, ((name, _),)),) = opener.asked
    assert (ModelProto.FromString(source), name) == (load_graph(file), "CUDAExecutionProvider")
    assert plan_digest(tmp_path, "net", "tensorrt") == [onnx_digest(file)]
    note_unplanned(tmp_path, "net", False)
    with pytest.raises(CounterfactoryError, match=r"net\.plan is missing"):
        open_plan(tmp_path, "net", TENSORRT, 2)


@pytest.mark.parametrize(
    ("shapes", "batch", "says"),
    [
        (None, 2, r"TensorRT provider needs the shapes of every input, which its manifest\.json has"),
        (SHAPES, 3, r"was exported for (x|past) of 2 to 2 along axis 0, asked for 3; export it again for this profile"),
        ({"x": SHAPES["x"]}, 2, "no shapes of past are known for"),
        ({**SHAPES, "past": Shapes.static(2, 8)}, 2, "no shapes of past are known for"),
    ],
)
def test_shapes_that_do_not_serve_are_refused_before_anything_is_compiled(
    shapes: Mapping[str, Shapes] | None, batch: int, says: str, opener: Opener, tmp_path: Path
) -> None:
    exported(tmp_path, shapes)
    with pytest.raises(CounterfactoryError, match=says):
        open_plan(tmp_path, "net", COMPILED, batch)
    assert opener.asked == []


def test_a_manifest_that_is_damaged_is_named(opener: Opener, tmp_path: Path) -> None:
    manifest = exported(tmp_path, SHAPES).with_name("manifest.json")
    unordered = '{"profiles": [{"x": {"min": [2], "opt": [1], "max": [1]}}]}'
    for text in ("{", '{"profiles": [{"x": {"min": [1]}}]}', unordered):
        manifest.write_text(text)
        with pytest.raises(CounterfactoryError, match=r"manifest\.json.*; export net again"):
            open_plan(tmp_path, "net", COMPILED, 2)


def test_a_graph_of_fixed_shapes_needs_no_manifest(opener: Opener, tmp_path: Path) -> None:
    pair_graph(plan_file(tmp_path, "net", "onnxruntime"))
    with pytest.raises(CounterfactoryError, match="with TensorrtExecutionProvider: no GPU"):
        open_plan(tmp_path, "net", COMPILED, 2)
    options = opener.asked[0][1][0][1]
    assert options["trt_cuda_graph_enable"] == "1"
    assert not any("profile" in name for name in options)


@pytest.mark.parametrize("runtime", [ONNX, COMPILED], ids=["cuda", "tensorrt"])
def test_a_provider_that_is_not_there_is_named(
    runtime: RuntimeSettings, opener: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exported(tmp_path, SHAPES)
    monkeypatch.setattr(opener, "get_available_providers", lambda: ["CPUExecutionProvider"])
    with pytest.raises(CounterfactoryError, match=r"has no \w+, only CPUExecutionProvider; say: .*uninstall"):
        open_plan(tmp_path, "net", runtime, 2)
    assert opener.asked == []


def test_models_of_a_folder_have_a_digest_that_follows_their_content(tmp_path: Path) -> None:
    digests = []
    for name, content in (("config.json", b"{}"), ("weights", b"a" * 100), ("config.json", b"[]"), ("weights", b"b")):
        (tmp_path / name).write_bytes(content)
        digests.append(model_digest(tmp_path, "exllamav2"))
        assert model_digest(tmp_path, "exllamav2") == digests[-1]
    assert len(set(digests)) == 4
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(CounterfactoryError, match="is empty"):
        model_digest(empty, "exllamav2")


def test_a_stage_s_key_needs_its_files(profile: Profile) -> None:
    with pytest.raises(CounterfactoryError, match=r"llm-exl2.* is missing"):
        library_of(profile).digest("rewrite")
    with pytest.raises(CounterfactoryError, match=r"blip2_vision\.plan is missing"):
        library_of(profile).digest("caption")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU: that its lack is told goes unchecked")
@pytest.mark.parametrize("backend", ["exllamav2", "exllamav3"])
def test_a_language_model_for_a_gpu_never_runs_on_the_cpu(backend: str, profile: Profile, tmp_path: Path) -> None:
    for name in ("config.json", "tokenizer.json", "model.safetensors"):
        (tmp_path / name).write_text("{}")
    with pytest.raises(CounterfactoryError, match=backend):
        open_llm(tmp_path, replace(profile.llm, backend=backend), profile.runtime)  # type: ignore[arg-type]


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
