"""Trained networks have channels a hundred times as loud as the rest; seeded weights have none, unless given some.

Such channels stand in what layers add to their states, and in queries and keys (Dettmers et al. 2022, arXiv 2208.07339,
section 4; Sun et al. 2024, arXiv 2402.17762). Here they are put in by hand, and fp16 must keep its bound.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from torch import nn

from counterfactory.export.graphs import modules
from counterfactory.export.production import blip2
from counterfactory.export.production.artefact import Asked, Row, export_graph
from counterfactory.export.production.graph import Graph, Request

SMALL = Request(small=True)
CHANNELS = [5, 7]
FP16_MAX = float(np.finfo(np.float16).max)


def raised(layers: Iterable[nn.Module], by: float) -> None:
    """Make two output channels of each layer `by` times as loud."""
    with torch.no_grad():
        for layer in layers:
            layer.get_parameter("weight")[CHANNELS] *= by
            layer.get_parameter("bias")[CHANNELS] *= by


def exported(graph: Graph, out: Path) -> tuple[Row, Mapping[str, float]]:
    """The row of the export, and the error with each set of islands that was tried."""
    (row,) = export_graph(lambda: graph, out, Asked(), random=True)
    manifest = json.loads((out / "onnx" / graph.name / "manifest.json").read_text())
    return row, manifest["measured"]


def scaled_late(path: Path) -> list[str]:
    """Softmaxes whose product of queries and keys is divided or multiplied only afterwards."""
    proto = onnx.load(str(path), load_external_data=False)
    made = {name: node for node in proto.graph.node for name in node.output}
    found = []
    for softmax in (node for node in proto.graph.node if node.op_type == "Softmax"):
        # A mask may be added on the way.
        node: Any = made[softmax.input[0]]
        while node.op_type in ("Cast", "Add"):
            before = [made[name] for name in node.input if name in made]
            node = next(one for one in before if one.op_type in ("MatMul", "Mul", "Div", "Cast", "Add"))
        found += [softmax.name] if node.op_type != "MatMul" else []
    return found


@pytest.mark.parametrize(
    ("build", "layers", "parts"),
    [
        (blip2.vision_graph, "module.vision.encoder.layers", ("self_attn.projection", "mlp.fc2")),
        (blip2.decoder_graph, "layers", ("self_attn.out_proj", "fc2")),
    ],
)
def test_loud_channels_of_the_states_need_the_norms_island_and_get_it(
    tmp_path: Path, build: Callable[[Request], Graph], layers: str, parts: tuple[str, ...]
) -> None:
    graph = build(SMALL)
    raised((layer.get_submodule(p) for layer in graph.module.get_submodule(layers).children() for p in parts), 100)
    row, measured = exported(graph, tmp_path)
    assert row.faults == []
    assert "normalisation" in row.islands
    assert measured["none"] > row.parity_bound, "these channels are not loud enough to prove anything"
    assert scaled_late(tmp_path / "onnx" / row.name / "model.onnx") == []


def test_loud_queries_and_keys_stay_within_fp16(tmp_path: Path) -> None:
    """Queries are scaled before they meet the keys, as in transformers: scaled after it, their products overflow."""
    graph = blip2.decoder_graph(SMALL)
    module = graph.module
    assert isinstance(module, modules.CachedOptDecoder)
    attentions = [layer.self_attn for layer in module.layers]
    raised((part for attention in attentions for part in (attention.q_proj, attention.k_proj)), 100)
    graph.inputs["cache_keys"][:, :, :, 0, CHANNELS] *= 200
    states = graph.inputs["inputs_embeds"] + module.positions.weight[graph.inputs["position_ids"] + 2]
    normed = module.layers[0].self_attn_layer_norm(states)
    queries = attentions[0].q_proj(normed)[..., : module.width]
    unscaled = (queries @ graph.inputs["cache_keys"][:, :, 0, 0].permute(1, 2, 0)).abs().max().item()
    assert FP16_MAX < unscaled < FP16_MAX * module.width**0.5
    row, _ = exported(graph, tmp_path)
    assert row.faults == []
