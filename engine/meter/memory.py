"""Whose memory a run is measured by: on a CPU the process's own, on a GPU the device's.

What lies on a device is not in the process's resident memory, so that the two are never taken for one another.
"""

from __future__ import annotations

import resource
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import CounterfactoryError
from ..profile.runtime import RuntimeSettings
from ..runtime import cuda

_STATUS = Path("/proc/self/status")


class Memory:
    """What plans are loaded into: the resident memory of this process, mapped files (weights) included."""

    def taken(self) -> int:
        """Bytes that are taken now; 0 where it cannot be told, as on systems other than Linux."""
        return _status("VmRSS:") or 0

    def peak(self) -> int:
        """The most bytes that were taken so far; 0 where it cannot be told.

        On Linux it is VmHWM: there a program inherits the `ru_maxrss` of the one that started it.
        """
        if (peak := _status("VmHWM:")) is not None:
            return peak
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024


def _status(name: str) -> int | None:
    """Bytes of an entry of Linux' status of this process; None where there is none."""
    with suppress(OSError):
        for line in _STATUS.read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith(name):
                return int(line.split()[1]) * 1024
    return None


@dataclass
class DeviceMemory(Memory):
    """The memory of the GPU that `runtime`, the module cuda.bindings.runtime, sees as device 0; None without it.

    Other processes on the GPU are counted as well: what they take is not there for plans either. A device keeps no
    record of its peak, so that it is the most of all readings.
    """

    runtime: Any
    _most: int = field(default=0, init=False)

    def taken(self) -> int:
        if self.runtime is None:
            return 0
        try:
            free, total = cuda.memory(self.runtime)
        except CounterfactoryError:  # no GPU, which whatever is opened on it says better
            return 0
        self._most = max(self._most, total - free)
        return total - free

    def peak(self) -> int:
        self.taken()
        return self._most


def memory_of(runtime: RuntimeSettings) -> Memory:
    if not runtime.on_gpu:
        return Memory()
    try:
        return DeviceMemory(cuda.load_runtime())
    except CounterfactoryError:
        return DeviceMemory(None)
