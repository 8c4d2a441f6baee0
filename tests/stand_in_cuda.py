"""CUDA's runtime as a strict driver would have it, for tests without a GPU: memory, streams, events and recordings.

A device forgives by luck what this refuses by rule:

- Work happens as late as it may: when the host waits for its stream, or for an event behind it. With a `seed` some of
  it happens earlier, at random, and the result has to be the same.
- Streams know of each other only by events and by what the host has waited for. Work that touches what unordered work
  on another stream writes is a fault, whether or not it happened to come out right.
- Device addresses are made up, and none is given twice: nobody can read device memory by accident, and a copy, a plan
  or a recording that uses freed memory or goes past its end is named.
- Fresh and freed memory holds 0xFF, NaN in every float. So does the target of a copy to the host until somebody waited,
  and the host may not write there, or to what is yet to be copied away.
- Memory is not freed, nor a stream destroyed, while queued work needs it.
- While a stream is captured, its thread allocates, frees and waits for nothing.

A fault is put on record, fails its own call, and fails every later one, as an illegal address does on a device. Methods
are those of the module cuda.bindings.runtime; tests hold them to that. Several threads may call.
"""

from __future__ import annotations

import ctypes
import random
import threading
import weakref
import zlib
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from functools import wraps
from typing import Any

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
POISON, _GUARD = 0xFF, 0xA5
# cudaMalloc promises this much; the stand-in gives no more, so that nothing comes to rely on it.
ALIGNMENT = 256
_GUARD_BYTES = 256
# Freed host memory is kept until there is this much of it: whoever still looks at it sees poison.
_KEPT_BYTES = 64_000_000


class Error(Enum):
    cudaSuccess = 0  # noqa: N815 - CUDA's names
    cudaErrorInvalidValue = 1  # noqa: N815
    cudaErrorMemoryAllocation = 2  # noqa: N815
    cudaErrorInvalidResourceHandle = 400  # noqa: N815
    cudaErrorNotReady = 600  # noqa: N815
    cudaErrorIllegalAddress = 700  # noqa: N815
    cudaErrorLaunchFailure = 719  # noqa: N815
    cudaErrorStreamCaptureUnsupported = 900  # noqa: N815
    cudaErrorStreamCaptureInvalidated = 901  # noqa: N815


class Kind(Enum):
    cudaMemcpyHostToDevice = ("host", "device")  # noqa: N815
    cudaMemcpyDeviceToHost = ("device", "host")  # noqa: N815
    cudaMemcpyDeviceToDevice = ("device", "device")  # noqa: N815


class CaptureMode(Enum):
    cudaStreamCaptureModeThreadLocal = 1  # noqa: N815


class Attribute(Enum):
    cudaDevAttrComputeCapabilityMajor = 75  # noqa: N815
    cudaDevAttrComputeCapabilityMinor = 76  # noqa: N815


@dataclass(frozen=True)
class Range:
    """Bytes that work touches, on "device" or "host"; any other word names something that is used by one at a time."""

    place: str
    start: int
    size: int = 1

    def overlaps(self, other: Range) -> bool:
        """Whether they share a byte."""
        return self.place == other.place and max(self.start, other.start) < min(
            self.start + self.size, other.start + other.size
        )


@dataclass(frozen=True)
class Work:
    """Something to be done on a stream. `begin` happens when it is queued, `act` gets its result when it is done."""

    what: str
    reads: tuple[Range, ...]
    writes: tuple[Range, ...]
    act: Callable[[Any], None] = lambda _: None
    begin: Callable[[], Any] = lambda: None


@dataclass(eq=False)
class _Queued:
    work: Work
    stream: int
    number: int
    clock: dict[int, int]  # what of each stream comes before it
    begun: Any
    behind: _Queued | None = None  # on another stream, by an event
    done: bool = False
    at_ms: float = 0.0


@dataclass(eq=False)
class _Stream:
    handle: int
    queue: deque[_Queued] = field(default_factory=deque)
    clock: dict[int, int] = field(default_factory=dict)
    recording: list[Work] | None = None
    thread: int = 0
    valid: bool = True


