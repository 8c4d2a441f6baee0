"""Normalisation as ONNX Runtime's CUDA provider computes it: of an exported graph, in memory, when it is opened.

The provider has no kernel of opset 23 for InstanceNormalization, as which exports have norms of groups, and leaves them
to the CPU (seen on an H100, docs/a10g.md). It has one for LayerNormalization, which over the rows of groups is the
same and adds in f32 whatever it is given: so islands of f32 around both go, with the casts to them and back.
"""

from __future__ import annotations

from collections import defaultdict
from importlib import import_module
from pathlib import Path
from typing import Any

from ..errors import CounterfactoryError
from ..files.reading import read_bytes
from .installing import BOX_ONNXRUNTIME, pip_install

_HALF = 10  # ONNX's number of f16


def norms_for_cuda(path: Path) -> bytes:
    """The graph at `path` with its norms as the CUDA provider has them; weights stay where they lie, next to the file.

    Raises CounterfactoryError where the package onnx is missing, or the file is no graph.
    """
    try:
        onnx: Any = import_module("onnx")
    except ImportError as error:
        raise CounterfactoryError(
            f"ONNX Runtime's CUDA provider needs the package onnx; say: {pip_install(BOX_ONNXRUNTIME)}"
        ) from error
    try:
        model = onnx.ModelProto.FromString(read_bytes(path))
        rewrite_norms(onnx, model.graph)
        content: bytes = model.SerializeToString()
    except CounterfactoryError:
        raise
    except Exception as error:  # of protobuf, which the engine does not import; of nodes that read or write nothing
        raise CounterfactoryError(f"model file {path} is no ONNX graph ({error}); export it again") from error
    return content


def rewrite_norms(onnx: Any, graph: Any) -> None:
    """Give a GraphProto its norms as the module says."""
    writers = {name: node for node in graph.node for name in node.output}
    readers: dict[str, list[Any]] = defaultdict(list)
    for node in graph.node:
        for name in node.input:
            readers[name].append(node)
    types = {tensor.name: tensor.data_type for tensor in graph.initializer}
    asked = {output.name for output in graph.output}
    nodes: list[Any] = []
    replaced: dict[str, list[Any]] = {}  # by the output of the last node that they replace
    for norm in graph.node:
        if norm.op_type not in ("InstanceNormalization", "LayerNormalization"):
            continue
        into, following = writers.get(norm.input[0]), readers[norm.output[0]]
        alone = len(following) == 1 and norm.output[0] not in asked
        island = into is not None and into.op_type == "Cast" and alone and _casts_to_half(following[0])
        if island or norm.op_type == "InstanceNormalization":
            source = into.input[0] if island and into is not None else norm.input[0]
            output = following[0].output[0] if island else norm.output[0]
            kind = _HALF if island else types.get(norm.input[1])
            replaced[output] = _as_layer(onnx, norm, source, output, kind)
            if island:
                replaced[norm.output[0]] = []
    for node in graph.node:
        nodes += replaced.get(node.output[0], [node])
    kept = []
    for node in reversed(nodes):  # what nothing reads any longer goes
        if asked.intersection(node.output):
            asked.update(node.input)
            kept.append(onnx.NodeProto.FromString(node.SerializeToString()))
    del graph.node[:]
    graph.node.extend(reversed(kept))


def _casts_to_half(node: Any) -> bool:
    return bool(node.op_type == "Cast" and any(one.name == "to" and one.i == _HALF for one in node.attribute))


def _as_layer(onnx: Any, norm: Any, source: str, output: str, kind: int | None) -> list[Any]:
    """LayerNormalization of `source`, of ONNX's type `kind`, into `output`: of layers with the norm's weights, of rows
    of groups [N, G, L] with ones and zeros, as exports have their scale and shift apart.
    """
    make, name = onnx.helper.make_node, f"{norm.name or norm.output[0]}/layer"
    given = {one.name: one for one in norm.attribute}
    settings: dict[str, Any] = {"epsilon": given["epsilon"].f if "epsilon" in given else 1e-5}
    if norm.op_type == "LayerNormalization":
        weights = [f"{name}/{i}" for i in range(len(norm.input) - 1)]
        nodes = [make("Cast", [x], [y], to=kind) for x, y in zip(norm.input[1:], weights, strict=True)]
        settings["axis"] = given["axis"].i if "axis" in given else -1
    else:
        weights = [f"{name}/ones"]
        one = onnx.helper.make_tensor("value", kind or 1, [1], [1.0])
        nodes = [
            make("Shape", [source], [f"{name}/length"], start=-1),
            make("ConstantOfShape", [f"{name}/length"], weights, value=one),
        ]
        settings["axis"] = -1
    return [*nodes, make("LayerNormalization", [source, *weights], [output], **settings)]
