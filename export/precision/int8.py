"""8-bit integers in the denoiser's ONNX: Q/DQ around what multiplies, for OpenVINO and TensorRT alike.

Weights are symmetric by output channel, activations symmetric by tensor, with the ranges seen while the network
painted; zero is zero in both, which TensorRT demands. A weight is stored as integers and its DequantizeLinear; an
activation gets QuantizeLinear and DequantizeLinear, once however many layers read it. What graphs/quantise.py keeps in
floating point is kept here too, and so are products of two activations (attention).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper

from counterfactory.engine.models.batching import Batched
from counterfactory.engine.models.sampler import Sampler
from counterfactory.engine.models.schedule import USUAL, Schedule
from counterfactory.engine.profile.paint import PaintSettings
from counterfactory.engine.runtime.session import Array, Signature
from counterfactory.kernels.guided_step import guide

from ..graphs.quantise import SENSITIVE
from .cpu import OnnxCpu
from .half import opset_of, value_kinds
from .stored import Stored, fold_transposes, replace_nodes

_LEVELS = 127
# From here on scales, and with them what leaves a DequantizeLinear, may be fp16. Between 18 and 19 the operators that
# are used here gained types and changed nothing else.
_OPSET = 19
_CALIBRATION = "calibration.onnx"
# The axis of a weight that holds the output channels, by operation. Gemm is written with its weight as [out, in].
_CHANNEL = {"Conv": 0, "Gemm": 0, "MatMul": 1}


@dataclass(frozen=True)
class Painting:
    """What the denoiser is calibrated on: text states [N, T, D] of N captions and hint embeddings [N, D, h, w].

    `negative` [T, D] holds the text states of the negative prompt. Every caption is painted as `paint` says, in at most
    `steps` of its sampler's steps, by the network's `schedule`.
    """

    texts: Array
    negative: Array
    hints: Array
    paint: PaintSettings
    steps: int = 4
    schedule: Schedule = USUAL

    @property
    def sampler(self) -> Sampler:
        """The profile's kind of sampler, over no more steps than `steps`."""
        settings = self.paint.sampler
        return Sampler(replace(settings, steps=min(settings.steps, self.steps)), self.schedule)


def multiplied(stored: Stored, keep: str = SENSITIVE) -> list[int]:
    """Positions of the nodes whose weight is to be integers."""
    weights = {name for name, tensor in stored.weights().items() if len(tensor.dims) >= 2}
    return [
        i
        for i, node in enumerate(stored.graph.node)
        if node.op_type in _CHANNEL
        and node.input[1] in weights
        and not re.search(keep, node.input[1])
        # A Gemm whose weight is written as [in, out] stays.
        and (node.op_type != "Gemm" or any(a.name == "transB" and a.i for a in node.attribute))
    ]


@dataclass
class _Ranging:
    """A session that runs the network and keeps the largest magnitude that each watched value ever had."""

    session: OnnxCpu
    watched: Mapping[str, str]
    ranges: dict[str, float] = field(default_factory=dict)

    @property
    def signature(self) -> Signature:
        outputs = tuple(p for p in self.session.signature.outputs if p.name not in self.watched)
        return Signature(self.session.signature.inputs, outputs)

    def run(self, feeds: Mapping[str, Array], hold: Collection[str] = ()) -> dict[str, Array]:
        found = self.session.run(feeds)
        for output, value in self.watched.items():
            self.ranges[value] = max(self.ranges.get(value, 0.0), float(found.pop(output)))
        return found


def activation_ranges(full: Path, painting: Painting) -> dict[str, float]:
    """The largest magnitude of every activation that meets a weight, while the float32 graph `full` paints.

    The maxima are taken inside the graph, so that a run gives a number an activation and no tensors.
    """
    folded = Stored.read(full)
    fold_transposes(folded)
    values = sorted({folded.graph.node[i].input[0] for i in multiplied(folded, keep="(?!)")})
    stored = Stored.read(full)
    watched = {f"range_{i}": value for i, value in enumerate(values)}
    for output, value in watched.items():
        stored.graph.node.append(helper.make_node("Abs", [value], [f"{output}_abs"]))
        stored.graph.node.append(helper.make_node("ReduceMax", [f"{output}_abs"], [output], keepdims=0))
        stored.graph.output.append(helper.make_tensor_value_info(output, TensorProto.FLOAT, []))
    file = stored.write_graph(full.with_name(_CALIBRATION))
    try:
        ranging = _Ranging(OnnxCpu(file, batch=2), watched)
    finally:
        file.unlink()
    _paint(Batched(ranging), painting)
    return ranging.ranges


