"""The memory of a session's arrays: of its inputs and outputs, and of those that its caller holds on the device.

Run on one H100 (docs/gpu.json); tests run it over a stand-in for the device's memory.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from .cuda import Buffer, Cuda, PinnedBuffer
from .session import Array, Port


@dataclass(frozen=True, eq=False)
class DeviceArray:
    """An array on the device; opaque but for its shape, its dtype and its rows along the first axis."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    buffer: Buffer
    session: object
    offset: int = 0
    # The array that this is a row of: memory is not used again while one of its rows is held.
    whole: DeviceArray | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of its content; the buffer may be larger."""
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def pointer(self) -> int:
        return self.buffer.pointer + self.offset

    def row(self, at: int) -> DeviceArray:
        shape = self.shape[1:]
        nbytes = math.prod(shape) * self.dtype.itemsize
        return DeviceArray(shape, self.dtype, self.buffer, self.session, self.offset + at * nbytes, self)


@dataclass
class PortMemory:
    """The memory of an input or output, on the device and, pinned, on the host: allocated at its first use, for its
    largest shape.

    A held output has memory of its own instead; that of a cache has room for the longest.
    """

    port: Port
    largest: tuple[int, ...]
    cuda: Cuda
    _device: Buffer | None = None
    _host: PinnedBuffer | None = None

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(self.port.dtype)

    def nbytes(self, shape: tuple[int, ...]) -> int:
        return math.prod(shape) * self.dtype.itemsize

    def device(self, shape: tuple[int, ...]) -> Buffer:
        if self._device is None or self._device.nbytes < self.nbytes(shape):
            self._device = self.cuda.allocate(self.nbytes(self.largest) if self.nbytes(shape) else 0)
        return self._device

    def host(self, shape: tuple[int, ...]) -> PinnedBuffer:
        if self._host is None or self._host.nbytes < self.nbytes(shape):
            self._host = self.cuda.pin(self.nbytes(self.largest) if self.nbytes(shape) else 0)
        return self._host

    def shown(self, shape: tuple[int, ...]) -> Array:
        return self.host(shape).array[: self.nbytes(shape)].view(self.dtype).reshape(shape)
