"""Plans are opened, or refused, and the calls that run them are held against the real libraries.

Nothing here runs on a GPU. Sessions run over a stand-in in test_sessions.py; the stand-in's methods and the session's
calls are compared here with the installed packages.
"""

from __future__ import annotations

import inspect
import os
import re
import sys
from dataclasses import replace
from mmap import mmap
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
from small_graphs import pair_graph
from stand_in_cuda import Memory
from stand_in_gpu import Context, Engine, Library

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.keys import Digests, file_digest
from counterfactory.engine.runtime import cuda, tensorrt
from counterfactory.engine.runtime.plans import PlanKey, PlanProfile, Shapes, write_key
from counterfactory.engine.runtime.trt_library import LoadedPlan, library_name, load_library, make_context
from counterfactory.export.plans import tensorrt as plans


# The compiler that needs no GPU.
def build_plan(graph: Path, plan: Path, *profiles: PlanProfile, **asked: Any) -> plans.PlanReport:
    return plans.build_plan(graph, plan, profiles, library="tensorrt_rtx", **asked)


STATIC = {"x": Shapes.static(4, 4, 16, 16)}
PAIR = {"a": Shapes.static(2, 8), "b": Shapes.static(2, 8)}


@pytest.fixture
def rtx() -> Any:
    """TensorRT-RTX, which compiles without a GPU."""
    return pytest.importorskip(
        "tensorrt_rtx", reason="tensorrt_rtx is not installed: that graphs compile for SM86 goes unchecked"
    )