@dataclass(eq=False)
class _Block:
    """`content` is None where only sizes count."""

    place: str
    start: int
    size: int
    content: Bytes | None
    guarded: Bytes | None = None

    @property
    def whole(self) -> Range:
        return Range(self.place, self.start, self.size)


def _strict(method: Callable[..., Any]) -> Any:
    """One call at a time, none after a fault, and now and then some queued work before it."""

    @wraps(method)
    def called(self: Memory, *arguments: Any) -> Any:
        with self._lock:
            if self.faults:
                return (Error.cudaErrorLaunchFailure,)
            self._drift()
            return method(self, *arguments)

    return called


OPENED: weakref.WeakSet[Memory] = weakref.WeakSet()


class Memory:
    """The module cuda.bindings.runtime. `limit` bounds the device's bytes; `seed` makes work happen at random times.

    With `virtual` device memory has a size and nothing else: no work is done, and what comes to the host is zeros, or
    what `given` has for its address. `on_change` is called with the device's bytes after each allocation.
    """

    cudaError_t, cudaMemcpyKind = Error, Kind  # noqa: N815
    cudaStreamCaptureMode, cudaDeviceAttr = CaptureMode, Attribute  # noqa: N815
    cudaStreamNonBlocking = 1  # noqa: N815
    cudaEventDefault = 0  # noqa: N815

    def __init__(
        self,
        limit: int = 1 << 30,
        seed: int | None = None,
        *,
        virtual: bool = False,
        on_change: Callable[[int], object] = lambda _: None,
    ) -> None:
        self.limit, self.virtual, self.on_change = limit, virtual, on_change
        self.given: dict[int, Bytes] = {}
        self.faults: list[str] = []
        self.allocations = self.recordings = self.launches = 0
        self.copied: list[tuple[Kind, int]] = []
        self._taken = {"device": 0, "host": 0}
        self._blocks: dict[int, _Block] = {}
        self._freed: dict[str, list[Range]] = {"device": [], "host": []}
        self._kept: deque[_Block] = deque()
        self._streams: dict[int, _Stream] = {}
        self._graphs: dict[int, tuple[Work, ...]] = {}
        self._events: dict[int, _Queued | None] = {}
        self._gone: set[int] = set()
        self._host: dict[int, int] = {}  # how far into each stream the host has waited
        self._flying: list[_Queued] = []  # what the host has not waited for
        self._next_address, self._next_handle = 1 << 44, 1 << 12
        self._now_ms = 0.0
        self._lock = threading.RLock()
        self._random = None if seed is None else random.Random(seed)
        OPENED.add(self)

    # What tests ask.

    def bytes_of(self, place: str) -> int:
        """Bytes that are allocated on "device" or "host"."""
        return self._taken[place]

    def sizes(self, place: str) -> list[int]:
        """The sizes of all blocks on "device" or "host"."""
        return [block.size for block in self._blocks.values() if block.place == place]

    def view(self, pointer: int, size: int) -> Bytes:
        """These bytes of the device, to be read and written by work while it happens."""
        block = self._block(Range("device", pointer, size))
        assert block is not None, f"{size} bytes at {pointer:#x} lie outside of the device's memory"
        assert block.content is not None, "the memory is virtual"
        return block.content[pointer - block.start :][:size]

    @property
    def left(self) -> dict[str, int]:
        """How many blocks, streams, events and recordings nobody has given back; what there are none of is left out."""
        kinds = {"blocks": self._blocks, "streams": self._streams, "events": self._events, "graphs": self._graphs}
        return {name: len(some) for name, some in kinds.items() if some}

    def put(self, stream: int, work: Work) -> Error:
        """Queue work on a stream, or record it where that is captured."""
        with self._lock:
            self._drift()
            found = self._streams.get(int(stream))
            if found is None:
                return self._no_such("stream", stream, work.what)
            if error := self._check(work):
                return error
            if found.recording is not None:
                found.recording.append(work)
            else:
                self._enqueue(found, work)
            return self._sticky()

    def fault(self, error: Error, text: str) -> Error:
        """Put a fault on record."""
        self.faults.append(text)
        return error

    # Memory.

    @_strict
    def cudaMalloc(self, size: int) -> tuple[Error, int | None]:  # noqa: N802
        return self._allocate("device", size)

    @_strict
    def cudaHostAlloc(self, size: int, flags: int) -> tuple[Error, int | None]:  # noqa: N802
        return self._allocate("host", size)

    def cudaFree(self, devPtr: int) -> tuple[Error]:  # noqa: N802, N803
        return self._free("device", devPtr)

    def cudaFreeHost(self, ptr: int) -> tuple[Error]:  # noqa: N802
        return self._free("host", ptr)

    def cudaMemGetInfo(self) -> tuple[Error, int, int]:  # noqa: N802
        return Error.cudaSuccess, self.limit - self.bytes_of("device"), self.limit

    @_strict
    def cudaMemcpyAsync(self, dst: int, src: int, count: int, kind: Kind, stream: int) -> tuple[Error]:  # noqa: N802
        source, target = Range(kind.value[0], src, count), Range(kind.value[1], dst, count)
        work = Work(
            f"copy of {count} bytes from {source.place} to {target.place}",
            (source,),
            (target,),
            lambda digest: self._copy(source, target, digest),
            lambda: self._promise(source, target),
        )
        error = self.put(stream, work)
        if error is Error.cudaSuccess:
            self.copied.append((kind, count))
        return (error,)

    def _allocate(self, place: str, size: int) -> tuple[Error, int | None]:
        if size < 1:
            return Error.cudaErrorInvalidValue, None
        if error := self._unless_capturing("memory was allocated"):
            return error, None
        if place == "device" and self.bytes_of("device") + size > self.limit:
            return Error.cudaErrorMemoryAllocation, None
        block = self._device_block(size) if place == "device" else _host_block(size)
        self._blocks[block.start] = block
        self.allocations += 1
        self._taken[place] += size
        self.on_change(self._taken["device"])
        return Error.cudaSuccess, block.start

    def _device_block(self, size: int) -> _Block:
        start = self._next_address
        # A gap between blocks, and an odd multiple of the alignment.
        self._next_address += (size // (2 * ALIGNMENT) + 2) * 2 * ALIGNMENT
        content = None if self.virtual else np.full(size, POISON, np.uint8)
        return _Block("device", start + ALIGNMENT, size, content)

    def _free(self, place: str, pointer: int) -> tuple[Error]:
        with self._lock:
            block = self._blocks.get(pointer)
            if block is None or block.place != place:
                was = any(one.start == pointer for one in self._freed[place])
                text = "was freed before" if was else "is no block's"
                return (self.fault(Error.cudaErrorInvalidValue, f"{place} address {pointer:#x} {text}"),)
            error = self._unless_capturing("memory was freed")
            for queued in self._flying:
                if any(block.whole.overlaps(one) for one in (*queued.work.reads, *queued.work.writes)):
                    error = self.fault(
                        Error.cudaErrorIllegalAddress,
                        f"{place} memory was freed before anybody waited for the {queued.work.what} that needs it",
                    )
            if block.guarded is not None and any(guard.min() != guard.max() for guard in _guards(block.guarded)):
                error = self.fault(Error.cudaErrorIllegalAddress, "the host wrote past the ends of pinned memory")
            del self._blocks[pointer]
            self._taken[place] -= block.size
            self._freed[place].append(block.whole)
            if place == "host":
                self._keep(block)
            return (error or Error.cudaSuccess,)

    def _keep(self, block: _Block) -> None:
        assert block.content is not None
        block.content[:] = POISON
        self._kept.append(block)
        while sum(one.size for one in self._kept) > _KEPT_BYTES:
            self._kept.popleft()

    def _promise(self, source: Range, target: Range) -> tuple[int, int] | None:
        """What the host may not change before the copy is done: the digests of its bytes on either side."""
        if self.virtual:
            return None
        if target.place == "host":
            self._bytes(target)[:] = POISON
        return self._digest(source), self._digest(target)

    def _copy(self, source: Range, target: Range, digests: tuple[int, int] | None) -> None:
        if self.virtual:
            if target.place == "host":
                found = self.given.get(source.start)
                self._bytes(target)[:] = 0 if found is None else found[: target.size]
            return
        if digests != (self._digest(source), self._digest(target)):
            self.fault(
                Error.cudaErrorIllegalAddress, "the host wrote to pinned memory before anybody waited for its copy"
            )
        self._bytes(target)[:] = self._bytes(source)

    def _digest(self, some: Range) -> int:
        return zlib.crc32(self._bytes(some)) if some.place == "host" else 0

    def _bytes(self, some: Range) -> Bytes:
        block = self._block(some)
        assert block is not None
        assert block.content is not None
        return block.content[some.start - block.start :][: some.size]

    def _block(self, some: Range) -> _Block | None:
        for block in self._blocks.values():
            if (
                block.place == some.place
                and block.start <= some.start
                and some.start + some.size <= block.start + block.size
            ):
                return block
        return None

    def _check(self, work: Work) -> Error | None:
        """A fault where work touches what is not there."""
        for some in (*work.reads, *work.writes):
            if some.place in self._taken and self._block(some) is None:
                return self.fault(Error.cudaErrorInvalidValue, f"the {work.what} {self._why(some)}")
        return None

    def _why(self, some: Range) -> str:
        if any(some.overlaps(one) for one in self._freed[some.place]):
            return f"uses {some.place} memory that was freed"
        if any(some.overlaps(block.whole) for block in self._blocks.values()):
            return f"goes past the end of its {some.place} memory"
        return f"uses {some.place} address {some.start:#x}, which was never allocated" + (
            " and pinned" if some.place == "host" else ""
        )

    # Streams.

    @_strict
    def cudaStreamCreateWithFlags(self, flags: int) -> tuple[Error, int]:  # noqa: N802
        handle = self._handle()
        self._streams[handle] = _Stream(handle)
        return Error.cudaSuccess, handle

    def cudaStreamDestroy(self, stream: int) -> tuple[Error]:  # noqa: N802
        with self._lock:
            if int(stream) not in self._streams:
                return (self._no_such("stream", stream, "destruction"),)
            if any(queued.stream == int(stream) for queued in self._flying):
                return (self.fault(Error.cudaErrorLaunchFailure, "a stream was destroyed with work that is not done"),)
            self._drop(self._streams, int(stream))
            return (Error.cudaSuccess,)

    @_strict
    def cudaStreamSynchronize(self, stream: int) -> tuple[Error]:  # noqa: N802
        found = self._streams.get(int(stream))
        if found is None:
            return (self._no_such("stream", stream, "wait"),)
        if error := self._unless_capturing("a stream was waited for"):
            return (error,)
        while found.queue:
            self._do(found)
        self._seen(found.clock)
        return (self._sticky(),)

    @_strict
    def cudaStreamWaitEvent(self, stream: int, event: int, flags: int) -> tuple[Error]:  # noqa: N802
        found = self._streams.get(int(stream))
        if found is None:
            return (self._no_such("stream", stream, "wait for an event"),)
        if event not in self._events:
            return (self._no_such("event", event, "wait for an event"),)
        record = self._events[event]
        if record is None:
            return (self.fault(Error.cudaErrorInvalidValue, "a stream waits for an event that was never recorded"),)
        if found.recording is not None:
            return (self.fault(Error.cudaErrorStreamCaptureUnsupported, "a stream waits for another while captured"),)
        _merge(found.clock, record.clock)
        self._enqueue(found, Work("wait for an event", (), ()), behind=record)
        return (Error.cudaSuccess,)

    def _enqueue(self, stream: _Stream, work: Work, behind: _Queued | None = None) -> _Queued:
        _merge(stream.clock, self._host)
        stream.clock[stream.handle] = number = stream.clock.get(stream.handle, 0) + 1
        for other in self._flying:
            if stream.clock.get(other.stream, 0) < other.number and (what := _conflict(work, other.work)):
                self.fault(
                    Error.cudaErrorIllegalAddress,
                    f"the {work.what} and the {other.work.what} use the same {what} on two streams, and no event "
                    "orders them",
                )
        queued = _Queued(work, stream.handle, number, dict(stream.clock), work.begin(), behind)
        stream.queue.append(queued)
        self._flying.append(queued)
        return queued

    def _do(self, stream: _Stream) -> None:
        """The next of a stream, after what it waits for elsewhere."""
        queued = stream.queue.popleft()
        if queued.behind is not None:
            self._do_until(queued.behind)
        if not self._check(queued.work):
            queued.work.act(queued.begun)
        self._now_ms += 1.0
        queued.done, queued.at_ms = True, self._now_ms

    def _do_until(self, queued: _Queued) -> None:
        while not queued.done:
            self._do(self._streams[queued.stream])

    def _seen(self, clock: dict[int, int]) -> None:
        """The host knows that all of this is done."""
        _merge(self._host, clock)
        self._flying = [one for one in self._flying if one.number > self._host.get(one.stream, 0)]

    def _drift(self) -> None:
        """Some queued work happens by itself."""
        if self._random is not None:
            for _ in range(self._random.randrange(4)):
                busy = [stream for stream in self._streams.values() if stream.queue]
                if busy:
                    self._do(self._random.choice(busy))

    # Events.

    @_strict
    def cudaEventCreateWithFlags(self, flags: int) -> tuple[Error, int]:  # noqa: N802
        handle = self._handle()
        self._events[handle] = None
        return Error.cudaSuccess, handle

    def cudaEventDestroy(self, event: int) -> tuple[Error]:  # noqa: N802
        with self._lock:
            if event not in self._events:
                return (self._no_such("event", event, "destruction"),)
            self._drop(self._events, event)
            return (Error.cudaSuccess,)

    @_strict
    def cudaEventRecord(self, event: int, stream: int) -> tuple[Error]:  # noqa: N802
        found = self._streams.get(int(stream))
        if found is None:
            return (self._no_such("stream", stream, "record of an event"),)
        if event not in self._events:
            return (self._no_such("event", event, "record of an event"),)
        if found.recording is not None:
            return (self.fault(Error.cudaErrorStreamCaptureUnsupported, "an event was recorded on a captured stream"),)
        self._events[event] = self._enqueue(found, Work("record of an event", (), ()))
        return (Error.cudaSuccess,)

    @_strict
    def cudaEventSynchronize(self, event: int) -> tuple[Error]:  # noqa: N802
        if event not in self._events:
            return (self._no_such("event", event, "wait"),)
        if error := self._unless_capturing("an event was waited for"):
            return (error,)
        record = self._events[event]
        if record is None:
            return (self.fault(Error.cudaErrorInvalidValue, "the host waits for an event that was never recorded"),)
        self._do_until(record)
        self._seen(record.clock)
        return (self._sticky(),)

    @_strict
    def cudaEventQuery(self, event: int) -> tuple[Error]:  # noqa: N802
        if event not in self._events:
            return (self._no_such("event", event, "query"),)
        record = self._events[event]
        if record is None or not record.done:
            return (Error.cudaErrorNotReady,)
        self._seen(record.clock)
        return (Error.cudaSuccess,)

    @_strict
    def cudaEventElapsedTime(self, start: int, end: int) -> tuple[Error, float]:  # noqa: N802
        """Milliseconds between two events; a piece of work takes one."""
        if start not in self._events or end not in self._events:
            return self._no_such("event", start, "timing"), 0.0
        first, last = self._events[start], self._events[end]
        if first is None or last is None or {first, last} & set(self._flying):
            return Error.cudaErrorNotReady, 0.0
        return Error.cudaSuccess, last.at_ms - first.at_ms

    # Recordings.

    @_strict
    def cudaStreamBeginCapture(self, stream: int, mode: CaptureMode) -> tuple[Error]:  # noqa: N802
        found = self._streams.get(int(stream))
        if found is None:
            return (self._no_such("stream", stream, "capture"),)
        if found.recording is not None:
            return (self.fault(Error.cudaErrorInvalidValue, "a stream is captured twice at once"),)
        found.recording, found.thread, found.valid = [], threading.get_ident(), True
        self.recordings += 1
        return (Error.cudaSuccess,)

    def cudaStreamEndCapture(self, stream: int) -> tuple[Error, Any]:  # noqa: N802
        with self._lock:
            found = self._streams.get(int(stream))
            if found is None or found.recording is None:
                return self._no_such("captured stream", stream, "end of a capture"), None
            recorded, found.recording = found.recording, None
            if not found.valid:
                return Error.cudaErrorStreamCaptureInvalidated, None
            return Error.cudaSuccess, self._keep_graph(recorded)

    @_strict
    def cudaGraphInstantiate(self, graph: int, flags: int) -> tuple[Error, Any]:  # noqa: N802
        if graph not in self._graphs:
            return self._no_such("graph", graph, "instantiation"), None
        return Error.cudaSuccess, self._keep_graph(self._graphs[graph])

    def cudaGraphDestroy(self, graph: int) -> tuple[Error]:  # noqa: N802
        return self._destroy_graph(graph)

    def cudaGraphExecDestroy(self, graphExec: int) -> tuple[Error]:  # noqa: N802, N803
        return self._destroy_graph(graphExec)

    @_strict
    def cudaGraphLaunch(self, graphExec: int, stream: int) -> tuple[Error]:  # noqa: N802, N803
        if graphExec not in self._graphs:
            return (self._no_such("graph", graphExec, "launch"),)
        self.launches += 1
        for work in self._graphs[graphExec]:
            error = self.put(stream, work)
            if error is not Error.cudaSuccess:
                return (error,)
        return (Error.cudaSuccess,)

    def _keep_graph(self, recorded: Iterable[Work]) -> int:
        handle = self._handle()
        self._graphs[handle] = tuple(recorded)
        return handle

    def _destroy_graph(self, graph: int) -> tuple[Error]:
        with self._lock:
            if graph not in self._graphs:
                return (self._no_such("graph", graph, "destruction"),)
            self._drop(self._graphs, graph)
            return (Error.cudaSuccess,)

    def _unless_capturing(self, text: str) -> Error | None:
        """A fault, and the end of the capture's use, where this thread captures a stream."""
        for stream in self._streams.values():
            if stream.recording is not None and stream.thread == threading.get_ident():
                stream.valid = False
                return self.fault(Error.cudaErrorStreamCaptureUnsupported, f"{text} while a stream is captured")
        return None

    # The rest.

    def cudaDeviceGetAttribute(self, attr: Attribute, device: int) -> tuple[Error, int]:  # noqa: N802
        return Error.cudaSuccess, {75: 8, 76: 6}[attr.value]

    def cudaGetErrorName(self, error: Error) -> tuple[Error, bytes]:  # noqa: N802
        return Error.cudaSuccess, error.name.encode()

    def cudaGetErrorString(self, error: Error) -> tuple[Error, bytes]:  # noqa: N802
        return Error.cudaSuccess, (self.faults[0] if self.faults else "as the stand-in has it").encode()

    def _handle(self) -> int:
        self._next_handle += 16
        return self._next_handle

    def _drop(self, some: dict[int, Any], handle: int) -> None:
        del some[handle]
        self._gone.add(handle)

    def _no_such(self, kind: str, handle: int, what: str) -> Error:
        word = "was destroyed" if int(handle) in self._gone else "is none of this device's"
        return self.fault(Error.cudaErrorInvalidResourceHandle, f"the {what} names a {kind} that {word}")

    def _sticky(self) -> Error:
        return Error.cudaErrorIllegalAddress if self.faults else Error.cudaSuccess


def _host_block(size: int) -> _Block:
    whole = np.full(size + 2 * _GUARD_BYTES, _GUARD, np.uint8)
    content = whole[_GUARD_BYTES : _GUARD_BYTES + size]
    content[:] = POISON
    return _Block("host", ctypes.addressof(ctypes.c_uint8.from_buffer(content)), size, content, whole)


def _guards(whole: Bytes) -> tuple[Bytes, Bytes]:
    return whole[:_GUARD_BYTES], whole[-_GUARD_BYTES:]


def _conflict(one: Work, other: Work) -> str:
    """The word of the first place that both touch and one writes; none where they do not meet."""
    pairs = [(a, b) for a in one.writes for b in (*other.reads, *other.writes)]
    pairs += [(a, b) for a in one.reads for b in other.writes]
    return next((a.place for a, b in pairs if a.overlaps(b)), "")


def _merge(into: dict[int, int], other: dict[int, int]) -> None:
    for stream, number in other.items():
        into[stream] = max(into.get(stream, 0), number)
