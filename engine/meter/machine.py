"""What a run's machine is: its processor, its memory, and its NVIDIA GPUs with their driver where there are any."""

from __future__ import annotations

import importlib
import os
import platform
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Machine:
    """The operating `system`, the `architecture`, the `cpu`'s model, the `gpus`' names and their `driver`'s version."""

    system: str
    architecture: str
    cpu: str
    gpus: tuple[str, ...]
    driver: str | None


def import_nvml() -> Any:
    """The module `pynvml`. Raises ImportError without it."""
    return importlib.import_module("pynvml")


def open_gpus(nvml: Callable[[], Any] = import_nvml) -> tuple[Any, list[Any]]:
    """NVML's module, initialised, and its handles of all GPUs. Raises an exception of NVML's own without a driver."""
    pynvml = nvml()
    pynvml.nvmlInit()
    return pynvml, [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]


def this_machine(nvml: Callable[[], Any] = import_nvml) -> Machine:
    """The machine that this program runs on. `nvml` returns the module `pynvml`, or raises where there is none."""
    names, driver = list[str | bytes](), None
    with suppress(Exception):  # no module, no driver: NVML has an exception for each, and each means no GPU
        pynvml, handles = open_gpus(nvml)
        names = [pynvml.nvmlDeviceGetName(handle) for handle in handles]
        driver = as_text(pynvml.nvmlSystemGetDriverVersion()) if names else None
    gpus = tuple(map(as_text, names)) if driver else ()
    return Machine(platform.system(), platform.machine(), cpu_model(), gpus, driver)


def cpu_model() -> str:
    """The processor's name as it says it itself; on systems that do not tell, what Python knows of it."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def machine() -> str:
    """This machine, as far as speed goes: CPU model and number of cores."""
    return f"{cpu_model()}, {os.cpu_count()} cores"


def machine_memory(limit: Path = Path("/sys/fs/cgroup/memory.max")) -> int:
    """Bytes of memory that this process may have: the machine's, or its container's (`limit`) where that is less."""
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with suppress(OSError, ValueError):  # no limit is the word "max"
        total = min(total, int(limit.read_text()))
    return total


def free_memory(meminfo: Path = Path("/proc/meminfo")) -> tuple[int, int]:
    """Bytes of memory that are free for programs, no more than this process may have, and of swap.

    What a system does not tell counts as all of the memory, and as no swap.
    """
    known: dict[str, int] = {}
    with suppress(OSError, ValueError):
        for line in meminfo.read_text(encoding="ascii", errors="replace").splitlines():
            name, _, size = line.partition(":")
            known[name] = 1024 * int(size.split()[0])
    return min(machine_memory(), known.get("MemAvailable", machine_memory())), known.get("SwapFree", 0)


def as_text(value: str | bytes) -> str:
    """What NVML's older bindings give as bytes."""
    return value.decode() if isinstance(value, bytes) else value


def mounted_disks(mounts: Path = Path("/proc/mounts")) -> list[Path]:
    """Where file systems on disks are mounted; nowhere where that cannot be told."""
    with suppress(OSError):
        lines = mounts.read_text(encoding="utf-8", errors="replace").splitlines()
        return [Path(line.split()[1]) for line in lines if line.startswith("/dev/")]
    return []
