"""TensorRT for tests without a GPU: what its sessions are run over, on the driver of stand_in_cuda.py.

`Engine` computes an ONNX graph with OpenVINO at whatever addresses it was bound to. `Library` gives one for a plan that
`write_stand_in` made of an exported graph. Their methods are those of the real libraries; tests hold them to that.
"""

from __future__ import annotations

import json
import weakref
from collections.abc import Callable, Mapping
from enum import Enum
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from stand_in_cuda import ALIGNMENT, Memory, Range, Work

from counterfactory.engine.keys import file_digest
from counterfactory.engine.runtime.cuda import call
from counterfactory.engine.runtime.openvino import open_core
from counterfactory.engine.runtime.plans import PlanKey, PlanProfile, read_profiles, write_key
from counterfactory.engine.runtime.trt_library import library_name


class Mode(Enum):
    INPUT, OUTPUT = 1, 2


class Strategy(Enum):
    STATIC, USER_MANAGED = 0, 2


class Library:
    """The module tensorrt, over `memory`; without it only what a session asks of the module itself.

    `make_engine` makes the engine of what a plan says, without memory of its own.
    """

    __name__, __version__ = "tensorrt", "11.0"
    TensorIOMode, ExecutionContextAllocationStrategy = Mode, Strategy

    class ILogger:
        INTERNAL_ERROR, ERROR, WARNING, INFO = range(4)

    def __init__(
        self, memory: Memory | None = None, make_engine: Callable[[Mapping[str, Any]], Engine] | None = None
    ) -> None:
        self.memory, self.make_engine = memory, make_engine or self._engine

    @staticmethod
    def nptype(trt_type: Any) -> Any:
        return trt_type

    def Runtime(self, log: Any) -> Any:  # noqa: N802
        return SimpleNamespace(deserialize_cuda_engine=self._load)

    def _load(self, serialized_engine: bytes) -> Engine:
        """Engines take memory for their weights when they are made, and contexts for what they compute."""
        plan = json.loads(serialized_engine[:])
        engine = self.make_engine(plan)
        engine.device_memory_size_v2 = plan["scratch_bytes"]
        pointer = call(engine.memory, "cudaMalloc", plan["weights_bytes"])
        weakref.finalize(engine, engine.memory.cudaFree, pointer).atexit = False
        return engine

    def _engine(self, plan: Mapping[str, Any]) -> Engine:
        assert self.memory is not None
        return Engine(Path(plan["onnx"]), self.memory, *read_profiles(plan["profiles"]))


def write_plan(
    plan: Path, said: Mapping[str, Any], profiles: tuple[PlanProfile, ...], held: Mapping[str, int], graph: str
) -> None:
    """A plan that says so much, and holds so many bytes, with its key."""
    plan.parent.mkdir(parents=True, exist_ok=True)
    plan.write_text(json.dumps({**said, **held}))
    write_key(plan, PlanKey(graph, profiles, "fp16", library_name(Library()), "SM86", file_digest(plan), 1.0, **held))


def write_stand_in(folder: Path, name: str) -> None:
    """Make the plan of an exported graph of `folder`, with its key, which says that 30 MB come and go beside it: as
    much as makes a profile's memory too small for all plans.
    """
    graph = folder / "onnx" / name / "model.onnx"
    manifest = json.loads(graph.with_name("manifest.json").read_text())
    held = {"weights_bytes": graph.stat().st_size, "scratch_bytes": 1 << 16, "io_bytes": 30_000_000}
    said = {"onnx": str(graph), "profiles": manifest["profiles"]}
    digest, profiles = manifest["onnx_sha256"], read_profiles(manifest["profiles"])
    write_plan(folder / "plans" / f"{name}.plan", said, profiles, held, digest)


