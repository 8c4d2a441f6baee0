"""ONNX graphs through ONNX Runtime: on a GPU with its CUDA or TensorRT provider, on any CPU in f32.

An ONNX file, a batch and a provider give a session with the contract of session.py. Inputs and outputs are always
bound. Where all shapes are fixed they are bound once, and on a GPU the graph is recorded as a CUDA graph. ONNX Runtime
goes on without a provider that does not start and runs on the CPU what a provider does not know: both are refused here.
On a GPU: not run; the same code was run with the CPU provider.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import CounterfactoryError
from .onnx_header import Ports, read_ports
from .onnx_providers import (
    NEEDS,
    PROVIDERS,
    Provider,
    check_provider,
    choose_providers,
    graph_name,
    load_library,
    refuse_cpu_work,
)
from .plans import Shapes
from .session import Port, Signature

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
class HeldValue:
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

    def run(self, feeds: Mapping[str, Any], hold: Collection[str] = ()) -> dict[str, Any]:
        """Run the graph once; refuses feeds that do not fit the signature.

        Outputs named in `hold` stay on the device and may be fed to a later run of this session.
        """
        described: dict[str, Any] = dict(feeds)
        self.signature.check(self.name, described)
        for name, given in feeds.items():
            if isinstance(given, HeldValue) and given.session is not self._session:
                raise CounterfactoryError(f"plan {self.name} was fed {name} that another session holds")
        unknown = sorted(set(hold) - {port.name for port in self.signature.outputs})
        if unknown:
            names = sorted(port.name for port in self.signature.outputs)
            raise CounterfactoryError(f"plan {self.name} gives {names}, asked to hold {unknown}")
        values = self._run_bound(feeds) if self._fixed is None else self._run_fixed(feeds, *self._fixed)
        return {name: self._kept(value) if name in hold else value.numpy().copy() for name, value in values.items()}

    def _run_bound(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        # A binding of its own: the outputs of a binding are overwritten by its next run, also those held.
        binding = self._session.io_binding()
        for name, given in feeds.items():
            make = self._library.OrtValue.ortvalue_from_numpy
            value = given.value if isinstance(given, HeldValue) else make(given, self._device, 0)
            binding.bind_ortvalue_input(name, value)
        for port in self.signature.outputs:
            binding.bind_output(port.name, self._device, 0)
        self._execute(binding)
        return dict(zip((port.name for port in self.signature.outputs), binding.get_outputs(), strict=True))

    def _run_fixed(
        self, feeds: Mapping[str, Any], binding: Any, inputs: dict[str, Any], outputs: dict[str, Any]
    ) -> dict[str, Any]:
        for name, given in feeds.items():
            if isinstance(given, HeldValue):
                self._copy(given.value, inputs[name])
            else:
                inputs[name].update_inplace(given)
        self._execute(binding)
        return outputs

    def _execute(self, binding: Any) -> None:
        try:
            self._session.run_with_iobinding(binding)
        except Exception as error:  # the library's errors have no common base
            raise CounterfactoryError(f"plan {self.name} did not run: {_reason(error)}") from error

    def _copy(self, source: Any, to: Any) -> None:
        if self._device == "cpu":  # the library copies between devices only
            to.update_inplace(source.numpy())
        else:
            self._library.copy_tensors([source], [to])

    def _kept(self, value: Any) -> HeldValue:
        shape, dtype = tuple(value.shape()), np.dtype(_DTYPES[value.data_type()])
        if self._fixed is not None:  # the next run writes there again
            own = self._library.OrtValue.ortvalue_from_shape_and_type(list(shape), dtype, self._device, 0)
            self._copy(value, own)
            value = own
        return HeldValue(shape, dtype, value, self._session)


def open_session(
    path: Path,
    *,
    batch: int,
    provider: Provider,
    threads: int = 0,
    sizes: Mapping[str, tuple[int, int]] | None = None,
    shapes: Mapping[str, Shapes] | None = None,
    cache: Path | None = None,
) -> OnnxRuntimeSession:
    """Load an ONNX graph for a static batch: every input's first axis becomes `batch`.

    `sizes` fixes the last two axes (height, width) of the inputs that it names; other dynamic axes stay so. `threads`
    is the CPU's, 0 for all. The TensorRT provider compiles the graph when it is opened and keeps engines in `cache`,
    one folder a graph, shape and release; for dynamic axes it needs the `shapes` of every input. Raises
    CounterfactoryError when the file is missing or no model, the shapes do not suit the network, or the provider is
    missing, does not start, or leaves work to the CPU.
    """
    ports = read_ports(path)
    axes = _fixed_axes(path, ports, batch, sizes or {})
    library = load_library(provider)
    options = library.SessionOptions()
    options.log_severity_level = 4  # what goes wrong is raised
    options.intra_op_num_threads = threads
    for axis, length in axes.items():
        options.add_free_dimension_override_by_name(axis, length)
    static, name = _all_fixed(ports, axes), graph_name(path)
    if static:
        shapes = None  # there is only one
    elif shapes is not None:
        _check_shapes(path, ports, axes, shapes)
    if provider != "cpu":
        key = "session.disable_cpu_ep_fallback" if static else "session.record_ep_graph_assignment_info"
        options.add_session_config_entry(key, "1")
    chosen, source = choose_providers(library, provider, path, axes, static, shapes, cache)
    try:
        session = library.InferenceSession(source, options, providers=chosen, enable_fallback=0)
    except Exception as error:  # the library's errors have no common base
        raise CounterfactoryError(
            f"model file {path} cannot be loaded at batch {batch}, {sizes}, with {PROVIDERS[provider]}: "
            f"{_reason(error)}; {NEEDS[provider]}"
        ) from error
    check_provider(name, session, provider)
    if provider != "cpu" and not static:
        refuse_cpu_work(name, session)
    signature = Signature(_ports(session.get_inputs()), _ports(session.get_outputs()))
    device = "cpu" if provider == "cpu" else "cuda"
    fixed = _bound_once(library, session, signature, device)
    if provider != "cpu" and static and fixed is None:
        raise CounterfactoryError(
            f"model file {path} takes fixed shapes and gives {signature.outputs}, which a CUDA graph cannot; "
            "export it with the shapes of its outputs"
        )
    return OnnxRuntimeSession(name, signature, library, session, device, fixed)


def _fixed_axes(path: Path, ports: Ports, batch: int, sizes: Mapping[str, tuple[int, int]]) -> dict[str, int]:
    """The length of each named axis that the batch and the sizes fix."""
    fixed: dict[str, int] = {}
    inputs = {port.name: port.axes for port in ports.inputs}
    unknown = sorted(sizes.keys() - inputs.keys())
    if unknown:
        raise CounterfactoryError(f"model file {path} takes {sorted(inputs)}, asked for sizes of {unknown}")
    for name, axes in inputs.items():
        height, width = len(axes) - 2, len(axes) - 1
        asked = {0: batch} | (dict(zip((height, width), sizes[name], strict=True)) if name in sizes else {})
        for axis, length in asked.items():
            has = axes[axis]
            known = fixed.setdefault(has, length) if isinstance(has, str) else has
            if known is not None and known != length:
                raise CounterfactoryError(
                    f"model file {path} has {name} of {known} along axis {axis}, asked for {length}; "
                    "export it for that shape, or ask for the one it has"
                )
    return fixed


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


def _all_fixed(ports: Ports, fixed: Mapping[str, int]) -> bool:
    """Whether no input has an axis whose length is still open."""
    axes = [axis for port in ports.inputs for axis in port.axes]
    return all(isinstance(axis, int) or axis in fixed for axis in axes)


def _ports(nodes: Any) -> tuple[Port, ...]:
    return tuple(
        Port(node.name, tuple(n if isinstance(n, int) else None for n in node.shape), _DTYPES[node.type])
        for node in nodes
    )


def _bound_once(
    library: Any, session: Any, signature: Signature, device: str
) -> tuple[Any, dict[str, Any], dict[str, Any]] | None:
    ports = (*signature.inputs, *signature.outputs)
    if any(None in port.shape for port in ports):
        return None
    binding = session.io_binding()
    values = {
        port.name: library.OrtValue.ortvalue_from_shape_and_type(list(port.shape), np.dtype(port.dtype), device, 0)
        for port in ports
    }
    inputs = {port.name: values[port.name] for port in signature.inputs}
    outputs = {port.name: values[port.name] for port in signature.outputs}
    for name, value in inputs.items():
        binding.bind_ortvalue_input(name, value)
    for name, value in outputs.items():
        binding.bind_ortvalue_output(name, value)
    return binding, inputs, outputs


def _reason(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[-1] if lines else type(error).__name__
