"""Plans are compiled for the A10G without one: small graphs by TensorRT-RTX, and TensorRT's own turns without it.

Nothing here runs on a GPU.
"""

from __future__ import annotations

import gc
import resource
import sys
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
from small_graphs import mixing_graph, pair_graph, picture_graph, unknown_graph
from stand_in_cuda import Memory

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.runtime import cuda
from counterfactory.engine.runtime.plans import PlanProfile, Shapes, onnx_digest, read_key
from counterfactory.engine.runtime.trt_library import listen, reasons
from counterfactory.export.plans import tensorrt as plans
from counterfactory.export.plans.writing import write_plan
from counterfactory.export.precision.half import ISLAND
from counterfactory.export.production.peak import PeakMemory


# The compiler that needs no GPU.
def build_plan(graph: Path, plan: Path, *profiles: PlanProfile, **asked: Any) -> plans.PlanReport:
    return plans.build_plan(graph, plan, profiles, library="tensorrt_rtx", **asked)


STATIC = {"x": Shapes.static(4, 4, 16, 16)}
DYNAMIC = {"x": Shapes((1, 4, 16, 16), (4, 4, 16, 16), (8, 4, 16, 16))}


@pytest.fixture
def rtx() -> Any:
    """TensorRT-RTX, which compiles without a GPU."""
    return pytest.importorskip("tensorrt_rtx", reason="no tensorrt_rtx: that graphs compile for SM86 goes unchecked")


@pytest.mark.parametrize("profile", [STATIC, DYNAMIC], ids=["static", "dynamic"])
def test_a_small_graph_becomes_a_plan_for_the_a10g(rtx: Any, tmp_path: Path, profile: dict[str, Shapes]) -> None:
    graph, plan = picture_graph(tmp_path / "model.onnx"), tmp_path / "plans" / "picture.plan"
    report = build_plan(graph, plan, profile, workspace_bytes=1 << 28)
    assert report.library == f"tensorrt_rtx {rtx.__version__}"
    assert report.plan_bytes == plan.stat().st_size > 0
    assert (report.fused_attention, report.attentions) == (1, 1), "three operations, of which the compiler makes one"
    assert report.fp32_layers == ("norm",)
    key = read_key(plan)
    assert (key.device, key.precision, key.library) == ("SM86", "fp16", report.library)
    assert (key.profiles, key.onnx_sha256) == ((profile,), onnx_digest(graph))
    assert not list(plan.parent.glob("*.tmp"))


def attention_graph(path: Path, *widths: int) -> Path:
    """Attentions of two heads of each width side by side, as one operation each."""
    made: list[list[Any]] = [[], [], []]
    for i, width in enumerate(widths):
        ports = [
            onnx.helper.make_tensor_value_info(f"{name}{i}", onnx.TensorProto.FLOAT16, ["rows", 2, 64, width])
            for name in ("q", "k", "v", "y")
        ]
        made[0].append(onnx.helper.make_node("Attention", [f"q{i}", f"k{i}", f"v{i}"], [f"y{i}"]))
        made[1] += ports[:3]
        made[2] += ports[3:]
    graph = onnx.helper.make_graph(made[0], "g", *made[1:])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 23)], ir_version=10)
    onnx.save(model, str(path))
    return path


@pytest.mark.parametrize("target", ["sm75", "sm86", "sm120"])
def test_attention_without_a_fused_kernel_is_taken_apart_and_the_others_are_not(
    rtx: Any, tmp_path: Path, target: str
) -> None:
    """Heads of 512 and 2,304 are of no kernel's; fused ones are counted in the plan, of each profile once."""
    graph = attention_graph(tmp_path / "model.onnx", 64, 512, 64, 2304)
    inputs = {f"{name}{i}": width for i, width in enumerate((64, 512, 64, 2304)) for name in "qkv"}
    sizes = [{name: Shapes.static(rows, 2, 64, width) for name, width in inputs.items()} for rows in (2, 3)]
    for profiles in (sizes[:1], sizes):
        report = build_plan(graph, tmp_path / "p.plan", *profiles, target=target)
        assert (report.fused_attention, report.attentions) == (2, 4)


