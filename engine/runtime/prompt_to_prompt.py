"""Turns a denoiser's graph into an editor, so that the two share one file of weights.

A model of OpenVINO at static shapes, a denoiser with ControlNets or without, gets the inputs and the output of
export/graphs/editing.py, which defines them:

    source_rows, self_rows int64 [B]; cross_map [B, T, T], cross_own [B, T], words [B, T]; attention [B, h/4, w/4]

Layers of attention are recognised by their operations: the softmax of a product of queries and keys; in cross-attention
the keys are projections of the text's states alone. ControlNets stay as they are; `drop_controls` removes them, which
leaves the UNet. Weights and activations in 8 bits stay so.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import CounterfactoryError
from .quiet_openvino import ov

# As in export/graphs/editing.py: how often latents were halved, from which on self-attention is taken over, and at
# which words' attention is shown.
_TAKEN_FROM, _SHOWN_AT = 1, 2
# Operations that may stand between the product of queries and keys and its softmax, and between the text and its keys.
_SCALING = frozenset({"Add", "Multiply", "Divide", "Convert", "Reshape"})
_PROJECTING = _SCALING | {"Transpose", "FakeQuantize", "MatMul"}


@dataclass(frozen=True)
class _Attention:
    """A layer of attention: its probabilities, the product of queries and keys, how often latents were halved."""

    probabilities: Any
    product: Any
    level: int
    reads_text: bool


def drop_controls(model: ov.Model) -> None:
    """Take the ControlNets out of a denoiser, as a control_scale of 0 would, and compute nothing of them."""
    fix_shapes(model)
    for scaled in _control_products(model):
        nothing = ov.op.Constant(np.zeros([1] * len(scaled.shape), np.float32))
        scaled.output(0).replace(nothing.output(0))
    for parameter in model.get_parameters():
        if _is_input(parameter, "hint_embedding") or _is_input(parameter, "control_scale"):
            model.remove_parameter(parameter)
    model.validate_nodes_and_infer_types()


def follow_rows(model: ov.Model, path: Path) -> ov.Model:
    """The denoiser `model`, read from `path`, with rows that may follow others; `model` itself is used up.

    One whose rows follow others already is returned as it is. Raises CounterfactoryError for what becomes no editor.
    """
    inputs = {port.get_any_name(): list(port.shape) for port in model.inputs}
    if "source_rows" in inputs:
        return model
    if not {"latents", "text"} <= inputs.keys():
        raise CounterfactoryError(f"{path} is no denoiser, of which an editor is made: it takes {sorted(inputs)}")
    layers = _layers(model, math.prod(inputs["latents"][2:]))
    shown_at = min(_SHOWN_AT, max((layer.level for layer in layers), default=0))
    if not any(layer.reads_text and layer.level == shown_at for layer in layers):
        raise CounterfactoryError(
            f"no editor can be made of {path}: no attention to the text is found in it where latents were halved "
            f"{shown_at} times; export the denoiser again, its attention unfused"
        )
    rows, tokens, _ = inputs["text"]
    extra_inputs = _editor_inputs(rows, tokens)
    shown = []
    for layer in layers:
        if layer.reads_text:
            word_attention = _edit_cross(layer, rows, extra_inputs)
            shown += [word_attention] if layer.level == shown_at else []
        elif layer.level >= _TAKEN_FROM:
            _take_over(layer, rows, extra_inputs["self_rows"])
    op = ov.opset13
    mean = op.divide(reduce(op.add, shown), np.float32(len(shown)))
    side = [rows, *(size >> shown_at for size in inputs["latents"][2:])]
    attention = op.reshape(mean, np.array(side), special_zero=False)
    attention.output(0).set_names({"attention"})
    results = [*model.get_results(), op.result(attention)]
    return ov.Model(results, [*model.get_parameters(), *extra_inputs.values()], model.get_friendly_name())


def _editor_inputs(rows: int, tokens: int) -> dict[str, Any]:
    shapes = {"cross_map": [rows, tokens, tokens], "cross_own": [rows, tokens], "words": [rows, tokens]}
    parameters = {name: ov.opset13.parameter([rows], np.int64, name) for name in ("source_rows", "self_rows")}
    parameters |= {name: ov.opset13.parameter(shape, np.float32, name) for name, shape in shapes.items()}
    for name, parameter in parameters.items():
        parameter.output(0).set_names({name})
    return parameters


def _edit_cross(layer: _Attention, rows: int, inputs: Mapping[str, Any]) -> Any:
    """Edit the probabilities of the text's tokens; returns the attention to words [B, positions], mean over heads."""
    op, shape = ov.opset13, list(layer.probabilities.shape)
    positions, tokens = shape[-2:]
    takers = list(layer.probabilities.output(0).get_target_inputs())
    own = op.reshape(layer.probabilities, np.array([rows, -1, tokens]), special_zero=False)
    source = op.gather(own, inputs["source_rows"], np.int64(0))
    own_share = op.multiply(own, op.unsqueeze(inputs["cross_own"], np.int64(1)))
    edited = op.add(op.matmul(source, inputs["cross_map"], False, False), own_share)
    back = op.reshape(edited, np.array(shape), special_zero=False)
    for taker in takers:
        taker.replace_source_output(back.output(0))
    by_head = op.reshape(edited, np.array([rows, -1, positions, tokens]), special_zero=False)
    mean = op.reduce_mean(by_head, np.array([1]), False)
    attention = op.matmul(mean, op.unsqueeze(inputs["words"], np.int64(2)), False, False)
    return op.squeeze(attention, np.array([2]))


