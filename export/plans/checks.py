"""What a compiler of plans does not catch: profiles that do not suit the graph they are given for.

For an ONNX file and the shapes of its inputs they raise one CounterfactoryError with every fault, or nothing. TensorRT
ignores a profile's names that are no inputs, takes inputs whose batches end at different lengths, and compiles a graph
whose reshapes know one batch only: such plans fail on the box, or answer wrongly. The graph is read by OpenVINO, which
works out all shapes without computing anything.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.runtime.onnx_header import NamedPort, Ports, read_ports
from counterfactory.engine.runtime.openvino import open_core
from counterfactory.engine.runtime.plans import PlanProfile
from counterfactory.engine.runtime.quiet_openvino import ov
from counterfactory.engine.runtime.session import continued_cache, row_axis


def check_profile(onnx_path: Path, profile: PlanProfile) -> None:
    """Raise CounterfactoryError with all that keeps `profile` from suiting the graph.

    Faults of one kind are looked for only where those before it are none: names; ranks and fixed lengths; axes that
    must be of one length; then whether the graph holds at the profile's corners and along its batch axis.
    """
    ports = read_ports(onnx_path)
    for kind in (_names, _lengths, _shared_axes):
        _raise(onnx_path, list(kind(ports, profile)))
    _raise(onnx_path, [*_corners(onnx_path, ports, profile), *_fixed_batches(onnx_path, profile)])


def io_bytes(onnx_path: Path, profile: PlanProfile) -> int:
    """What a plan's inputs and outputs take on the device at their largest; what continues a cache lies within it."""
    model = _reshaped(onnx_path, {name: list(shapes.max) for name, shapes in profile.items()})
    ports = [*model.inputs, *(port for port in model.outputs if not continued_cache(port.get_any_name()))]
    return sum(port.get_element_type().size * math.prod(port.get_partial_shape().to_shape()) for port in ports)


def _raise(onnx_path: Path, faults: list[str]) -> None:
    if faults:
        raise CounterfactoryError(f"{onnx_path} cannot become a plan of these shapes: {'; '.join(faults)}")


def _names(ports: Ports, profile: PlanProfile) -> Iterator[str]:
    names = {port.name for port in ports.inputs}
    if unknown := sorted(profile.keys() - names):
        yield f"shapes are given for {unknown}, which are no inputs; the graph takes {sorted(names)}"
    if missing := sorted(names - profile.keys()):
        yield f"inputs {missing} have no shapes; give them"


def _lengths(ports: Ports, profile: PlanProfile) -> Iterator[str]:
    for port in ports.inputs:
        shapes = profile[port.name]
        if len(shapes.opt) != len(port.axes):
            yield f"{port.name} has {len(port.axes)} axes {list(port.axes)}, its shapes have {len(shapes.opt)}"
            continue
        for axis, length in enumerate(port.axes):
            least, _, most = shapes.bounds(axis)
            if isinstance(length, int) and shapes.bounds(axis) != (length,) * 3:
                span = str(most) if least == most else f"{least} to {most}"
                advice = "export the graph with that axis dynamic or give that length"
                yield f"{port.name} is fixed to {length} along axis {axis}, its shapes say {span}; {advice}"


def _shared_axes(ports: Ports, profile: PlanProfile) -> Iterator[str]:
    """Axes of one name are of one length, and so are the axes of all inputs along which their rows lie."""
    uses: dict[str, dict[str, tuple[int, int, int]]] = {}
    for port in ports.inputs:
        for axis, name in enumerate(port.axes):
            rows = axis == row_axis(port.name)
            called = "the batch" if rows else f"axis {name!r}" if isinstance(name, str) else None
            if called:
                uses.setdefault(called, {})[f"{port.name}[{axis}]"] = profile[port.name].bounds(axis)
    for called, bounds in uses.items():
        if len(set(bounds.values())) > 1:
            spans = ", ".join(f"{where} {least}/{usual}/{most}" for where, (least, usual, most) in bounds.items())
            yield f"{called} must be of one length in all inputs, min/opt/max are {spans}"


def _corners(onnx_path: Path, ports: Ports, profile: PlanProfile) -> Iterator[str]:
    """The graph at its smallest, usual and largest shapes: every operation holds, outputs are as long as declared."""
    corners = {tuple((n, getattr(s, kind)) for n, s in profile.items()): kind for kind in ("min", "opt", "max")}
    for corner, kind in corners.items():
        wanted = dict(corner)
        try:
            model = _reshaped(onnx_path, {name: list(shape) for name, shape in wanted.items()})
        except RuntimeError as error:
            yield f"it does not hold at its {kind} shapes {wanted}: {_reason(error)}"
            continue
        lengths = {axis: n for port in ports.inputs for axis, n in zip(port.axes, wanted[port.name], strict=True)}
        for declared, found in zip(ports.outputs, model.outputs, strict=True):
            yield from _output_faults(declared, found, lengths, kind)


def _output_faults(declared: NamedPort, found: Any, lengths: Mapping[Any, int], kind: str) -> Iterator[str]:
    for axis, (name, dim) in enumerate(zip(declared.axes, found.get_partial_shape(), strict=True)):
        # Names that are sums of others ("past + tokens") are not worked out.
        wanted = lengths.get(name) if isinstance(name, str) else name
        if wanted is not None and (dim.is_dynamic or dim.get_length() != wanted):
            given = f"at its {kind} shapes it gives {declared.name} of {dim} along axis {axis}"
            yield f"{given}, declared {name} = {wanted}"


def _fixed_batches(onnx_path: Path, profile: PlanProfile) -> Iterator[str]:
    """Reshapes to a constant number of rows where the number of rows is open.

    Such a reshape may hold at every batch, if another of its axes takes what is over, and then mixes rows.
    """
    batches = [shapes.bounds(row_axis(name)) for name, shapes in profile.items()]
    if all(least == most for least, _, most in batches):
        return
    spans = {
        name: [ov.Dimension(least, most) for least, most in zip(shapes.min, shapes.max, strict=True)]
        for name, shapes in profile.items()
    }
    try:
        model = _reshaped(onnx_path, spans)
    except RuntimeError as error:
        yield f"it does not hold between its shapes: {_reason(error)}"
        return
    for op in model.get_ordered_ops():
        if op.get_type_name() != "Reshape" or not op.input(0).get_partial_shape().rank.is_static:
            continue
        given, target = op.input(0).get_partial_shape(), op.input_value(1).get_node()
        if target.get_type_name() != "Constant" or not len(given) or given[0].is_static:
            continue
        rows = target.get_data().reshape(-1)[:1].tolist()
        if rows and rows[0] > 0:
            fixed = f"{op.get_friendly_name()} reshapes {given} to {target.get_data().tolist()}: a fixed number of rows"
            yield f"{fixed}; export it with a dynamic batch, or build one plan a batch"


def _reshaped(onnx_path: Path, shapes: Mapping[str, list[Any]]) -> Any:
    model = open_core().read_model(onnx_path)
    model.reshape({name: ov.PartialShape(dims) for name, dims in shapes.items()})
    return model


# What OpenVINO says around the operation and its fault.
_FRAME = ("Exception from", "Check '", "FrontEnd API", "Model wasn't", "Summary:", "-- Conversion is failed")


def _reason(error: RuntimeError) -> str:
    lines = [line.strip() for line in str(error).splitlines()]
    return " ".join(line for line in lines if line and not line.startswith(_FRAME))[:500]
