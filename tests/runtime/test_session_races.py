"""Sessions on a device break none of its rules, at whatever moment queued work happens (see stand_in_cuda.py), and say
which plan its library refuses.
"""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper
from small_graphs import saved
from stand_in_cuda import Memory
from stand_in_gpu import Context, Engine, Library

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.runtime import tensorrt
from counterfactory.engine.runtime.cuda import Cuda
from counterfactory.engine.runtime.plans import Shapes

ROWS, WIDTH = 2, 64
FIXED = {name: Shapes.static(ROWS, WIDTH) for name in ("x", "past")}
GROWING = {
    "x": Shapes((ROWS, 1), (ROWS, 2), (ROWS, WIDTH)),
    "past": Shapes((ROWS, 0), (ROWS, WIDTH), (ROWS, 4 * WIDTH)),
}


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """x [B, S] and past [B, P] to their sum [B] and both together [B, P + S]."""
    values = {name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [ROWS, name]) for name in ("x", "past")}
    both = helper.make_tensor_value_info("both", TensorProto.FLOAT, [ROWS, "both"])
    total = helper.make_tensor_value_info("total", TensorProto.FLOAT, [ROWS])
    nodes = [
        helper.make_node("Concat", ["past", "x"], ["both"], axis=1),
        helper.make_node("ReduceSum", ["both", "axes"], ["total"], keepdims=0),
    ]
    axes = helper.make_tensor("axes", TensorProto.INT64, [1], [1])
    made = helper.make_graph(nodes, "sum", [*values.values()], [both, total], [axes])
    return saved(made, tmp_path_factory.mktemp("sum") / "sum.onnx")


def opened(graph: Path, memory: Memory, device: Cuda, profile: dict[str, Shapes] = FIXED) -> Any:
    context = Engine(graph, memory, profile).create_execution_context()
    return tensorrt.bind("sum", Library(), context, device, ROWS)


def ones(length: int = WIDTH) -> np.ndarray[Any, Any]:
    return np.ones((ROWS, length), np.float32)


@pytest.mark.parametrize("seed", [None, *range(12)])
def test_sessions_break_no_rule_whenever_work_happens(graph: Path, seed: int | None) -> None:
    memory = Memory(seed=seed)
    fixed = opened(graph, memory, Cuda(memory))
    growing = opened(graph, memory, Cuda(memory), GROWING)
    held: Any = ones(0)
    for step in range(5):
        found = fixed.run({"x": step * ones(), "past": ones()}, hold=["both"] if step % 2 else [])
        assert found["total"].tolist() == [(step + 1) * WIDTH] * ROWS
        out = growing.run({"x": step * ones(2), "past": held}, hold=["both"])
        held = out["both"]
        assert out["total"].tolist() == [step * (step + 1)] * ROWS
    del fixed, growing, held, found, out
    gc.collect()
    assert memory.left == {}


@pytest.mark.parametrize("profile", [FIXED, GROWING], ids=["fixed", "growing"])
@pytest.mark.parametrize(
    ("method", "message"),
    [("execute_async_v3", "plan sum did not run"), ("set_tensor_address", "plan sum refuses the memory of x")],
)
def test_what_a_library_refuses_is_an_error(
    graph: Path, profile: dict[str, Shapes], method: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    device, sessions = Cuda(Memory()), []
    monkeypatch.setattr(Context, method, lambda *_: False)

    def run() -> None:
        sessions.append(opened(graph, device.runtime, device, profile))
        sessions[0].run({"x": ones(), "past": ones()})

    with pytest.raises(CounterfactoryError, match=message):
        run()
    device.wait()  # for the copies up, whose memory the session holds until here
