"""A plan for several sizes of pictures: compiled once, its weights in memory once, a session for each size.

Compiled by TensorRT-RTX for SM86, and run over a stand-in for the library and the driver. Nothing here runs on a GPU.
"""

from __future__ import annotations

import gc
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_graphs import sized_graph
from stand_in_cuda import Memory
from stand_in_gpu import Library, write_plan

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.keys import file_digest
from counterfactory.engine.runtime import cuda, openvino, tensorrt
from counterfactory.engine.runtime.opening import plan_state
from counterfactory.engine.runtime.plans import PlanRequirements, Shapes, find_mismatches, read_key, write_key
from counterfactory.export.plans.tensorrt import build_plan

ROWS, WEIGHTS, SCRATCH = 2, 4096, 512
SIZES = ((8, 8), (8, 12), (12, 8))
PROFILES = tuple({"x": Shapes.static(ROWS, 4, *size)} for size in SIZES)


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> Memory:
    """That of a device with the stand-in for TensorRT; work happens on it at random times."""
    memory = Memory(seed=1)
    monkeypatch.setattr(cuda, "load_runtime", lambda: memory)
    monkeypatch.setitem(sys.modules, "tensorrt", Library(memory))  # type: ignore[arg-type]
    return memory


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    graph, plan = sized_graph(tmp_path / "model.onnx"), tmp_path / "plans" / "net.plan"
    held = {"weights_bytes": WEIGHTS, "scratch_bytes": SCRATCH, "io_bytes": 8192}
    said = {"onnx": str(graph), "profiles": [{"x": asdict(one["x"])} for one in PROFILES]}
    write_plan(plan, said, PROFILES, held, "a" * 64)
    return plan


def feeds(size: tuple[int, int]) -> dict[str, Any]:
    return {"x": np.random.default_rng(size).standard_normal((ROWS, 4, *size)).astype(np.float32)}


def test_sessions_of_all_sizes_share_the_weights(memory: Memory, plan: Path) -> None:
    device = cuda.open_device()
    sessions = {}
    for size in SIZES:
        before = memory.bytes_of("device")
        sessions[size] = tensorrt.open_session(plan, batch=ROWS, sizes={"x": size}, device=lambda: device)
        grown, ports = memory.bytes_of("device") - before, 2 * ROWS * 4 * size[0] * size[1] * 4
        first = size == SIZES[0]
        assert grown >= ports + first * (WEIGHTS + SCRATCH)
        assert grown < ports + 1024 + first * (WEIGHTS + SCRATCH), "weights and what is computed in are there already"
        assert sessions[size].static
    for size in (*SIZES, *reversed(SIZES)):
        usual = openvino.open_session(plan.parents[1] / "model.onnx", batch=ROWS, precision="f32", sizes={"x": size})
        given = feeds(size)
        np.testing.assert_allclose(sessions[size].run(given)["y"], usual.run(given)["y"], rtol=1e-5, atol=1e-5)
    assert memory.recordings == len(SIZES), "a CUDA graph each"
    del sessions[SIZES[0]]
    gc.collect()
    assert memory.bytes_of("device") > WEIGHTS, "the others still run"
    sessions.clear()
    gc.collect()
    device.settle()
    assert (memory.bytes_of("device"), memory.faults) == (0, [])


def test_weights_that_are_needed_again_are_loaded_again(memory: Memory, plan: Path) -> None:
    """When the last session has gone, and when the file has become another."""
    device = cuda.open_device()
    for _ in range(2):
        session = tensorrt.open_session(plan, batch=ROWS, sizes={"x": SIZES[1]}, device=lambda: device)
        del session
        gc.collect()
        device.settle()
        assert (memory.bytes_of("device"), len(device.loaded)) == (0, 0)
    kept = tensorrt.open_session(plan, batch=ROWS, sizes={"x": SIZES[1]}, device=lambda: device)
    key = read_key(plan)
    plan.write_text(plan.read_text() + "\n")
    write_key(plan, replace(key, plan_sha256=file_digest(plan)))
    again = tensorrt.open_session(plan, batch=ROWS, sizes={"x": SIZES[2]}, device=lambda: device)
    assert kept._alive is not again._alive
    assert len(device.loaded) == 2


