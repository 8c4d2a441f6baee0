"""Plans are opened, or refused, and the calls that run them are held against the real libraries.

Nothing here runs on a GPU. Sessions run over a stand-in in test_sessions.py; the stand-in's methods and the session's
calls are compared here with the installed packages.
"""

from __future__ import annotations

import errno
import inspect
import os
import re
import shutil
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from mmap import mmap
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import onnx
import pytest
from small_graphs import pair_graph
from stand_in_cuda import Memory
from stand_in_gpu import Context, Engine, Library, write_plan

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.keys import Digests, file_digest
from counterfactory.engine.profile.runtime import RuntimeSettings
from counterfactory.engine.runtime import cuda, tensorrt, trt_library
from counterfactory.engine.runtime.opening import open_plan
from counterfactory.engine.runtime.plans import PlanKey, Shapes, read_key, write_key
from counterfactory.engine.runtime.trt_library import LoadedPlan, library_name, load_library, make_context
from counterfactory.export.plans import tensorrt as plans

STATIC = {"x": Shapes.static(4, 4, 16, 16)}
PAIR = {"a": Shapes.static(2, 8), "b": Shapes.static(2, 8)}


@pytest.fixture
def cuda_runtime() -> Any:
    """CUDA's runtime on a machine whose CUDA answers every call with an error."""
    runtime = pytest.importorskip("cuda.bindings.runtime", reason="no cuda-bindings: our calls of it go unchecked")
    if runtime.cudaGetDeviceCount()[0] == runtime.cudaError_t.cudaSuccess:
        pytest.skip("this machine has a GPU: calls with made-up addresses are not tried on it")
    return runtime