def test_a_key_has_what_the_compiler_says_of_memory(rtx: Any, tmp_path: Path) -> None:
    """More rows take more scratch memory and no more weights."""
    keys = []
    for profile in (STATIC, DYNAMIC):
        build_plan(picture_graph(tmp_path / "model.onnx"), tmp_path / "p.plan", profile)
        keys.append(read_key(tmp_path / "p.plan"))
    few, many = keys
    stored = onnx.load(tmp_path / "model.onnx").graph.initializer
    weights = sum(onnx.numpy_helper.to_array(one).nbytes for one in stored)
    assert few.weights_bytes == many.weights_bytes
    assert weights <= (few.weights_bytes or 0) < 2 * weights + 65536
    assert (few.scratch_bytes or 0) >= 4 * 4 * 16 * 16 * 2
    assert (many.scratch_bytes or 0) > (few.scratch_bytes or 0)
    for key, rows in ((few, 4), (many, 8)):
        assert key.io_bytes == rows * (4 * 16 * 16 + 256 * 64) * 4, "x and y in float32, at their largest"
        assert key.held_bytes == (key.weights_bytes or 0) + key.io_bytes


def test_a_compiler_that_says_nothing_of_memory_leaves_it_unknown() -> None:
    said = ["x Total Activation Memory: 5 bytes", "Total Activation Memory: 7 bytes"]
    assert plans._stated_bytes(said, "Total Activation Memory") == 7
    assert plans._stated_bytes(said, "Total Weights Memory") is None


def test_the_compiler_is_told_shapes_target_and_workspace(rtx: Any) -> None:
    """Read back from the library: a plan itself does not say without its GPU."""
    builder = rtx.Builder(rtx.Logger(rtx.Logger.ERROR))
    found = [tuple(shape) for shape in plans._profile(builder, DYNAMIC).get_shape("x")]
    assert found == [(1, 4, 16, 16), (4, 4, 16, 16), (8, 4, 16, 16)]
    config = plans._configured(rtx, builder, "sm86", 1 << 28)
    assert config.get_memory_pool_limit(rtx.MemoryPoolType.WORKSPACE) == 1 << 28
    assert (config.num_compute_capabilities, config.get_compute_capability(0)) == (1, rtx.ComputeCapability.SM86)


