"""Memory that a graph computes in: the most of its intermediate values that are alive at once, by its shapes.

A value lives from where it is made to where it is last read. What changes only a shape makes no value, and elementwise
operations write over an input that ends with them, as runtimes have it. Attention in one operation keeps no scores, but
for heads that are wider than GPUs' fused kernels take. What other kernels need besides, and what an arena loses in
gaps, is not in it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from counterfactory.engine.runtime.openvino import open_core
from counterfactory.engine.runtime.plans import PlanProfile

_VIEWS = frozenset({"Reshape", "Squeeze", "Unsqueeze"})
_IN_PLACE = frozenset(
    {"Add", "Subtract", "Multiply", "Divide", "Sigmoid", "Relu", "Gelu", "Tanh", "Softmax", "Sqrt", "Exp", "Swish"}
)


# Of FlashAttention 2 (Dao 2023, arXiv 2307.08691).
_WIDEST_HEAD = 256


def activation_bytes(path: Path, profiles: Sequence[PlanProfile], *, scores: bool = False) -> int:
    """Bytes of the ONNX graph at `path` at the largest of a plan's profiles, inputs and outputs left out; with `scores`
    those of every attention are kept, as on CPUs.
    """
    largest = max(profiles, key=lambda profile: sum(math.prod(shapes.max) for shapes in profile.values()))
    model = open_core().read_model(path)
    model.reshape({name: list(shapes.max) for name, shapes in largest.items()})
    return _peak(model.get_ordered_ops(), scores)


def _scores_of(op: Any, always: bool) -> int:
    """Bytes of the scores that an operation keeps while it runs."""
    if op.get_type_name() != "ScaledDotProductAttention":
        return 0
    *rows, width = op.input(0).get_shape()
    kept = always or width > _WIDEST_HEAD
    return int(kept * math.prod(rows) * op.input(1).get_shape()[-2] * op.get_output_element_type(0).size)


def _peak(ops: Sequence[Any], scores: bool) -> int:
    """The most bytes at once of what operations make, but for what depends on no input and what leaves the graph."""
    holder: dict[str, str] = {}  # by a value, whose memory it lies in
    sizes, last, leaving = dict[str, int](), dict[str, int](), set[str]()
    for i, op in enumerate(ops):
        read = [holder[key] for port in op.inputs() if (key := _key(port.get_source_output())) in holder]
        last |= dict.fromkeys(read, i)
        if op.get_type_name() == "Result":
            leaving |= {*read}
        if op.get_type_name() == "Parameter":
            holder[_key(op.output(0))] = "input"
        elif read:
            for port in op.outputs():
                key = _key(port)
                holder[key] = read[0] if op.get_type_name() in _VIEWS else key
                sizes[key] = math.prod(port.get_shape()) * port.get_element_type().size
    live, most = dict[str, int](), 0
    for i, op in enumerate(ops):
        read = [holder.get(_key(port.get_source_output()), "") for port in op.inputs()]
        ending = {name for name in read if name in live and last[name] == i}
        made = [_key(port) for port in op.outputs()]
        for key in made:
            if holder.get(key) != key or key in leaving:
                continue
            over = next((one for one in ending if op.get_type_name() in _IN_PLACE and live[one] == sizes[key]), None)
            if over is not None:
                ending.remove(over)
                del live[over]
            live[key] = sizes[key]
        most = max(most, sum(live.values()) + _scores_of(op, scores))
        for key in (*ending, *(key for key in made if key not in last)):
            live.pop(key, None)
    return most


def _key(port: Any) -> str:
    return f"{port.get_node().get_name()} {port.get_index()}"
