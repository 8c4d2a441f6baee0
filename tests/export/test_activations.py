"""The memory that graphs compute in, by their shapes, against counting by hand and ONNX Runtime's own arena."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from onnx import TensorProto, helper
from small_graphs import saved

from counterfactory.engine.runtime.plans import Shapes
from counterfactory.export.graphs.tracing import to_onnx
from counterfactory.export.production import vae
from counterfactory.export.production.activations import activation_bytes
from counterfactory.export.production.graph import Request

F32 = TensorProto.FLOAT
_ARENA = """
import json, sys
import numpy, onnxruntime as ort
ort.set_default_logger_severity(0)
exact = {"arena_extend_strategy": 1, "initial_chunk_size_bytes": 1, "max_dead_bytes_per_chunk": 1, "max_mem": 0}
place = ort.OrtMemoryInfo("Cpu", ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, ort.OrtMemType.DEFAULT)
ort.create_and_register_allocator(place, ort.OrtArenaCfg(exact))
options = ort.SessionOptions()
options.add_session_config_entry("session.use_env_allocators", "1")
options.enable_mem_pattern = False
session = ort.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
print("opened", file=sys.stderr, flush=True)
session.run(None, {name: numpy.ones(shape, numpy.float32) for name, shape in json.loads(sys.argv[2]).items()})
"""


def arena_bytes(path: Path, shapes: dict[str, list[int]]) -> int:
    """What ONNX Runtime's arena grew by while the graph ran once, by its log."""
    words = [sys.executable, "-c", _ARENA, str(path), json.dumps(shapes)]
    before, after = subprocess.run(words, capture_output=True, text=True, check=True).stderr.split("opened\n")
    totals = [[int(n) for n in re.findall(r"Total allocated bytes: (\d+)", text)] for text in (before, after)]
    return totals[1][-1] - (totals[0] or [0])[-1]


def peak(path: Path, nodes: list[Any], shape: list[int], **more: Any) -> int:
    """Of a graph from x to y, both of `shape`."""
    ports = [helper.make_tensor_value_info(name, F32, shape) for name in "xy"]
    return activation_bytes(saved(helper.make_graph(nodes, "g", ports[:1], ports[1:]), path, opset=23), **more)


def test_values_live_until_they_are_last_read(tmp_path: Path) -> None:
    """A value of 240 bytes, by hand: inputs, outputs and new shapes cost nothing, the sum lies over one that ends."""
    node, profiles = helper.make_node, [{"x": Shapes.static(3, 4, 5)}]
    chain = [node("Sin", ["x"], ["a"]), node("Cos", ["a"], ["b"]), node("Sin", ["b"], ["y"])]
    assert peak(tmp_path / "chain.onnx", chain, [3, 4, 5], profiles=profiles) == 480
    skip = [node("Sin", ["x"], ["a"]), node("Cos", ["a"], ["b"]), node("Sin", ["b"], ["c"])]
    skip += [node("Add", ["a", "c"], ["d"]), node("Cos", ["d"], ["y"])]
    assert peak(tmp_path / "skip.onnx", skip, [3, 4, 5], profiles=profiles) == 720
    over = [node("Sin", ["x"], ["a"]), node("Sigmoid", ["a"], ["b"]), node("Sigmoid", ["b"], ["y"])]
    assert peak(tmp_path / "over.onnx", over, [3, 4, 5], profiles=profiles) == 240
    larger = [{"x": Shapes((1, 4, 5), (1, 4, 5), (2, 4, 5))}, *profiles]
    ports = [helper.make_tensor_value_info(name, F32, ["n", 4, 5]) for name in "xy"]
    path = saved(helper.make_graph(chain, "g", ports[:1], ports[1:]), tmp_path / "any.onnx", opset=23)
    assert (activation_bytes(path, larger[:1]), activation_bytes(path, larger)) == (320, 480)


@pytest.mark.parametrize(("width", "kept"), [(256, False), (257, True)])
def test_scores_are_kept_where_no_fused_kernel_takes_the_heads(tmp_path: Path, width: int, kept: bool) -> None:
    nodes = [helper.make_node("Sin", ["x"], ["a"]), helper.make_node("Attention", ["a", "a", "a"], ["y"])]
    profiles, values, scores = [{"x": Shapes.static(2, 3, 7, width)}], 4 * 2 * 3 * 7 * width, 4 * 2 * 3 * 7 * 7
    path, shape = tmp_path / "model.onnx", [2, 3, 7, width]
    least = peak(path, nodes, shape, profiles=profiles)
    assert least - values == pytest.approx(kept * scores, abs=8)  # and a factor or two
    assert peak(path, nodes, shape, profiles=profiles, scores=True) == pytest.approx(values + scores, abs=8)


def test_the_arena_is_at_most_half_as_much_again(tmp_path: Path) -> None:
    """Of the small decoder at pictures of 96 x 128, which it computes in 60 MB."""
    graph = vae.decoder_graph(Request(small=True))
    to_onnx(graph.module, graph.inputs, graph.outputs, tmp_path / "model.onnx", graph.axes, 23)
    shape = [8, 4, 48, 64]
    told = activation_bytes(tmp_path / "model.onnx", [{"latents": Shapes.static(*shape)}], scores=True)
    taken = arena_bytes(tmp_path / "model.onnx", {"latents": shape})
    with torch.no_grad():
        assert graph.module(torch.ones(shape)).shape == (8, 3, 96, 128)
    assert told > 4 * 8 * 16 * 96 * 128, "no layer's values were seen"
    assert told / 1.2 < taken < 1.5 * told
