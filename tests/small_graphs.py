"""Small ONNX graphs of the kinds that plans are made of, written node by node so that each can be broken on purpose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import DTypeLike
from onnx import TensorProto, helper, numpy_helper

CHANNELS, SIDE, HEADS = 64, 16, 2
TOKENS = SIDE * SIDE


def picture_graph(
    path: Path,
    *,
    batch: str | int = "batch",
    rows: int = 0,
    attention: DTypeLike = np.float16,
    norm: DTypeLike = np.float32,
    island: str = "",
    stray_weight: bool = False,
) -> Path:
    """x [B, 4, 16, 16] in fp32 through a convolution, a group norm and attention in fp16 to y [B, 256, 64] in fp32.

    `rows` is the number of rows that the flattening reshape asks for, 0 as many as come in. `stray_weight` leaves a
    weight of an fp16 product in fp32. The precisions are those that the attention and the norm compute in, `island` is
    what the norm's name begins with.
    """
    random = np.random.default_rng(0)
    attends, normalises = np.dtype(attention), np.dtype(norm)

    def weight(name: str, *shape: int, dtype: DTypeLike = np.float16) -> onnx.TensorProto:
        return numpy_helper.from_array((random.standard_normal(shape) * 0.1).astype(dtype), name)

    def cast(source: str, to: str, dtype: DTypeLike) -> onnx.NodeProto:
        return helper.make_node("Cast", [source], [to], to, to=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def node(kind: str, inputs: str, output: str, **attributes: object) -> onnx.NodeProto:
        return helper.make_node(kind, inputs.split(), [output], output, **attributes)

    nodes = [
        cast("x", "x_half", np.float16),
        node("Conv", "x_half conv_weight conv_bias", "conv", pads=[1] * 4),
        cast("conv", "conv_norm", normalises),
        node("Reshape", "conv_norm to_groups", "grouped"),
        helper.make_node("InstanceNormalization", ["grouped", "norm_scale", "norm_shift"], ["norm"], f"{island}norm"),
        node("Shape", "conv_norm", "picture_shape"),
        node("Reshape", "norm picture_shape", "ungrouped"),
        cast("ungrouped", "normed", attends),
        node("Reshape", "normed to_tokens", "channels_first"),
        node("Transpose", "channels_first", "tokens", perm=[0, 2, 1]),
    ]
    for one in "qkv":
        nodes += [
            node("MatMul", f"tokens {one}_weight", f"{one}_joined"),
            node("Reshape", f"{one}_joined to_heads", f"{one}_split"),
            node("Transpose", f"{one}_split", one, perm=[0, 2, 1, 3]),
        ]
    nodes += [
        node("Transpose", "k", "k_turned", perm=[0, 1, 3, 2]),
        node("MatMul", "q k_turned", "scores"),
        node("Mul", "scores scale", "scaled"),
        node("Softmax", "scaled", "weights", axis=-1),
        node("MatMul", "weights v", "attended"),
        node("Transpose", "attended", "merged", perm=[0, 2, 1, 3]),
        node("Reshape", "merged from_heads", "joined"),
        node("MatMul", "joined out_weight", "projected"),
        cast("projected", "y", np.float32),
    ]
    stray = np.float32 if stray_weight else attends
    weights = [
        weight("conv_weight", CHANNELS, 4, 3, 3),
        weight("conv_bias", CHANNELS),
        weight("norm_scale", 8, dtype=normalises),
        weight("norm_shift", 8, dtype=normalises),
        *(weight(f"{one}_weight", CHANNELS, CHANNELS, dtype=attends) for one in "qkv"),
        weight("out_weight", CHANNELS, CHANNELS, dtype=stray),
        numpy_helper.from_array(np.array((CHANNELS / HEADS) ** -0.5, attends), "scale"),
        numpy_helper.from_array(np.array([0, 8, -1]), "to_groups"),
        numpy_helper.from_array(np.array([rows, CHANNELS, -1]), "to_tokens"),
        numpy_helper.from_array(np.array([0, -1, HEADS, CHANNELS // HEADS]), "to_heads"),
        numpy_helper.from_array(np.array([0, -1, CHANNELS]), "from_heads"),
    ]
    return _written(path, nodes, {"x": [batch, 4, SIDE, SIDE]}, {"y": [batch, TOKENS, CHANNELS]}, weights)


def pair_graph(path: Path, first: str | int = "batch", second: str | int = "batch") -> Path:
    """a [B, 8] and b [B, 8] to their sum."""
    add = helper.make_node("Add", ["a", "b"], ["sum"], "sum")
    return _written(path, [add], {"a": [first, 8], "b": [second, 8]}, {"sum": [None, 8]})


def mixing_graph(path: Path, rows: int) -> Path:
    """x [B, 8, 4] by `rows` rows and back: it holds at every batch that `rows` divides, and mixes rows at all others.

    With 0 rows it is right at every batch.
    """
    nodes = [
        helper.make_node("Reshape", ["x", "there"], ["flat"], "flat"),
        helper.make_node("Softmax", ["flat"], ["soft"], "soft", axis=1),
        helper.make_node("Reshape", ["soft", "back"], ["y"], "y"),
    ]
    shapes = {"there": [rows, -1], "back": [-1, 8, 4]}
    weights = [numpy_helper.from_array(np.array(shape), name) for name, shape in shapes.items()]
    return _written(path, nodes, {"x": ["batch", 8, 4]}, {"y": ["batch", 8, 4]}, weights)


def unknown_graph(path: Path) -> Path:
    """A graph with an operation of a domain that no compiler knows."""
    node = helper.make_node("Conjure", ["x"], ["y"], "rabbit", domain="hat")
    return _written(path, [node], {"x": [1, 4]}, {"y": [1, 4]}, check=False)


def sized_graph(path: Path) -> Path:
    """x [B, 4, H, W] through a convolution to y [B, 4, H, W], in fp32; only the batch and the size are open."""
    weight = numpy_helper.from_array(np.random.default_rng(0).standard_normal((4, 4, 3, 3)).astype(np.float32), "w")
    shape, node = ["batch", 4, "height", "width"], helper.make_node("Conv", ["x", "w"], ["y"], pads=[1] * 4)
    return _written(path, [node], {"x": shape}, {"y": shape}, [weight])


def _written(
    path: Path,
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Sequence[str | int | None]],
    outputs: Mapping[str, Sequence[str | int | None]],
    weights: Sequence[onnx.TensorProto] = (),
    *,
    check: bool = True,
) -> Path:
    ports = [
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, list(shape)) for name, shape in some.items()]
        for some in (inputs, outputs)
    ]
    return saved(helper.make_graph(list(nodes), path.stem, *ports, list(weights)), path, check=check)


def saved(graph: onnx.GraphProto, path: Path, *, check: bool = True, opset: int = 18) -> Path:
    """Write a graph as a model, checked unless it should be broken."""
    domains = [helper.make_opsetid("", opset), helper.make_opsetid("hat", 1)]
    model = helper.make_model(graph, opset_imports=domains, ir_version=10)
    if check:
        onnx.checker.check_model(model)
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(model, str(path))
    return path