def test_a_library_that_is_missing_is_named_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("tensorrt", "tensorrt_rtx"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(CounterfactoryError, match=r"tensorrt_rtx cannot be imported .*pip install '\.\[tensorrt-rtx"):
        load_library("tensorrt_rtx")
    with pytest.raises(CounterfactoryError, match=r"tensorrt cannot be imported .*pip install '\.\[tensorrt\]'"):
        load_library("tensorrt")
    with pytest.raises(CounterfactoryError, match="plans are made by tensorrt or tensorrt_rtx, asked for tvm"):
        load_library("tvm")
    monkeypatch.setitem(sys.modules, "cuda.bindings.runtime", None)
    with pytest.raises(CounterfactoryError, match="a GPU session needs cuda-bindings"):
        cuda.load_runtime()


# Opening.


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    """A plan's file and key; its bytes are no plan."""
    path = tmp_path / "picture.plan"
    path.write_bytes(b"no plan")
    digest = "2f8b8a4dc0aeae4ed3ee11a8a68f0a3d65e4d2b0ff7c4a5a0b5c8fdb6d3a2f10"
    write_key(path, PlanKey("a" * 64, (STATIC,), "fp16", "tensorrt 11.0", "SM86", digest, 1.0))
    return path


def test_a_plan_is_refused_before_it_is_loaded(plan: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorrt", SimpleNamespace(__name__="tensorrt", __version__="11.1"))  # type: ignore[arg-type]
    monkeypatch.setattr(cuda, "load_runtime", Memory)
    with pytest.raises(CounterfactoryError) as caught:
        tensorrt.open_session(plan, batch=4, onnx_sha256="b" * 64)
    for reason in ("made of ONNX graph aaaaaaaaaaaa", "tensorrt 11.1 is installed", "not those that were written"):
        assert reason in str(caught.value)
    assert "SM86" not in str(caught.value)


@pytest.mark.parametrize(
    ("scratch", "recorded", "said"),
    [
        (309, True, r"needs 1,001 bytes for weights, inputs and outputs, and scratch memory, and 1,000 of the dev"),
        (501, False, "needs 501 bytes for scratch memory beside its weights, and 500"),
        (308, True, None),
    ],
    ids=["by the key", "by the engine", "fits"],
)
def test_a_plan_without_room_is_refused_before_its_library_fails(
    scratch: int, recorded: bool, said: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory, path = Memory(limit=1000), tmp_path / "pair.plan"
    monkeypatch.setattr(cuda, "load_runtime", lambda: memory)
    monkeypatch.setitem(sys.modules, "tensorrt", Library(memory))  # type: ignore[arg-type]
    graph, shapes = pair_graph(tmp_path / "pair.onnx"), {name: asdict(one) for name, one in PAIR.items()}
    held = {"weights_bytes": 500, "scratch_bytes": scratch, "io_bytes": 3 * 2 * 8 * 4}
    write_plan(path, {"onnx": str(graph), "profiles": [shapes]}, (PAIR,), held, "a" * 64)
    if not recorded:
        write_key(path, replace(read_key(path), weights_bytes=None))
    if said is None:
        session = tensorrt.open_session(path, batch=2)
        assert memory.bytes_of("device") == 1000
        assert session.static
        return
    with pytest.raises(CounterfactoryError, match=said):
        tensorrt.open_session(path, batch=2)


def test_a_plan_is_mapped_and_hashed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gigabytes of it are no copy in the host's memory, and a plan that is opened again is not read through again."""
    seen, hashed = [], []

    class Listening(Library):
        def _load(self, serialized_engine: Any) -> Any:
            seen.append((type(serialized_engine), bytes(serialized_engine)))

    memory = Memory()
    monkeypatch.setitem(sys.modules, "tensorrt", Listening(memory))  # type: ignore[arg-type]
    monkeypatch.setattr(cuda, "load_runtime", lambda: memory)
    path = tmp_path / "picture.plan"

    def counted(file: Path) -> str:
        hashed.append(file)
        return file_digest(file)

    digests = Digests(counted)

    def opened() -> None:
        with pytest.raises(CounterfactoryError, match="cannot be loaded: the library gives no reason"):
            tensorrt.open_session(path, batch=4, digest=digests.of)

    path.write_bytes(b"first")
    key = PlanKey("a" * 64, (STATIC,), "fp16", "tensorrt 11.0", "SM86", file_digest(path), 1.0)
    write_key(path, key)
    for _ in range(3):
        opened()
    assert seen == [(mmap, b"first")] * 3
    assert hashed == [path]
    path.write_bytes(b"other")  # as long as before
    os.utime(path, ns=(1, 1))
    with pytest.raises(CounterfactoryError, match="not those that were written"):
        tensorrt.open_session(path, batch=4, digest=digests.of)
    write_key(path, replace(key, plan_sha256=file_digest(path)))
    opened()
    assert hashed == [path, path]


def test_without_a_gpu_a_plan_is_an_error(cuda_runtime: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CUDA's own; and the real library's, which is asked to load a real plan where a device was said to be."""
    pytest.importorskip("tensorrt_rtx", reason="tensorrt_rtx is not installed: that it needs a GPU goes unchecked")
    plans.build_plan(pair_graph(tmp_path / "pair.onnx"), tmp_path / "p.plan", [PAIR], library="tensorrt_rtx")
    with pytest.raises(CounterfactoryError, match="CUDA's cudaDeviceGetAttribute failed with cudaError"):
        tensorrt.open_session(tmp_path / "p.plan", batch=2)
    monkeypatch.setattr(cuda, "load_runtime", Memory)
    with pytest.raises(CounterfactoryError, match=r"p.plan cannot be loaded: .*(?i:cuda).*; build it again"):
        tensorrt.open_session(tmp_path / "p.plan", batch=2)


class Cache:
    """TensorRT-RTX's, which has finished one kernel more than it was given."""

    def __init__(self) -> None:
        self.content = b""

    def deserialize(self, blob: bytes) -> bool:
        self.content = blob if blob != b"stale" else b""
        return bool(self.content)

    def serialize(self) -> bytes:
        return self.content + b"kernel"


def loaded_with_cache(path: Path) -> tuple[LoadedPlan, Any]:
    calls = ["create_runtime_cache", "set_runtime_cache", "set_execution_context_allocation_strategy"]
    engine, library = SimpleNamespace(create_execution_context=lambda config: config), mock.Mock()
    engine.create_runtime_config = lambda: mock.Mock(spec=calls, create_runtime_cache=Cache)
    engine.num_optimization_profiles = 1
    log = SimpleNamespace(errors=["out of memory"], warnings=[])
    return LoadedPlan(path, library, log, None, engine), engine


def test_kernels_made_on_the_device_are_kept_beside_the_plan(tmp_path: Path) -> None:
    """As TensorRT-RTX has it, which finishes kernels when they are first used."""
    loaded, engine = loaded_with_cache(tmp_path / "p.plan")
    library = loaded.library
    cases: list[tuple[int, int, bytes | None]] = [(1, 0, None), (1, 0, b"kernel"), (1, 0, b"stale"), (2, 1, None)]
    for profiles, profile, before in cases:
        file = tmp_path / ("p.plan.1.kernels" if profile else "p.plan.kernels")
        if before is not None:
            file.write_bytes(before)
        engine.num_optimization_profiles = profiles
        context, ran = make_context(loaded, profile)
        kinds, ours = library.DynamicShapesKernelSpecializationStrategy, library.ExecutionContextAllocationStrategy
        wanted = kinds.NONE if profiles == 1 else kinds.EAGER  # of one shape, whose kernels are made once
        assert context.dynamic_shapes_kernel_specialization_strategy is wanted
        assert context.cuda_graph_strategy is library.CudaGraphStrategy.DISABLED
        context.set_execution_context_allocation_strategy.assert_called_once_with(ours.USER_MANAGED)
        ((cache,), _) = context.set_runtime_cache.call_args
        assert cache.content == (b"" if before == b"stale" else before or b"")
        ran()
        ran()
        assert file.read_bytes() == b"kernel"
    engine.create_execution_context = lambda config: None
    with pytest.raises(CounterfactoryError, match=r"p\.plan cannot be made ready: out of memory; free memory"):
        make_context(loaded, 0)


def gone(folder: Path) -> None:
    shutil.rmtree(folder)


def taken(folder: Path) -> None:
    (folder / "p.plan.kernels").mkdir()


@pytest.mark.parametrize("spoil", [gone, taken])
def test_kernels_that_cannot_be_kept_are_told_once_and_stop_nothing(
    spoil: Callable[[Path], None], tmp_path: Path
) -> None:
    folder, told = tmp_path / "plans", list[str]()
    folder.mkdir()
    context, ran = make_context(loaded_with_cache(folder / "p.plan")[0], 0, told.append)
    spoil(folder)
    assert context is not None
    assert told == []
    ran()
    ran()
    assert len(told) == 1
    assert str(folder / "p.plan.kernels") in told[0]


@pytest.mark.parametrize("before", [None, b"kernel", b"stale"])
def test_plans_on_a_volume_that_cannot_be_written_to_run(
    before: bytes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kernels that are kept there are used without a word."""
    if before is not None:
        (tmp_path / "p.plan.kernels").write_bytes(before)
    told = list[str]()
    context, ran = make_context(loaded_with_cache(tmp_path / "p.plan")[0], 0, told.append)
    ((cache,), _) = context.set_runtime_cache.call_args
    assert cache.content == (b"kernel" if before == b"kernel" else b"")

    def refuse(*_: Any, **__: Any) -> int:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refuse)
        patch.setattr(os, "rename", refuse)
        patch.setattr(os, "replace", refuse)
        ran()
    assert len(told) == (before != b"kernel")
    assert all("read-only" in one for one in told)


def test_whoever_opens_a_plan_is_told_that_its_kernels_are_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory, told = Memory(), list[str]()
    monkeypatch.setattr(cuda, "load_runtime", lambda: memory)
    monkeypatch.setitem(sys.modules, "tensorrt", Library(memory))  # type: ignore[arg-type]
    graph, shapes = pair_graph(tmp_path / "pair.onnx"), {name: asdict(one) for name, one in PAIR.items()}
    held = {"weights_bytes": 500, "scratch_bytes": 300, "io_bytes": 200}
    write_plan(tmp_path / "plans" / "pair.plan", {"onnx": str(graph), "profiles": [shapes]}, (PAIR,), held, "a" * 64)

    def unkept(loaded: LoadedPlan, profile: int, report: Callable[[str], None]) -> Any:
        return make_context(loaded, profile)[0], lambda: report("a batch ran")

    monkeypatch.setattr(tensorrt, "make_context", unkept)
    runtime = RuntimeSettings("tensorrt", "f16", 0, 24)
    session = open_plan(tmp_path, "pair", runtime, 2, device=lambda: cuda.Cuda(memory), report=told.append)
    assert told == []
    session.run({name: np.ones((2, 8), np.float32) for name in PAIR})
    assert told == ["a batch ran"]


def test_kernels_of_somebody_else_that_cannot_be_read_are_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path) -> bytes:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    (tmp_path / "p.plan.kernels").write_bytes(b"theirs")
    monkeypatch.setattr(trt_library, "read_bytes", refuse)
    _, ran = make_context(loaded_with_cache(tmp_path / "p.plan")[0], 0)
    ran()
    assert (tmp_path / "p.plan.kernels").read_bytes() == b"kernel"


# The real packages.


def parameters(documented: str) -> int:
    """How many arguments a function takes by the first line that its binding documents, `self` not counted."""
    inside = re.search(r"\((.*)\)", documented.strip().splitlines()[0])
    assert inside is not None
    named = [part for part in re.split(r",\s*(?![^\[]*\])", inside.group(1)) if part.strip()]
    return len([part for part in named if not part.strip().startswith("self")])


def methods(stand_in: type) -> dict[str, int]:
    """Public methods of a class and how many arguments each takes."""
    return {
        name: len(inspect.signature(method).parameters) - 1
        for name, method in vars(stand_in).items()
        if inspect.isfunction(method) and not name.startswith("_")
    }


@pytest.mark.parametrize("name", ["tensorrt_rtx", "tensorrt"])
def test_the_stand_ins_methods_are_the_librarys(name: str) -> None:
    library = pytest.importorskip(name, reason=f"{name} is not installed: that it takes our calls goes unchecked")
    for stand_in, real in ((Engine, library.ICudaEngine), (Context, library.IExecutionContext)):
        for method, count in methods(stand_in).items():
            documented = getattr(real, method).__doc__
            overloads = re.findall(r"^\d+\. (.*)$", documented, re.MULTILINE) or [documented]
            least = {parameters(one) for one in overloads}
            assert count in least or (method == "create_execution_context" and count == 0), f"{method}: {documented}"
    assert len(inspect.signature(library.nptype).parameters) == 1
    assert np.dtype(library.nptype(library.DataType.INT64)) == np.int64


CALLED = {
    "ICudaEngine": "num_io_tensors device_memory_size_v2 num_optimization_profiles create_execution_context",
    "IExecutionContext": "engine",
    "TensorIOMode": "INPUT OUTPUT",
    "ExecutionContextAllocationStrategy": "USER_MANAGED",
    "ILogger": "INTERNAL_ERROR ERROR WARNING INFO",
    "Runtime": "deserialize_cuda_engine",
    "Builder": "create_network create_builder_config create_optimization_profile build_serialized_network_to_stream",
    "IStreamWriter": "write",
    "NetworkDefinitionCreationFlag": "STRONGLY_TYPED",
    "INetworkDefinition": "get_flag num_layers get_layer",
    "ILayer": "metadata type name num_outputs get_output get_input",
    "LayerType": " ".join((*plans._ARITHMETIC, "DEQUANTIZE")),
    "DataType": " ".join(plans._PRECISIONS),
    "OnnxParser": "parse_from_file num_errors get_error",
    "ParserError": "node_operator node_name desc",
    "IBuilderConfig": "add_optimization_profile set_memory_pool_limit create_timing_cache set_timing_cache "
    "get_timing_cache",
    "MemoryPoolType": "WORKSPACE",
    "ITimingCache": "serialize",
    "IOptimizationProfile": "set_shape",
}
# What finishes kernels on the device.
CALLED_OF_RTX = {
    "ICudaEngine": "create_runtime_config",
    "IRuntimeCache": "serialize deserialize",
    "IRuntimeConfig": "create_runtime_cache set_runtime_cache set_execution_context_allocation_strategy "
    "cuda_graph_strategy dynamic_shapes_kernel_specialization_strategy",
    "CudaGraphStrategy": "DISABLED",
    "DynamicShapesKernelSpecializationStrategy": "NONE EAGER",
}


@pytest.mark.parametrize(
    ("name", "called"), [("tensorrt_rtx", CALLED), ("tensorrt", CALLED), ("tensorrt_rtx", CALLED_OF_RTX)]
)
def test_what_is_called_is_the_librarys(name: str, called: dict[str, str]) -> None:
    library = pytest.importorskip(name, reason=f"{name} is not installed: that it takes our calls goes unchecked")
    for owner, names in called.items():
        missing = [one for one in names.split() if not hasattr(getattr(library, owner), one)]
        assert not missing, f"{library.__name__}.{owner} has no {missing}"
    assert library_name(library) == f"{name} {library.__version__}"
    assert load_library(name) is library


def test_cuda_takes_every_call_that_a_session_makes(cuda_runtime: Any, tmp_path: Path) -> None:
    """Replayed with the same arguments on the installed package, which answers each with what is wrong here."""
    calls: dict[str, tuple[Any, ...]] = {}

    class Listening(Memory):
        def __getattribute__(self, name: str) -> Any:
            value = super().__getattribute__(name)
            if not (name.startswith("cuda") and inspect.ismethod(value)):
                return value

            def called(*arguments: Any) -> Any:
                calls[name] = arguments
                return value(*arguments)

            return called

    memory = Listening()
    cuda.capability(memory)
    cuda.memory(memory)
    graph = onnx.load(str(pair_graph(tmp_path / "pair.onnx")))
    graph.graph.output[0].type.tensor_type.shape.dim[0].dim_param = "batch"
    onnx.save(graph, str(tmp_path / "pair.onnx"))
    context = Engine(tmp_path / "pair.onnx", memory, PAIR).create_execution_context()
    session = tensorrt.bind("pair", Library(), context, cuda.Cuda(memory), 2)
    feeds = {name: np.ones((2, 8), np.float32) for name in ("a", "b")}
    held = session.run(feeds, hold=["sum"])["sum"]
    np.testing.assert_array_equal(session.run({"a": feeds["a"], "b": held})["sum"], np.full((2, 8), 3.0))
    del session, held, context
    assert {"cudaMalloc", "cudaFree", "cudaHostAlloc", "cudaFreeHost", "cudaGraphLaunch"} <= set(calls)
    graphs = {"cudaGraphInstantiate", "cudaGraphDestroy", "cudaGraphLaunch", "cudaGraphExecDestroy"}
    for name, arguments in calls.items():
        real = [_real(cuda_runtime, one) for one in arguments]
        if name in graphs:  # what was recorded is an address there
            real[0] = 4096
        assert parameters(getattr(cuda_runtime, name).__doc__) == len(real), name
        with pytest.raises(CounterfactoryError, match=f"CUDA's {name} failed with cudaError"):
            cuda.call(cuda_runtime, name, *real)
    for name, count in methods(Memory).items():
        if name.startswith("cuda"):
            assert parameters(getattr(cuda_runtime, name).__doc__) == count, name


def _real(runtime: Any, value: Any) -> Any:
    """The real package's member of the same name, for a stand-in's."""
    kinds = {"Kind": "cudaMemcpyKind", "CaptureMode": "cudaStreamCaptureMode", "Attribute": "cudaDeviceAttr"}
    kind = kinds.get(type(value).__name__)
    return getattr(getattr(runtime, kind), value.name) if kind else value
