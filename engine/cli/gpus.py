"""The GPUs of a box, and whether their driver and the packages are of one kind.

Packages say which CUDA they were made for by their names, their releases or what they ask for; nothing is imported.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ..meter.cards import Card
from ..meter.machine import as_text

# The oldest driver for any release of a CUDA: NVIDIA's table of minor-version compatibility (CUDA Compatibility guide).
_DRIVERS: Mapping[int, int] = MappingProxyType({12: 525, 13: 580})
# NVIDIA's libraries for networks of CUDA 12 need a newer one (TensorRT 11.4, prerequisites), and no card before Turing.
_TENSORRT_DRIVER, _LEAST_CAPABILITY = 535, (7, 5)
# What a card is sold with is a little more than it says; the driver and a screen hold some.
_NEARLY, _FREE = 0.97, 0.9
_ASKS = re.compile(r"(?:nvidia-cuda-runtime(?:-cu\d+)?|cuda-toolkit)(?:\[[^]]*\])?\s*[=~>]=\s*(\d+)")
_NVIDIA = "0x10de"


@dataclass(frozen=True)
class Gpu:
    """A GPU as its driver tells it; memory in bytes, `capability` such as "8.6". `holders` are other processes and the
    bytes that they hold; `split` says that it is divided by MIG, and computes nothing as a whole.
    """

    name: str
    capability: str
    memory_bytes: int
    free_bytes: int
    driver: str
    holders: tuple[tuple[int, int], ...] = ()
    split: bool = False

    @property
    def target(self) -> str:
        """Its compute capability as plans have it, "sm86"."""
        return f"sm{self.capability.replace('.', '')}"


def find_gpus(nvml: Callable[[], Any]) -> tuple[Gpu, ...]:
    """The GPUs that NVIDIA's library lists; none without it or its driver. `nvml` gives the module `pynvml`."""
    with suppress(Exception):  # no module, no driver: NVML has an exception for each, and each means no GPU
        pynvml = nvml()
        pynvml.nvmlInit()
        driver = as_text(pynvml.nvmlSystemGetDriverVersion())
        return tuple(
            _gpu(pynvml, pynvml.nvmlDeviceGetHandleByIndex(index), driver)
            for index in range(pynvml.nvmlDeviceGetCount())
        )
    return ()


def has_nvidia_card(root: Path) -> bool:
    """Whether a card of NVIDIA's is on the bus, with a driver or without; `root` is the file system's."""
    return any(file.read_text().strip() == _NVIDIA for file in root.glob("sys/bus/pci/devices/*/vendor"))


def has_driver(root: Path) -> bool:
    return (root / "proc" / "driver" / "nvidia" / "version").is_file()


def driver_fault(gpus: Sequence[Gpu], packages: Mapping[str, str | None], asks: Callable[[str], Sequence[str]]) -> str:
    """Which package needs a newer driver, "" where none does. `asks` gives what one requires, as pip writes it."""
    if not gpus:
        return ""
    driver, needs = gpus[0].driver, []
    for name, release in packages.items():
        cuda = None if release is None else cuda_of(name, release, asks(name))
        if cuda is not None and cuda in _DRIVERS and int(driver.partition(".")[0]) < _DRIVERS[cuda]:
            needs.append((_DRIVERS[cuda], f"CUDA {cuda} of {name} {release}"))
        if cuda == 12 and name.startswith("tensorrt") and int(driver.partition(".")[0]) < _TENSORRT_DRIVER:
            needs.append((_TENSORRT_DRIVER, f"{name} {release}"))
    if not needs:
        return ""
    oldest, who = max(needs)
    return f"driver {driver} is older than {oldest}, which {who} needs"