def test_all_of_a_compilers_errors_are_told_the_first_one_first(
    rtx: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What follows an error may be of another matter, such as a driver; warnings count where there is no error."""
    log, kinds = listen(rtx), rtx.ILogger.Severity
    assert reasons(log) == "the library gives no reason"
    log.log(kinds.WARNING, "slow")
    assert reasons(log) == "slow"
    for kind, text in (
        ("ERROR", " out of memory "),
        ("INTERNAL_ERROR", "no driver"),
        ("ERROR", "no driver"),
        ("INFO", "x"),
    ):
        log.log(getattr(kinds, kind), text)
    assert reasons(log) == "out of memory; no driver"
    # As it is: a graph that is given a byte to compute in.
    graph = picture_graph(tmp_path / "model.onnx")
    with pytest.raises(
        CounterfactoryError, match=r"cannot compile .*model\.onnx \(1 bytes of scratch .*allowed\): .*Tactic"
    ):
        build_plan(graph, tmp_path / "p.plan", STATIC, workspace_bytes=1)


def test_layers_in_fp32_are_listed_unless_they_are_islands(rtx: Any, tmp_path: Path) -> None:
    graph = picture_graph(tmp_path / "model.onnx", attention=np.float32)
    report = build_plan(graph, tmp_path / "p.plan", STATIC)
    assert report.fused_attention == 0, "attention in fp32 has no fused kernel"
    assert {"norm", "q_joined", "scores", "scaled", "weights", "attended", "projected"} <= set(report.fp32_layers)
    assert "conv" not in report.fp32_layers
    assert read_key(tmp_path / "p.plan").precision == "fp32"
    graph = picture_graph(tmp_path / "model.onnx", attention=np.float32, island=f"{ISLAND}normalisation/")
    outside = build_plan(graph, tmp_path / "p.plan", STATIC).fp32_layers
    assert set(report.fp32_layers) - set(outside) == {"norm"}
    assert not any(name.startswith(ISLAND) for name in outside)


@pytest.mark.parametrize(
    ("make", "profile", "said_first", "said_by_the_compiler"),
    [
        (
            lambda path: picture_graph(path, stray_weight=True),
            STATIC,
            "projected.* do not have the same element type",
            r"cannot (read|compile) .*projected",
        ),
        (unknown_graph, {"x": Shapes.static(1, 4)}, "hat.Conjure", "cannot read .*: Conjure rabbit: "),
    ],
    ids=["fp32 weight in fp16", "unknown operation"],
)
def test_what_cannot_be_compiled_is_named(
    rtx: Any, tmp_path: Path, monkeypatch: Any, make: Any, profile: Any, said_first: str, said_by_the_compiler: str
) -> None:
    """Our own checks see it before the compiler does; its word is passed on as well."""
    graph = make(tmp_path / "model.onnx")
    with pytest.raises(CounterfactoryError, match=said_first):
        build_plan(graph, tmp_path / "p.plan", profile)
    monkeypatch.setattr(plans, "check_profile", lambda path, shapes: None)
    with pytest.raises(CounterfactoryError, match=said_by_the_compiler):
        build_plan(graph, tmp_path / "p.plan", profile)
    assert not list(tmp_path.glob("p.plan*"))


@pytest.mark.parametrize("wrong", ["sm90", "sm85", "a10g", "current", "none"])
def test_a_target_that_it_cannot_compile_for_is_refused(rtx: Any, tmp_path: Path, wrong: str) -> None:
    with pytest.raises(CounterfactoryError, match=f"compiles for .*sm86.*, asked for {wrong}"):
        build_plan(pair_graph(tmp_path / "pair.onnx"), tmp_path / "p.plan", PAIR, target=wrong)


PAIR = {"a": Shapes.static(2, 8), "b": Shapes.static(2, 8)}


def test_what_the_compiler_lets_pass_is_caught(rtx: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of these compiles without our checks: else they would be of no use."""
    pair, mixing = pair_graph(tmp_path / "pair.onnx"), mixing_graph(tmp_path / "mixing.onnx", 2)
    cases: list[tuple[Path, dict[str, Shapes]]] = [
        (pair, {**PAIR, "c": Shapes.static(2, 8)}),
        (pair, {"a": Shapes((1, 8), (2, 8), (4, 8)), "b": Shapes((1, 8), (2, 8), (8, 8))}),
        (mixing, {"x": Shapes((2, 8, 4), (4, 8, 4), (8, 8, 4))}),
    ]
    build_plan(pair, tmp_path / "p.plan", PAIR, timing_cache=tmp_path / "timing.cache")
    assert not (tmp_path / "timing.cache").exists(), "without a GPU nothing is timed"
    before = (tmp_path / "p.plan").read_bytes(), read_key(tmp_path / "p.plan")
    for graph, profile in cases:
        with pytest.raises(CounterfactoryError, match="cannot become a plan of these shapes"):
            build_plan(graph, tmp_path / "p.plan", profile)
    assert ((tmp_path / "p.plan").read_bytes(), read_key(tmp_path / "p.plan")) == before
    monkeypatch.setattr(plans, "check_profile", lambda path, shapes: None)
    monkeypatch.setattr(plans, "io_bytes", lambda path, profile: 0)  # counts by what the checks have let pass
    for graph, profile in cases:
        build_plan(graph, tmp_path / "p.plan", profile)


class Pieces:
    """A library whose plans come in pieces."""

    class IStreamWriter:
        pass

    def __init__(self, *pieces: bytes) -> None:
        self.pieces = pieces

    def build(self, writer: Any) -> bool:
        return all(writer.write(piece) == len(piece) for piece in self.pieces)


def test_a_plan_in_pieces_is_that_plan_whole(tmp_path: Path) -> None:
    """Calls of fused attention that begin in one piece and end in another are counted once, whatever the pieces."""
    calls = [f"function={{ name=_gemm_mha_v2 fqn=_gemm_mha_v2_0x{i:032x} ".encode() for i in (1, 2, 10, 1)]
    whole = b"-".join([b"weights" * 20, *calls, b"_gemm_mha_v2_0x" + b"0" * 32, b"more" * 9])
    for length in (1, 7, 28, 29, 30, 300, len(whole)):
        library = Pieces(*(whole[i : i + length] for i in range(0, len(whole), length)))
        found = write_plan(library, tmp_path / "p.plan", library.build, str)
        assert (tmp_path / "p.plan").read_bytes() == whole
        assert (found.plan_bytes, found.sha256) == (len(whole), sha256(whole).hexdigest())
        assert found.fused_calls == 4, length


def test_a_plan_that_is_half_written_leaves_the_one_before_it(tmp_path: Path) -> None:
    plan, library = tmp_path / "p.plan", Pieces(bytes(20_000), bytes(20_000))
    plan.write_bytes(b"before")
    with pytest.raises(CounterfactoryError, match="the compiler fell over"):
        write_plan(library, plan, lambda writer: library.build(writer) and False, lambda: "the compiler fell over")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, limits[1]))
    try:
        with pytest.raises(CounterfactoryError, match=r"cannot write .*p\.plan: file too large"):
            write_plan(library, plan, library.build, lambda: "the compiler's guess")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert plan.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [plan]


