"""8-bit integers where a network multiplies, a tensor at a time: for networks that quantise.py has no memory for.

NNCF held 20.8 GB of a denoiser of 1.2 B weights, 17 bytes for each. Here the ranges of activations are taken inside of
the graph while it runs, so that a run gives two numbers for each, and weights are rounded one by one: the result is
W8A8 as quantise.py's, weights symmetric by output channel and activations by tensor, without corrections of any kind.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from counterfactory.engine.runtime.openvino import open_core, resolve_precision
from counterfactory.engine.runtime.quiet_openvino import ov
from counterfactory.engine.runtime.session import Array

from .narrowing import save_ir
from .quantise import SENSITIVE, Feeds, multiplied_weights

ops: Any = ov.opset13
_LEVELS, _MOST = 256, 127
Range = tuple[float, float]


def quantise_by_tensor(
    model_path: Path,
    calibration: Iterable[Feeds],
    out_path: Path,
    *,
    keep: str = SENSITIVE,
    precision: Literal["auto", "bf16", "f32"] = "auto",
) -> int:
    """Write the int8 form of the network `model_path` to `out_path` (.xml beside .bin); returns how many layers it has.

    `calibration` holds feeds of the network, all of the same shapes, which are run in `precision`; layers whose
    weight's name `keep`, a regular expression, finds stay as they are, and so do products of activations (attention).
    Raises ValueError without calibration, and where an activation is infinite.
    """
    feeds = list(calibration)
    if not feeds:
        raise ValueError(f"quantising {model_path.name} needs inputs to calibrate on, got none")
    layers = _layers(open_core().read_model(model_path), keep)
    sources = sorted(set(layers.values()))
    ranges = dict(zip(sources, _ranges(model_path, sources, feeds, precision), strict=True))
    model = open_core().read_model(model_path)
    nodes = {op.get_friendly_name(): op for op in model.get_ordered_ops()}
    rounded: dict[tuple[str, int], Any] = {}
    for name, source in layers.items():
        node = nodes[name]
        if source not in rounded:
            rounded[source] = _fake_quantised(nodes[source[0]].output(source[1]), ranges[source])
        node.input(0).replace_source_output(rounded[source].output(0))
        _narrow_weight(node)
    save_ir(model, out_path)
    return len(layers)


def _layers(model: Any, keep: str) -> dict[str, tuple[str, int]]:
    """The layers to quantise, by name, each with the output that is its activation: a node's name and a number."""
    found = {}
    for op, weight in multiplied_weights(model):
        if weight is not None and not re.search(keep, weight) and _channel_axis(op) is not None:
            source = op.input_value(0)
            found[op.get_friendly_name()] = (source.get_node().get_friendly_name(), source.get_index())
    return found


def _ranges(path: Path, sources: Sequence[tuple[str, int]], feeds: Sequence[Feeds], precision: Any) -> list[Range]:
    """The least and the greatest number of each of the outputs `sources` in all runs."""
    model = open_core().read_model(path)
    model.reshape({name: list(np.shape(array)) for name, array in feeds[0].items()})
    nodes = {op.get_friendly_name(): op for op in model.get_ordered_ops()}
    for name, index in sources:
        flat = ops.reshape(nodes[name].output(index), ops.constant([-1]), False)
        axis = ops.constant([0])
        model.add_outputs([ops.reduce_min(flat, axis).output(0), ops.reduce_max(flat, axis).output(0)])
    first = len(model.outputs) - 2 * len(sources)
    hints = {"INFERENCE_PRECISION_HINT": resolve_precision(precision), "PERFORMANCE_HINT": "LATENCY"}
    request = open_core().compile_model(model, "CPU", hints).create_infer_request()
    seen = np.array([_run(request, one, first) for one in feeds])
    if not np.isfinite(seen).all():
        at = int(np.argwhere(~np.isfinite(seen).all(0))[0, 0]) // 2
        raise ValueError(f"activation {sources[at][0]} of {path.name} is infinite")
    return list(zip(seen[:, 0::2].min(0).tolist(), seen[:, 1::2].max(0).tolist(), strict=True))


def _run(request: Any, feeds: Feeds, first: int) -> NDArray[np.float64]:
    results = request.infer(dict(feeds))
    return np.array([float(results[i]) for i in range(first, len(results))])


def _fake_quantised(output: Any, span: Range) -> Any:
    """`output` rounded to 8 bits: of both signs by the same steps, or of one."""
    low, high = span
    if low >= 0:
        ends = (0.0, max(high, 1e-6))
    else:
        reach = max(-low * _MOST / (_MOST + 1), high, 1e-6)
        ends = (-reach * (_MOST + 1) / _MOST, reach)
    limits = [ops.constant(np.float32(end)) for end in ends]
    return ops.fake_quantize(output, *limits, *limits, _LEVELS)


def _narrow_weight(node: Any) -> None:
    """Give a layer its weight as 8-bit integers times scales, one for each output channel."""
    axis = _channel_axis(node)
    taker, constant = _weight_chain(node)
    weight: Array = constant.get_data(dtype=np.float32)
    others = tuple(i for i in range(weight.ndim) if i != axis)
    most = np.abs(weight).max(others, keepdims=True)
    scale = np.where(most > 0, most / _MOST, 1).astype(np.float32)
    integers = ov.op.Constant(np.rint(weight / scale).astype(np.int8))
    integers.set_friendly_name(constant.get_friendly_name())
    scaled = ops.multiply(ops.convert(integers, "f32"), ops.constant(scale))
    taker.replace_source_output(scaled.output(0))


def _weight_chain(node: Any) -> tuple[Any, Any]:
    """The input that takes the weight in float32 (the layer's own, or that of what turns it), and its constant."""
    taker = node.input(1)
    while taker.get_source_output().get_node().get_type_name() == "Transpose":
        taker = taker.get_source_output().get_node().input(0)
    source = taker.get_source_output().get_node()
    return taker, source.input_value(0).get_node() if source.get_type_name() == "Convert" else source


def _channel_axis(node: Any) -> int | None:
    """The axis of a layer's stored weight that holds its output channels; None where the weight stands otherwise."""
    if node.get_type_name() == "Convolution":
        axis = 0
    else:
        rank = len(node.input_value(1).get_partial_shape())
        axis = rank - 2 if node.get_attributes()["transpose_b"] else rank - 1
    source = node.input_value(1).get_node()
    while source.get_type_name() == "Transpose":
        order: Mapping[int, Any] = dict(enumerate(source.input_value(1).get_node().get_data().tolist()))
        axis = int(order[axis])
        source = source.input_value(0).get_node()
    if source.get_type_name() == "Convert":
        source = source.input_value(0).get_node()
    return axis if source.get_type_name() == "Constant" else None