def _paint(denoiser: Batched, painting: Painting) -> None:
    """Denoise every caption from noise of its own, guided where the engine would guide it."""
    sampler, settings = painting.sampler, painting.paint
    for i, (text, hint) in enumerate(zip(painting.texts, painting.hints, strict=True)):
        random, shape = np.random.default_rng(i), (4, *hint.shape[-2:])
        latents = random.standard_normal(shape).astype(np.float32)
        history = sampler.start
        for step, timestep in enumerate(sampler.timesteps.tolist()):
            guided = settings.guidance.guides(step, len(sampler.timesteps))
            texts = [text, painting.negative] if guided else [text]
            rows = len(texts)
            feeds: dict[str, Array] = {"latents": np.stack([latents] * rows), "text": np.stack(texts)}
            feeds |= {"timestep": np.array([timestep] * rows, np.int64), "hint_embedding": np.stack([hint] * rows)}
            feeds["control_scale"] = np.full((rows, *hint.shape[:-3]), settings.control_scale, np.float32)
            predicted = denoiser.run(feeds)["prediction"]
            output = guide(predicted[0], predicted[1], settings.guidance.scale) if guided else predicted[0]
            fresh = random.standard_normal(shape).astype(np.float32) if sampler.adds_noise(step) else None
            latents, history = sampler.step(step, latents, output, history, fresh)


def quantise(stored: Stored, ranges: Mapping[str, float], keep: str = SENSITIVE) -> int:
    """Put Q/DQ around the layers of a float32 graph, in place; returns how many.

    Raises ValueError for a layer whose activation has no range, or none but zero.
    """
    fold_transposes(stored)
    chosen = set(multiplied(stored, keep))
    for version in stored.proto.opset_import:
        if version.domain in ("", "ai.onnx"):
            version.version = max(_OPSET, opset_of(stored.proto))
    zero = stored.add("int8_zero", np.zeros((), np.int8))
    nodes: list[Any] = []
    known: dict[str, str] = {}
    for i, node in enumerate(stored.graph.node):
        if i in chosen:
            activation, weight = node.input[0], node.input[1]
            if activation not in known:
                known[activation] = _round_activation(stored, nodes, activation, ranges, zero)
            if weight not in known:
                known[weight] = _store_weight(stored, nodes, weight, _CHANNEL[node.op_type])
            node.input[0], node.input[1] = known[activation], known[weight]
        nodes.append(node)
    replace_nodes(stored.graph, nodes)
    del stored.graph.value_info[:]  # they said float32 of the weights
    value_kinds(stored.proto)  # says so here if the graph came out wrong
    return len(chosen)


def _round_activation(stored: Stored, nodes: list[Any], name: str, ranges: Mapping[str, float], zero: str) -> str:
    reach = ranges.get(name, 0.0)
    if not 0 < reach < np.inf:
        raise ValueError(f"activation {name} has no range ({reach}): calibrate on runs that reach it")
    scale = stored.add(f"{name}_scale", np.array(reach / _LEVELS, np.float32))
    nodes.append(helper.make_node("QuantizeLinear", [name, scale, zero], [f"{name}_int8"], f"{name}_q"))
    nodes.append(helper.make_node("DequantizeLinear", [f"{name}_int8", scale, zero], [f"{name}_dq"], f"{name}_dq"))
    return f"{name}_dq"


def _store_weight(stored: Stored, nodes: list[Any], name: str, axis: int) -> str:
    array = stored.weight(name)
    reach = np.abs(array).max(tuple(i for i in range(array.ndim) if i != axis)).astype(np.float32)
    smallest = np.float32(np.finfo(np.float16).smallest_normal)
    # Rounded to what fp16 holds, since they may be halved: the integers then suit them.
    scale = np.maximum(reach / _LEVELS, smallest).astype(np.float16).astype(np.float32)

    def to_integers(array: Array) -> Array:
        shape = [-1 if i == axis else 1 for i in range(array.ndim)]
        levels: Array = np.round(array / scale.reshape(shape)).clip(-_LEVELS, _LEVELS).astype(np.int8)
        return levels

    stored.change(name, to_integers, np.int8)
    inputs = [name, stored.add(f"{name}_scale", scale), stored.add(f"{name}_zero", np.zeros(len(scale), np.int8))]
    nodes.append(helper.make_node("DequantizeLinear", inputs, [f"{name}_dq"], f"{name}_dq", axis=axis))
    return f"{name}_dq"
