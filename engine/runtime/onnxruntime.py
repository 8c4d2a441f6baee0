"""ONNX graphs through ONNX Runtime: on a GPU with its CUDA or TensorRT provider, on any CPU in f32.

An ONNX file, a batch and a provider give a session with the contract of session.py. Inputs and outputs are always
bound. Where all shapes are fixed they are bound once, and on a GPU the graph is recorded as a CUDA graph. With the CUDA
provider such a graph is queued on the stream of the device that plans share, and its arrays are that device's
(device_session.py). A provider that does not start, or leaves operations to the CPU, is refused (onnx_providers.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import CounterfactoryError, TryAgainError, lost_device
from . import onnx_providers
from .buffers import PortMemory
from .cuda import Cuda, open_device
from .cuda_norms import norms_for_cuda
from .device_session import DeviceSession
from .onnx_header import Ports, read_ports
from .onnx_providers import Provider, check_provider, choose_providers, graph_name, load_library, refuse_cpu_work
from .plans import Shapes
from .session import Port, Signature, continued_cache, refuse_longer_cache, refuse_other_cache, row_axis

_DTYPES = {
    "tensor(float)": "float32",
    "tensor(float16)": "float16",
    "tensor(double)": "float64",
    "tensor(int64)": "int64",
    "tensor(int32)": "int32",
    "tensor(int8)": "int8",
    "tensor(uint8)": "uint8",
    "tensor(bool)": "bool",
}


@dataclass(frozen=True, eq=False)
class OrtOutput:
    """An output that stayed where the session runs."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    value: Any
    session: object


@dataclass(frozen=True)
class OnnxRuntimeSession:
    """A loaded graph; see `open_session`. One thread at a time."""

    name: str
    signature: Signature
    _library: Any
    _session: Any
    _device: str
    # Binding, inputs and outputs that every run uses; None where shapes differ from run to run.
    _fixed: tuple[Any, dict[str, Any], dict[str, Any]] | None
    # The largest shape of each cache, and the axis of an input that is as long as its output's new positions; its
    # memory once it is used, and the part of it that was held last.
    _largest: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    _positions: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    _memory: dict[str, Any] = field(default_factory=dict)
    _latest: dict[str, OrtOutput] = field(default_factory=dict)

    def run(self, feeds: Mapping[str, Any], hold: Collection[str] = ()) -> dict[str, Any]:
        """Run the graph once; refuses feeds that do not fit the signature.

        Outputs named in `hold` stay on the device and may be fed to a later run of this session.
        """
        self.signature.check(self.name, feeds, hold, self._session)
        for name in self._largest:
            if isinstance(feeds[name], OrtOutput):
                refuse_other_cache(self.name, name, feeds[name], self._latest.get(name))
        if self._fixed is not None:
            values = self._run_fixed(feeds, *self._fixed)
            return {name: self._hold(value) if name in hold else value.numpy().copy() for name, value in values.items()}
        grown = {name: self._grow(name, cache, feeds) for name in hold if (cache := continued_cache(name))}
        values = self._run_bound(feeds, grown)
        self._latest.update({cache: value for name, value in grown.items() if (cache := continued_cache(name))})
        held = {name: self._hold(values[name]) for name in hold if name not in grown}
        return {name: value.numpy().copy() for name, value in values.items() if name not in hold} | held | grown

    def _grow(self, output: str, cache: str, feeds: Mapping[str, Any]) -> OrtOutput:
        past, largest = feeds[cache], self._largest[cache]
        refuse_other_cache(self.name, cache, past, self._latest.get(cache))
        port, axis = self._positions[output]
        positions = past.shape[0] + feeds[port].shape[axis]
        refuse_longer_cache(self.name, cache, positions, largest[0])
        dtype = np.dtype(next(port.dtype for port in self.signature.inputs if port.name == cache))
        if cache not in self._memory:
            make = self._library.OrtValue.ortvalue_from_shape_and_type
            self._memory[cache] = make(list(largest), dtype, self._device, 0)
        return OrtOutput((positions, *largest[1:]), dtype, self._memory[cache], self._session)

    def _run_bound(self, feeds: Mapping[str, Any], grown: Mapping[str, OrtOutput]) -> dict[str, Any]:
        # A binding of its own: the outputs of a binding are overwritten by its next run, also those held.
        binding = self._session.io_binding()
        for name, feed in feeds.items():
            if isinstance(feed, OrtOutput):
                binding.bind_input(name, self._device, 0, feed.dtype, list(feed.shape), feed.value.data_ptr())
            else:
                value = self._library.OrtValue.ortvalue_from_numpy(feed, self._device, 0)
                binding.bind_ortvalue_input(name, value)
        for port in self.signature.outputs:
            whole, cache = grown.get(port.name), continued_cache(port.name)
            if whole is None or cache is None:
                binding.bind_output(port.name, self._device, 0)
                continue
            past, position = feeds[cache].shape[0], math.prod(whole.shape[1:]) * whole.dtype.itemsize
            added = [whole.shape[0] - past, *whole.shape[1:]]
            behind = whole.value.data_ptr() + past * position
            binding.bind_output(port.name, self._device, 0, whole.dtype, added, behind)
        _run(self.name, self._session, binding)
        return dict(zip((port.name for port in self.signature.outputs), binding.get_outputs(), strict=True))

    def _run_fixed(
        self, feeds: Mapping[str, Any], binding: Any, inputs: dict[str, Any], outputs: dict[str, Any]
    ) -> dict[str, Any]:
        for name, feed in feeds.items():
            if isinstance(feed, OrtOutput):
                self._copy(feed.value, inputs[name])
            else:
                inputs[name].update_inplace(feed)
        _run(self.name, self._session, binding)
        return outputs

    def _copy(self, source: Any, to: Any) -> None:
        if self._device == "cpu":  # the library copies between devices only
            to.update_inplace(source.numpy())
        else:
            self._library.copy_tensors([source], [to])

    def _hold(self, value: Any) -> OrtOutput:
        shape, dtype = tuple(value.shape()), np.dtype(_DTYPES[value.data_type()])
        if self._fixed is not None:  # the next run writes there again
            own = self._library.OrtValue.ortvalue_from_shape_and_type(list(shape), dtype, self._device, 0)
            self._copy(value, own)
            value = own
        return OrtOutput(shape, dtype, value, self._session)


