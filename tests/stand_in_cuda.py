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

# ruff: noqa: N802, N803, N815, N818 - CUDA's names

from __future__ import annotations

import ctypes
import random
import threading
import weakref
import zlib
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from functools import partial, wraps
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
T = TypeVar("T")
POISON = 0xFF
# cudaMalloc promises this much; the stand-in gives no more, so that nothing comes to rely on it.
ALIGNMENT = 256
# Freed host memory is kept until there is this much of it: whoever still looks at it sees poison.
_KEPT_BYTES = 64_000_000


class Error(IntEnum):
    cudaSuccess = 0
    cudaErrorInvalidValue = 1
    cudaErrorMemoryAllocation = 2
    cudaErrorNotReady = 600
    cudaErrorLaunchFailure = 719


class Kind(Enum):
    cudaMemcpyHostToDevice = ("host", "device")
    cudaMemcpyDeviceToHost = ("device", "host")
    cudaMemcpyDeviceToDevice = ("device", "device")


class CaptureMode(Enum):
    cudaStreamCaptureModeThreadLocal = 1


class Attribute(Enum):
    cudaDevAttrComputeCapabilityMajor = 75
    cudaDevAttrComputeCapabilityMinor = 76


class Fault(Exception):
    """A rule that was broken."""


@dataclass(frozen=True)
class Range:
    """Bytes that work touches, on "device" or "host"; any other word names something that is used by one at a time."""

    place: str
    start: int
    size: int = 1

    def overlaps(self, other: Range) -> bool:
        """Whether they share a byte."""
        ends = self.start + self.size, other.start + other.size
        return self.place == other.place and max(self.start, other.start) < min(ends)


@dataclass(frozen=True)
class Work:
    """Something to be done on a stream. `begin` happens when it is queued, `act` gets its result when it is done."""

    what: str
    reads: tuple[Range, ...] = ()
    writes: tuple[Range, ...] = ()
    act: Callable[[Any], None] = lambda _: None
    begin: Callable[[], Any] = lambda: None

    def conflict(self, other: Work) -> str:
        """The word of the first place that both touch and one writes; none where they do not meet."""
        pairs = [(a, b) for a in self.writes for b in (*other.reads, *other.writes)]
        pairs += [(a, b) for a in self.reads for b in other.writes]
        return next((a.place for a, b in pairs if a.overlaps(b)), "")


@dataclass(eq=False)
class _Queued:
    work: Work
    stream: _Stream
    number: int
    clock: dict[_Stream, int]  # what of each stream comes before it
    begun: Any
    behind: _Queued | None  # on another stream, by an event
    done_ms: float | None = None


@dataclass(eq=False)
class _Stream:
    queue: deque[_Queued] = field(default_factory=deque)
    clock: dict[_Stream, int] = field(default_factory=dict)
    recording: list[Work] | None = None
    thread: int = 0


@dataclass(eq=False)
class _Event:
    record: _Queued | None = None


@dataclass(eq=False)
class _Graph:
    recorded: tuple[Work, ...]


@dataclass(eq=False)
class _Block:
    """`content` is None where only sizes count."""

    whole: Range
    content: Bytes | None


def _call(method: Callable[..., Any], drifts: bool = True) -> Any:
    """One call at a time, none after a fault, and, where it `drifts`, now and then some queued work before it."""

    @wraps(method)
    def called(self: Memory, *arguments: Any) -> Any:
        with self._lock:
            try:
                if self.faults:
                    return (Error.cudaErrorLaunchFailure,)
                if drifts:
                    self._drift()
                result = method(self, *arguments)
            except Fault as fault:
                self.faults.append(str(fault))
                return (Error.cudaErrorLaunchFailure,)
        return (result,) if isinstance(result, Error) else (Error.cudaSuccess, *([] if result is None else [result]))

    return called


# What finalisers call, perhaps in the middle of another call.
_giving_back = partial(_call, drifts=False)
OPENED: weakref.WeakSet[Memory] = weakref.WeakSet()


