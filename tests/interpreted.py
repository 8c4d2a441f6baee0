"""Runs Triton kernels in a process of its own: on CPU tensors under Triton's interpreter, or compiling them.

Triton decides between the two when kernels are imported, once a process, so tests ask a spawned one. This module is
imported there and here and imports neither torch nor Triton by itself.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any

import numpy as np

GPU = "counterfactory.kernels.gpu"


def _prepare(environment: dict[str, str]) -> None:
    os.environ.update(environment)


@contextmanager
def worker(**environment: str) -> Iterator[ProcessPoolExecutor]:
    """One process with these environment variables, started at its first task."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn"), initializer=_prepare, initargs=(environment,)) as pool:
        yield pool


def call(module: str, function: str, *arguments: Any, **options: Any) -> Any:
    """A launcher's result as arrays; arrays among its arguments become CPU tensors first."""
    import torch

    torch.set_num_threads(1)
    given = [torch.from_numpy(a) if isinstance(a, np.ndarray) else a for a in arguments]
    result = getattr(importlib.import_module(f"{GPU}.{module}"), function)(*given, **options)
    return tuple(r.numpy() for r in result) if isinstance(result, tuple) else result.numpy()


def compiled(like: str) -> list[tuple[str, Any]]:
    """Name and machine code for SM86 of each variant of the kernel with this name."""
    from counterfactory.kernels.gpu.compiled import compile_for, variants

    chosen = [variant for variant in variants() if variant.kernel.fn.__name__ == like]
    return [(variant.name, compile_for(variant)) for variant in chosen]


def kernels() -> tuple[list[str], list[str]]:
    """Names of the compiled variants' kernels, and of all kernels in the package."""
    import triton

    from counterfactory.kernels import gpu
    from counterfactory.kernels.gpu.compiled import variants

    names = [found.name for found in pkgutil.iter_modules(gpu.__path__) if found.name != "__main__"]
    values = [value for name in names for value in vars(importlib.import_module(f"{GPU}.{name}")).values()]
    found = {value.fn.__name__ for value in values if isinstance(value, triton.JITFunction)}
    return [variant.kernel.fn.__name__ for variant in variants()], sorted(n for n in found if n.endswith("_kernel"))
