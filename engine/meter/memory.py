"""Whose memory a run is measured by: on a CPU the process's own, on a GPU the device's.

What lies on a device is not in the process's resident memory, so that the two are never taken for one another.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

from ..errors import CounterfactoryError
from ..profile.runtime import RuntimeSettings
from ..runtime import cuda
from .energy import peak_memory_bytes, resident_memory_bytes


class Memory(Protocol):
    """What plans are loaded into."""

    def taken(self) -> int:
        """Bytes that are taken now; 0 where it cannot be told."""
        ...

    def peak(self) -> int:
        """The most bytes that were taken so far; 0 where it cannot be told."""
        ...


class ProcessMemory:
    """The resident memory of this process, mapped files included."""

    def taken(self) -> int:
        """See `Memory`."""
        return resident_memory_bytes()

    def peak(self) -> int:
        """See `Memory`."""
        return peak_memory_bytes()


@dataclass
class DeviceMemory:
    """The memory of the GPU that `runtime`, the module cuda.bindings.runtime, sees as device 0; None without it.

    Other processes on the GPU are counted as well: what they take is not there for plans either. A device keeps no
    record of its peak, so that it is the most of all readings.
    """

    runtime: Any
    _most: int = field(default=0, init=False)

    def taken(self) -> int:
        """See `Memory`."""
        if self.runtime is None:
            return 0
        try:
            free, total = cuda.memory(self.runtime)
        except CounterfactoryError:  # no GPU, which whatever is opened on it says better
            return 0
        self._most = max(self._most, total - free)
        return total - free

    def peak(self) -> int:
        """See `Memory`."""
        self.taken()
        return self._most


def memory_of(runtime: RuntimeSettings) -> Memory:
    """The memory of where networks run."""
    if not runtime.on_gpu:
        return ProcessMemory()
    try:
        return DeviceMemory(cuda.load_runtime())
    except CounterfactoryError:
        return DeviceMemory(None)
