"""Compiles networks for this CPU, or takes them as an earlier run compiled them.

A network comes as its files, a function that prepares its graph, and the settings of both; it leaves as OpenVINO's
compiled model. The key of a kept network covers everything that could change it: the bytes of the files and of the code
that prepares, the settings, OpenVINO's build, and the processor as the system and OpenVINO see it. Networks compiled
now and kept earlier give the same bytes: tests hold that for every embedded network.

OpenVINO has a cache of its own (`CACHE_DIR`), which is not used: it grows without bound, and it takes a file as intact
if its head is.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..keys import content_key, file_digest
from .blob_cache import BlobCache
from .quiet_openvino import ov

# Of /proc/cpuinfo what tells processors apart, on x86 and on ARM; clock rates and core numbers move from run to run.
_TRAITS = (
    *("vendor_id", "cpu family", "model", "model name", "stepping", "cache size", "flags"),
    *("CPU implementer", "CPU architecture", "CPU variant", "CPU part", "CPU revision", "Features"),
)
# OpenVINO's properties of the CPU that it compiles for.
_PROPERTIES = ("FULL_DEVICE_NAME", "DEVICE_ARCHITECTURE", "OPTIMIZATION_CAPABILITIES", "RANGE_FOR_STREAMS")
# Variables by which its libraries choose other instructions or passes.
_VARIABLES = ("DNNL_", "ONEDNN_", "OV_", "OPENVINO_")


@dataclass(frozen=True)
class CompileInputs:
    """The inputs of compiling: the network's `files`, the source files of the `code` that prepares its graph, the
    `settings` of that code (plain data), and the `config` of OpenVINO's compiler.
    """

    files: Sequence[Path]
    code: Sequence[str]
    settings: Mapping[str, Any]
    config: Mapping[str, Any]


def compile_model(
    core: ov.Core,
    inputs: CompileInputs,
    prepare: Callable[[], ov.Model],
    blobs: BlobCache | None = None,
    digest: Callable[[Path], str] = file_digest,
) -> ov.CompiledModel:
    """The network that `prepare` returns, compiled for this CPU: kept by an earlier run, or else kept for the next.

    Without `blobs` nothing is kept. `digest` hashes a file. Raises what `prepare` and OpenVINO's compiler raise.
    """
    config = dict(inputs.config)
    held = sum(file.stat().st_size for file in inputs.files if file.is_file())
    if blobs is not None and held > blobs.limit_bytes:
        blobs = None  # it would not be kept, and writing it down takes as much memory again
    key = None if blobs is None else blob_key(core, inputs, digest)
    if blobs is None or key is None:
        return core.compile_model(prepare(), "CPU", config)
    if (blob := blobs.load(key)) is not None:
        with suppress(RuntimeError):  # whole and of this key, and OpenVINO refuses it: compiled again, and replaced
            return core.import_model(blob, "CPU", config)
    compiled = core.compile_model(prepare(), "CPU", config)
    try:
        blobs.store(key, compiled.export_model().getvalue())
    except RuntimeError as error:
        blobs.report(f"OpenVINO does not export them ({str(error).strip().splitlines()[-1]})")
    return compiled


def blob_key(core: ov.Core, inputs: CompileInputs, digest: Callable[[Path], str]) -> str | None:
    """The key of a compiled network; None where a file that it is made of cannot be read, such as code without source.

    A file's suffix counts with its content, so that graph and weights are not interchangeable.
    """
    try:
        files = [(file.suffix, digest(file)) for file in inputs.files]
        code = [digest(Path(file)) for file in inputs.code]
    except OSError:
        return None
    config = {name: str(value) for name, value in inputs.config.items()}
    return content_key("compiled", files, code, inputs.settings, config, compiler(core))


def compiler(core: ov.Core, cpuinfo: Path = Path("/proc/cpuinfo")) -> dict[str, object]:
    """The conditions of OpenVINO's compiler here, as plain data: its build, the processor, cores that may be used."""
    return {
        "openvino": ov.get_version(),
        "cpu": {name: str(core.get_property("CPU", name)) for name in _PROPERTIES},
        "processor": [platform.system(), platform.machine(), *_traits(cpuinfo)],
        "cores": [os.cpu_count(), len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None],
        "variables": {name: value for name, value in os.environ.items() if name.startswith(_VARIABLES)},
    }


def least_threads(precision: str, cpuinfo: Path = Path("/proc/cpuinfo")) -> int:
    """The fewest threads that a Llama's plan may have. On a processor with AMX OpenVINO 2026.4.1 gives its feed-forward
    in bf16 to two halves of the threads, and ends the process (SIGFPE) where there is one alone.
    """
    tiles = any(trait.startswith("flags:") and "amx_bf16" in trait.split() for trait in _traits(cpuinfo))
    return 2 if precision == "bf16" and tiles else 1


def _traits(cpuinfo: Path) -> list[str]:
    """The lines about the first processor that tell it from other models; none on systems without the file."""
    traits = []
    with suppress(OSError), cpuinfo.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            name, _, value = line.partition(":")
            if name.strip() in _TRAITS:
                traits.append(f"{name.strip()}: {value.strip()}")
            if not line.strip() and traits:
                break
    return traits