@dataclass(frozen=True)
class _OnStream:
    """A session of fixed shapes on a device's stream, as DeviceSession runs it; it records itself as a CUDA graph."""

    name: str
    session: Any
    binding: Any
    options: Any
    shapes: Mapping[str, tuple[int, ...]]

    def get_tensor_shape(self, name: str) -> tuple[int, ...]:
        return self.shapes[name]

    def set_device_memory(self, pointer: int, nbytes: int) -> None:
        """Nothing: the library has scratch memory of its own."""

    def execute_async_v3(self, stream: int) -> bool:
        """Queue the network; `stream` is the one that the session was opened on."""
        _run(self.name, self.session, self.binding, self.options)
        return True


def queue_on(name: str, library: Any, session: Any, device: Cuda) -> DeviceSession:
    """A session that was opened on the stream of `device`, all its shapes fixed, its arrays being the device's."""
    signature, binding = Signature(_ports(session.get_inputs()), _ports(session.get_outputs())), session.io_binding()

    def bound(ports: tuple[Port, ...], bind: Callable[..., None]) -> dict[str, PortMemory]:
        places = {}
        for port in ports:
            shape = tuple(length or 0 for length in port.shape)
            places[port.name] = place = PortMemory(port, shape, device)
            place.host(shape)
            bind(port.name, "cuda", 0, place.dtype, list(shape), place.device(shape).pointer)
        return places

    inputs, outputs = bound(signature.inputs, binding.bind_input), bound(signature.outputs, binding.bind_output)
    options = library.RunOptions()
    options.add_run_config_entry("disable_synchronize_execution_providers", "1")
    shapes = {port: place.largest for port, place in (*inputs.items(), *outputs.items())}
    context = _OnStream(name, session, binding, options, shapes)
    return DeviceSession(name, signature, context, device, inputs, outputs, device.lease(0), _records=True)


