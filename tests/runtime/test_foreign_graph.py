"""Graphs of strangers by the names in their files, in both runtimes, whatever their numbers are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from model_cases.graphs import FLOAT, classifier, node, save_graph
from numpy.typing import NDArray
from onnx import TensorProto

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.runtime import foreign_graph
from counterfactory.engine.runtime.foreign_graph import ForeignGraph, open_graph
from counterfactory.engine.runtime.quiet_openvino import ov

BF16 = TensorProto.BFLOAT16
RUNTIMES = ("openvino", "onnxruntime")


@pytest.fixture(params=RUNTIMES)
def runtime(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(foreign_graph, "installed", lambda name: name == request.param)
    return request.param


def rounded(array: NDArray[Any]) -> NDArray[np.float32]:
    """Numbers as bfloat16 has them, one by one."""
    found = []
    for value in array.astype(np.float32).ravel():
        bits = int(value.view(np.uint32))
        up = (bits & 0xFFFF, (bits >> 16) & 1) > (0x8000, 0)
        found.append(np.array(((bits >> 16) + up) << 16, np.uint32).view(np.float32))
    return np.array(found, np.float32).reshape(array.shape)


@pytest.mark.parametrize("of", ["input", "output"])
def test_bfloat16_is_read_and_fed_as_such_or_refused(of: str, runtime: str, tmp_path: Path) -> None:
    kinds = {"x": FLOAT, "y": FLOAT, **({"x": BF16} if of == "input" else {"y": BF16})}
    nodes = [node("Cast", "x", "n", to=FLOAT), node("Add", "n one", "m"), node("Cast", "m", "y", to=kinds["y"])]
    one = {"one": np.zeros(1, np.float32)}
    path = save_graph(tmp_path / "m.onnx", nodes, {"x": (kinds["x"], ["N", 9])}, {"y": (kinds["y"], ["N", 9])}, one)
    values = np.random.default_rng(1).normal(0, 100, (2, 9)).astype(np.float32)
    values[0, :3] = (1.00390625, 1.01171875, 0.0)  # halfway between two numbers, whose even one is down and up
    if runtime == "onnxruntime":
        with pytest.raises(CounterfactoryError, match="bfloat16"):
            open_graph(path)
        return
    graph = open_graph(path)
    assert graph.package == runtime
    found = graph.run([{"x": values}])[0]["y"]
    assert np.array_equal(found, rounded(values))


def test_outputs_have_the_file_s_names_and_order(runtime: str, tmp_path: Path) -> None:
    nodes = [node("Relu", "scores", "inner"), node("Identity", "inner", "zeta"), node("Neg", "inner", "alpha")]
    nodes.append(node("Identity", "alpha", "a/logits:0"))
    ports = dict.fromkeys(("zeta", "a/logits:0", "alpha"), (FLOAT, None))
    graph = open_graph(classifier(tmp_path / "m.onnx", nodes, outputs=ports))
    assert [port.name for port in graph.outputs] == list(ports)
    assert [port.name for port in graph.inputs] == ["pictures"]
    (found,) = graph.run([{"pictures": np.ones((1, 3, 48, 64), np.float32)}])
    assert list(found) == list(ports)
    assert np.array_equal(found["zeta"], -found["alpha"])
    assert np.array_equal(found["a/logits:0"], found["alpha"])


def test_openvino_s_own_files_keep_names_and_say_what_was_written_into_them(tmp_path: Path) -> None:
    model = ov.Core().read_model(classifier(tmp_path / "m.onnx"))
    model.set_rt_info(["a", "b c"], ["model_info", "labels"])
    ov.save_model(model, tmp_path / "m.xml", compress_to_fp16=True)
    graph = open_graph(tmp_path / "m.xml")
    assert graph.metadata == {"labels": "a b c"}
    assert [port.name for port in graph.outputs] == ["scores"]
    found = graph.run([{"pictures": np.ones((2, 3, 48, 64), np.float32)}])[0]["scores"]
    assert found.dtype == np.float32
    assert np.abs(found - 10).max() < 0.02


def test_shapes_may_change_from_run_to_run(runtime: str, tmp_path: Path) -> None:
    nodes = [node("ReduceMean", "x", "y", axes=[1, 2], keepdims=0)]
    path = save_graph(tmp_path / "m.onnx", nodes, {"x": (FLOAT, ["N", "H", "W"])}, {"y": (FLOAT, ["N"])})
    graph = open_graph(path)
    for shape in ((1, 3, 5), (2, 4, 4), (1, 3, 5)):
        assert np.array_equal(graph.run([{"x": np.ones(shape, np.float32)}])[0]["y"], np.ones(shape[0]))


@pytest.mark.parametrize("shape", [(1, 3, 48, 60), (1, 3, 48)])
def test_what_a_graph_does_not_take_is_a_sentence(shape: tuple[int, ...], runtime: str, tmp_path: Path) -> None:
    graph: ForeignGraph = open_graph(classifier(tmp_path / "m.onnx"))
    with pytest.raises(CounterfactoryError, match=r"m\.onnx does not"):
        graph.run([{"pictures": np.ones(shape, np.float32)}])


def test_onnx_runtime_runs_what_openvino_does_not_load(tmp_path: Path) -> None:
    from onnx import helper, load, save

    path = classifier(tmp_path / "m.onnx", [node("Relu", "scores", "y")], outputs={"y": (FLOAT, None)})
    model = load(path)
    model.graph.node[-1].CopyFrom(helper.make_node("FusedGemm", ["columns", "parts"], ["y"], domain="com.microsoft"))
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    save(model, path)
    graph = open_graph(path)
    assert graph.package in RUNTIMES
    assert graph.run([{"pictures": np.ones((1, 3, 48, 64), np.float32)}])[0]["y"].shape == (1, 3)


def test_results_are_in_the_order_of_feeds(runtime: str, tmp_path: Path) -> None:
    graph = open_graph(classifier(tmp_path / "m.onnx"))
    feeds = [{"pictures": np.full((1, 3, 48, 64), number, np.float32)} for number in range(40)]
    assert [round(float(one["scores"][0, 0])) for one in graph.run(feeds)] == [10 * number for number in range(40)]
