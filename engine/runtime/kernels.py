"""Our own kernels on the device: compiled by Triton for the GPU that is there, launched on the stream of its plans.

Triton only compiles them to machine code: its own launcher would need torch and a C compiler. Run on one H100
(docs/gpu.json); tests launch them over a stand-in for the driver, which runs them in Triton's interpreter.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from tempfile import TemporaryDirectory
from typing import Any

from ..errors import CounterfactoryError
from .blob_cache import not_kept
from .cuda import Cuda, call, capability, load_driver

_TYPES = {"i32": ctypes.c_int32}


@dataclass(frozen=True)
class Kernel:
    """A kernel that is loaded on the device; `driver` is the module cuda.bindings.driver."""

    driver: Any
    cuda: Cuda
    machine: Any
    _function: Any

    def queue(self, rows: int, elements: int, *arguments: int) -> None:
        """Queue programs that cover `elements` of each of `rows`; arguments are addresses and numbers, as it has them.

        Raises CounterfactoryError with the driver's reason where that refuses.
        """
        machine = self.machine
        types = [ctypes.c_void_p if kind.startswith("*") else _TYPES[kind] for kind in machine.types]
        assert len(types) == len(arguments)
        hidden = [ctypes.c_void_p] * machine.hidden
        parameters = (*arguments, *[0] * machine.hidden), (*types, *hidden)
        grid, threads = (rows, -(-elements // machine.block), 1), (machine.threads, 1, 1)
        launch = *grid, *threads, machine.shared_bytes, self.cuda.stream_handle, parameters, 0
        call(self.driver, "cuLaunchKernel", self._function, *launch)


@dataclass(frozen=True)
class PaintKernels:
    """The kernels of painting: guidance with the sampler's step, and a decoder's values to pictures."""

    guided_step: Kernel
    pixels: Kernel


def load_paint_kernels(cuda: Cuda, report: Callable[[str], None] = lambda reason: None) -> PaintKernels:
    """Compile the kernels for the device, or find them where Triton keeps them, and load them. Where Triton can keep
    none, or what it kept is damaged, `report` is told.

    Raises CounterfactoryError when Triton is not installed or the driver refuses them.
    """
    try:
        compiled = import_module("counterfactory.kernels.gpu.compiled")
    except ImportError as error:
        raise CounterfactoryError(
            f"painting on a GPU needs triton, which is not installed ({error}); "
            "install it: pip install 'counterfactory[cuda]'"
        ) from error
    driver, number = load_driver(), int(capability(cuda.runtime).removeprefix("SM"))

    def load() -> PaintKernels:
        machines = (compiled.compile_for(variant, number) for variant in (compiled.GUIDED_STEP, compiled.PIXELS))
        return PaintKernels(*(_load(driver, cuda, machine) for machine in machines))

    try:
        return load()
    except Exception as error:  # of its cache, in whatever way that shows; all else is raised by the second try
        with TemporaryDirectory(prefix="counterfactory-") as folder, compiled.caching_in(folder):
            kernels = load()
        report(not_kept(f"Triton's cache is not to be used ({error}); name another folder with TRITON_CACHE_DIR"))
        return kernels


def _load(driver: Any, cuda: Cuda, machine: Any) -> Kernel:
    module = call(driver, "cuModuleLoadData", machine.cubin)
    function = call(driver, "cuModuleGetFunction", module, machine.function.encode())
    kernel = Kernel(driver, cuda, machine, function)
    weakref.finalize(kernel, driver.cuModuleUnload, module).atexit = False
    return kernel
