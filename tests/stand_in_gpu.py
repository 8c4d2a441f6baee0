"""A GPU's memory and a plan's engine for tests, where there is neither: what TensorRT sessions are run over.

`Memory` keeps the rules that a session could break without a device noticing here: device and host memory are apart and
only copies of the right direction cross; what is queued happens when the stream is waited for and not before; what is
recorded happens when the recording is launched. `Engine` computes an ONNX graph with OpenVINO at whatever addresses it
was bound to. Their methods are those of the real libraries; tests hold them to that.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterfactory.engine.runtime.openvino import open_core
from counterfactory.engine.runtime.plans import Shapes


class Error(Enum):
    cudaSuccess = 0  # noqa: N815 - CUDA's names
    cudaErrorInvalidValue = 1  # noqa: N815
    cudaErrorMemoryAllocation = 2  # noqa: N815


class Kind(Enum):
    cudaMemcpyHostToDevice = ("host", "device")  # noqa: N815
    cudaMemcpyDeviceToHost = ("device", "host")  # noqa: N815
    cudaMemcpyDeviceToDevice = ("device", "device")  # noqa: N815


class CaptureMode(Enum):
    cudaStreamCaptureModeThreadLocal = 1  # noqa: N815


class Attribute(Enum):
    cudaDevAttrComputeCapabilityMajor = 75  # noqa: N815
    cudaDevAttrComputeCapabilityMinor = 76  # noqa: N815


class Memory:
    """The module cuda.bindings.runtime over host memory. `limit` bounds the device's bytes."""

    cudaError_t, cudaMemcpyKind = Error, Kind  # noqa: N815
    cudaStreamCaptureMode, cudaDeviceAttr = CaptureMode, Attribute  # noqa: N815
    cudaStreamNonBlocking = 1  # noqa: N815

    def __init__(self, limit: int = 1 << 30) -> None:
        self.limit = limit
        self.blocks: dict[int, tuple[str, Any, int]] = {}
        self.allocations = 0
        self.queue: list[Callable[[], None]] = []
        self.recording: list[Callable[[], None]] | None = None
        self.recordings = self.launches = 0
        self.copied: list[tuple[Kind, int]] = []

    def bytes_of(self, place: str) -> int:
        """Bytes that are allocated on "device" or "host"."""
        return sum(size for where, _, size in self.blocks.values() if where == place)

    def put(self, work: Callable[[], None]) -> None:
        """Queue, or record."""
        (self.queue if self.recording is None else self.recording).append(work)

    def _allocate(self, place: str, size: int) -> tuple[Error, int | None]:
        if self.recording is not None or size < 1:
            return Error.cudaErrorInvalidValue, None
        if place == "device" and self.bytes_of("device") + size > self.limit:
            return Error.cudaErrorMemoryAllocation, None
        block = (ctypes.c_uint8 * size)(*b"\xa5" * min(size, 8))
        self.blocks[ctypes.addressof(block)] = (place, block, size)
        self.allocations += 1
        return Error.cudaSuccess, ctypes.addressof(block)

    def _free(self, place: str, pointer: int) -> tuple[Error]:
        known = pointer in self.blocks and self.blocks[pointer][0] == place
        self.blocks.pop(pointer, None)
        return (Error.cudaSuccess if known else Error.cudaErrorInvalidValue,)

    def inside(self, place: str, pointer: int, size: int) -> bool:
        """Whether these bytes are allocated there."""
        return any(
            where == place and start <= pointer and pointer + size <= start + length
            for start, (where, _, length) in self.blocks.items()
        )

    def cudaMalloc(self, size: int) -> tuple[Error, int | None]:  # noqa: N802
        return self._allocate("device", size)

    def cudaHostAlloc(self, size: int, flags: int) -> tuple[Error, int | None]:  # noqa: N802
        return self._allocate("host", size)

    def cudaFree(self, devPtr: int) -> tuple[Error]:  # noqa: N802, N803
        return self._free("device", devPtr)

    def cudaFreeHost(self, ptr: int) -> tuple[Error]:  # noqa: N802
        return self._free("host", ptr)

    def cudaMemGetInfo(self) -> tuple[Error, int, int]:  # noqa: N802
        return Error.cudaSuccess, self.limit - self.bytes_of("device"), self.limit

    def cudaMemcpyAsync(self, dst: int, src: int, count: int, kind: Kind, stream: int) -> tuple[Error]:  # noqa: N802
        source, target = kind.value
        if not (self.inside(source, src, count) and self.inside(target, dst, count)):
            return (Error.cudaErrorInvalidValue,)
        self.copied.append((kind, count))
        self.put(lambda: ctypes.memmove(dst, src, count) and None)
        return (Error.cudaSuccess,)

    def cudaStreamCreateWithFlags(self, flags: int) -> tuple[Error, int]:  # noqa: N802
        return Error.cudaSuccess, 77

    def cudaStreamDestroy(self, stream: int) -> tuple[Error]:  # noqa: N802
        return (Error.cudaSuccess,)

    def cudaStreamSynchronize(self, stream: int) -> tuple[Error]:  # noqa: N802
        if self.recording is not None:
            return (Error.cudaErrorInvalidValue,)
        for work in self.queue:
            work()
        self.queue.clear()
        return (Error.cudaSuccess,)

    def cudaStreamBeginCapture(self, stream: int, mode: CaptureMode) -> tuple[Error]:  # noqa: N802
        self.recording = []
        self.recordings += 1
        return (Error.cudaSuccess,)

    def cudaStreamEndCapture(self, stream: int) -> tuple[Error, Any]:  # noqa: N802
        recorded, self.recording = self.recording, None
        return Error.cudaSuccess, recorded

    def cudaGraphInstantiate(self, graph: Any, flags: int) -> tuple[Error, Any]:  # noqa: N802
        return Error.cudaSuccess, tuple(graph)

    def cudaGraphDestroy(self, graph: Any) -> tuple[Error]:  # noqa: N802
        return (Error.cudaSuccess,)

    def cudaGraphExecDestroy(self, graphExec: Any) -> tuple[Error]:  # noqa: N802, N803
        return (Error.cudaSuccess,)

    def cudaGraphLaunch(self, graphExec: Any, stream: int) -> tuple[Error]:  # noqa: N802, N803
        self.launches += 1
        for work in graphExec:
            self.put(work)
        return (Error.cudaSuccess,)

    def cudaDeviceGetAttribute(self, attr: Attribute, device: int) -> tuple[Error, int]:  # noqa: N802
        return Error.cudaSuccess, {75: 8, 76: 6}[attr.value]

    def cudaGetErrorName(self, error: Error) -> tuple[Error, bytes]:  # noqa: N802
        return Error.cudaSuccess, error.name.encode()

    def cudaGetErrorString(self, error: Error) -> tuple[Error, bytes]:  # noqa: N802
        return Error.cudaSuccess, b"as the stand-in has it"


