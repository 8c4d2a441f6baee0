"""Where a session's arrays lie: those of its inputs and outputs, and those that its caller holds on the device.

Compiled, not run: nobody has run this on a GPU; tests run it over a stand-in for the device's memory.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from .cuda import Buffer, Cuda, Pinned
from .session import Array, Port


@dataclass(frozen=True, eq=False)
class DeviceArray:
    """An output that stayed on the device; opaque but for what it looks like."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    buffer: Buffer
    session: object

    @property
    def nbytes(self) -> int:
        """Of its content; the buffer may be larger."""
        return math.prod(self.shape) * self.dtype.itemsize


@dataclass
class Place:
    """Where an input or output lies, on the device and, pinned, on the host: made when first used, for its largest.

    A held output needs no place of its own; the place of a cache has room for the longest.
    """

    port: Port
    largest: tuple[int, ...]
    cuda: Cuda
    _device: Buffer | None = None
    _host: Pinned | None = None

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of its numbers."""
        return np.dtype(self.port.dtype)

    def nbytes(self, shape: tuple[int, ...]) -> int:
        """Of an array of `shape`."""
        return math.prod(shape) * self.dtype.itemsize

    def device(self, shape: tuple[int, ...]) -> Buffer:
        """Memory on the device that has room for `shape`."""
        if self._device is None or self._device.nbytes < self.nbytes(shape):
            self._device = self.cuda.allocate(self.nbytes(self.largest) if self.nbytes(shape) else 0)
        return self._device

    def host(self, shape: tuple[int, ...]) -> Pinned:
        """Pinned memory that has room for `shape`."""
        if self._host is None or self._host.nbytes < self.nbytes(shape):
            self._host = self.cuda.pin(self.nbytes(self.largest) if self.nbytes(shape) else 0)
        return self._host

    def shown(self, shape: tuple[int, ...]) -> Array:
        """The pinned memory as an array of `shape`."""
        return self.host(shape).array[: self.nbytes(shape)].view(self.dtype).reshape(shape)
