"""8-bit integers where a network multiplies, a tensor at a time: for networks that quantise.py has no memory for.

NNCF held 20.8 GB of a denoiser of 1.2 B weights, 17 bytes for each. Here the ranges of activations are taken inside of
the graph while it runs, so that a run gives a few numbers for each, and weights are rounded one by one: the result is
W8A8 as quantise.py's, weights symmetric by output channel and activations by tensor.

What convolutions read is smoothed before (SmoothQuant, Xiao et al. 2023, arXiv 2211.10438, equation 4):
loud channels are divided by what their weights are multiplied with, so that the steps of 8 bits suit all channels. It
costs nothing where it runs, as the limits of rounding are then by channel. Of what linear layers read, OpenVINO's CPU
plugin takes no limits by channel.
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
ALPHA = 0.5  # as the paper has it; more loses where few pictures set the ranges (docs/decisions.md)
_NEAR = 1e3  # how far a channel is smoothed at most, so that fp16 holds it
Source = tuple[str, int]  # a node's name and the number of its output
# The least and the greatest numbers, by channel or of one for all.
Range = tuple[NDArray[np.float64], NDArray[np.float64]]


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
    model = open_core().read_model(model_path)
    nodes = {op.get_friendly_name(): op for op in model.get_ordered_ops()}
    readers: dict[Source, list[Any]] = {}
    for name, source in layers.items():
        readers.setdefault(source, []).append(nodes[name])
    for source, span in _ranges(model_path, readers, feeds, precision).items():
        smooth = _smoothing(span, readers[source])
        rounded = _fake_quantised(nodes[source[0]].output(source[1]), span, smooth)
        for node in readers[source]:
            node.input(0).replace_source_output(rounded.output(0))
            _narrow_weight(node, smooth)
    save_ir(model, out_path)
    return len(layers)


def _layers(model: Any, keep: str) -> dict[str, Source]:
    """The layers to quantise, by name, each with the output that is its activation."""
    found = {}
    for op, weight in multiplied_weights(model):
        if weight is not None and not re.search(keep, weight) and _channel_axis(op) is not None:
            source = op.input_value(0)
            found[op.get_friendly_name()] = (source.get_node().get_friendly_name(), source.get_index())
    return found


def _ranges(
    path: Path, readers: Mapping[Source, Sequence[Any]], feeds: Sequence[Feeds], precision: Any
) -> dict[Source, Range]:
    """The least and the greatest number of each output that is read, in all runs: by channel for convolutions alone."""
    model = open_core().read_model(path)
    model.reshape({name: list(np.shape(array)) for name, array in feeds[0].items()})
    nodes = {op.get_friendly_name(): op for op in model.get_ordered_ops()}
    for (name, index), layers in readers.items():
        output = nodes[name].output(index)
        kept = 1 if all(one.get_type_name() == "Convolution" for one in layers) else None
        axes = ops.constant([axis for axis in range(len(output.get_partial_shape())) if axis != kept])
        model.add_outputs([ops.reduce_min(output, axes).output(0), ops.reduce_max(output, axes).output(0)])
    first = len(model.outputs) - 2 * len(readers)
    hints = {"INFERENCE_PRECISION_HINT": resolve_precision(precision), "PERFORMANCE_HINT": "LATENCY"}
    request = open_core().compile_model(model, "CPU", hints).create_infer_request()
    seen = [_run(request, one, first) for one in feeds]
    found = {}
    for at, source in enumerate(readers):
        low, high = (np.stack([run[2 * at + end] for run in seen]) for end in (0, 1))
        # Where all is NaN, the plugin's extremes are float32's, the wrong way round.
        if not (np.isfinite(low) & np.isfinite(high) & (low <= high)).all():
            raise ValueError(f"activation {source[0]} of {path.name} is infinite")
        found[source] = (low.min(0), high.max(0))
    return found


def _run(request: Any, feeds: Feeds, first: int) -> list[NDArray[np.float64]]:
    results = request.infer(dict(feeds))
    return [np.array(results[i], np.float64).reshape(-1) for i in range(first, len(results))]


def _smoothing(span: Range, layers: Sequence[Any]) -> NDArray[np.float64]:
    """What each channel [C] of an activation is divided by, or all [1], by how loud it and its weights are.

    A channel without numbers, or without weights, stays.
    """
    reach = np.maximum(-span[0], span[1])
    if len(reach) == 1:
        return np.ones(1)
    weight = np.max([_loudest(_weight_chain(node)[1], _stored_axis(node, 1)) for node in layers], axis=0)
    told = (reach > 0) & (weight > 0)
    smooth = np.where(told, reach, 1) ** ALPHA / np.where(told, weight, 1) ** (1 - ALPHA)
    smooth /= np.exp(np.log(smooth[told]).mean()) if told.any() else 1
    return np.where(told, smooth.clip(1 / _NEAR, _NEAR), 1)


def _loudest(constant: Any, axis: int | None) -> NDArray[np.float64]:
    """The largest magnitude of a weight at each place of an axis."""
    weight: Array = constant.get_data(dtype=np.float32)
    loudest: Array = np.abs(weight).max(tuple(i for i in range(weight.ndim) if i != axis))
    return loudest.astype(np.float64)


def _fake_quantised(output: Any, span: Range, smooth: NDArray[np.float64]) -> Any:
    """`output` over `smooth`, rounded to 8 bits: of both signs by the same steps, or of one."""
    low, high = float((span[0] / smooth).min()), float((span[1] / smooth).max())
    if low >= 0:
        ends = (0.0, max(high, 1e-6))
    else:
        reach = max(-low * _MOST / (_MOST + 1), high, 1e-6)
        ends = (-reach * (_MOST + 1) / _MOST, reach)
    by_channel = smooth if len(smooth) == 1 else smooth.reshape(1, -1, 1, 1)
    read = [ops.constant((end * by_channel).astype(np.float32)) for end in ends]
    limits = [ops.constant(np.float32(end)) for end in ends]
    return ops.fake_quantize(output, *read, *limits, _LEVELS)


def _narrow_weight(node: Any, smooth: NDArray[np.float64]) -> None:
    """Give a layer its weight, times `smooth` by input channels, as 8-bit integers times scales by output channels."""
    axis = _channel_axis(node)
    taker, constant = _weight_chain(node)
    weight: Array = constant.get_data(dtype=np.float32)
    if len(smooth) > 1:
        inputs = _stored_axis(node, 1)
        weight = weight * smooth.astype(np.float32).reshape([-1 if i == inputs else 1 for i in range(weight.ndim)])
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
        return _stored_axis(node, 0)
    rank = len(node.input_value(1).get_partial_shape())
    return _stored_axis(node, rank - 2 if node.get_attributes()["transpose_b"] else rank - 1)


def _stored_axis(node: Any, axis: int) -> int | None:
    """Which axis of the stored weight a layer takes for its weight's `axis`; None where the weight stands otherwise."""
    source = node.input_value(1).get_node()
    while source.get_type_name() == "Transpose":
        order: Mapping[int, Any] = dict(enumerate(source.input_value(1).get_node().get_data().tolist()))
        axis = int(order[axis])
        source = source.input_value(0).get_node()
    if source.get_type_name() == "Convert":
        source = source.input_value(0).get_node()
    return axis if source.get_type_name() == "Constant" else None
