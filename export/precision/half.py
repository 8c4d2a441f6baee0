"""Half precision in the graph itself, with islands of float32: what a strongly typed compiler takes.

A graph in float32 is rewritten with its weights and activations in fp16 and a Cast wherever precision changes; its
inputs and outputs keep their types, but for a decoder's cache, which nothing else reads. An island is a group of
operations that stay in float32, chosen by name:

    timestep        what is computed from integers before the first product: the sinusoid of a timestep, whose
                    angle up to 1,000 has no decimals left in fp16
    normalisation   means and variances, which are sums of squares
    softmax         the exponentials of attention; where that is one operation its inputs stay fp16
    all             everything

Which of them a network needs is found by measurement, see islands.py. Operations on an island are named so
(`island/softmax/...`), by which compilers' reports are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from counterfactory.engine.runtime.session import Array, is_cache

from .stored import Stored, replace_nodes

ISLAND = "island/"
_F32, _F16 = TensorProto.FLOAT, TensorProto.FLOAT16
_INTEGERS = (TensorProto.INT64, TensorProto.INT32)
_PRODUCTS = frozenset({"MatMul", "Gemm", "Conv", "ConvTranspose"})
_NORMS = {"ReduceL2", *(f"{kind}Normalization" for kind in ("Instance", "Layer", "Group", "Batch", "RMS", "Lp"))}
_Select = Callable[[Stored], set[int]]


def _of_types(types: Iterable[str]) -> _Select:
    wanted = frozenset(types)
    return lambda stored: {i for i, node in enumerate(stored.graph.node) if node.op_type in wanted}


def _from_integers(stored: Stored) -> set[int]:
    """Positions of the operations on nothing but integers made numbers, and constants, up to the first product."""
    kinds = value_kinds(stored.proto)
    found: set[int] = set()
    reached: set[str] = set()
    known = set(stored.weights())
    for i, node in enumerate(stored.graph.node):
        floats = [name for name in node.input if kinds[name] == _F32]
        begins = node.op_type == "Cast" and kinds[node.input[0]] in _INTEGERS and kinds[node.output[0]] == _F32
        goes_on = not reached.isdisjoint(floats) and reached.union(known).issuperset(floats)
        if node.op_type == "Constant":
            known.update(node.output)
        elif begins or (goes_on and node.op_type not in _PRODUCTS):
            found.add(i)
            reached.update(node.output)
    return found


ISLANDS: Mapping[str, _Select] = MappingProxyType(
    {
        "timestep": _from_integers,
        "normalisation": _of_types(_NORMS),
        "softmax": _of_types({"Softmax", "LogSoftmax", "Attention"}),
        "all": lambda stored: set(range(len(stored.graph.node))),
    }
)


def value_kinds(proto: Any) -> dict[str, int]:
    """The element type of every value of a graph, by name; 0 for the empty name of an input left out."""
    inferred = onnx.shape_inference.infer_shapes(proto).graph
    kinds = {value.name: value.type.tensor_type.elem_type for value in inferred.value_info}
    kinds |= {port.name: port.type.tensor_type.elem_type for port in (*inferred.input, *inferred.output)}
    kinds |= {tensor.name: tensor.data_type for tensor in inferred.initializer} | {"": 0}
    unknown = [name for node in inferred.node for name in node.output if not kinds.get(name) and name]
    if unknown:
        raise ValueError(f"shape inference does not know the type of {unknown[0]}, nor of {len(unknown) - 1} others")
    return kinds


def to_half(stored: Stored, islands: Sequence[str]) -> None:
    """Make the graph half precision but for `islands` (names of ISLANDS), in place.

    Numbers beyond the range of fp16 (masks of -1e9, say) become its largest. Raises ValueError for an unknown island.
    """
    unknown = sorted(set(islands) - ISLANDS.keys())
    if unknown:
        raise ValueError(f"no island {', '.join(unknown)}; there are {', '.join(ISLANDS)}")
    _constants_to_weights(stored)
    kinds, opset = value_kinds(stored.proto), opset_of(stored.proto)
    apart = {position: name for name in islands for position in ISLANDS[name](stored)}
    for position, name in apart.items():
        node = stored.graph.node[position]
        node.name = f"{ISLAND}{name}/{node.name or node.output[0]}"
        if name == "softmax" and node.op_type == "Attention":
            node.attribute.append(helper.make_attribute("softmax_precision", _F32))
    needs = [
        [int(_F32)] * len(node.input) if position in apart and not _rounds_inside(node) else _needs(node, opset)
        for position, node in enumerate(stored.graph.node)
    ]
    ports = {port.name: _F16 if is_cache(port.name) else _F32 for port in (*stored.graph.input, *stored.graph.output)}
    made = {port.name: ports[port.name] for port in stored.graph.input} | _halved_weights(stored, needs, kinds)
    nodes: list[Any] = []
    casts: dict[tuple[str, int], str] = {}

    def as_kind(name: str, kind: int) -> str:
        if made[name] == kind:
            return name
        if (name, kind) not in casts:
            casts[name, kind] = f"{name}_{'fp16' if kind == _F16 else 'fp32'}"
            nodes.append(helper.make_node("Cast", [name], [casts[name, kind]], casts[name, kind], to=kind))
        return casts[name, kind]

    for node, need in zip(stored.graph.node, needs, strict=True):
        for i, name in enumerate(node.input):
            if kinds[name] == _F32:
                node.input[i] = as_kind(name, need[i])
        half = _F16 in need or not node.input  # where any input is wanted so
        if half:
            _halve_attributes(node)
        made |= {name: _F16 if half else _F32 for name in node.output if kinds[name] == _F32}
        nodes.append(node)
    for port in stored.graph.output:
        if kinds[port.name] == _F32 and made[port.name] != ports[port.name]:
            inner, kind = f"{port.name}_inner", ports[port.name]
            for names in (names for node in nodes for names in (node.input, node.output)):
                names[:] = [inner if name == port.name else name for name in names]
            nodes.append(helper.make_node("Cast", [inner], [port.name], f"{port.name}_out", to=kind))
    for port in (*stored.graph.input, *stored.graph.output):
        if kinds[port.name] == _F32:
            port.type.tensor_type.elem_type = ports[port.name]
    replace_nodes(stored.graph, nodes)
    del stored.graph.value_info[:]  # they said float32


def opset_of(proto: Any) -> int:
    """The version of the standard operators that a graph is written in."""
    return next(int(one.version) for one in proto.opset_import if one.domain in ("", "ai.onnx"))


def _rounds_inside(node: Any) -> bool:
    """Whether an operation itself says what part of it is in float32."""
    return any(attribute.name == "softmax_precision" for attribute in node.attribute)


def _needs(node: Any, opset: int) -> list[int]:
    """The precision in which a node wants its float inputs: half where the standard has the operation for fp16 in all
    its floating inputs and outputs.
    """
    schema, count = onnx.defs.get_schema(node.op_type, opset, node.domain), len(node.input)
    allowed = {one.type_param_str: one.allowed_type_strs for one in schema.type_constraints}
    outputs = schema.outputs[: len(node.output)]
    types = (allowed.get(formal.type_str, ()) for formal in (*schema.inputs, *outputs))
    floating = [kinds for kinds in types if "tensor(float)" in kinds]
    fixed = any(formal.type_str == "tensor(float)" for formal in outputs)
    if fixed or not all("tensor(float16)" in types for types in floating):
        return [int(_F32)] * count
    formals = [schema.inputs[min(i, len(schema.inputs) - 1)] for i in range(count)]
    return [int(_F32 if formal.type_str == "tensor(float)" else _F16) for formal in formals]


def _halve_attributes(node: Any) -> None:
    """Types that stand in attributes: of a Cast, and of what ConstantOfShape repeats."""
    if node.op_type == "Cast":
        for attribute in (a for a in node.attribute if a.name == "to" and a.i == _F32):
            attribute.i = _F16
    elif node.op_type == "ConstantOfShape":
        value = next((a.t for a in node.attribute if a.name == "value"), None)
        array = np.zeros(1, np.float32) if value is None else numpy_helper.to_array(value)
        if array.dtype == np.float32:
            del node.attribute[:]
            node.attribute.append(helper.make_attribute("value", numpy_helper.from_array(_as_half(array))))


def _as_half(array: Array) -> Array:
    limit = np.finfo(np.float16).max
    finite = np.isfinite(array)
    return np.where(finite, array.clip(-limit, limit), array).astype(np.float16)


def _halved_weights(stored: Stored, needs: Sequence[Sequence[int]], kinds: Mapping[str, int]) -> dict[str, int]:
    """Halve the weights that no operation wants in float32; returns the precision of all."""
    wanted: dict[str, set[int]] = {}
    for node, need in zip(stored.graph.node, needs, strict=True):
        for name, kind in zip(node.input, need, strict=True):
            wanted.setdefault(name, set()).add(kind)
    made: dict[str, int] = {}
    for name in stored.weights():
        if kinds[name] == _F32:
            made[name] = _F32 if _F32 in wanted.get(name, set()) else _F16
            if made[name] == _F16:
                stored.change(name, _as_half, np.float16)
    return made


def _constants_to_weights(stored: Stored) -> None:
    """Float constants among the nodes become weights, which have a precision of their own."""
    kept = []
    for node in stored.graph.node:
        known = {a.name: helper.get_attribute_value(a) for a in node.attribute} if node.op_type == "Constant" else {}
        value = known.get("value_float", known.get("value_floats"))
        array = numpy_helper.to_array(known["value"]) if "value" in known else np.array(value, np.float32)
        if ("value" in known or value is not None) and array.dtype == np.float32:
            stored.add(node.output[0], array)
        else:
            kept.append(node)
    replace_nodes(stored.graph, kept)