@pytest.fixture
def cuda_runtime() -> Any:
    """CUDA's runtime on a machine whose CUDA answers every call with an error."""
    runtime = pytest.importorskip(
        "cuda.bindings.runtime", reason="cuda-bindings is not installed: that it takes our calls goes unchecked"
    )
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
    ("weights", "scratch", "engines", "said"),
    [
        (
            600,
            301,
            0,
            r"needs 1,001 bytes for weights, inputs and outputs, and scratch memory, and 1,000 of the device's",
        ),
        (None, None, 1001, "needs 1,001 bytes for scratch memory beside its weights, and 1,000"),
        (600, 300, 1000, "reached the context"),
    ],
    ids=["by the key", "by the engine", "fits"],
)
def test_a_plan_without_room_is_refused_before_its_library_fails(
    weights: int | None, scratch: int | None, engines: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class ILogger:
        pass

    class Runtime:
        def __init__(self, log: Any) -> None:
            pass

        def deserialize_cuda_engine(self, plan: bytes) -> Any:
            def create_execution_context(strategy: str) -> None:
                assert strategy == "ours"
                raise CounterfactoryError("reached the context")

            return SimpleNamespace(
                device_memory_size_v2=engines,
                num_optimization_profiles=1,
                create_execution_context=create_execution_context,
                num_io_tensors=0,
            )

    ours = SimpleNamespace(USER_MANAGED="ours")
    made: dict[str, Any] = {"ILogger": ILogger, "Runtime": Runtime, "ExecutionContextAllocationStrategy": ours}
    library = SimpleNamespace(__name__="tensorrt", __version__="11.0", **made)
    monkeypatch.setitem(sys.modules, "tensorrt", library)  # type: ignore[arg-type]
    monkeypatch.setattr(cuda, "load_runtime", lambda: Memory(limit=1000))
    path = tmp_path / "picture.plan"
    path.write_bytes(b"plan")
    key = PlanKey(
        "a" * 64, (STATIC,), "fp16", "tensorrt 11.0", "SM86", file_digest(path), 1.0, None, weights, scratch, 100
    )
    write_key(path, key)
    with pytest.raises(CounterfactoryError, match=said):
        tensorrt.open_session(path, batch=4)


def test_a_plan_is_mapped_and_hashed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gigabytes of it are no copy in the host's memory, and a plan that is opened again is not read through again."""
    seen, hashed = [], []

    class ILogger:
        pass

    class Runtime:
        def __init__(self, log: Any) -> None:
            pass

        def deserialize_cuda_engine(self, serialized_engine: Any) -> None:
            seen.append((type(serialized_engine), bytes(serialized_engine)))

    library = SimpleNamespace(__name__="tensorrt", __version__="11.0", ILogger=ILogger, Runtime=Runtime)
    monkeypatch.setitem(sys.modules, "tensorrt", library)  # type: ignore[arg-type]
    memory = Memory()
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


def test_without_a_gpu_a_plan_is_an_error(rtx: Any, cuda_runtime: Any, tmp_path: Path) -> None:
    build_plan(pair_graph(tmp_path / "pair.onnx"), tmp_path / "p.plan", PAIR)
    with pytest.raises(CounterfactoryError, match="CUDA's cudaDeviceGetAttribute failed with cudaError"):
        tensorrt.open_session(tmp_path / "p.plan", batch=2)


def test_what_the_library_says_of_a_plan_is_passed_on(
    rtx: Any, cuda_runtime: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The real library is asked to load a real plan, and has no GPU to load it to."""
    build_plan(pair_graph(tmp_path / "pair.onnx"), tmp_path / "p.plan", PAIR)
    monkeypatch.setattr(cuda, "load_runtime", Memory)
    with pytest.raises(CounterfactoryError, match=r"p.plan cannot be loaded: .*(?i:cuda).*; build it again"):
        tensorrt.open_session(tmp_path / "p.plan", batch=2)


def test_kernels_made_on_the_device_are_kept_beside_the_plan(tmp_path: Path) -> None:
    """As TensorRT-RTX has it, which finishes kernels when they are first used."""

    class Cache:
        def __init__(self) -> None:
            self.content = b""

        def deserialize(self, blob: bytes) -> bool:
            self.content = blob if blob != b"stale" else b""
            return bool(self.content)

        def serialize(self) -> bytes:
            return self.content + b"kernel"

    class Config(SimpleNamespace):
        def create_runtime_cache(self) -> Cache:
            return Cache()

        def set_runtime_cache(self, cache: Cache) -> bool:
            self.cache = cache
            return True

        def set_execution_context_allocation_strategy(self, strategy: str) -> None:
            self.strategy = strategy

    class MakesKernels:
        num_optimization_profiles = 1

        def create_runtime_config(self) -> Config:
            return Config()

        def create_execution_context(self, config: Config) -> Config:
            return config

    library = SimpleNamespace(
        IRuntimeCache=Cache,
        CudaGraphStrategy=SimpleNamespace(DISABLED="disabled"),
        DynamicShapesKernelSpecializationStrategy=SimpleNamespace(NONE="none", EAGER="eager"),
        ExecutionContextAllocationStrategy=SimpleNamespace(USER_MANAGED="ours"),
    )
    file = tmp_path / "p.plan.kernels"
    for before, after in ((None, b"kernel"), (b"kernel", b"kernel"), (b"stale", b"kernel")):
        if before is not None:
            file.write_bytes(before)
        context, ran = make_context(LoadedPlan(tmp_path / "p.plan", library, None, None, MakesKernels()), 0)
        assert (context.cuda_graph_strategy, context.dynamic_shapes_kernel_specialization_strategy) == (
            "disabled",
            "none",
        )
        assert context.strategy == "ours"
        assert context.cache.content == (b"" if before == b"stale" else before or b"")
        ran()
        ran()
        assert file.read_bytes() == after


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
    for real, attributes in (
        (library.ICudaEngine, ["num_io_tensors", "device_memory_size_v2"]),
        (library.IExecutionContext, ["engine"]),
        (library.TensorIOMode, ["INPUT", "OUTPUT"]),
        (library.ExecutionContextAllocationStrategy, ["USER_MANAGED"]),
        (library.ILogger, ["INTERNAL_ERROR", "ERROR", "WARNING", "INFO"]),
        (library.Runtime, ["deserialize_cuda_engine"]),
    ):
        for attribute in attributes:
            assert hasattr(real, attribute), f"{real} has no {attribute}"
    assert len(inspect.signature(library.nptype).parameters) == 1
    assert np.dtype(library.nptype(library.DataType.INT64)) == np.int64


@pytest.mark.parametrize("name", ["tensorrt_rtx", "tensorrt"])
def test_what_compiles_is_called_as_the_library_has_it(name: str) -> None:
    library = pytest.importorskip(name, reason=f"{name} is not installed: that it takes our calls goes unchecked")
    for owner, names in {
        "Builder": "create_network create_builder_config create_optimization_profile "
        "build_serialized_network_to_stream",
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
    }.items():
        missing = [one for one in names.split() if not hasattr(getattr(library, owner), one)]
        assert not missing, f"{library.__name__}.{owner} has no {missing}"


def test_the_cache_of_kernels_is_the_librarys(rtx: Any) -> None:
    for real, names in (
        (rtx.ICudaEngine, ["create_runtime_config", "create_execution_context"]),
        (rtx.IRuntimeCache, ["serialize", "deserialize"]),
        (
            rtx.IRuntimeConfig,
            [
                "create_runtime_cache",
                "set_runtime_cache",
                "set_execution_context_allocation_strategy",
                "cuda_graph_strategy",
                "dynamic_shapes_kernel_specialization_strategy",
            ],
        ),
        (rtx.CudaGraphStrategy, ["DISABLED"]),
        (rtx.DynamicShapesKernelSpecializationStrategy, ["NONE"]),
    ):
        for name in names:
            assert hasattr(real, name), f"{real} has no {name}"


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
    assert {"cudaMalloc", "cudaFree", "cudaHostAlloc", "cudaFreeHost", "cudaMemcpyAsync", "cudaGraphLaunch"} <= set(
        calls
    )
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


def test_library_names_carry_their_release(rtx: Any) -> None:
    assert library_name(rtx) == f"tensorrt_rtx {rtx.__version__}"
    assert load_library("tensorrt_rtx") is rtx
