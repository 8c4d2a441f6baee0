"""One block of device memory for the intermediate results of plans, shared by all plans that are open on a device.

Plans of one device run one after another, in the order of its stream, so that one block serves them all: as large as
the largest of their needs, instead of the sum. The block changes when a plan is opened that needs more, or when the one
that needed most is gone; every plan then finds another block before its next run.
"""

from __future__ import annotations

import weakref
from typing import Protocol


class Block(Protocol):
    """Memory on a device, which is freed when this is no longer referenced."""

    pointer: int
    nbytes: int


class Device(Protocol):
    """The device of the block."""

    def allocate(self, nbytes: int) -> Block:
        """Memory on the device."""
        ...

    def wait(self) -> None:
        """Until nothing runs that might use the block."""
        ...


class Scratch:
    """The block of a device, and the bytes of it that each open plan needs."""

    def __init__(self) -> None:
        self._needs: dict[int, int] = {}
        self._block: Block | None = None
        self._number = 0

    def lease(self, device: Device, nbytes: int) -> Lease:
        """A plan's part: the block has at least `nbytes` as long as the lease is referenced."""
        lease = Lease(self, device)
        self._needs[id(lease)] = nbytes
        weakref.finalize(lease, self._needs.pop, id(lease)).atexit = False
        self.settle(device)
        return lease

    def growth(self, nbytes: int) -> int:
        """Bytes that a lease of `nbytes` would take beyond those that the block has."""
        return max(0, nbytes - (0 if self._block is None else self._block.nbytes))

    def settle(self, device: Device) -> tuple[int, Block | None]:
        """Make the block as large as the largest need; returns its number, another one for each block, and itself."""
        most = max(self._needs.values(), default=0)
        if most != (0 if self._block is None else self._block.nbytes):
            device.wait()
            self._block = None  # given back before there is another one
            self._block = device.allocate(most) if most else None
            self._number += 1
        return self._number, self._block


class Lease:
    """A plan's part in the block."""

    def __init__(self, scratch: Scratch, device: Device) -> None:
        self._scratch, self._device = scratch, device
        self._number = 0

    def renewed(self) -> Block | None:
        """The block, if it changed since the last call. The caller must not hold it: it would not be freed."""
        number, block = self._scratch.settle(self._device)
        if number == self._number:
            return None
        self._number = number
        return block
