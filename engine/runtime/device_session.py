"""A plan on a device, whichever library runs it there: its memory, its caches, and what of it is queued.

Memory on the device and pinned memory on the host are allocated once, for the largest shapes; intermediate results of
TensorRT's plans lie in one block for all, since plans run one after another (cuda.py). A plan of static shapes is bound
once. A plan of dynamic shapes is queued call by call; an output that the caller holds is fed again where it lies, and
one that continues a cache is written behind it, into the one block that the cache has.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..errors import CounterfactoryError
from .buffers import DeviceArray, PortMemory
from .cuda import Addressable, Buffer, Cuda, Lease
from .plans import REBUILD
from .session import Signature, continued_cache, refuse_longer_cache, refuse_other_cache


@dataclass(frozen=True)
class DeviceSession:
    """A plan on the device. One thread at a time.

    `_context` is an IExecutionContext of TensorRT, or has its methods. What it queues for a plan of static shapes is
    recorded as one CUDA graph, unless it `_records` that by itself.
    """

    name: str
    signature: Signature
    _context: Any
    _cuda: Cuda
    _inputs: Mapping[str, PortMemory]
    _outputs: Mapping[str, PortMemory]
    _scratch: Lease
    # Device buffers of held outputs that are no longer in use, by output.
    _idle: dict[str, list[Buffer]] = field(default_factory=dict)
    # The last held part of each cache; its memory is that of the input.
    _latest: dict[str, DeviceArray] = field(default_factory=dict)
    _recorded: list[Callable[[], None]] = field(default_factory=list)
    _ran: Callable[[], None] = lambda: None
    _records: bool = False
    # Objects that must live as long as the context.
    _alive: object = None

    @property
    def static(self) -> bool:
        """Whether only one shape fits, so that the plan runs as a CUDA graph."""
        return all(None not in port.shape for port in (*self.signature.inputs, *self.signature.outputs))

    def run(self, feeds: Mapping[str, Any], hold: Collection[str] = ()) -> dict[str, Any]:
        """Run the plan once; refuses feeds that do not fit the signature.

        Outputs named in `hold` stay on the device and may be fed to a later run of this session.
        """
        # Feeds are checked before anything is queued: queued work would go on using the memory after an error.
        self._check(feeds, hold)
        for name in self._inputs:
            shape = tuple(feeds[name].shape)
            if not self.static and not self._context.set_input_shape(name, shape):
                raise CounterfactoryError(
                    f"plan {self.name} refuses {name} of shape {list(shape)}: outside of its profile; {REBUILD}"
                )
        shapes = {name: tuple(self._context.get_tensor_shape(name)) for name in self._outputs}
        caches = {name: cache for name in hold if (cache := continued_cache(name))}
        whole = {name: self._continued(cache, feeds[cache], shapes[name][0]) for name, cache in caches.items()}
        buffers = {name: self._room(name, shapes[name]) for name in hold if name not in caches}
        for name, place in self._inputs.items():
            self._put(place, feeds[name])
        if not self.static:
            for name, place in self._outputs.items():
                if name in whole:
                    self._bind(name, whole[name].buffer, whole[name].nbytes - place.nbytes(shapes[name]))
                else:
                    self._bind(name, buffers[name] if name in buffers else place.device(place.largest))
        self._queue()
        for name, place in self._outputs.items():
            shape, nbytes = shapes[name], place.nbytes(shapes[name])
            if name not in hold:
                self._cuda.to_host(place.host(shape), place.device(shape), nbytes)
            elif self.static:
                self._cuda.on_device(buffers[name], place.device(shape), nbytes)
        self._cuda.wait()
        self._ran()
        self._latest.update({cache: whole[name] for name, cache in caches.items()})
        outputs = {name: self._hold(self._outputs[name], shapes[name], buffer) for name, buffer in buffers.items()}
        shown = {name: place.shown(shapes[name]).copy() for name, place in self._outputs.items() if name not in hold}
        return shown | outputs | whole

    def queue(self, feeds: Mapping[str, DeviceArray | Sequence[DeviceArray]]) -> dict[str, DeviceArray]:
        """Queue a plan of fixed shapes on arrays of the device, whole or as their rows; nothing is waited for.

        Outputs lie where each run of this session puts them: what is queued on the device before the next run finds
        these. Raises CounterfactoryError for feeds that do not fit the signature.
        """
        assert self.static, "a plan of open shapes is run"
        described = {name: _whole(feed) for name, feed in feeds.items()}
        self._check(described, ())
        for name, feed in feeds.items():
            place = self._places(self._inputs[name])
            if isinstance(feed, DeviceArray):
                self._cuda.on_device(place, feed, feed.nbytes)
            else:
                for at, row in enumerate(feed):
                    self._cuda.on_device(place.row(at), row, row.nbytes)
        self._queue()
        self._ran()
        return {name: self._places(place) for name, place in self._outputs.items()}

    def _places(self, place: PortMemory) -> DeviceArray:
        return DeviceArray(place.largest, place.dtype, place.device(place.largest), self._cuda)

    def _check(self, feeds: Mapping[str, Any], hold: Collection[str]) -> None:
        self.signature.check(self.name, feeds, hold, self._cuda)
        for name, feed in feeds.items():
            if isinstance(feed, DeviceArray) and name in self._caches:
                refuse_other_cache(self.name, name, feed, self._latest.get(name))
            largest = self._inputs[name].largest
            if any(have > most for have, most in zip(feed.shape, largest, strict=True)):
                raise CounterfactoryError(
                    f"plan {self.name} accepts {name} up to {list(largest)}, got {list(feed.shape)}; "
                    "build it again for larger shapes or ask for less at a time"
                )

    def _put(self, place: PortMemory, feed: Any) -> None:
        name, shape = place.port.name, tuple(feed.shape)
        if isinstance(feed, DeviceArray):
            if self.static:
                self._cuda.on_device(place.device(shape), feed, feed.nbytes)
            else:
                self._bind(name, feed)
            return
        room = place.device(place.largest if name in self._caches else shape)
        if feed.nbytes:
            self._latest.pop(name, None)
            place.shown(shape)[...] = feed
            self._cuda.to_device(room, place.host(shape), feed.nbytes)
        if not self.static:
            self._bind(name, room)

    def _queue(self) -> None:
        """The network itself, after its inputs and before its outputs."""
        block = self._scratch.renewed()
        if block is not None:
            self._context.set_device_memory(block.pointer, block.nbytes)
            self._recorded.clear()  # it names the memory that was
        if self._records or not self.static:
            self._execute()
            return
        if not self._recorded:
            # The library settles its own memory in the first run, which a recording must not contain.
            self._execute()
            self._cuda.wait()
            self._recorded.append(self._cuda.capture(self._execute))
        self._recorded[0]()

    def _execute(self) -> None:
        if not self._context.execute_async_v3(self._cuda.stream_handle):
            self._cuda.refuse_lost()
            raise CounterfactoryError(f"plan {self.name} did not run: its library refused to queue it; {REBUILD}")

    def _bind(self, name: str, buffer: Addressable, offset: int = 0) -> None:
        if not self._context.set_tensor_address(name, buffer.pointer + offset):
            raise CounterfactoryError(f"plan {self.name} refuses the memory of {name}; {REBUILD}")

    @property
    def _caches(self) -> set[str]:
        return {cache for name in self._outputs if (cache := continued_cache(name))}

    def _continued(self, cache: str, past: Any, added: int) -> DeviceArray:
        """A cache with so many positions that this run adds to it, in the block that is the cache's."""
        refuse_other_cache(self.name, cache, past, self._latest.get(cache))
        place, positions = self._inputs[cache], past.shape[0] + added
        refuse_longer_cache(self.name, cache, positions, place.largest[0])
        return DeviceArray((positions, *place.largest[1:]), place.dtype, place.device(place.largest), self._cuda)

    def _room(self, name: str, shape: tuple[int, ...]) -> Buffer:
        place, idle = self._outputs[name], self._idle.get(name, [])
        while idle:
            buffer = idle.pop()
            if buffer.nbytes >= place.nbytes(shape):
                return buffer
            del buffer  # too small: given back before there is a larger one
        return self._cuda.allocate(place.nbytes(shape))

    def _hold(self, place: PortMemory, shape: tuple[int, ...], buffer: Buffer) -> DeviceArray:
        output = DeviceArray(shape, place.dtype, buffer, self._cuda)
        weakref.finalize(output, self._idle.setdefault(place.port.name, []).append, buffer).atexit = False
        return output


def _whole(arrays: DeviceArray | Sequence[DeviceArray]) -> DeviceArray:
    """Rows described as one array, which has no memory of its own; of rows that differ, by the first odd one."""
    if isinstance(arrays, DeviceArray):
        return arrays
    likes = [(row.shape, row.dtype, row.session) for row in arrays]
    odd = arrays[next((at for at, like in enumerate(likes) if like != likes[0]), 0)]
    return DeviceArray((len(arrays), *odd.shape), odd.dtype, odd.buffer, odd.session)