class Engine:
    """An ICudaEngine of an ONNX graph under one profile or several."""

    def __init__(self, onnx: Path, memory: Memory, *profiles: PlanProfile, scratch_bytes: int = 0) -> None:
        core, self.device_memory_size_v2 = open_core(), scratch_bytes
        model = core.read_model(onnx)
        self.memory, self.profiles = memory, profiles
        # The profile that each context runs: no two run the same.
        self.taken: weakref.WeakKeyDictionary[Context, int] = weakref.WeakKeyDictionary()
        self.inputs = [port.get_any_name() for port in model.inputs]
        self.outputs = [port.get_any_name() for port in model.outputs]
        self.ports = {port.get_any_name(): port for port in (*model.inputs, *model.outputs)}
        self.compute = core.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})

    def _output_shapes(self, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
        """Those of the outputs, for inputs of these shapes."""
        results = self.compute({one: np.zeros(shapes[one], self.get_tensor_dtype(one)) for one in self.inputs})
        return {one: results[one].shape for one in self.outputs}

    @property
    def num_optimization_profiles(self) -> int:
        return len(self.profiles)

    @property
    def num_io_tensors(self) -> int:
        return len(self.ports)

    def get_tensor_name(self, index: int) -> str:
        return [*self.inputs, *self.outputs][index]

    def get_tensor_mode(self, name: str) -> Mode:
        return Mode.INPUT if name in self.inputs else Mode.OUTPUT

    def get_tensor_dtype(self, name: str) -> Any:
        return self.ports[name].get_element_type().to_dtype()

    def get_tensor_shape(self, name: str) -> tuple[int, ...]:
        return tuple(dim.get_length() if dim.is_static else -1 for dim in self.ports[name].get_partial_shape())

    def get_tensor_profile_shape(self, name: str, profile_index: int) -> list[tuple[int, ...]]:
        shapes = self.profiles[profile_index][name]
        return [shapes.min, shapes.opt, shapes.max]

    def create_execution_context(self, strategy: Strategy = Strategy.USER_MANAGED) -> Context:
        assert strategy is Strategy.USER_MANAGED, "each context would take scratch memory of its own"
        return Context(self)


class Context:
    """An IExecutionContext: computes what lies at the addresses it is bound to when it is queued."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.addresses: dict[str, int] = {}
        self.scratch: Range | None = None
        self.bindings = 0
        self._known: dict[tuple[tuple[int, ...], ...], dict[str, tuple[int, ...]]] = {}

    def set_optimization_profile_async(self, profile_index: int, stream_handle: int) -> bool:
        if any(other is not self and taken == profile_index for other, taken in self.engine.taken.items()):
            return False
        self.engine.taken[self] = profile_index
        self.shapes.clear()
        # Queued: what the context does before it was waited for is another profile's.
        return self.engine.memory.put(stream_handle, Work("switch of profiles", writes=(Range("context", id(self)),)))

    def set_input_shape(self, name: str, shape: tuple[int, ...]) -> bool:
        several = self.engine.num_optimization_profiles > 1
        if several and self not in self.engine.taken:
            return False
        least, _, most = self.engine.get_tensor_profile_shape(name, self.engine.taken.get(self, 0))
        fits = all(low <= n <= high for low, n, high in zip(least, shape, most, strict=True))
        if fits:
            self.shapes[name] = tuple(shape)
        return fits

    def infer_shapes(self) -> list[str]:
        return [name for name in self.engine.inputs if name not in self.shapes]

    def get_tensor_shape(self, name: str) -> tuple[int, ...]:
        if name in self.shapes:
            return self.shapes[name]
        key = tuple(self.shapes[one] for one in self.engine.inputs)
        if key not in self._known:
            self._known[key] = self.engine._output_shapes(self.shapes)
        return self._known[key][name]

    def set_tensor_address(self, name: str, memory: int) -> bool:
        self.bindings += 1
        if memory % ALIGNMENT:
            self.engine.memory.faults.append(f"{name} was given address {memory:#x}, no multiple of {ALIGNMENT}")
            return False
        self.addresses[name] = memory
        return memory != 0

    def set_device_memory(self, memory: int, size: int) -> None:
        assert memory % ALIGNMENT == 0
        assert size >= self.engine.device_memory_size_v2
        self.scratch = Range("device", memory, self.engine.device_memory_size_v2)

    def execute_async_v3(self, stream_handle: int) -> bool:
        needed = self.engine.device_memory_size_v2
        if self.infer_shapes() or self.engine.ports.keys() - self.addresses.keys() or (needed and not self.scratch):
            return False
        scratch = self.scratch if needed else None
        shapes = {name: self.get_tensor_shape(name) for name in self.engine.ports}
        addresses = dict(self.addresses)
        ranges = {name: Range("device", addresses[name], self._nbytes(name, shapes[name])) for name in shapes}

        def act(_: object) -> None:
            if self.engine.memory.virtual:
                return
            views = {name: self._view(addresses[name], shapes[name], name) for name in shapes}
            results = self.engine.compute({name: views[name].copy() for name in self.engine.inputs})
            if scratch is not None:  # what it leaves there is of no use to others
                self.engine.memory.view(scratch.start, scratch.size)[...] = 0xEE
            for name in self.engine.outputs:
                views[name][...] = results[name]

        # A context is run by one stream at a time: its scratch memory is one.
        own = Range("context", id(self))
        work = Work(
            "run of a plan",
            tuple(ranges[name] for name in self.engine.inputs),
            (*(ranges[name] for name in self.engine.outputs), *([] if scratch is None else [scratch]), own),
            act,
        )
        return self.engine.memory.put(stream_handle, work)

    def _nbytes(self, name: str, shape: tuple[int, ...]) -> int:
        return int(np.prod(shape)) * np.dtype(self.engine.get_tensor_dtype(name)).itemsize

    def _view(self, address: int, shape: tuple[int, ...], name: str) -> NDArray[Any]:
        dtype = np.dtype(self.engine.get_tensor_dtype(name))
        return self.engine.memory.view(address, self._nbytes(name, shape)).view(dtype).reshape(shape)


class OnnxSession:
    """ONNX Runtime's InferenceSession on a stream of the device, and its binding: over a context of fixed shapes."""

    def __init__(self, context: Context, stream: int) -> None:
        self.context, self.stream = context, stream

    def _nodes(self, names: list[str]) -> list[SimpleNamespace]:
        types = {"float32": "float", "int64": "int64"}
        return [
            SimpleNamespace(
                name=name,
                shape=list(self.context.get_tensor_shape(name)),
                type=f"tensor({types[np.dtype(self.context.engine.get_tensor_dtype(name)).name]})",
            )
            for name in names
        ]

    def get_inputs(self) -> list[SimpleNamespace]:
        return self._nodes(self.context.engine.inputs)

    def get_outputs(self) -> list[SimpleNamespace]:
        return self._nodes(self.context.engine.outputs)

    def io_binding(self) -> OnnxSession:
        return self

    def bind_input(
        self, name: str, device_type: str, device_id: int, element_type: Any, shape: list[int], buffer_ptr: int
    ) -> None:
        assert (device_type, device_id) == ("cuda", 0)
        assert tuple(shape) == self.context.get_tensor_shape(name)
        assert np.dtype(element_type) == self.context.engine.get_tensor_dtype(name)
        self.context.set_tensor_address(name, buffer_ptr)

    bind_output = bind_input

    def run_with_iobinding(self, iobinding: OnnxSession, run_options: Any) -> None:
        assert run_options.entries == {"disable_synchronize_execution_providers": "1"}, "each run would be waited for"
        if not iobinding.context.execute_async_v3(self.stream):
            raise RuntimeError("the stand-in refused the run")


class RunOptions:
    """ONNX Runtime's."""

    def __init__(self) -> None:
        self.entries: dict[str, str] = {}

    def add_run_config_entry(self, key: str, value: str) -> None:
        self.entries[key] = value