def card_fault(gpus: Sequence[Gpu], memory_gb: float) -> str:
    """Why a profile that plans for `memory_gb` (10^9 bytes, 0 for any) cannot run on the first GPU; "" where it can."""
    if not gpus:
        return ""
    gpu, needed = gpus[0], memory_gb * 1e9
    if gpu.split:
        return (
            f"card {gpu.name} is split by MIG and computes nothing as a whole: say sudo nvidia-smi -mig 0, or set "
            "CUDA_VISIBLE_DEVICES to one of its instances, as nvidia-smi -L lists them"
        )
    if tuple(map(int, gpu.capability.split("."))) < _LEAST_CAPABILITY:
        oldest = ".".join(map(str, _LEAST_CAPABILITY))
        return f"card {gpu.name} has compute capability {gpu.capability}; the runtimes begin at {oldest}"
    if gpu.memory_bytes < _NEARLY * needed:
        return (
            f"card {gpu.name} has {gpu.memory_bytes / 1e9:.1f} GB and the profile plans for {memory_gb:g}: take a "
            "larger card, or a profile with smaller networks, batches and [runtime] memory_gb"
        )
    if gpu.free_bytes < _FREE * needed:
        holders = "".join(f", process {pid} with {held / 1e9:.1f} GB" for pid, held in gpu.holders)
        return (
            f"card {gpu.name} has {gpu.free_bytes / 1e9:.1f} of its {gpu.memory_bytes / 1e9:.1f} GB free and the "
            f"profile plans for {memory_gb:g}: end what holds the rest{holders}"
        )
    return ""


def card_state(card: Card) -> str:
    """A card's state in a line, "" where it tells nothing of it."""
    values = {"{} °C": card.temperature_c, "SM {:,} MHz": card.sm_mhz, "memory {:,} MHz": card.memory_mhz}
    told = [text.format(value) for text, value in values.items() if value is not None]
    if card.throttle is not None:
        told.append(f"slowed by {', '.join(card.throttle)}" if card.throttle else "not slowed")
    errors = {"{} corrected": card.ecc_corrected, "{} not": card.ecc_uncorrected}
    counts = [text.format(value) for text, value in errors.items() if value is not None]
    told += [f"memory errors: {', '.join(counts)}"] if counts else []
    return f"{card.number} {card.name}: {', '.join(told)}" if told else ""


def cuda_of(name: str, release: str, asks: Sequence[str]) -> int | None:
    """The CUDA that a package was made for, its first number; None where it does not say."""
    match = re.search(r"-cu(\d\d)$", name) or re.search(r"\+cu(\d\d)", release)
    if match is None and name == "cuda-bindings":
        match = re.match(r"(\d+)\.", release)
    return int(match[1]) if match else next((int(match[1]) for one in asks if (match := _ASKS.match(one))), None)


def build_faults(packages: Mapping[str, str | None]) -> Iterator[str]:
    """Packages whose builds do not fit each other: torch for CPUs, and what was compiled for another torch."""
    torch = packages.get("torch")
    if torch is None:
        return
    if torch.endswith("+cpu"):
        yield f"torch {torch} is a build for CPUs"
    for name, release in packages.items():
        made_for = re.search(r"torch(\d+(?:\.\d+)*)", release or "")
        if made_for and not f"{torch.partition('+')[0]}.".startswith(f"{made_for[1]}."):
            yield f"{name} {release} was compiled for torch {made_for[1]}, and torch {torch} is installed"


def _gpu(pynvml: Any, handle: Any, driver: str) -> Gpu:
    split, total, free = False, 0, 0
    with suppress(Exception):  # a card that cannot be split, or a driver that does not say
        split = pynvml.nvmlDeviceGetMigMode(handle)[0] == 1
    instance = os.environ.get("CUDA_VISIBLE_DEVICES", "").partition(",")[0]
    if split and instance.startswith("MIG-"):
        handle, split = pynvml.nvmlDeviceGetHandleByUUID(instance), False
    major, minor = pynvml.nvmlDeviceGetCudaComputeCapability(handle)
    if not split:  # the whole's memory is not to be read by everybody
        memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
        total, free = memory.total, memory.free
    holders: list[tuple[int, int]] = []
    with suppress(Exception):  # a driver that does not tell one user of another's
        running = pynvml.nvmlDeviceGetComputeRunningProcesses(handle)
        holders = [(one.pid, one.usedGpuMemory or 0) for one in running if one.pid != os.getpid()]
    name = as_text(pynvml.nvmlDeviceGetName(handle))
    return Gpu(name, f"{major}.{minor}", total, free, driver, tuple(holders), split)