class Memory:
    """The module cuda.bindings.runtime. `limit` bounds the device's bytes; `seed` makes work happen at random times.

    With `virtual` device memory has a size and nothing else: no work is done, and what comes to the host is zeros.
    `on_change` is called with the device's bytes after each allocation.
    """

    cudaError_t, cudaMemcpyKind, cudaStreamCaptureMode, cudaDeviceAttr = Error, Kind, CaptureMode, Attribute
    cudaStreamNonBlocking, cudaEventDefault = 1, 0

    def __init__(
        self,
        limit: int = 1 << 30,
        seed: int | None = None,
        *,
        virtual: bool = False,
        on_change: Callable[[int], object] = lambda _: None,
    ) -> None:
        self.limit, self.virtual, self.on_change = limit, virtual, on_change
        self.faults: list[str] = []
        self.allocations = self.recordings = self.launches = 0
        self.copied: list[tuple[Kind, int]] = []
        self._blocks: dict[int, _Block] = {}
        self._kept: deque[Bytes] = deque()
        self._handles: dict[int, _Stream | _Event | _Graph] = {}
        self._host: dict[_Stream, int] = {}  # how far into each stream the host has waited
        self._flying: list[_Queued] = []  # what the host has not waited for
        self._next_address, self._next_handle = 1 << 44, 1 << 12
        self._now_ms = 0.0
        self._lock = threading.RLock()
        self._random = None if seed is None else random.Random(seed)
        OPENED.add(self)

    # What tests ask.

    def bytes_of(self, place: str) -> int:
        """Bytes that are allocated on "device" or "host"."""
        return sum(self.sizes(place))

    def sizes(self, place: str) -> list[int]:
        """The sizes of all blocks on "device" or "host"."""
        blocks = list(self._blocks.values())  # at once: another thread may be allocating
        return [block.whole.size for block in blocks if block.whole.place == place]

    def view(self, pointer: int, size: int) -> Bytes:
        """These bytes of the device, to be read and written by work while it happens."""
        return self._bytes(Range("device", pointer, size))

    @property
    def left(self) -> dict[str, int]:
        """How many blocks, streams, events and recordings nobody has given back."""
        return dict(Counter(type(one).__name__ for one in (*self._blocks.values(), *self._handles.values())))

    @_call
    def _put(self, stream: int, work: Work) -> None:
        self._queue(self._get(_Stream, stream), work)

    def put(self, stream: int, work: Work) -> bool:
        """Queue work on a stream, or record it where that is captured; whether no rule was broken."""
        return self._put(stream, work)[0] is Error.cudaSuccess and not self.faults

    # Memory.

    @_call
    def cudaMalloc(self, size: int) -> Any:
        if self.bytes_of("device") + size > self.limit:
            return Error.cudaErrorMemoryAllocation
        # A gap between blocks, and an odd multiple of the alignment.
        start = self._next_address + ALIGNMENT
        self._next_address += (size // (2 * ALIGNMENT) + 2) * 2 * ALIGNMENT
        return self._add("device", start, size, None if self.virtual else np.full(size, POISON, np.uint8))

    @_call
    def cudaHostAlloc(self, size: int, flags: int) -> int:
        content = np.full(size, POISON, np.uint8)
        return self._add("host", ctypes.addressof(ctypes.c_uint8.from_buffer(content)), size, content)

    def _add(self, place: str, start: int, size: int, content: Bytes | None) -> int:
        self._refuse_while_capturing("memory was allocated")
        self._blocks[start] = _Block(Range(place, start, size), content)
        self.allocations += 1
        self.on_change(self.bytes_of("device"))
        return start

    @_giving_back
    def cudaFree(self, devPtr: int) -> None:
        self._free("device", devPtr)

    @_giving_back
    def cudaFreeHost(self, ptr: int) -> None:
        content = self._free("host", ptr)
        assert content is not None
        content[:] = POISON
        self._kept.append(content)
        while sum(one.size for one in self._kept) > _KEPT_BYTES:
            self._kept.popleft()

    def _free(self, place: str, pointer: int) -> Bytes | None:
        block = self._blocks.get(pointer)
        if block is None or block.whole.place != place:
            raise Fault(f"{place} address {pointer:#x} was freed before, or is no block's")
        self._refuse_while_capturing("memory was freed")
        for queued in self._flying:
            if any(block.whole.overlaps(one) for one in (*queued.work.reads, *queued.work.writes)):
                raise Fault(f"{place} memory was freed before anybody waited for the {queued.work.what} that needs it")
        return self._blocks.pop(pointer).content

    def cudaMemGetInfo(self) -> tuple[Error, int, int]:
        return Error.cudaSuccess, self.limit - self.bytes_of("device"), self.limit

    @_call
    def cudaMemcpyAsync(self, dst: int, src: int, count: int, kind: Kind, stream: int) -> None:
        source, target = Range(kind.value[0], src, count), Range(kind.value[1], dst, count)

        def promise() -> tuple[int, ...]:
            """What the host may not change before the copy is done: the digests of its bytes on either side."""
            if target.place == "host" and not self.virtual:
                self._bytes(target)[:] = POISON
            return tuple(zlib.crc32(self._bytes(one)) for one in (source, target) if one.place == "host")

        def copy(promised: tuple[int, ...]) -> None:
            if self.virtual:
                if target.place == "host":
                    self._bytes(target)[:] = 0
                return
            if promised != tuple(zlib.crc32(self._bytes(one)) for one in (source, target) if one.place == "host"):
                raise Fault("the host wrote to pinned memory before anybody waited for its copy")
            self._bytes(target)[:] = self._bytes(source)

        what = f"copy of {count} bytes from {source.place} to {target.place}"
        begin = (lambda: None) if self.virtual else promise
        self._queue(self._get(_Stream, stream), Work(what, (source,), (target,), copy, begin))
        self.copied.append((kind, count))

    def _bytes(self, some: Range) -> Bytes:
        block = self._block(some)
        assert block is not None, f"{some} lies outside of all memory"
        assert block.content is not None, "the memory is virtual"
        return block.content[some.start - block.whole.start :][: some.size]

    def _block(self, some: Range) -> _Block | None:
        end = some.start + some.size
        for block in self._blocks.values():
            whole = block.whole
            if whole.place == some.place and whole.start <= some.start and end <= whole.start + whole.size:
                return block
        return None

    def _check(self, work: Work) -> None:
        for some in (*work.reads, *work.writes):
            if some.place in ("device", "host") and self._block(some) is None:
                inside = any(some.overlaps(block.whole) for block in self._blocks.values())
                why = "goes past the end of" if inside else "uses memory that was freed or never allocated (pinned) on"
                raise Fault(f"the {work.what} {why} the {some.place}: {some.size} bytes at {some.start:#x}")

    # Streams.

    @_call
    def cudaStreamCreateWithFlags(self, flags: int) -> int:
        return self._handle(_Stream())

    @_giving_back
    def cudaStreamDestroy(self, stream: int) -> None:
        if any(queued.stream is self._get(_Stream, stream) for queued in self._flying):
            raise Fault("a stream was destroyed with work that is not done")
        del self._handles[int(stream)]

    @_call
    def cudaStreamSynchronize(self, stream: int) -> None:
        self._refuse_while_capturing("a stream was waited for")
        waited = self._get(_Stream, stream)
        while waited.queue:
            self._do(waited)
        self._see(waited.clock)

    @_call
    def cudaStreamWaitEvent(self, stream: int, event: int, flags: int) -> None:
        record = self._recorded(event)
        waiting = self._get(_Stream, stream)
        if waiting.recording is not None:
            raise Fault("a stream waits for another while captured")
        _merge(waiting.clock, record.clock)
        self._enqueue(waiting, Work("wait for an event"), behind=record)

    def _queue(self, stream: _Stream, work: Work) -> None:
        self._check(work)
        if stream.recording is not None:
            stream.recording.append(work)
        else:
            self._enqueue(stream, work)

    def _enqueue(self, stream: _Stream, work: Work, behind: _Queued | None = None) -> _Queued:
        _merge(stream.clock, self._host)
        stream.clock[stream] = number = stream.clock.get(stream, 0) + 1
        for other in self._flying:
            if stream.clock.get(other.stream, 0) < other.number and (what := work.conflict(other.work)):
                both = f"the {work.what} and the {other.work.what}"
                raise Fault(f"{both} use the same {what} on two streams, and no event orders them")
        queued = _Queued(work, stream, number, dict(stream.clock), work.begin(), behind)
        stream.queue.append(queued)
        self._flying.append(queued)
        return queued

    def _do(self, stream: _Stream) -> None:
        """The next of a stream, after what it waits for elsewhere."""
        queued = stream.queue.popleft()
        if queued.behind is not None:
            self._do_until(queued.behind)
        self._check(queued.work)
        queued.work.act(queued.begun)
        self._now_ms += 1.0
        queued.done_ms = self._now_ms

    def _do_until(self, queued: _Queued) -> None:
        while queued.done_ms is None:
            self._do(queued.stream)

    def _see(self, clock: dict[_Stream, int]) -> None:
        """The host knows that all of this is done."""
        _merge(self._host, clock)
        self._flying = [one for one in self._flying if one.number > self._host.get(one.stream, 0)]

    def _drift(self) -> None:
        """Some queued work happens by itself."""
        for _ in range(0 if self._random is None else self._random.randrange(4)):
            busy = [one for one in self._handles.values() if isinstance(one, _Stream) and one.queue]
            if busy and self._random is not None:
                self._do(self._random.choice(busy))

    # Events.

    @_call
    def cudaEventCreateWithFlags(self, flags: int) -> int:
        return self._handle(_Event())

    @_giving_back
    def cudaEventDestroy(self, event: int) -> None:
        self._get(_Event, event)
        del self._handles[event]

    @_call
    def cudaEventRecord(self, event: int, stream: int) -> None:
        recorded = self._get(_Stream, stream)
        if recorded.recording is not None:
            raise Fault("an event was recorded on a captured stream")
        self._get(_Event, event).record = self._enqueue(recorded, Work("record of an event"))

    @_call
    def cudaEventSynchronize(self, event: int) -> None:
        self._refuse_while_capturing("an event was waited for")
        record = self._recorded(event)
        self._do_until(record)
        self._see(record.clock)

    @_call
    def cudaEventQuery(self, event: int) -> Error | None:
        record = self._get(_Event, event).record
        if record is None or record.done_ms is None:
            return Error.cudaErrorNotReady
        self._see(record.clock)
        return None

    @_call
    def cudaEventElapsedTime(self, start: int, end: int) -> float:
        """Milliseconds between two events; a piece of work takes one."""
        first, last = self._recorded(start), self._recorded(end)
        if first.done_ms is None or last.done_ms is None or {first, last} & set(self._flying):
            raise Fault("the time between two events was asked for before anybody waited for them")
        return last.done_ms - first.done_ms

    def _recorded(self, event: int) -> _Queued:
        record = self._get(_Event, event).record
        if record is None:
            raise Fault("an event is waited for that was never recorded")
        return record

    # Recordings.

    @_call
    def cudaStreamBeginCapture(self, stream: int, mode: CaptureMode) -> None:
        captured = self._get(_Stream, stream)
        if captured.recording is not None:
            raise Fault("a stream is captured twice at once")
        captured.recording, captured.thread = [], threading.get_ident()
        self.recordings += 1

    @_call
    def cudaStreamEndCapture(self, stream: int) -> int:
        captured = self._get(_Stream, stream)
        if captured.recording is None:
            raise Fault("a capture ends that was not begun")
        graph, captured.recording = _Graph(tuple(captured.recording)), None
        return self._handle(graph)

    @_call
    def cudaGraphInstantiate(self, graph: int, flags: int) -> int:
        return self._handle(_Graph(self._get(_Graph, graph).recorded))

    @_giving_back
    def cudaGraphDestroy(self, graph: int) -> None:
        self._get(_Graph, graph)
        del self._handles[graph]

    @_giving_back
    def cudaGraphExecDestroy(self, graphExec: int) -> None:
        self._get(_Graph, graphExec)
        del self._handles[graphExec]

    @_call
    def cudaGraphLaunch(self, graphExec: int, stream: int) -> None:
        self.launches += 1
        for work in self._get(_Graph, graphExec).recorded:
            self._queue(self._get(_Stream, stream), work)

    def _refuse_while_capturing(self, text: str) -> None:
        for stream in self._handles.values():
            if isinstance(stream, _Stream) and stream.recording is not None and stream.thread == threading.get_ident():
                raise Fault(f"{text} while a stream is captured")

    # The rest.

    def cudaDeviceGetAttribute(self, attr: Attribute, device: int) -> tuple[Error, int]:
        return Error.cudaSuccess, {75: 8, 76: 6}[attr.value]

    def cudaPeekAtLastError(self) -> tuple[Error]:
        return (Error.cudaErrorLaunchFailure if self.faults else Error.cudaSuccess,)

    def cudaGetErrorName(self, error: Error) -> tuple[Error, bytes]:
        return Error.cudaSuccess, error.name.encode()

    def cudaGetErrorString(self, error: Error) -> tuple[Error, bytes]:
        return Error.cudaSuccess, (self.faults[0] if self.faults else "as the stand-in has it").encode()

    def _handle(self, thing: _Stream | _Event | _Graph) -> int:
        self._next_handle += 16
        self._handles[self._next_handle] = thing
        return self._next_handle

    def _get(self, kind: type[T], handle: int) -> T:
        thing = self._handles.get(int(handle))
        if not isinstance(thing, kind):
            raise Fault(f"{handle} is none of this device's {kind.__name__}, or was destroyed")
        return thing


def _merge(into: dict[_Stream, int], other: dict[_Stream, int]) -> None:
    for stream, number in other.items():
        into[stream] = max(into.get(stream, 0), number)
