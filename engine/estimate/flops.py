"""What a network costs by its graph alone: floating-point operations of a batch, and bytes of weights.

A model file (OpenVINO IR or ONNX) and shapes arrive; two operations for each multiply-accumulate of its convolutions,
matrix products and attention leave. Everything else (norms, activations, sums) is left out, as is usual: it is far
below a hundredth of the whole. What a compiler folds away because it depends on no input is counted still. A language
model is counted by the token.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import CounterfactoryError
from ..runtime import deep_features, dequantize
from ..runtime.openvino import open_core
from ..runtime.session import row_axis

Sizes = Mapping[str, tuple[int, int]]
Lengths = Mapping[str, int]
# Operations that hold products of which nothing is known here: a count without them would be silently low.
_UNCOUNTED = re.compile(
    "DeformableConvolution|Einsum|If|Loop|PagedAttentionExtension|TensorIterator|(GRU|LSTM|RNN)(Cell|Sequence)"
)
# By kind of convolution: of which values there is a sum for each, those that come out or, where it is transposed, those
# that go in; and the leading axes of its weights that the sum is not over. Weights are [out, in, *kernel], of groups
# [group, out, in, *kernel], transposed [in, out, *kernel].
_CONVOLUTIONS = {
    "Convolution": ("out", 1),
    "GroupConvolution": ("out", 2),
    "ConvolutionBackpropData": ("in", 1),
    "GroupConvolutionBackpropData": ("in", 2),
}


def count_flops(
    path: Path, batch: int, sizes: Sizes | None = None, lengths: Lengths | None = None, *, shallow: bool = False
) -> int:
    """Operations of one run of the model at `path` for `batch` rows: 2 for each multiply-accumulate. `shallow` counts
    the shallow form of a denoiser (runtime/deep_features.py).

    As in `open_session`, the rows of every input become `batch` and `sizes` gives (height, width) of the last two
    axes of the inputs that it names. `lengths` gives the one axis that is then still open, by input: a cache's length,
    say. Raises CounterfactoryError when the file is missing or no model, the shapes do not suit it or leave an axis
    open, or it holds an operation whose products are not known.
    """
    sizes, lengths = sizes or {}, lengths or {}
    model = _read(path)
    names = {port.get_any_name() for port in model.inputs}
    if unknown := sorted({*sizes, *lengths} - names):
        raise CounterfactoryError(f"{path.name} has no input {', '.join(unknown)}; it takes {', '.join(sorted(names))}")
    shapes = {}
    for port in model.inputs:
        name, dims = port.get_any_name(), [None if d.is_dynamic else d.get_length() for d in port.get_partial_shape()]
        dims[row_axis(name)] = batch
        if name in sizes:
            dims[-2:] = sizes[name]
        if dims.count(None) == 1 and name in lengths:
            dims[dims.index(None)] = lengths[name]
        if None in dims:
            raise CounterfactoryError(
                f"input {name} of {path.name} has an axis of no fixed length, {dims}; give its size or its length"
            )
        shapes[name] = dims
    try:
        model.reshape(shapes)
    except RuntimeError as error:
        reason = str(error).strip().splitlines()[-1]
        raise CounterfactoryError(f"{path.name} cannot take the shapes {shapes}: {reason}") from error
    return sum(_flops(op) for op in (deep_features.take_deep(model, path) if shallow else model).get_ops())


def input_names(path: Path) -> list[str]:
    """The inputs of the model at `path`. Raises CounterfactoryError when the file is missing or no model."""
    return [port.get_any_name() for port in _read(path).inputs]


def output_length(path: Path, output: str, axis: int) -> int:
    """The length of a fixed axis of an output of the model at `path`. Raises CounterfactoryError if there is none."""
    model = _read(path)
    for port in model.outputs:
        if port.get_any_name() == output and port.get_partial_shape()[axis].is_static:
            return int(port.get_partial_shape()[axis].get_length())
    raise CounterfactoryError(f"{path.name} has no output {output} with a fixed axis {axis}; export it again")


def multiplies_integers(path: Path) -> bool:
    """Whether the model at `path` rounds what it multiplies to 8 bits, so that a CPU multiplies integers.

    Raises CounterfactoryError when the file is missing or no model.
    """
    return dequantize.multiplies_integers(_read(path))


def weight_bytes(path: Path) -> int:
    """Bytes of the constants of a model file as they are opened: weights that are widened to fp16 count as such.

    Raises CounterfactoryError when the file is missing or is no model.
    """
    model = _read(path)
    dequantize.widen_unless_multiplied(model)
    constants = (op for op in model.get_ops() if op.get_type_name() == "Constant")
    return sum(int(op.get_byte_size()) for op in constants)


def flops_per_token(path: Path) -> int:
    """Operations of one token of the language model at `path`: 2 for each weight of its matrices.

    Attention over the tokens before is left out. Raises CounterfactoryError when the file is missing or is no model.
    """
    products = (op for op in _read(path).get_ops() if op.get_type_name() == "MatMul")
    # Between activations, both sides have open axes.
    weights = (op.input(1).get_partial_shape() for op in products)
    return 2 * sum(math.prod(int(axis.get_length()) for axis in shape) for shape in weights if shape.is_static)


def _read(path: Path) -> Any:
    if not path.is_file():
        raise CounterfactoryError(f"model file {path} is missing; its operations cannot be counted")
    try:
        return open_core().read_model(path)
    except RuntimeError as error:
        raise CounterfactoryError(f"model file {path} cannot be read: {str(error).strip().splitlines()[-1]}") from error


def _flops(op: Any) -> int:
    kind = op.get_type_name()
    if _UNCOUNTED.fullmatch(kind):
        raise CounterfactoryError(f"operation {op.get_friendly_name()} is a {kind}, whose products cannot be counted")
    if kind not in (*_CONVOLUTIONS, "MatMul", "ScaledDotProductAttention"):
        return 0
    if any(port.get_partial_shape().is_dynamic for port in (*op.inputs(), *op.outputs())):
        raise CounterfactoryError(f"operation {op.get_friendly_name()} has no fixed shape, so it cannot be counted")
    first, second = ([int(length) for length in op.input(i).get_shape()] for i in (0, 1))
    out = [int(length) for length in op.output(0).get_shape()]
    if kind == "MatMul":
        inner = first[-2] if len(first) > 1 and op.get_attributes()["transpose_a"] else first[-1]
        return 2 * math.prod(out) * inner
    if kind == "ScaledDotProductAttention":
        # Query [.., L, E], key [.., S, E], value [.., S, V] to [.., L, V]: L x S x E, then L x S x V.
        return 2 * math.prod(out[:-1]) * second[-2] * (first[-1] + out[-1])
    side, leading = _CONVOLUTIONS[kind]
    return 2 * math.prod(out if side == "out" else first) * math.prod(second[leading:])
