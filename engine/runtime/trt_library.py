"""TensorRT and TensorRT-RTX, two modules of nearly one interface, and plans on a device as they have them.

The modules are imported when they are asked for and never before, so that machines without them run everything else.
A plan's file becomes an engine, which holds the weights and is loaded once, however many sessions run it, and contexts,
one for each of its profiles that is run.

Compiled, not run: nobody has run this on a GPU; tests run it over a stand-in for the library.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from mmap import ACCESS_READ, mmap
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ..errors import CounterfactoryError
from ..files.reading import open_file, read_bytes
from ..files.writing import write_whole
from . import cuda
from .blob_cache import not_kept
from .cuda import Cuda
from .installing import TENSORRT, TENSORRT_RTX, pip_install
from .plans import REBUILD, PlanKey

# The library of an A10G and its compute capability, which TensorRT-RTX's support matrix does not list.
BOX_LIBRARY, BOX_TARGET = "tensorrt", "sm86"
LIBRARIES: Mapping[str, str] = MappingProxyType({BOX_LIBRARY: TENSORRT, "tensorrt_rtx": TENSORRT_RTX})


def load_library(name: str) -> Any:
    """The module `name`, one of `LIBRARIES`. Raises CounterfactoryError for another, and where it is not installed."""
    if name not in LIBRARIES:
        raise CounterfactoryError(f"plans are made by {' or '.join(LIBRARIES)}, asked for {name}")
    try:
        return import_module(name)
    except ImportError as error:
        raise CounterfactoryError(
            f"{name} cannot be imported ({error}); install it: {pip_install(LIBRARIES[name])} (docs/a10g.md)"
        ) from error


def library_name(library: Any) -> str:
    """A compiler and its release as plans' keys have it, "tensorrt_rtx 1.7.1.116"."""
    return f"{library.__name__} {library.__version__}"


def listen(library: Any) -> Any:
    """A logger of `library` that prints nothing: what it says is in its lists `errors`, `warnings` and `noted`."""

    class Listener(library.ILogger):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.errors: list[str] = []
            self.warnings: list[str] = []
            self.noted: list[str] = []

        def log(self, severity: Any, message: str) -> None:
            others = {library.ILogger.WARNING: self.warnings, library.ILogger.INFO: self.noted}
            if severity in (library.ILogger.INTERNAL_ERROR, library.ILogger.ERROR):
                self.errors.append(message.strip())
            elif severity in others:
                others[severity].append(message.strip())

    return Listener()


def reasons(log: Any) -> str:
    """What the library says of an error that it caused: all of its errors in its order, for what follows the first may
    be of another matter; without any its warnings.
    """
    return "; ".join(dict.fromkeys(log.errors or log.warnings)) or "the library gives no reason"


@dataclass(frozen=True, eq=False)
class LoadedPlan:
    """A plan on the device, as long as this is referenced; its library needs `loader` and `log` to stay alive."""

    path: Path
    library: Any
    log: Any
    loader: Any
    engine: Any


def load_engine(path: Path, library: Any, device: Cuda, runtime: Any, key: PlanKey) -> LoadedPlan:
    """The plan `path` of the content that `key` has, as it lies on `device` already, or loaded to it.

    Raises CounterfactoryError where the device has no room for it or its library does not take it.
    """
    resident: LoadedPlan | None = device.loaded.get((path, key.plan_sha256))
    if resident is not None:
        return resident
    if key.held_bytes is not None and key.scratch_bytes is not None:
        needed = key.held_bytes + device.growth(key.scratch_bytes)
        _require_room(runtime, path, needed, "for weights, inputs and outputs, and scratch memory")
    log = listen(library)
    loader = library.Runtime(log)
    # Mapped, not read: the library takes it from the page cache, which hashing has filled, and the host never holds
    # gigabytes of a plan as a copy.
    with open_file(path) as file, mmap(file.fileno(), 0, access=ACCESS_READ) as content:
        engine = loader.deserialize_cuda_engine(content)
    if engine is None:
        raise CounterfactoryError(f"plan {path} cannot be loaded: {reasons(log)}; {REBUILD}")
    needed = device.growth(engine.device_memory_size_v2)
    _require_room(runtime, path, needed, "for scratch memory beside its weights")
    loaded = device.loaded[path, key.plan_sha256] = LoadedPlan(path, library, log, loader, engine)
    return loaded