class Mode(Enum):
    INPUT, OUTPUT = 1, 2


class Library:
    """What a session asks of the module itself; a plan's library is named by its key."""

    __name__, __version__ = "tensorrt", "11.0"
    TensorIOMode = Mode

    @staticmethod
    def nptype(trt_type: Any) -> Any:
        return trt_type


class Engine:
    """An ICudaEngine of an ONNX graph under one profile."""

    def __init__(self, onnx: Path, profile: Mapping[str, Shapes], memory: Memory) -> None:
        core = open_core()
        model = core.read_model(onnx)
        self.memory, self.profile = memory, profile
        self.inputs = [port.get_any_name() for port in model.inputs]
        self.outputs = [port.get_any_name() for port in model.outputs]
        self.ports = {port.get_any_name(): port for port in (*model.inputs, *model.outputs)}
        self.compute = core.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})

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
        shapes = self.profile[name]
        return [shapes.min, shapes.opt, shapes.max]

    def create_execution_context(self) -> Context:
        return Context(self)


class Context:
    """An IExecutionContext: computes what lies at the addresses it is bound to when it is queued."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.addresses: dict[str, int] = {}
        self.bindings = 0
        self._known: dict[tuple[tuple[int, ...], ...], dict[str, tuple[int, ...]]] = {}

    def set_input_shape(self, name: str, shape: tuple[int, ...]) -> bool:
        least, _, most = self.engine.get_tensor_profile_shape(name, 0)
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
            zeros = {one: np.zeros(self.shapes[one], self.engine.get_tensor_dtype(one)) for one in self.engine.inputs}
            results = self.engine.compute(zeros)
            self._known[key] = {one: results[one].shape for one in self.engine.outputs}
        return self._known[key][name]

    def set_tensor_address(self, name: str, memory: int) -> bool:
        self.bindings += 1
        self.addresses[name] = memory
        return memory != 0

    def execute_async_v3(self, stream_handle: int) -> bool:
        shapes = {name: self.get_tensor_shape(name) for name in self.engine.ports}
        addresses = dict(self.addresses)

        def work() -> None:
            views = {name: self._view(addresses[name], shapes[name], name) for name in shapes}
            results = self.engine.compute({name: views[name].copy() for name in self.engine.inputs})
            for name in self.engine.outputs:
                views[name][...] = results[name]

        self.engine.memory.put(work)
        return True

    def _view(self, address: int, shape: tuple[int, ...], name: str) -> NDArray[Any]:
        dtype = np.dtype(self.engine.get_tensor_dtype(name))
        nbytes = int(np.prod(shape)) * dtype.itemsize
        assert self.engine.memory.inside("device", address, nbytes), f"{name} lies outside of the device's memory"
        raw = (ctypes.c_uint8 * nbytes).from_address(address)
        return np.frombuffer(raw, dtype).reshape(shape)
