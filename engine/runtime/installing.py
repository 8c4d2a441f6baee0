"""Packages: the commands that install those that a machine lacks, and the releases of those that compute results.

Commands are arguments of `pip install` in a checkout. tests/resolve.py resolves each of them against the package index,
so that no command fails for a user.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Mapping
from importlib.metadata import PackageNotFoundError, version
from types import MappingProxyType

# What draws light and weather; the engine alone, for CPUs, and with ONNX Runtime on them.
LIGHT = "'.[light]'"
ENGINE = "'.[generate]'"
ONNXRUNTIME_CPU = "'.[onnxruntime-cpu]'"
# The box that generates: one torch, one CUDA, one Python. Then the same with another language model or runtime.
BOX = "-r requirements/a10g.txt"
BOX_EXLLAMAV3 = f"{BOX} -r requirements/exllamav3.txt"
BOX_ONNXRUNTIME = f"{BOX} -r requirements/onnxruntime-gpu.txt"
# Any NVIDIA card, with the language model on the CPU.
GPU = "'.[generate,cuda,tensorrt]'"
# The pocket networks, which a checkout that is installed as it lies has already.
POCKET = "./engine/pocket"
# What exports, whose torch is a newer one.
EXPORTER = "'.[export,cuda,tensorrt]'"
# What makes a profile for CPUs of published weights.
SETUP = "'.[export]'"
# Reads Hugging Face's data sets.
DATASETS = "'.[datasets]'"
# Compilers of plans.
TENSORRT = "'.[tensorrt]'"
TENSORRT_RTX = "'.[tensorrt-rtx]'"

ALL = (
    *(LIGHT, ENGINE, ONNXRUNTIME_CPU, BOX, BOX_EXLLAMAV3, BOX_ONNXRUNTIME, GPU, POCKET),
    *(DATASETS, EXPORTER, SETUP, TENSORRT, TENSORRT_RTX),
)


def pip_install(what: str) -> str:
    """The command, for the Python that runs this: `pip` may be another environment's."""
    return f"{shlex.quote(sys.executable)} -m pip install {what}"


def pip_uninstall(*names: str) -> str:
    """The command that takes packages out, those of them that are there."""
    return shlex.join((sys.executable, "-m", "pip", "uninstall", "--yes", *names))


# The distributions under which a library is installed, by import name where they differ.
_DISTRIBUTIONS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "onnxruntime": ("onnxruntime-gpu", "onnxruntime"),
        "tensorrt": ("tensorrt-cu13", "tensorrt-cu12", "tensorrt", "tensorrt-rtx-cu13", "tensorrt-rtx-cu12"),
        "opencv": ("opencv-python-headless", "opencv-python", "opencv-contrib-python"),
    }
)


def releases(libraries: Iterable[str]) -> dict[str, str]:
    """Installed releases by distribution, such as {"openvino": "2026.4.1"}; a library that is missing is left out.

    The same network under another release gives other bytes.
    """
    versions: dict[str, str] = {}
    for library in libraries:
        for distribution in _DISTRIBUTIONS.get(library, (library,)):
            try:
                versions[distribution] = version(distribution)
                break
            except PackageNotFoundError:
                continue
    return versions