def _run(plan: str, session: Any, *arguments: Any) -> None:
    try:
        session.run_with_iobinding(*arguments)
    except Exception as error:  # the library's errors have no common base
        words = f"plan {plan} did not run: {_reason(error)}"
        if lost_device(str(error)):
            raise TryAgainError(f"{words}; run the same command again, what is done is kept") from error
        raise CounterfactoryError(words) from error


def open_session(
    path: Path,
    *,
    batch: int,
    provider: Provider,
    threads: int = 0,
    sizes: Mapping[str, tuple[int, int]] | None = None,
    shapes: Mapping[str, Shapes] | None = None,
    cache: Path | None = None,
    device: Callable[[], Cuda] = open_device,
    report: Callable[[str], None] = lambda reason: None,
) -> OnnxRuntimeSession | DeviceSession:
    """Load an ONNX graph for a static batch: the axis of every input along which its rows lie becomes `batch`.

    `sizes` fixes the last two axes (height, width) of the inputs that it names; other dynamic axes stay so. `threads`
    is the CPU's, 0 for all. The TensorRT provider compiles the graph when it is opened and keeps engines in `cache`,
    one folder a graph, shape and release; for dynamic axes it needs the `shapes` of every input, and a cache needs its
    own with any provider. The CUDA provider queues a graph of fixed shapes on the stream of `device`. `report` is told
    why engines are not kept. Raises CounterfactoryError when the file is missing or no model, the shapes do not suit
    the network, or the provider is missing, does not start, or leaves work to the CPU.
    """
    ports = read_ports(path)
    axes = _fixed_axes(path, ports, batch, sizes or {})
    library = load_library(provider)
    options = library.SessionOptions()
    options.log_severity_level = 4  # what goes wrong is raised
    options.intra_op_num_threads = threads
    for axis, length in axes.items():
        options.add_free_dimension_override_by_name(axis, length)
    # Whether no input has an axis whose length is still open.
    static = all(isinstance(axis, int) or axis in axes for port in ports.inputs for axis in port.axes)
    name = graph_name(path)
    caches = _largest_caches(path, ports, axes, shapes or {})
    if static or provider != "tensorrt":
        shapes = None  # there is only one, or nothing is compiled for them
    elif shapes is not None:
        _check_shapes(path, ports, axes, shapes)
    shared = device() if static and provider == "cuda" else None
    rewritten = norms_for_cuda(path) if provider == "cuda" else None
    if rewritten is not None:
        folder = str(path.parent.absolute())
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", folder)
    # A graph that leaves arithmetic on whole numbers to the CPU, as a search for the end of a text, is not recorded.
    for whole in (True, False) if shared is not None else (static,):
        if provider != "cpu":
            for key, on in (("disable_cpu_ep_fallback", whole), ("record_ep_graph_assignment_info", not whole)):
                options.add_session_config_entry(f"session.{key}", str(int(on)))
        chosen, source = choose_providers(library, provider, path, axes, whole, shapes, cache, shared, report)
        try:
            session = library.InferenceSession(rewritten or source, options, providers=chosen, enable_fallback=0)
            break
        except Exception as error:  # the library's errors have no common base
            if whole and shared is not None:
                continue
            raise CounterfactoryError(
                f"model file {path} cannot be loaded at batch {batch}, {sizes}, with "
                f"{onnx_providers.PROVIDERS[provider]}: {_reason(error)}; {onnx_providers.NEEDS[provider]}"
            ) from error
    check_provider(name, session, provider)
    if provider != "cpu" and not whole:
        refuse_cpu_work(name, session)
    signature = Signature(_ports(session.get_inputs()), _ports(session.get_outputs()))
    if provider != "cpu" and static and any(None in port.shape for port in signature.outputs):
        raise CounterfactoryError(
            f"model file {path} takes fixed shapes and gives {signature.outputs}, which a CUDA graph cannot; "
            "export it with the shapes of its outputs"
        )
    if shared is not None:
        return queue_on(name, library, session, shared)
    place = "cpu" if provider == "cpu" else "cuda"
    fixed = _bind_once(library, session, signature, place)
    return OnnxRuntimeSession(name, signature, library, session, place, fixed, caches, _added_positions(ports))


