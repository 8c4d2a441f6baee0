"""From a torch module to what the engine loads: one ONNX graph, kept as OpenVINO IR with fp16 weights."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import torch
from onnxscript import opset23
from torch import nn

from counterfactory.engine.runtime.quiet_openvino import ov

from .mapped import MappedFile, mapped_files
from .narrowing import save_ir

Axes = Mapping[str, Mapping[int, str]]
_INLINE_BYTES = 1024


def to_onnx(
    module: nn.Module,
    inputs: Mapping[str, torch.Tensor],
    outputs: Sequence[str],
    path: Path,
    axes: Axes,
    opset: int | None = None,
) -> None:
    """Export `module`, called with `inputs` in order, to `path`. `axes` names each input's dynamic axes, `opset` the
    standard's version instead of PyTorch's own choice: from 23 on attention is one operation.

    Weights that lie in a file of the same folder (mapped.py) are referred to there, others are written beside `path`.
    """
    dims: dict[str, Any] = {}
    shapes = tuple(
        {axis: dims.setdefault(label, torch.export.Dim(label, min=1)) for axis, label in axes.get(name, {}).items()}
        for name in inputs
    )
    names: dict[str, Any] = {"input_names": list(inputs), "output_names": list(outputs)}
    how: dict[str, Any] = {"dynamic_shapes": shapes, "dynamo": True, "verbose": False, "opset_version": opset}
    if opset:
        how["custom_translation_table"] = {torch.ops.aten.group_norm.default: _norm_of_groups}
    program = torch.onnx.export(module.eval(), tuple(inputs.values()), **names, **how)
    assert program is not None
    _save(program.model, path, [file for file in mapped_files(module) if file.path.parent == path.parent])


def _norm_of_groups(
    x: Any, groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5, _cudnn: bool = True
) -> Any:
    """aten.group_norm of what has weights, as PyTorch writes it before opset 21: ONNX Runtime's CUDA provider has a
    kernel for InstanceNormalization, and would take GroupNormalization apart into a dozen operations.
    """
    op: Any = opset23
    ones, zeros = (op.Constant(value_floats=[value] * groups) for value in (1.0, 0.0))
    rows = op.Reshape(x, op.Constant(value_ints=[0, groups, -1]))
    level = op.Reshape(op.InstanceNormalization(rows, ones, zeros, epsilon=eps), op.Shape(x))
    axes = op.Constant(value_ints=list(range(1, len(x.shape) - 1)))
    return op.Add(op.Mul(level, op.Unsqueeze(weight, axes)), op.Unsqueeze(bias, axes))


def _save(model: ir.Model, path: Path, files: Sequence[MappedFile]) -> None:
    """Write the graph, its weights that are views of `files` as references to them."""
    others = []
    for name, value in list(model.graph.initializers.items()):
        tensor = value.const_value
        assert tensor is not None
        array = tensor.numpy()
        # PyTorch's exporter turns the weights of linear layers as views.
        order = range(array.ndim) if array.flags.c_contiguous else np.argsort(array.strides)[::-1].tolist()
        stored = array.transpose(order)
        file = next((file for file in files if file.holds(stored)), None)
        if file is None:
            others.append(value)
            continue
        place = (file.path.name, file.offset(stored), stored.nbytes, tensor.dtype)
        value.const_value = ir.ExternalTensor(*place, shape=ir.Shape(stored.shape), name=name, base_dir=path.parent)
        if stored is not array and list(order) != sorted(order):
            _turn(model.graph, value, stored.shape, np.argsort(order).tolist())
    large = [(value, t) for value in others if (t := value.const_value) is not None and t.nbytes >= _INLINE_BYTES]
    if large:
        made = ir.external_data.convert_tensors_to_external([t for _, t in large], path.parent, f"{path.name}.data")
        for (value, _), tensor in zip(large, made, strict=True):
            value.const_value = tensor
    ir.save(model, path)


def _turn(graph: ir.Graph, weight: ir.Value, shape: tuple[int, ...], order: list[int]) -> None:
    """Let what reads `weight` read its transpose: it is stored as `shape`."""
    readers = list(weight.uses())
    turned = ir.node("Transpose", [weight], {"perm": order})
    turned.outputs[0].name = f"{weight.name}_turned"
    turned.outputs[0].type = weight.type
    turned.outputs[0].shape = weight.shape
    weight.shape = ir.Shape(shape)
    for node, position in readers:
        node.replace_input_with(position, turned.outputs[0])
    # Right before it is read: at the beginning, all would be turned before anything is computed.
    graph.insert_before(min((node for node, _ in readers), key=graph.index), turned)


def to_ir(
    module: nn.Module, inputs: Mapping[str, torch.Tensor], outputs: Sequence[str], path: Path, axes: Axes | None = None
) -> None:
    """Export `module` to OpenVINO IR at `path` (.xml beside .bin), weights in fp16, axis 0 of every input dynamic.

    `axes` overrides which axes are dynamic, by input and axis.
    """
    batched = axes if axes is not None else {name: {0: "batch"} for name in inputs}
    with tempfile.TemporaryDirectory() as folder:
        graph = Path(folder) / "model.onnx"
        to_onnx(module, inputs, outputs, graph, batched)
        onnx_to_ir(graph, list(inputs), outputs, path)


def onnx_to_ir(graph: Path, inputs: Sequence[str], outputs: Sequence[str], path: Path) -> None:
    """Write the ONNX graph as OpenVINO IR at `path` (.xml beside .bin), weights in fp16, which are read one by one.

    A graph that is already there is replaced when the new one is whole.
    """
    model = ov.convert_model(graph)
    for port, name in zip(model.inputs, inputs, strict=True):
        port.get_tensor().set_names({name})
    for out, name in zip(model.outputs, outputs, strict=True):
        out.get_tensor().set_names({name})
    save_ir(model, path)
