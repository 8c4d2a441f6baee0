"""Weights of a packed network in 8 bits: half the bytes of fp16. The engine widens them again when it opens the file.

Each weight becomes 8-bit integers, a conversion, and float32 scales per channel (engine/runtime/dequantize.py). Since
it is widened before anything multiplies by it, channels may be a matrix's rows or its columns: those are taken that
lose least. NNCF's `compress_weights` stores the layers that it knows likewise, by output channels and under names of
its own, by which export/pocket/parameters.py would no longer find a parameter.
"""

from __future__ import annotations

import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterfactory.engine.runtime.openvino import open_core
from counterfactory.engine.runtime.quiet_openvino import ov

# Biases, norms and other small things stay in fp16: they are a hundredth of the bytes.
_LEAST = 4096
_MOST = 127


def narrow_file(path: Path, weights: Collection[str]) -> None:
    """Store in 8 bits those constants of the network `path` (.xml beside .bin) that `weights` names, are in fp16, and
    have two axes and some size. The same file gives the same bytes.
    """
    model = open_core().read_model(path)
    for node in model.get_ordered_ops():
        if node.get_type_name() == "Constant" and node.get_friendly_name() in weights:
            shape = list(node.get_output_shape(0))
            is_matrix = sum(length > 1 for length in shape) > 1 and np.prod(shape) >= _LEAST
            if node.get_element_type() == ov.Type.f16 and is_matrix:
                _narrow(node)
    save_ir(model, path, compress=False)


def save_ir(model: Any, path: Path, compress: bool = True) -> None:
    """Write a network as OpenVINO IR at `path` (.xml beside .bin), float32 weights in fp16 to `compress`.

    One that is already there is replaced when the new one is whole.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as aside:
        made = Path(aside) / path.name
        ov.save_model(model, made, compress_to_fp16=compress)
        for part in (made.with_suffix(".bin"), made):
            part.replace(path.parent / part.name)


def narrowed(weight: NDArray[Any]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """A weight in 8-bit integers, and the scales, along one axis, that make it again of these by a product.

    Every value is within half a scale.
    """
    ways = [_along(weight.astype(np.float32), axis) for axis in range(weight.ndim) if weight.shape[axis] > 1]
    return min(ways, key=lambda way: float(np.square(way[0] * way[1] - weight).sum()))


def _along(weight: NDArray[np.float32], axis: int) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    others = tuple(i for i in range(weight.ndim) if i != axis)
    most = np.abs(weight).max(others, keepdims=True)
    scale = np.where(most > 0, most / _MOST, 1).astype(np.float32)
    return np.rint(weight / scale).astype(np.int8), scale


def _narrow(node: Any) -> None:
    """Let what reads the float32 of a constant read the product of 8-bit integers and scales."""
    (taker,) = node.output(0).get_target_inputs()
    convert, name = taker.get_node(), node.get_friendly_name()
    values, scale = (ov.op.Constant(array) for array in narrowed(node.get_data()))
    readers = convert.output(0).get_target_inputs()
    scaled = ov.opset13.multiply(convert, scale)
    for reader in readers:
        reader.replace_source_output(scaled.output(0))
    convert.input(0).replace_source_output(values.output(0))
    # OpenVINO would number them by what else the process has made.
    for made, suffix in ((values, ""), (scale, "/scale"), (scaled, "/scaled")):
        made.set_friendly_name(name + suffix)
