"""What keeps this box from a run: its devices, packages and plans, and the next command to enter.

For a profile it lists findings in the order in which they have to be put right. No network is opened and nothing is
downloaded, so it is as quick on a box where nothing works.
"""

from __future__ import annotations

import importlib
import shlex
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ..config.networks import library_of
from ..config.profile import Profile
from ..errors import CounterfactoryError
from ..meter.machine import machine, machine_memory
from ..report.table import Table
from ..runtime.onnx_providers import NEEDS, PROVIDERS, find_library
from ..runtime.opening import PlanState, engines_of

# What a profile's runtime and language model import; the distributions, as pip knows them.
PACKAGES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "openvino": ("openvino", "llguidance"),
        "onnxruntime": ("onnxruntime-gpu", "onnx", "nvidia-ml-py"),
        "onnxruntime on a CPU": ("onnxruntime", "onnx"),
        "tensorrt": ("tensorrt-rtx-cu12", "cuda-bindings", "nvidia-ml-py"),
        "exllamav2": ("exllamav2", "flash-attn", "torch", "llguidance"),
        "exllamav3": ("exllamav3", "torch", "llguidance"),
    }
)


_ON_CPU = "counterfactory[onnxruntime-cpu]"


@dataclass(frozen=True)
class Gpu:
    """A GPU as its driver tells it; memory in bytes, `capability` such as "8.6"."""

    name: str
    capability: str
    memory_bytes: int
    free_bytes: int
    driver: str


@dataclass(frozen=True)
class Runtime:
    """What networks would be computed with, in words, and why not, where that can be told; "" where nothing is."""

    uses: str
    fault: str = ""


@dataclass(frozen=True)
class Plan:
    """A plan of the profile: whether it is there and fits, or why not."""

    name: str
    state: PlanState
    reason: str = ""


@dataclass(frozen=True)
class Examination:
    """What was found. `packages` by name, None where one is not installed; `next` is the command to say next."""

    profile: str
    machine: str
    memory_bytes: int
    free_disk_bytes: int
    gpus: tuple[Gpu, ...]
    runtime: Runtime
    packages: Mapping[str, str | None]
    plans: tuple[Plan, ...]
    folder: Path
    next: str

    @property
    def ready(self) -> bool:
        """Whether the profile can run here."""
        found = all(plan.state == "found" for plan in self.plans)
        return all(self.packages.values()) and not self.runtime.fault and found


def examine(
    profile: Profile, nvml: Callable[[], Any] = lambda: importlib.import_module("pynvml"), memory: int | None = None
) -> Examination:
    """Look at this box with a profile's eyes. `nvml` is asked for the module `pynvml`, `memory` is for tests."""
    gpus = _gpus(nvml)
    packages = {name: _version(name) for name in _needed(profile)}
    folder, runtime = profile.models.path, _runtime(profile)
    library = library_of(profile)
    plans = tuple(Plan(network.plan, *library.state(network)) for network in library.networks)
    return Examination(
        profile=profile.name,
        machine=machine(),
        memory_bytes=machine_memory() if memory is None else memory,
        free_disk_bytes=shutil.disk_usage(_there(folder)).free,
        gpus=gpus,
        runtime=runtime,
        packages=packages,
        plans=plans,
        folder=folder,
        next=_next(profile, gpus, packages, runtime, plans),
    )


def _needed(profile: Profile) -> tuple[str, ...]:
    runtime = "onnxruntime on a CPU" if profile.runtime.provider == "cpu" else profile.runtime.backend
    return tuple(dict.fromkeys(PACKAGES[runtime] + PACKAGES[profile.llm.backend]))


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _runtime(profile: Profile) -> Runtime:
    asked = profile.runtime
    if asked.provider is None:
        return Runtime(f"{asked.backend}, {asked.precision}")
    provider = PROVIDERS[asked.provider]
    uses = f"{asked.backend}, {asked.precision}, {provider}"
    if asked.on_gpu:
        uses += f": {NEEDS[asked.provider]}"
    if asked.provider == "tensorrt":
        uses += f"; engines are kept in {engines_of(profile.models.path)}"
    try:
        find_library(asked.provider)
    except CounterfactoryError as error:
        return Runtime(uses, str(error))
    return Runtime(uses)


