"""The few calls of CUDA that sessions make, through cuda-bindings, on device 0.

`CUDA_VISIBLE_DEVICES` says which GPU that is. Every failure is raised with the call and CUDA's own name for it.
Run on one H100 (docs/gpu.json); the tests hold every call against the installed package.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..errors import CounterfactoryError, TryAgainError, lost_device
from .installing import BOX, pip_install

Bytes = NDArray[np.uint8]


class Addressable(Protocol):
    """Something that lies at an address of the device."""

    @property
    def pointer(self) -> int: ...


class Buffer:
    """Memory that is freed when this object is no longer referenced: `pointer`, `nbytes`."""

    def __init__(self, pointer: int, nbytes: int, release: Callable[[int], Any]) -> None:
        self.pointer, self.nbytes = pointer, nbytes
        # At exit the driver takes everything back itself, perhaps before this would run.
        weakref.finalize(self, release, pointer).atexit = False


class PinnedBuffer(Buffer):
    """Host memory that the device copies from and to without the driver's staging; `array` shows it, uint8."""

    @property
    def array(self) -> Bytes:
        """The memory itself, not a copy: valid while this is held."""
        return np.ctypeslib.as_array((ctypes.c_uint8 * self.nbytes).from_address(self.pointer))


class Event:
    """A mark in a stream's line of work; recorded again it means the later place."""

    def __init__(self, handle: Any, release: Callable[[Any], Any]) -> None:
        self.handle = handle
        weakref.finalize(self, release, handle).atexit = False


class Cuda:
    """The runtime, `runtime` being the module cuda.bindings.runtime; two streams; and the block of scratch memory.

    All computations are queued on `stream`. Copies between host and device may go on the stream `copies` at the same
    time, and events order the two. Plans run one after another in the order of `stream`, so that one block of scratch
    memory serves all that are open: as large as the largest of their needs, instead of the sum. The block changes when
    a plan is opened that needs more, or when the one that needed most is gone.
    """

    def __init__(self, runtime: Any) -> None:
        self.runtime = runtime
        flags = runtime.cudaStreamNonBlocking
        self.stream, self.copies = (self._call("cudaStreamCreateWithFlags", flags) for _ in range(2))
        for stream in (self.stream, self.copies):
            weakref.finalize(self, runtime.cudaStreamDestroy, stream).atexit = False
        # Plans that lie on the device, by file and content, for as long as a session runs them.
        self.loaded: weakref.WeakValueDictionary[tuple[Path, str], Any] = weakref.WeakValueDictionary()
        self.scratch: Buffer | None = None
        self.scratch_number = 0  # another one for each block
        self._needs: dict[int, int] = {}  # bytes, by open lease

    def lease(self, nbytes: int) -> Lease:
        """A plan's part of the scratch memory, which has at least `nbytes` as long as the lease is referenced."""
        lease = Lease(self)
        self._needs[id(lease)] = nbytes
        weakref.finalize(lease, self._needs.pop, id(lease)).atexit = False
        self.settle()
        return lease

    def growth(self, nbytes: int) -> int:
        """Bytes that a lease of `nbytes` would take beyond those that the scratch memory has."""
        return max(0, nbytes - (0 if self.scratch is None else self.scratch.nbytes))

    def settle(self) -> None:
        """Make the scratch memory as large as the largest need."""
        most = max(self._needs.values(), default=0)
        if most != (0 if self.scratch is None else self.scratch.nbytes):
            self.wait()
            self.scratch = None  # given back before there is another one
            self.scratch = self.allocate(most) if most else None
            self.scratch_number += 1

    @property
    def stream_handle(self) -> int:
        """The stream as the number that other libraries take."""
        return int(self.stream)

    def allocate(self, nbytes: int) -> Buffer:
        """Memory on the device, at least one byte: an empty array still needs an address."""
        size = max(nbytes, 1)
        return Buffer(int(self._call("cudaMalloc", size)), size, self.runtime.cudaFree)

    def pin(self, nbytes: int) -> PinnedBuffer:
        """Pinned memory on the host, at least one byte."""
        size = max(nbytes, 1)
        return PinnedBuffer(int(self._call("cudaHostAlloc", size, 0)), size, self.runtime.cudaFreeHost)

    def to_device(self, to: Addressable, host: PinnedBuffer, nbytes: int, *, on_copies: bool = False) -> None:
        """Queue a copy, `on_copies` or behind the computations; `host` must not change until it is done."""
        self._copy(to.pointer, host.pointer, nbytes, "cudaMemcpyHostToDevice", on_copies)

    def to_host(self, host: PinnedBuffer, source: Addressable, nbytes: int, *, on_copies: bool = False) -> None:
        """Queue a copy, `on_copies` or behind the computations; `host` must not be read until it is done."""
        self._copy(host.pointer, source.pointer, nbytes, "cudaMemcpyDeviceToHost", on_copies)

    def on_device(self, to: Addressable, source: Addressable, nbytes: int) -> None:
        self._copy(to.pointer, source.pointer, nbytes, "cudaMemcpyDeviceToDevice")

    def wait(self) -> None:
        self._call("cudaStreamSynchronize", self.stream)

    def refuse_lost(self) -> None:
        """Raises TryAgainError where an earlier call has lost the device, as it says of every later one."""
        (error,) = self.runtime.cudaPeekAtLastError()
        check(self.runtime, "cudaPeekAtLastError", error)

    def event(self) -> Event:
        """A mark that is nowhere yet."""
        flags = self.runtime.cudaEventDefault
        return Event(self._call("cudaEventCreateWithFlags", flags), self.runtime.cudaEventDestroy)

    def mark(self, event: Event, *, on_copies: bool = False) -> None:
        """Put `event` behind all that was queued, on the stream of computations or the one of copies."""
        self._call("cudaEventRecord", event.handle, self._stream(on_copies))

    def hold_until(self, event: Event, *, on_copies: bool = False) -> None:
        """Work queued from here on, on the stream of computations or the one of copies, waits for `event`."""
        self._call("cudaStreamWaitEvent", self._stream(on_copies), event.handle, 0)

    def wait_for(self, event: Event) -> None:
        self._call("cudaEventSynchronize", event.handle)

    def has_passed(self, event: Event) -> bool:
        """Whether all before `event` is done, without waiting."""
        (error,) = self.runtime.cudaEventQuery(event.handle)
        if error == self.runtime.cudaError_t.cudaErrorNotReady:
            return False
        check(self.runtime, "cudaEventQuery", error)
        return True

    def seconds_between(self, first: Event, last: Event) -> float:
        """Seconds of the device's clock between two events that were waited for."""
        return float(self._call("cudaEventElapsedTime", first.handle, last.handle)) / 1000

    def capture(self, work: Callable[[], None]) -> Callable[[], None]:
        """What `work` queues, recorded instead of run; each call of the result queues all of it at once."""
        # Of this thread only: other threads go on allocating meanwhile.
        mode = self.runtime.cudaStreamCaptureMode.cudaStreamCaptureModeThreadLocal
        self._call("cudaStreamBeginCapture", self.stream, mode)
        try:
            work()
        finally:
            graph = self._call("cudaStreamEndCapture", self.stream)
        recorded = self._call("cudaGraphInstantiate", graph, 0)
        self._call("cudaGraphDestroy", graph)

        def launch() -> None:
            self._call("cudaGraphLaunch", recorded, self.stream)

        weakref.finalize(launch, self.runtime.cudaGraphExecDestroy, recorded).atexit = False
        return launch

    def _stream(self, on_copies: bool) -> Any:
        return self.copies if on_copies else self.stream

    def _copy(self, to: int, source: int, nbytes: int, kind: str, on_copies: bool = False) -> None:
        if nbytes:
            direction = getattr(self.runtime.cudaMemcpyKind, kind)
            self._call("cudaMemcpyAsync", to, source, nbytes, direction, self._stream(on_copies))

    def _call(self, name: str, *arguments: Any) -> Any:
        return call(self.runtime, name, *arguments)


