"""What a half precision graph computes, on a CPU: every operation in float32, every result rounded to fp16.

A GPU multiplies fp16 numbers, adds the products up in float32 and stores fp16 again. CPUs have no such kernels:
runtimes take float32 for whole stretches of such a graph and round nothing in between, so that a comparison through
them would see the rounded weights only. Here a graph is rewritten so that each operation reads its inputs as float32
and its results are rounded (ties to even, overflow to infinity).

Norms, softmax and attention outside islands are taken apart first, into means, squares, scores and exponentials that
are each rounded: a compiler may build them so, and a network that stands it needs no island there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from counterfactory.engine.runtime.session import Array

from .half import value_kinds
from .stored import replace_nodes

_F32, _F16 = TensorProto.FLOAT, TensorProto.FLOAT16
# These move numbers or make them from types alone; nothing is rounded twice by leaving them as they are.
_AS_THEY_ARE = frozenset({"Cast", "Constant", "ConstantOfShape", "Shape", "Size", "Reshape", "Unsqueeze", "Squeeze"})


def rounded(half: Any) -> Any:
    """The graph `half` (a ModelProto, changed in place and returned) with its rounding written out."""
    _take_apart(half)
    kinds, nodes, wide = value_kinds(half), [], {}

    def widened(name: str) -> str:
        if name not in wide:
            wide[name] = f"{name}_wide"
            nodes.append(helper.make_node("Cast", [name], [wide[name]], to=_F32))
        return wide[name]

    for node in half.graph.node:
        if node.op_type in _AS_THEY_ARE:
            nodes.append(node)
            continue
        for i, name in enumerate(node.input):
            if kinds[name] == _F16:
                node.input[i] = widened(name)
        narrowed = [(i, name) for i, name in enumerate(node.output) if name and kinds[name] == _F16]
        for i, name in narrowed:
            node.output[i] = f"{name}_exact"
        nodes.append(node)
        nodes += [helper.make_node("Cast", [f"{name}_exact"], [name], to=_F16) for _, name in narrowed]
    replace_nodes(half.graph, nodes)
    del half.graph.value_info[:]
    return half


class _Plain:
    def __init__(self, graph: Any, prefix: str, kinds: Mapping[str, int]) -> None:
        self.nodes: list[Any] = []
        self.kinds = kinds
        self._graph, self._prefix = graph, prefix

    def __call__(self, kind: str, *inputs: str, out: str | None = None, **attributes: Any) -> str:
        name = out or f"{self._prefix}_{kind}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def constant(self, value: Array) -> str:
        name = f"{self._prefix}_constant_{len(self._graph.initializer)}"
        self._graph.initializer.append(numpy_helper.from_array(value, name))
        return name

    def axes(self, *axes: int) -> str:
        return self.constant(np.array(axes, np.int64))

    def standardised(self, x: str, axis: int, epsilon: float) -> str:
        """(x - mean) / sqrt(variance + epsilon) along an axis."""
        axes = self.axes(axis)
        off = self("Sub", x, self("ReduceMean", x, axes))
        variance = self("ReduceMean", self("Mul", off, off), axes)
        raised = self("Add", variance, self.constant(np.array(epsilon, np.float16)))
        return self("Div", off, self("Sqrt", raised))


def _take_apart(model: Any) -> None:
    kinds, nodes = value_kinds(model), []
    for i, node in enumerate(model.graph.node):
        if node.op_type in _APART and kinds[node.input[0]] == _F16:
            plain = _Plain(model.graph, f"plain_{i}", kinds)
            _APART[node.op_type](plain, node, {a.name: helper.get_attribute_value(a) for a in node.attribute})
            nodes += plain.nodes
        else:
            nodes.append(node)
    replace_nodes(model.graph, nodes)
    del model.graph.value_info[:]


def _instance_norm(plain: _Plain, node: Any, attributes: dict[str, Any]) -> None:
    x, scale, bias = node.input
    rows = plain("Reshape", x, plain.constant(np.array([0, 0, -1], np.int64)))
    level = plain.standardised(rows, 2, attributes.get("epsilon", 1e-5))
    scaled = plain("Mul", level, plain("Unsqueeze", scale, plain.axes(1)))
    moved = plain("Add", scaled, plain("Unsqueeze", bias, plain.axes(1)))
    plain("Reshape", moved, plain("Shape", x), out=node.output[0])


def _layer_norm(plain: _Plain, node: Any, attributes: dict[str, Any]) -> None:
    if attributes.get("axis", -1) != -1 or len(node.output) > 1:
        raise ValueError(f"{node.name}: only norms of the last axis are known here, got {attributes}")
    level = plain.standardised(node.input[0], -1, attributes.get("epsilon", 1e-5))
    bias = node.input[2] if len(node.input) > 2 and node.input[2] else None
    scaled = plain("Mul", level, node.input[1], out=None if bias else node.output[0])
    if bias:
        plain("Add", scaled, bias, out=node.output[0])


def _softmax(plain: _Plain, node: Any, attributes: dict[str, Any]) -> None:
    _exponentials(plain, node.input[0], attributes.get("axis", -1), node.output[0])


def _exponentials(plain: _Plain, x: str, axis: int, out: str | None = None) -> str:
    axes = plain.axes(axis)
    raised = plain("Exp", plain("Sub", x, plain("ReduceMax", x, axes)))
    return plain("Div", raised, plain("ReduceSum", raised, axes), out=out)


def _attention(plain: _Plain, node: Any, attributes: dict[str, Any]) -> None:
    """Of [batch, heads, tokens, width], scaled as the standard has it: both sides by the root."""
    query, key, value, mask = (*node.input, "")[:4]
    known = attributes.keys() <= {"qk_matmul_output_mode", "softcap", "scale", "is_causal", "softmax_precision"}
    if not known or attributes.get("is_causal") or attributes.get("softcap") or len(node.input) > 4:
        raise ValueError(f"{node.name}: only attention under a mask that is given is known here, got {attributes}")
    if "scale" in attributes:
        root = plain.constant(np.array(attributes["scale"] ** 0.5, np.float16))
    else:  # 1 / sqrt(width)
        width = plain("Cast", plain("Shape", query, start=3), to=_F16)
        root = plain("Pow", width, plain.constant(np.array(-0.25, np.float16)))
    turned = plain("Transpose", plain("Mul", key, root), perm=[0, 1, 3, 2])
    scores = plain("MatMul", plain("Mul", query, root), turned)
    if mask and plain.kinds[mask] == TensorProto.BOOL:
        seen, hidden = (plain.constant(np.array(number, np.float16)) for number in (0, -np.inf))
        mask = plain("Where", mask, seen, hidden)
    scores = plain("Add", scores, mask) if mask else scores
    if attributes.get("softmax_precision") == _F32:
        shares = plain("Cast", plain("Softmax", plain("Cast", scores, to=_F32)), to=_F16)
    else:
        shares = _exponentials(plain, scores, -1)
    plain("MatMul", shares, value, out=node.output[0])


_APART = {
    "InstanceNormalization": _instance_norm,
    "LayerNormalization": _layer_norm,
    "Softmax": _softmax,
    "Attention": _attention,
}
