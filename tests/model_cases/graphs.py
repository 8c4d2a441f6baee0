"""Small ONNX graphs: classifiers that are right about `sets.classified`, and graphs that give what they are told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

FLOAT = TensorProto.FLOAT
Node = onnx.NodeProto


def node(kind: str, inputs: str, outputs: str, **attributes: Any) -> Node:
    """A node; names are parted by blanks."""
    return helper.make_node(kind, inputs.split(), outputs.split(), **attributes)


def save_graph(
    path: Path,
    nodes: Sequence[Node],
    inputs: Mapping[str, tuple[int, Sequence[Any]]],
    outputs: Mapping[str, tuple[int, Sequence[Any] | None]],
    constants: Mapping[str, NDArray[Any]] | None = None,
    metadata: Mapping[str, str] | None = None,
) -> Path:
    """Write a graph of ports with (type, shape)."""
    of_ports = [[helper.make_tensor_value_info(name, *of) for name, of in ports.items()] for ports in (inputs, outputs)]
    tensors = [numpy_helper.from_array(array, name) for name, array in (constants or {}).items()]
    graph = helper.make_graph(list(nodes), "g", *of_ports, tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    helper.set_model_props(model, dict(metadata or {}))
    onnx.save(model, path)
    return path


def classifier(
    path: Path,
    nodes: Sequence[Node] = (),
    shape: Sequence[Any] = ("N", 3, 48, 64),
    kind: int = FLOAT,
    outputs: Mapping[str, tuple[int, Sequence[Any] | None]] | None = None,
    constants: Mapping[str, NDArray[Any]] | None = None,
    classes: int = 3,
) -> Path:
    """`scores` [N, 3], how bright each third of a picture 48 x 64 is, and what more `nodes` make of them."""
    edges = np.linspace(0, 64, classes + 1).astype(int)
    parts = np.zeros((64, classes), np.float32)
    for number in range(classes):
        parts[edges[number] : edges[number + 1], number] = 10 / (edges[number + 1] - edges[number])
    last = shape[-1] in (1, 3)
    rank = len(shape)
    axes = {(4, False): [1, 2], (4, True): [1, 3], (3, False): [0, 1], (3, True): [0, 2]}[rank, last]
    start = [
        node("Cast", "pictures", "numbers", to=FLOAT),
        node("ReduceMean", "numbers", "columns", axes=axes, keepdims=0),
        node("MatMul", "columns parts", "scores"),
    ]
    ports = outputs or {"scores": (FLOAT, None)}
    known = {"parts": parts, **(constants or {})}
    return save_graph(path, [*start, *nodes], {"pictures": (kind, shape)}, ports, known)


def constant(
    path: Path,
    values: Mapping[str, NDArray[Any]],
    shape: Sequence[Any] = (1, 3, 96, 128),
    metadata: Mapping[str, str] | None = None,
    others: Mapping[str, tuple[int, Sequence[Any]]] | None = None,
) -> Path:
    """A graph that gives these values for any picture; `others` are inputs beside it."""
    nodes = [node("ReduceMean", "pictures", "mean", keepdims=0), node("Mul", "mean tiny", "nothing")]
    constants: dict[str, NDArray[Any]] = {"tiny": np.array(1e-12, np.float32)}
    for number, name in enumerate(others or {}):
        nodes += [
            node("Cast", name, f"f{number}", to=FLOAT),
            node("ReduceMean", f"f{number}", f"m{number}", keepdims=0),
            node("Mul", f"m{number} tiny", f"n{number}"),
            node("Add", f"nothing n{number}", f"s{number}"),
        ]
    ports: dict[str, tuple[int, Sequence[Any] | None]] = {}
    for name, array in values.items():
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        constants[f"{name} value"] = array
        nodes.append(
            helper.make_node("Cast", [f"s{len(others) - 1}" if others else "nothing"], [f"{name} zero"], to=kind)
        )
        nodes.append(helper.make_node("Add", [f"{name} value", f"{name} zero"], [name]))
        ports[name] = (kind, array.shape)
    return save_graph(path, nodes, {"pictures": (FLOAT, shape), **(others or {})}, ports, constants, metadata)
