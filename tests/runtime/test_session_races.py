"""Sessions on a device break none of its rules, at whatever moment queued work happens (see stand_in_cuda.py), compute
in one block of memory, and say which plan its library refuses.
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

from counterfactory.engine.errors import CounterfactoryError, TryAgainError
from counterfactory.engine.runtime import tensorrt
from counterfactory.engine.runtime.cuda import Cuda
from counterfactory.engine.runtime.plans import Shapes

ROWS, WIDTH = 2, 64
IO = 4 * ROWS * (WIDTH + WIDTH + 2 * WIDTH + 1)
FIXED = {name: Shapes.static(ROWS, WIDTH) for name in ("x", "past")}
GROWS = {"x": Shapes((ROWS, 1), (ROWS, 2), (ROWS, WIDTH)), "past": Shapes((ROWS, 0), (ROWS, WIDTH), (ROWS, 4 * WIDTH))}


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


def opened(graph: Path, device: Cuda, profile: dict[str, Shapes] = FIXED, scratch_bytes: int = 0) -> Any:
    context = Engine(graph, device.runtime, profile, scratch_bytes=scratch_bytes).create_execution_context()
    return tensorrt.bind("sum", Library(), context, device, ROWS)


def ones(length: int = WIDTH) -> np.ndarray[Any, Any]:
    return np.ones((ROWS, length), np.float32)


@pytest.mark.parametrize("seed", [None, *range(12)])
def test_sessions_break_no_rule_whenever_work_happens(graph: Path, seed: int | None) -> None:
    memory = Memory(seed=seed)
    fixed = opened(graph, Cuda(memory))
    growing = opened(graph, Cuda(memory), GROWS)
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


@pytest.mark.parametrize("profile", [FIXED, GROWS], ids=["fixed", "growing"])
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
        sessions.append(opened(graph, device, profile))
        sessions[0].run({"x": ones(), "past": ones()})

    with pytest.raises(CounterfactoryError, match=message):
        run()
    device.wait()  # for the copies up, whose memory the session holds until here


def test_a_library_that_refuses_since_the_device_is_lost_says_so(graph: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = Memory()
    device = Cuda(memory)
    session = opened(graph, device, FIXED)

    def lose(*_: Any) -> bool:
        memory.faults.append("an illegal memory access was encountered")
        return False

    monkeypatch.setattr(Context, "execute_async_v3", lose)
    with pytest.raises(TryAgainError, match="cudaErrorLaunchFailure"):
        session.run({"x": ones(), "past": ones()})
    with pytest.raises(TryAgainError):
        Cuda(memory)
    memory.faults.clear()  # the test's own
    device.wait()


def sums(session: Any, value: int) -> bool:
    return bool(session.run({"x": value * ones(), "past": ones()})["total"].tolist() == [(value + 1) * WIDTH] * ROWS)


def test_plans_compute_in_one_block_which_a_larger_need_moves_and_its_going_gives_back(graph: Path) -> None:
    """What was recorded names the old block, which is no one's any more: it is recorded again."""
    memory = Memory()
    device = Cuda(memory)
    small = opened(graph, device, scratch_bytes=1000)
    assert sums(small, 1)
    large, middle = (opened(graph, device, scratch_bytes=nbytes) for nbytes in (5000, 3000))
    for value in range(2, 5):
        assert all(sums(session, value) for session in (small, large, middle))
        assert memory.bytes_of("device") == 3 * IO + 5000
    assert memory.recordings == 4, "the block stayed, and so did the recordings"
    del large
    gc.collect()
    assert device.growth(5000) == 0
    assert sums(small, 5)
    assert memory.bytes_of("device") == 2 * IO + 3000
    assert device.growth(5000) == 2000
    assert memory.recordings == 5
    del small, middle
    gc.collect()
    device.settle()
    assert memory.bytes_of("device") == 0