def _fixed_axes(path: Path, ports: Ports, batch: int, sizes: Mapping[str, tuple[int, int]]) -> dict[str, int]:
    """The length of each named axis that the batch and the sizes fix."""
    fixed: dict[str, int] = {}
    inputs = {port.name: port.axes for port in ports.inputs}
    unknown = sorted(sizes.keys() - inputs.keys())
    if unknown:
        raise CounterfactoryError(f"model file {path} takes {sorted(inputs)}, asked for sizes of {unknown}")
    for name, axes in inputs.items():
        height, width = len(axes) - 2, len(axes) - 1
        size = dict(zip((height, width), sizes[name], strict=True)) if name in sizes else {}
        lengths = {row_axis(name): batch} | size
        for axis, length in lengths.items():
            has = axes[axis]
            current = fixed.setdefault(has, length) if isinstance(has, str) else has
            if current is not None and current != length:
                raise CounterfactoryError(
                    f"model file {path} has {name} of {current} along axis {axis}, asked for {length}; "
                    "export it for that shape, or ask for the one it has"
                )
    return fixed


def _largest_caches(
    path: Path, ports: Ports, fixed: Mapping[str, int], shapes: Mapping[str, Shapes]
) -> dict[str, tuple[int, ...]]:
    """The largest shape of each cache that an output continues: as many positions as were exported."""
    largest = {}
    axes = {port.name: port.axes for port in ports.inputs}
    for cache in filter(None, (continued_cache(port.name) for port in ports.outputs)):
        if cache not in shapes:
            raise CounterfactoryError(f"no shapes of {cache} are known for {path}; export it again")
        most = shapes[cache].max
        rest = [fixed.get(has, n) if isinstance(has, str) else n for has, n in zip(axes[cache], most, strict=True)]
        largest[cache] = (most[0], *rest[1:])
    return largest


def _added_positions(ports: Ports) -> dict[str, tuple[str, int]]:
    """For each output that continues a cache the input, and its axis, that is as long as what is added."""
    axes = {name: (port.name, axis) for port in reversed(ports.inputs) for axis, name in enumerate(port.axes)}
    return {output.name: axes[output.axes[0]] for output in ports.outputs if continued_cache(output.name)}


def _check_shapes(path: Path, ports: Ports, fixed: Mapping[str, int], shapes: Mapping[str, Shapes]) -> None:
    """Raise CounterfactoryError unless `shapes` has every input, and room for the lengths that are fixed."""
    for port in ports.inputs:
        if port.name not in shapes or len(shapes[port.name].opt) != len(port.axes):
            raise CounterfactoryError(f"no shapes of {port.name} are known for {path}; export it again")
        for axis, has in enumerate(port.axes):
            length = fixed.get(has) if isinstance(has, str) else has
            least, _, most = shapes[port.name].bounds(axis)
            if length is not None and not least <= length <= most:
                raise CounterfactoryError(
                    f"{path} was exported for {port.name} of {least} to {most} along axis {axis}, asked for {length}; "
                    "export it again for this profile"
                )


def _ports(nodes: Any) -> tuple[Port, ...]:
    return tuple(
        Port(node.name, tuple(n if isinstance(n, int) else None for n in node.shape), _DTYPES[node.type])
        for node in nodes
    )


def _bind_once(
    library: Any, session: Any, signature: Signature, device: str
) -> tuple[Any, dict[str, Any], dict[str, Any]] | None:
    binding, sides = session.io_binding(), []
    for ports, bind in ((signature.inputs, "bind_ortvalue_input"), (signature.outputs, "bind_ortvalue_output")):
        if any(None in port.shape for port in ports):
            return None
        make = library.OrtValue.ortvalue_from_shape_and_type
        values = {port.name: make(list(port.shape), np.dtype(port.dtype), device, 0) for port in ports}
        for name, value in values.items():
            getattr(binding, bind)(name, value)
        sides.append(values)
    inputs, outputs = sides
    return binding, inputs, outputs


def _reason(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[-1] if lines else type(error).__name__
