"""Plans of one device compute in one block of its memory, over a driver that names whoever uses what is not theirs."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_graphs import pair_graph
from stand_in_cuda import Memory
from stand_in_gpu import Engine, Library

from counterfactory.engine.runtime import tensorrt
from counterfactory.engine.runtime.cuda import Cuda
from counterfactory.engine.runtime.plans import Shapes

ROWS, WIDTH = 2, 8
FIXED = {name: Shapes.static(ROWS, WIDTH) for name in ("a", "b")}
OPEN = {"a": Shapes((1, WIDTH), (2, WIDTH), (4, WIDTH)), "b": Shapes((1, WIDTH), (2, WIDTH), (4, WIDTH))}
IO = 3 * ROWS * WIDTH * 4  # two inputs and their sum


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    return pair_graph(tmp_path / "pair.onnx")


def opened(graph: Path, device: Cuda, scratch_bytes: int) -> Any:
    context = Engine(graph, device.runtime, FIXED, scratch_bytes=scratch_bytes).create_execution_context()
    return tensorrt.bind("pair", Library(), context, device, ROWS)


def sums(session: Any, value: float) -> bool:
    a, b = np.full((ROWS, WIDTH), value, np.float32), np.arange(ROWS * WIDTH, dtype=np.float32).reshape(ROWS, WIDTH)
    return bool((session.run({"a": a, "b": b})["sum"] == a + b).all())


def test_plans_compute_in_one_block_as_large_as_the_largest_needs(graph: Path) -> None:
    memory = Memory()
    device = Cuda(memory)
    sessions = [opened(graph, device, nbytes) for nbytes in (1000, 3000, 2000)]
    assert memory.bytes_of("device") == 3 * IO + 3000
    for value in range(3):
        assert all(sums(session, value) for session in sessions)
    assert memory.bytes_of("device") == 3 * IO + 3000
    assert memory.recordings == 3, "the block stayed, and so did the recordings"


def test_a_plan_that_needs_more_moves_the_block_and_its_going_gives_it_back(graph: Path) -> None:
    """What was recorded names the old block, which is no one's any more: it is recorded again."""
    memory = Memory()
    device = Cuda(memory)
    small = opened(graph, device, 1000)
    assert sums(small, 1)
    large = opened(graph, device, 5000)
    assert memory.bytes_of("device") == 2 * IO + 5000
    assert sums(small, 2)
    assert sums(large, 3)
    assert sums(small, 4)
    assert memory.recordings == 3
    del large
    gc.collect()
    assert device.growth(5000) == 0
    assert sums(small, 5)
    assert memory.bytes_of("device") == IO + 1000
    assert device.growth(5000) == 4000
    assert memory.recordings == 4
    del small
    gc.collect()
    device.settle()
    assert memory.bytes_of("device") == 0
