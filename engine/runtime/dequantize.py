"""Weights that are stored in 8 bits, given back in fp16 before a graph is compiled.

Such a weight is a constant of 8-bit integers, converted, times constant scales, one per channel. It is how
export/graphs/narrowing.py stores them, and how NNCF does. OpenVINO 2026.4.1's CPU plugin keeps them so, and on some
processors also rounds the activations of their linear layers to 8 bits, even in f32. Widened, the graph equals the one
in fp16 but for the weights' values.
"""

from __future__ import annotations

import numpy as np

from .quiet_openvino import ov


def multiplies_integers(model: ov.Model) -> bool:
    """Whether a network rounds what it multiplies to 8 bits: its weights are made to be multiplied as they are."""
    return any(op.get_type_name() == "FakeQuantize" for op in model.get_ops())


def widen_unless_multiplied(model: ov.Model) -> None:
    """Widen the weights of a network that does not multiply integers."""
    if not multiplies_integers(model):
        widen_weights(model)


def widen_weights(model: ov.Model) -> None:
    """Give every weight that is stored in 8 bits as a constant of fp16, by the name of that of 8 bits."""
    for scaled in model.get_ordered_ops():
        if scaled.get_type_name() != "Multiply":
            continue
        convert, scale = (scaled.input_value(i).get_node() for i in range(2))
        if convert.get_type_name() != "Convert" or scale.get_type_name() != "Constant":
            continue
        stored = convert.input_value(0).get_node()
        if stored.get_type_name() == "Constant" and stored.get_element_type() == ov.Type.i8:
            values = stored.get_data(dtype=np.float32) * scale.get_data(dtype=np.float32)
            wide = ov.op.Constant(values.astype(np.float16))
            wide.set_friendly_name(stored.get_friendly_name())
            convert.input(0).replace_source_output(wide.output(0))
            scaled.output(0).replace(convert.output(0))
