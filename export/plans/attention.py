"""Attention as one operation: which of a network's a compiler fuses in one kernel, and which it may take apart.

A compiler refuses a network with an attention for which it has no fused kernel, unless that one may be decomposed, and
does not say which one it is. What may not be decomposed is fused, or the network does not compile. A kernel is found,
or not, by the compiler alone: by what surrounds it, too, as the VAE's heads of 512 show, which no kernel takes alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from onnx import TensorProto, helper

_TYPES = {"FLOAT": TensorProto.FLOAT, "HALF": TensorProto.FLOAT16, "BF16": TensorProto.BFLOAT16}
# Lengths in the place of those that a graph leaves open: kernels differ by width, type and mask.
_ROWS, _LENGTH = 2, 64


@dataclass(frozen=True)
class Attention:
    """One of a network's: its ONNX node, its `IAttention`, and the queries, keys, values and mask that go into it."""

    name: str
    layer: Any
    inputs: tuple[Any, ...]

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        return tuple(_closed(tensor.shape) for tensor in self.inputs)


def find_attentions(compiler: Any, network: Any) -> list[Attention]:
    """All attentions of a parsed network, in its order."""
    found = []
    for layer in map(network.get_layer, range(network.num_layers)):
        if layer.type.name == "ATTENTION_INPUT":
            layer.__class__ = compiler.IAttentionInputLayer  # its bindings give every layer as one without a kind
            inputs = tuple(layer.get_input(i) for i in range(layer.num_inputs))
            found.append(Attention(layer.attention.name, layer.attention, tuple(filter(None, inputs))))
    return found


def decompositions(
    attentions: Sequence[Attention], compiles: Callable[[bytes], bool]
) -> Iterator[tuple[Attention, ...]]:
    """Those to decompose, a choice after the other until the network compiles: none, those that `compiles` (of an ONNX
    model) says have no kernel by themselves, all.
    """
    yield ()
    known: dict[Any, bool] = {}
    for one in attentions:
        if one.shapes not in known:
            known[one.shapes] = compiles(_alone(one))
    alone = tuple(one for one in attentions if not known[one.shapes])
    if 0 < len(alone) < len(attentions):
        yield alone
    if attentions:
        yield tuple(attentions)


def _closed(shape: Sequence[int]) -> tuple[int, ...]:
    lengths = (_ROWS, *(_LENGTH for _ in shape[1:]))
    return tuple(n if n >= 0 else usual for n, usual in zip(shape, lengths, strict=True))


def _alone(attention: Attention) -> bytes:
    """An ONNX model of nothing else."""
    kinds = [_TYPES.get(tensor.dtype.name, TensorProto.BOOL) for tensor in attention.inputs]
    names = ["queries", "keys", "values", "mask"][: len(kinds)]
    ports = [
        helper.make_tensor_value_info(name, kind, shape)
        for name, kind, shape in zip(names, kinds, attention.shapes, strict=True)
    ]
    made = helper.make_tensor_value_info("attended", kinds[0], attention.shapes[0])
    graph = helper.make_graph([helper.make_node("Attention", names, ["attended"])], "alone", ports, [made])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)
    return bytes(model.SerializeToString())