def inputs_of(library: Any, engine: Any) -> list[str]:
    """The names of a plan's inputs, in its order."""
    names = [engine.get_tensor_name(i) for i in range(engine.num_io_tensors)]
    return [name for name in names if engine.get_tensor_mode(name) == library.TensorIOMode.INPUT]


def choose_profile(plan: str, library: Any, engine: Any, sizes: Mapping[str, tuple[int, int]]) -> int:
    """The number of the profile whose inputs have these (height, width) as last two axes; the first that does.

    Raises CounterfactoryError where none has.
    """
    wanted = {name: tuple(size) for name, size in sizes.items() if name in inputs_of(library, engine)}
    profile_sizes = []
    for number in range(engine.num_optimization_profiles):
        shapes = {name: engine.get_tensor_profile_shape(name, number) for name in wanted}
        if all(tuple(shapes[name][0])[-2:] == tuple(shapes[name][2])[-2:] == size for name, size in wanted.items()):
            return number
        profile_sizes.append({name: tuple(shape[2])[-2:] for name, shape in shapes.items()})
    name = next(name for name, size in wanted.items() if any(entry[name] != size for entry in profile_sizes))
    has = " or ".join(dict.fromkeys(str(list(entry[name])) for entry in profile_sizes))
    raise CounterfactoryError(
        f"plan {plan} takes {name} of size {has}, asked for {list(wanted[name])}; {REBUILD}, for that picture size"
    )


def make_context(
    loaded: LoadedPlan, profile: int, report: Callable[[str], None] = lambda reason: None
) -> tuple[Any, Callable[[], None]]:
    """An execution context that will run the profile of that number, and a function to call after a run.

    TensorRT-RTX finishes its kernels on the device at their first use. They are kept in a file next to the plan, so
    that a plan that is loaded again does not wait for them; the library itself refuses stale ones. A file that cannot
    be read or written stops nothing, `report` is told of it. Raises CounterfactoryError where the library makes no
    context.
    """
    ours = loaded.library.ExecutionContextAllocationStrategy.USER_MANAGED
    if not hasattr(loaded.library, "IRuntimeCache"):
        return _checked_context(loaded, loaded.engine.create_execution_context(ours)), lambda: None
    config = loaded.engine.create_runtime_config()
    config.set_execution_context_allocation_strategy(ours)
    # Of several profiles each has one shape, for which kernels are made when it is first used. Of one profile, shapes
    # are fixed in the plan already, or a cache of keys and values has another length every token: kernels for each
    # would never be ready in time.
    strategies = loaded.library.DynamicShapesKernelSpecializationStrategy
    several = loaded.engine.num_optimization_profiles > 1
    config.dynamic_shapes_kernel_specialization_strategy = strategies.EAGER if several else strategies.NONE
    # Recorded by ourselves, the same way for both libraries.
    config.cuda_graph_strategy = loaded.library.CudaGraphStrategy.DISABLED
    number = f".{profile}" if profile else ""  # sessions of several sizes do not overwrite each other's
    cache, file = config.create_runtime_cache(), loaded.path.with_name(f"{loaded.path.name}{number}.kernels")
    cached = False
    with suppress(OSError):  # of somebody else, or gone: written again, which tells
        cached = file.is_file() and cache.deserialize(read_bytes(file))
    config.set_runtime_cache(cache)
    pending = [] if cached else [file]

    def keep() -> None:
        if not pending:
            return
        try:
            write_whole(pending.pop(), bytes(cache.serialize()))
        except CounterfactoryError as error:
            report(not_kept(str(error)))

    return _checked_context(loaded, loaded.engine.create_execution_context(config)), keep


def _checked_context(loaded: LoadedPlan, context: Any) -> Any:
    if context is None:
        raise CounterfactoryError(
            f"plan {loaded.path} cannot be made ready: {reasons(loaded.log)}; free memory on the device"
        )
    return context


def _require_room(runtime: Any, path: Path, nbytes: int, what: str) -> None:
    """Raise CounterfactoryError where the device lacks the memory, before a library fails somewhere inside."""
    free, total = cuda.memory(runtime)
    if nbytes > free:
        raise CounterfactoryError(
            f"plan {path} needs {nbytes:,} bytes {what}, and {free:,} of the device's {total:,} are free; lower "
            "[runtime] memory_gb so that fewer plans stay open, end other programs on the GPU, or build the plan for "
            "smaller batches"
        )