def _take_over(layer: _Attention, rows: int, self_rows: Any) -> None:
    """Let queries and keys be those of the rows named."""
    op = ov.opset13
    for place in (0, 1):
        value = layer.product.input_value(place)
        by_row = op.reshape(value, np.array([rows, -1]), special_zero=False)
        gathered = op.gather(by_row, self_rows, np.int64(0))
        back = op.reshape(gathered, np.array(list(value.get_shape())), special_zero=False)
        layer.product.input(place).replace_source_output(back.output(0))


def _layers(model: ov.Model, positions: int) -> list[_Attention]:
    """The UNet's layers of attention, in order, for latents of that many positions."""
    controls = ancestors(value.get_node() for scaled in _control_products(model) for value in scaled.input_values())
    layers = []
    for node in model.get_ordered_ops():
        if node.get_type_name() == "Softmax" and node.get_name() not in controls:
            product = _product(node)
            if product is not None:
                level = round(math.log(positions / node.shape[-2], 4))
                layers.append(_Attention(node, product, level, _reads_text(product.input_value(1).get_node())))
    return layers


def _product(node: Any) -> Any:
    """The product of queries and keys in front of a softmax; None where there is none."""
    for value in node.input_values():
        source = value.get_node()
        if source.get_type_name() == "MatMul":
            return source
        if source.get_type_name() in _SCALING and (product := _product(source)) is not None:
            return product
    return None


def _reads_text(node: Any) -> bool:
    """Whether keys are projections of the text's states alone."""
    while node.get_type_name() in _PROJECTING:
        node = node.input_value(0).get_node()
    return _is_input(node, "text")


def _is_input(node: Any, name: str) -> bool:
    return node.get_type_name() == "Parameter" and name in node.output(0).get_names()


def _control_products(model: ov.Model) -> list[Any]:
    """The operations that multiply the ControlNets' outputs by control_scale."""
    scales = {p.get_name() for p in model.get_parameters() if _is_input(p, "control_scale")}
    fixed, scaled = constant_operations(model), []
    for node in model.get_ordered_ops():
        moving = {value.get_node().get_name() for value in node.input_values()} - fixed.keys()
        if node.get_name() not in fixed and moving & scales:
            if moving <= scales:
                scales.add(node.get_name())
            else:
                scaled.append(node)
    return scaled


def constant_operations(model: ov.Model) -> dict[str, Any]:
    """The operations by name, in order, whose results no input changes; shapes count as fixed where they are static."""
    fixed: dict[str, Any] = {}
    for node in model.get_ordered_ops():
        sources = [value.get_node().get_name() for value in node.input_values()]
        shape = node.get_type_name() == "ShapeOf" and node.input_value(0).get_partial_shape().is_static
        if shape or (node.get_type_name() != "Parameter" and all(source in fixed for source in sources)):
            fixed[node.get_name()] = node
    return fixed


def ancestors(nodes: Iterable[Any]) -> set[str]:
    """The names of all that nodes are computed from, themselves included."""
    waiting, seen = list(nodes), set[str]()
    while waiting:
        node = waiting.pop()
        if node.get_name() not in seen:
            seen.add(node.get_name())
            waiting += [value.get_node() for value in node.input_values()]
    return seen


def fix_shapes(model: ov.Model) -> None:
    """Replace shapes with constants, so that none depends on an input."""
    for node in model.get_ordered_ops():
        if node.get_type_name() == "ShapeOf" and node.input_value(0).get_partial_shape().is_static:
            shape = np.array(node.get_input_shape(0), node.get_output_element_type(0).to_dtype())
            node.output(0).replace(ov.op.Constant(shape).output(0))