def chain(path: Path, layers: int) -> Path:
    """A graph of products with matrices of 8 MB, which lie beside it."""
    one = np.random.default_rng(0).standard_normal((2048, 2048), np.float32).astype(np.float16)
    weights = [onnx.numpy_helper.from_array(np.roll(one, i), f"w{i}") for i in range(layers)]
    nodes = [onnx.helper.make_node("MatMul", [f"x{i}", f"w{i}"], [f"x{i + 1}"]) for i in range(layers)]
    kind = onnx.TensorProto.FLOAT16
    ports = [[onnx.helper.make_tensor_value_info(name, kind, ["rows", 2048])] for name in ("x0", f"x{layers}")]
    graph = onnx.helper.make_graph(nodes, "chain", *ports, weights)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 20)], ir_version=10)
    onnx.save(model, str(path), save_as_external_data=True, location=f"{path.name}.data")
    return path


@pytest.mark.slow
def test_weights_are_in_memory_once_while_they_are_compiled(rtx: Any, tmp_path: Path) -> None:
    """The compiler's own copy grows with the weights; neither the parser's nor the plan's does."""
    peaks = []
    for layers in (10, 26):
        graph = chain(tmp_path / f"{layers}.onnx", layers)
        gc.collect()
        with PeakMemory() as peak:
            before = peak.bytes
            build_plan(graph, tmp_path / "p.plan", {"x0": Shapes((1, 2048), (16, 2048), (16, 2048))})
        peaks.append(peak.bytes - before)
    assert peaks[1] - peaks[0] < 1.5 * 16 * 2048 * 2048 * 2


# TensorRT itself compiles on the box alone: its own turns of the road, without it.


def test_tensorrt_compiles_for_the_gpu_that_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda, "load_runtime", Memory)
    here_only = SimpleNamespace(__name__="tensorrt", __version__="11.0")
    plans._check_target(here_only, "sm86")
    with pytest.raises(CounterfactoryError, match=r"machine's GPU alone, which is SM86, asked for SM89"):
        plans._check_target(here_only, "sm89")


@pytest.mark.parametrize("installed", [False, True], ids=["not installed", "without a GPU"])
def test_without_the_box_s_compiler_it_is_said_what_to_do(installed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    module = SimpleNamespace(__name__="tensorrt", __version__="11.0") if installed else None
    monkeypatch.setitem(sys.modules, "tensorrt", module)  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "cuda.bindings.runtime", None)
    said = r"a GPU session needs cuda-bindings" if installed else "tensorrt cannot be imported"
    with pytest.raises(CounterfactoryError, match=rf"no plans for SM86 .* here: {said}.*; or .*--library tensorrt-rtx"):
        plans.require_compiler()


def test_timings_of_another_device_are_refused(tmp_path: Path) -> None:
    file, took = tmp_path / "timing.cache", []

    class Config:
        def create_timing_cache(self, serialized_timing_cache: bytes) -> bytes:
            return serialized_timing_cache

        def set_timing_cache(self, cache: bytes, ignore_mismatch: bool) -> bool:
            took.append((cache, ignore_mismatch))
            return cache != b"of another device"

    plans._take_timings(Config(), file)
    file.write_bytes(b"known")
    plans._take_timings(Config(), file)
    file.write_bytes(b"of another device")
    with pytest.raises(CounterfactoryError, match=r"timing.cache is of another device or release; remove it"):
        plans._take_timings(Config(), file)
    assert took == [(b"", False), (b"known", False), (b"of another device", False)]
