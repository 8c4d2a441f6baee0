"""Work that is queued on a device and not waited for: its inputs, its arrays on the device, its results.

Arrays of the host go up a parcel at a time, during the work that was queued before. Two parcels may be under way: with
the third, the host waits until the work on the first is done. Arrays of the device come from a pool, and their memory
is used again once they are no longer referenced; since all computations are queued on one stream, that is safe before
the work on them is done. Results come down during the work that follows.

Run on one H100 (docs/gpu.json); tests run it over a stand-in for the driver.
"""

from __future__ import annotations

import math
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from .buffers import DeviceArray
from .cuda import Buffer, Cuda, Event, PinnedBuffer
from .session import Array

_UNDER_WAY = 2
_ALIGNMENT = 256  # bytes; as cudaMalloc's own


@dataclass
class _Parcel:
    """Memory on both sides for arrays that go up together; the event `used` follows the work on them."""

    arrived: Event
    used: Event
    host: PinnedBuffer | None = None
    device: Buffer | None = None
    under_way: bool = False


class Pipeline:
    """One for all models that hand work to each other on a device. One thread at a time."""

    def __init__(self, cuda: Cuda) -> None:
        self.cuda = cuda
        self._parcels = deque(_Parcel(cuda.event(), cuda.event()) for _ in range(_UNDER_WAY))
        self._idle: dict[int, list[Buffer]] = {}
        self._idle_host: dict[int, list[PinnedBuffer]] = {}
        # First and last event of what is timed, and what is to be told; then events to be used again.
        self._timed: deque[tuple[Event, Event, Callable[[float], None]]] = deque()
        self._events: list[tuple[Event, Event]] = []

    @contextmanager
    def parcel(self, arrays: Sequence[Array]) -> Iterator[list[DeviceArray]]:
        """Send arrays up. They are on the device for all that is queued inside of this, and no longer."""
        parcel = self._parcels[0]
        self._parcels.rotate(-1)
        if parcel.under_way:
            self.cuda.wait_for(parcel.used)
            self._settle()
        starts = [0]
        for array in arrays:
            starts.append(starts[-1] + -(-array.nbytes // _ALIGNMENT) * _ALIGNMENT)
        if parcel.host is None or parcel.device is None or parcel.host.nbytes < starts[-1]:
            room = 1 << (starts[-1] - 1).bit_length()  # so that a little more does not need other memory
            parcel.host, parcel.device = self.cuda.pin(room), self.cuda.allocate(room)
        for start, array in zip(starts, arrays, strict=False):
            parcel.host.array[start : start + array.nbytes].view(array.dtype).reshape(array.shape)[...] = array
        self.cuda.to_device(parcel.device, parcel.host, starts[-1], on_copies=True)
        self.cuda.mark(parcel.arrived, on_copies=True)
        self.cuda.hold_until(parcel.arrived)
        yield [
            DeviceArray(array.shape, array.dtype, parcel.device, self.cuda, start)
            for start, array in zip(starts, arrays, strict=False)
        ]
        self.cuda.mark(parcel.used)
        parcel.under_way = True

    def take(self, shape: tuple[int, ...], dtype: Any) -> DeviceArray:
        """An array on the device, its content undefined."""
        nbytes = math.prod(shape) * np.dtype(dtype).itemsize
        idle = self._idle.setdefault(nbytes, [])
        buffer = idle.pop() if idle else self.cuda.allocate(nbytes)
        array = DeviceArray(shape, np.dtype(dtype), buffer, self.cuda)
        weakref.finalize(array, idle.append, buffer).atexit = False
        return array

    def keep(self, array: DeviceArray) -> DeviceArray:
        """A copy, queued: of a session's output, say, which its next run overwrites."""
        copy = self.take(array.shape, array.dtype)
        self.cuda.on_device(copy, array, array.nbytes)
        return copy

    def fetch(self, array: DeviceArray) -> Callable[[], Array]:
        """Begin to bring an array down; call the result, once, to wait for it."""
        idle = self._idle_host.setdefault(array.nbytes, [])
        host = idle.pop() if idle else self.cuda.pin(array.nbytes)
        computed, arrived = self.cuda.event(), self.cuda.event()
        self.cuda.mark(computed)
        self.cuda.hold_until(computed, on_copies=True)
        self.cuda.to_host(host, array, array.nbytes, on_copies=True)
        self.cuda.mark(arrived, on_copies=True)
        alive = [array]  # its memory may be used again only after it was read

        def finish() -> Array:
            self.cuda.wait_for(arrived)
            self._settle()
            result = host.array.view(array.dtype).reshape(array.shape).copy()
            idle.append(host)
            alive.clear()
            return result

        return finish

    @contextmanager
    def timing(self, report: Callable[[float], None]) -> Iterator[None]:
        """Report the seconds that the device spends on what is queued inside of this, once they are known."""
        first, last = self._events.pop() if self._events else (self.cuda.event(), self.cuda.event())
        self.cuda.mark(first)
        yield
        self.cuda.mark(last)
        self._timed.append((first, last, report))

    def rest(self) -> None:
        """Wait for all that was queued, and free the memory that is not in use."""
        self.cuda.wait()
        self._settle()
        for buffers in self._idle.values():
            buffers.clear()
        for pinned in self._idle_host.values():
            pinned.clear()

    def _settle(self) -> None:
        while self._timed and self.cuda.has_passed(self._timed[0][1]):
            first, last, report = self._timed.popleft()
            report(self.cuda.seconds_between(first, last))
            self._events.append((first, last))
