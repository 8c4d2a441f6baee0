"""The commands that install packages that a machine lacks: arguments of `pip install` in a checkout.

tests/resolve.py resolves each of them against the package index, so that no command fails for a user.
"""

from __future__ import annotations

import shlex
import sys

# The engine alone, for CPUs, and with ONNX Runtime on them.
ENGINE = "'.[generate]'"
ONNXRUNTIME_CPU = "'.[onnxruntime-cpu]'"
# The box that generates: one torch, one CUDA, one Python. Then the same with another language model or runtime.
BOX = "-r requirements/a10g.txt"
BOX_EXLLAMAV3 = f"{BOX} '.[exllamav3]'"
BOX_ONNXRUNTIME = f"{BOX} -r requirements/onnxruntime-gpu.txt"
# What exports, whose torch is a newer one.
EXPORTER = "'.[export,cuda,tensorrt]'"
# Reads Hugging Face's data sets.
DATASETS = "'.[datasets]'"
# Compilers of plans.
TENSORRT = "'.[tensorrt]'"
TENSORRT_RTX = "'.[tensorrt-rtx]'"

ALL = (
    *(ENGINE, ONNXRUNTIME_CPU, BOX, BOX_EXLLAMAV3, BOX_ONNXRUNTIME),
    *(DATASETS, EXPORTER, TENSORRT, TENSORRT_RTX),
)


def pip_install(what: str) -> str:
    """The command, for the Python that runs this: `pip` may be another environment's."""
    return f"{shlex.quote(sys.executable)} -m pip install {what}"


def pip_uninstall(*names: str) -> str:
    """The command that takes packages out, those of them that are there."""
    return shlex.join((sys.executable, "-m", "pip", "uninstall", "--yes", *names))
