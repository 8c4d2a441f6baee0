"""Plans on a GPU through TensorRT or its sibling TensorRT-RTX, whichever compiled them.

A plan and its key give a session with the contract of session.py (device_session.py).

Compiled, not run: plans were compiled for SM86, but nobody has run one on a GPU, as sessions and all that they queue
were (docs/gpu.json). Tests run it over a stand-in for the device's memory and hold every call against the packages.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import CounterfactoryError
from ..keys import file_digest
from . import cuda
from .buffers import PortMemory
from .cuda import Cuda
from .device_session import DeviceSession
from .plans import REBUILD, PlanRequirements, read_key, require_fresh
from .session import Port, Signature, continued_cache, row_axis
from .trt_library import choose_profile, inputs_of, library_name, load_engine, load_library, make_context

# The alignment of a tensor's memory that a library requires, in bytes.
_ALIGNMENT = 256


def open_session(
    path: Path,
    *,
    batch: int,
    sizes: Mapping[str, tuple[int, int]] | None = None,
    onnx_sha256: str | None = None,
    device: Callable[[], Cuda] = cuda.open_device,
    digest: Callable[[Path], str] = file_digest,
    report: Callable[[str], None] = lambda reason: None,
) -> DeviceSession:
    """Load the plan `path` to `device` for batches of `batch`, and of the last two axes that `sizes` names.

    The library that compiled the plan runs it; sessions of one plan for several sizes share its weights. `digest`
    hashes a file; `report` is told why kernels are not kept. Raises CounterfactoryError when the plan is missing, stale
    (`onnx_sha256` is the content of the graph that it should be compiled from) or of other shapes, or the library or
    the GPU is missing.
    """
    library = load_library(read_key(path).made_by)
    runtime = cuda.load_runtime()
    wanted = PlanRequirements(onnx_sha256, None, library_name(library), cuda.capability(runtime))
    key = require_fresh(path, wanted, digest)
    shared = device()
    shared.settle()  # what closed plans needed is free
    loaded = load_engine(path, library, shared, runtime, key)
    profile = choose_profile(path.stem, library, loaded.engine, sizes or {})
    context, ran = make_context(loaded, profile, report)
    return bind(path.stem, library, context, shared, batch, profile, ran, loaded)


def bind(
    name: str,
    library: Any,
    context: Any,
    device: Cuda,
    batch: int,
    profile: int = 0,
    ran: Callable[[], None] = lambda: None,
    alive: object = None,
) -> DeviceSession:
    """The session of an execution context under the profile of that number, its static shapes bound.

    Raises CounterfactoryError for other shapes.
    """
    engine = context.engine
    names = [engine.get_tensor_name(i) for i in range(engine.num_io_tensors)]
    inputs = inputs_of(library, engine)
    if engine.num_optimization_profiles > 1:
        if not context.set_optimization_profile_async(profile, device.stream_handle):
            raise CounterfactoryError(f"plan {name} refuses its own profile {profile}; {REBUILD}")
        device.wait()
    open_axes = {}
    for port_name in inputs:
        least, _, most = (tuple(dims) for dims in engine.get_tensor_profile_shape(port_name, profile))
        _check_batch(name, port_name, least, most, batch)
        rows = row_axis(port_name)
        context.set_input_shape(port_name, (*most[:rows], batch, *most[rows + 1 :]))
        open_axes[port_name] = [axis for axis in range(len(most)) if axis != rows and least[axis] != most[axis]]
    missing = context.infer_shapes()
    if missing:
        raise CounterfactoryError(f"plan {name} leaves the shapes of {missing} open; {REBUILD}")
    # An axis that the graph leaves open is fixed all the same when the profile has one length for it.
    static = not any(open_axes.values())
    places = {}
    for port_name in names:
        shape = tuple(int(length) for length in context.get_tensor_shape(port_name))
        declared = tuple(engine.get_tensor_shape(port_name))
        unknown = [axis for axis in range(len(shape)) if axis != row_axis(port_name) and declared[axis] < 0]
        free = open_axes.get(port_name, [] if static else unknown)
        dtype = np.dtype(library.nptype(engine.get_tensor_dtype(port_name)))
        port = Port(port_name, tuple(None if axis in free else n for axis, n in enumerate(shape)), dtype.name)
        places[port_name] = PortMemory(port, shape, device)
        if continued_cache(port_name) and places[port_name].nbytes(shape[1:]) % _ALIGNMENT:
            raise CounterfactoryError(
                f"plan {name} has positions of {places[port_name].nbytes(shape[1:])} bytes in {port_name}, which lie "
                f"behind one another in memory and must be multiples of {_ALIGNMENT}; export it with another batch"
            )
        if static:
            places[port_name].host(shape)
            if not context.set_tensor_address(port_name, places[port_name].device(shape).pointer):
                raise CounterfactoryError(f"plan {name} refuses the memory of {port_name}; {REBUILD}")
    input_memory = {port_name: places[port_name] for port_name in inputs}
    output_memory = {port_name: places[port_name] for port_name in names if port_name not in input_memory}
    ports = [tuple(place.port for place in memories.values()) for memories in (input_memory, output_memory)]
    scratch = device.lease(engine.device_memory_size_v2)
    return DeviceSession(
        name, Signature(*ports), context, device, input_memory, output_memory, scratch, _ran=ran, _alive=alive
    )


def _check_batch(plan: str, name: str, least: tuple[int, ...], most: tuple[int, ...], batch: int) -> None:
    fewest, rows = least[row_axis(name)], most[row_axis(name)]
    if not fewest <= batch <= rows:
        fits = f"{fewest}" if fewest == rows else f"{fewest}-{rows}"
        raise CounterfactoryError(
            f"plan {plan} takes {name} in batches of {fits}, got {batch}; {REBUILD}, or set the stage's batch to {rows}"
        )