class Lease:
    def __init__(self, device: Cuda) -> None:
        self._device, self._number = device, 0

    def renewed(self) -> Buffer | None:
        """The block, if it changed since the last call. The caller must not hold it: it would not be freed."""
        self._device.settle()
        if self._number == self._device.scratch_number:
            return None
        self._number = self._device.scratch_number
        return self._device.scratch


def open_device() -> Cuda:
    """The device, for sessions to share. Raises CounterfactoryError when there is none, or no runtime for it."""
    return Cuda(load_runtime())


def load_runtime() -> Any:
    """The module cuda.bindings.runtime. Raises CounterfactoryError when it is not installed."""
    return _import_module("cuda.bindings.runtime")


def load_driver() -> Any:
    """The module cuda.bindings.driver. Raises CounterfactoryError when it is not installed."""
    return _import_module("cuda.bindings.driver")


def _import_module(module: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        raise CounterfactoryError(
            f"a GPU session needs cuda-bindings, which is not installed ({error}); "
            f"install it: {pip_install(BOX)} (docs/a10g.md)"
        ) from error


def call(library: Any, name: str, *arguments: Any) -> Any:
    """One call of CUDA's runtime or driver: its value, if it has one. Raises CounterfactoryError with CUDA's reason."""
    error, *values = getattr(library, name)(*arguments)
    check(library, name, error)
    return values[0] if values else None


def check(library: Any, name: str, error: Any) -> None:
    """Raise CounterfactoryError with CUDA's reason unless the call `name` succeeded; TryAgainError where the device is
    lost to this process, or out of memory.
    """
    if error != 0:
        prefix = "cuda" if name.startswith("cuda") else "cu"
        # Both of these answer (status, text).
        code, text = (getattr(library, f"{prefix}GetError{what}")(error)[1].decode() for what in ("Name", "String"))
        words = f"CUDA's {name} failed with {code}: {text}"
        if lost_device(words):
            raise TryAgainError(
                f"{words}; run the same command again, what is done is kept: see `nvidia-smi` for free memory, and "
                "`dmesg` for a device's Xid"
            )
        raise CounterfactoryError(f"{words}; see `nvidia-smi` for the driver, the device and its free memory")


def memory(runtime: Any) -> tuple[int, int]:
    """Free bytes and all bytes of device 0. Raises CounterfactoryError where there is no device."""
    error, free, total = runtime.cudaMemGetInfo()
    check(runtime, "cudaMemGetInfo", error)
    return int(free), int(total)


def capability(runtime: Any) -> str:
    """The compute capability of device 0, as "SM86". Raises CounterfactoryError where there is no device."""
    kinds = runtime.cudaDeviceAttr
    major = call(runtime, "cudaDeviceGetAttribute", kinds.cudaDevAttrComputeCapabilityMajor, 0)
    minor = call(runtime, "cudaDeviceGetAttribute", kinds.cudaDevAttrComputeCapabilityMinor, 0)
    return f"SM{major}{minor}"
