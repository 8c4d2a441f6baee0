"""From a torch module to what the engine loads: one ONNX graph, kept as OpenVINO IR with fp16 weights."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from counterfactory.engine.runtime.quiet_openvino import ov

Axes = Mapping[str, Mapping[int, str]]


def to_onnx(
    module: nn.Module, inputs: Mapping[str, torch.Tensor], outputs: Sequence[str], path: Path, axes: Axes
) -> None:
    """Export `module`, called with `inputs` in order, to `path`. `axes` names each input's dynamic axes."""
    dims: dict[str, Any] = {}
    shapes = tuple(
        {axis: dims.setdefault(label, torch.export.Dim(label, min=1)) for axis, label in axes.get(name, {}).items()}
        for name in inputs
    )
    torch.onnx.export(
        module.eval(),
        tuple(inputs.values()),
        path,
        input_names=list(inputs),
        output_names=list(outputs),
        dynamic_shapes=shapes,
        dynamo=True,
        verbose=False,
    )


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
        model = ov.convert_model(graph)
        for port, name in zip(model.inputs, inputs, strict=True):
            port.get_tensor().set_names({name})
        for out, name in zip(model.outputs, outputs, strict=True):
            out.get_tensor().set_names({name})
        path.parent.mkdir(parents=True, exist_ok=True)
        ov.save_model(model, path, compress_to_fp16=True)