def _there(folder: Path) -> Path:
    """The nearest folder above that exists: where the disk is that plans would go to."""
    return next(path for path in (folder, *folder.absolute().parents) if path.exists())


def _gpus(nvml: Callable[[], Any]) -> tuple[Gpu, ...]:
    with suppress(Exception):  # no module, no driver: NVML has an exception for each, and each means no GPU
        pynvml = nvml()
        pynvml.nvmlInit()
        driver = _text(pynvml.nvmlSystemGetDriverVersion())
        return tuple(
            _gpu(pynvml, pynvml.nvmlDeviceGetHandleByIndex(index), driver)
            for index in range(pynvml.nvmlDeviceGetCount())
        )
    return ()


def _gpu(pynvml: Any, handle: Any, driver: str) -> Gpu:
    major, minor = pynvml.nvmlDeviceGetCudaComputeCapability(handle)
    memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
    return Gpu(_text(pynvml.nvmlDeviceGetName(handle)), f"{major}.{minor}", memory.total, memory.free, driver)


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _next(
    profile: Profile,
    gpus: tuple[Gpu, ...],
    packages: Mapping[str, str | None],
    runtime: Runtime,
    plans: tuple[Plan, ...],
) -> str:
    """The first command that has to be said, or that can be."""
    on_gpu, onnxruntime = profile.runtime.on_gpu, profile.runtime.backend == "onnxruntime"
    if on_gpu and not gpus:
        return "nvidia-smi  # no NVIDIA driver answers: this profile needs a GPU; --profile pocket runs here"
    if not all(packages.values()):
        if not on_gpu:
            return f"pip install '{_ON_CPU}'" if onnxruntime else "pip install counterfactory"
        return f"pip install 'counterfactory[{'cuda,onnxruntime' if onnxruntime else 'cuda'}]'"
    if runtime.fault:
        return "pip uninstall onnxruntime && pip install --force-reinstall --no-deps onnxruntime-gpu"
    bad = [plan for plan in plans if plan.state != "found"]
    if any(plan.name == "llm" for plan in bad) and len(bad) == 1:
        return f"python -m counterfactory.export llm --profile {profile.name}"
    if bad and (on_gpu or onnxruntime):
        return shlex.join(["python", "-m", "counterfactory.export", "a10g", "--out", str(profile.models.path)])
    if bad:
        return "pip install --force-reinstall counterfactory"
    return f"counterfactory generate SOURCES --task classification --out suite --profile {profile.name}"


def lines(found: Examination) -> list[str]:
    """The findings but for the plans, a line each."""
    told = [f"machine    {found.machine}, {found.memory_bytes / 1e9:.1f} GB of memory"]
    told += [
        f"gpu        {gpu.name}, SM{gpu.capability.replace('.', '')}, {gpu.free_bytes / 1e9:.1f} of "
        f"{gpu.memory_bytes / 1e9:.1f} GB free, driver {gpu.driver}"
        for gpu in found.gpus
    ] or ["gpu        none that a driver tells of"]
    told.append(f"runtime    {found.runtime.uses}")
    told += [f"           {found.runtime.fault}"] if found.runtime.fault else []
    told.append(f"disk       {found.free_disk_bytes / 1e9:.0f} GB free at {found.folder}")
    told += [f"package    {name} {known or 'is not installed'}" for name, known in found.packages.items()]
    return told


def plan_table(found: Examination) -> Table:
    """The plans of the profile and what is wrong with each."""
    rows = tuple((plan.name, plan.state, plan.reason or "-") for plan in found.plans)
    return Table(f"Plans of {found.profile}", ("plan", "state", "why"), rows)


def as_data(found: Examination) -> dict[str, Any]:
    """The findings in JSON's own types."""
    return {**asdict(found), "folder": str(found.folder), "ready": found.ready}