def test_a_size_that_a_plan_lacks_is_refused_with_those_that_it_has(memory: Memory, plan: Path) -> None:
    told = r"net takes x of size \[8, 8\] or \[8, 12\] or \[12, 8\], asked for \[12, 12\]; build"
    with pytest.raises(CounterfactoryError, match=told):
        tensorrt.open_session(plan, batch=ROWS, sizes={"x": (12, 12)})
    with pytest.raises(CounterfactoryError, match="takes x in batches of 2, got 3"):
        tensorrt.open_session(plan, batch=3, sizes={"x": (8, 12)})


def test_the_doctor_sees_a_size_that_a_plan_lacks(memory: Memory, plan: Path) -> None:
    folder = plan.parents[1]
    assert plan_state(folder, "net", "tensorrt", [{"x": size} for size in SIZES]) == ("found", "")
    state, why = plan_state(folder, "net", "tensorrt", [{"x": SIZES[0]}, {"x": (12, 12)}])
    assert (state, why) == ("stale", "it takes sizes 8 x 8, 8 x 12, 12 x 8, wanted x of 12 x 12")


def test_profiles_are_part_of_what_a_plan_is_for(plan: Path) -> None:
    key = read_key(plan)
    assert find_mismatches(plan, key, PlanRequirements(profiles=PROFILES), None) == []
    two = PlanRequirements(profiles=PROFILES[:2])
    assert find_mismatches(plan, key, two, None) == ["it takes 3 sizes of pictures, wanted 2"]
    assert len(find_mismatches(plan, key, PlanRequirements(profiles=PROFILES[::-1]), None)) == 2


def test_no_two_contexts_run_one_profile(memory: Memory, plan: Path) -> None:
    """As the library has it, and so the stand-in."""
    device = cuda.open_device()
    first = tensorrt.open_session(plan, batch=ROWS, sizes={"x": SIZES[1]}, device=lambda: device)
    with pytest.raises(CounterfactoryError, match="net refuses its own profile 1"):
        tensorrt.open_session(plan, batch=ROWS, sizes={"x": SIZES[1]}, device=lambda: device)
    assert first.run(feeds(SIZES[1]))["y"].shape == (ROWS, 4, *SIZES[1])


def test_a_plan_of_several_sizes_is_compiled_for_the_a10g(tmp_path: Path) -> None:
    """Weights are stated once; what is computed in is that of the largest, ports are those of all."""
    pytest.importorskip("tensorrt_rtx", reason="tensorrt_rtx is not installed: that sizes compile goes unchecked")
    graph, keys = sized_graph(tmp_path / "model.onnx"), []
    for profiles in (PROFILES[:1], PROFILES):
        build_plan(graph, tmp_path / "p.plan", profiles, library="tensorrt_rtx")
        keys.append(read_key(tmp_path / "p.plan"))
    one, several = keys
    assert (one.profiles, several.profiles) == (PROFILES[:1], PROFILES)
    assert several.weights_bytes == one.weights_bytes
    assert several.io_bytes == 2 * ROWS * 4 * (64 + 96 + 96) * 4
    assert (several.scratch_bytes or 0) >= (one.scratch_bytes or 0)
    wrong = ({"x": Shapes.static(ROWS, 4, 8, 8)}, {"x": Shapes.static(ROWS, 3, 8, 8)})
    with pytest.raises(CounterfactoryError, match="x is fixed to 4 along axis 1, its shapes say 3"):
        build_plan(graph, tmp_path / "p.plan", wrong, library="tensorrt_rtx")
    assert read_key(tmp_path / "p.plan") == several
