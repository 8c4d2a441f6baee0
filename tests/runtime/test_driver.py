"""The stand-in for CUDA's driver refuses what it says it does, and sessions break none of its rules.

Each rule is broken once, by hand or by a session with one fault put into it; then the sessions as they are run while
work happens at random times.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from stand_in_cuda import ALIGNMENT, Error, Kind, Memory, Range, Work
from stand_in_gpu import Engine, Library
from stand_in_torch import CachingAllocator

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.runtime import tensorrt
from counterfactory.engine.runtime.cuda import Cuda
from counterfactory.engine.runtime.plans import Shapes

UP, DOWN = Kind.cudaMemcpyHostToDevice, Kind.cudaMemcpyDeviceToHost


@contextmanager
def found(memory: Memory, text: str) -> Iterator[None]:
    """The first fault inside has this text."""
    yield
    assert memory.faults, "nothing was found"
    assert text in memory.faults[0], memory.faults
    memory.faults.clear()
    memory.expected = True


@pytest.fixture
def memory() -> Memory:
    return Memory()


@pytest.fixture
def device(memory: Memory) -> Cuda:
    return Cuda(memory)


def fails(memory: Memory, call: Callable[[], Any], text: str) -> None:
    """The call itself says what is wrong, and so does everything after it."""
    with found(memory, text):
        with pytest.raises(CounterfactoryError, match=r"CUDA's cuda\w+ failed with cudaError"):
            call()
        with pytest.raises(CounterfactoryError, match="cudaErrorLaunchFailure"):
            Cuda(memory)


def capturing(device: Cuda, work: Callable[[], Any]) -> Callable[[], Any]:
    return lambda: device.capture(lambda: work() and None)


# One rule after the other.


def test_what_the_device_wrote_is_seen_after_a_wait(device: Cuda) -> None:
    there, here = device.allocate(8), device.pin(8)
    here.array[:] = 7
    device.to_device(there, here, 8)
    device.wait()
    back = device.pin(8)
    back.array[:] = 1
    device.to_host(back, there, 8)
    assert back.array.tolist() == [255] * 8
    device.wait()
    assert back.array.tolist() == [7] * 8


def test_fresh_memory_is_no_number(device: Cuda) -> None:
    there, here = device.allocate(8), device.pin(8)
    assert np.isnan(here.array.view(np.float32)).all()
    device.to_host(here, there, 8)
    device.wait()
    assert np.isnan(here.array.view(np.float32)).all()


@pytest.mark.parametrize("direction", ["up", "down"])
def test_the_host_may_not_write_before_the_copy_is_done(memory: Memory, device: Cuda, direction: str) -> None:
    there, here = device.allocate(8), device.pin(8)
    here.array[:] = 0
    if direction == "up":
        device.to_device(there, here, 8)
    else:
        device.to_host(here, there, 8)
    here.array[3] = 9
    fails(memory, device.wait, "the host wrote to pinned memory before anybody waited")


@pytest.mark.parametrize("which", ["device", "host"])
def test_memory_is_not_freed_while_it_is_needed(memory: Memory, device: Cuda, which: str) -> None:
    buffers: dict[str, Any] = {"device": device.allocate(8), "host": device.pin(8)}
    buffers["host"].array[:] = 0
    device.to_device(buffers["device"], buffers["host"], 8)
    with found(memory, f"{which} memory was freed before anybody waited for the copy of 8 bytes"):
        del buffers[which]
    assert memory.bytes_of(which) == 0


def test_work_that_was_done_by_chance_was_not_waited_for() -> None:
    """Freeing is judged by what the host knows, not by what happened."""
    for seed in range(8):
        memory = Memory(seed=seed)
        device = Cuda(memory)
        there, here = device.allocate(8), device.pin(8)
        device.to_device(there, here, 8)
        for _ in range(8):
            device.pin(1)
        with found(memory, "freed before anybody waited"):
            del there


@pytest.mark.parametrize(
    ("misuse", "text"),
    [
        (lambda d, a, h: d.to_device(a, h, 17), "goes past the end of its host memory"),
        (lambda d, a, h: d._copy(a.pointer + 8, h.pointer, 16, UP.name), "goes past the end of its device memory"),
        (lambda d, a, h: d._copy(a.pointer, 12345, 16, UP.name), "which was never allocated and pinned"),
        (lambda d, a, h: d._copy(h.pointer, h.pointer, 16, UP.name), "uses device address"),
        (lambda d, a, h: d._call("cudaFree", h.pointer), "is no block's"),
        (lambda d, a, h: d._call("cudaFree", a.pointer + 4), "is no block's"),
        (lambda d, a, h: d._call("cudaMemcpyAsync", a.pointer, h.pointer, 8, UP, 0), "none of this device's"),
        (lambda d, a, h: d._call("cudaStreamSynchronize", 4), "none of this device's"),
        (lambda d, a, h: d._call("cudaStreamDestroy", 4), "none of this device's"),
        (lambda d, a, h: d._call("cudaGraphLaunch", 4, d.stream), "none of this device's"),
        (lambda d, a, h: d._call("cudaStreamEndCapture", d.stream), "names a captured stream"),
    ],
)
def test_what_is_not_there_is_refused(
    memory: Memory, device: Cuda, misuse: Callable[[Cuda, Any, Any], None], text: str
) -> None:
    there, here = device.allocate(16), device.pin(16)
    fails(memory, lambda: misuse(device, there, here), text)


@pytest.mark.parametrize("place", ["device", "host"])
def test_freed_memory_is_known_again(memory: Memory, device: Cuda, place: str) -> None:
    there, here = device.allocate(16), device.pin(16)
    pointers = there.pointer, here.pointer
    if place == "device":
        del there
        device.allocate(16)  # which does not get the same address
    else:
        del here
    fails(memory, lambda: device._copy(*pointers, 16, UP.name), f"uses {place} memory that was freed")


def test_memory_is_freed_once(memory: Memory, device: Cuda) -> None:
    buffer = device.allocate(16)
    memory.cudaFree(buffer.pointer)
    with found(memory, "was freed before"):
        del buffer


def test_pinned_memory_that_was_freed_holds_nothing(device: Cuda) -> None:
    pinned = device.pin(8)
    shown = pinned.array
    shown[:] = 1
    del pinned
    assert shown.tolist() == [255] * 8


def test_writes_past_the_ends_of_pinned_memory_are_found(memory: Memory, device: Cuda) -> None:
    pinned = device.pin(8)
    beyond = np.ctypeslib.as_array((np.ctypeslib.ctypes.c_uint8 * 9).from_address(pinned.pointer))
    beyond[8] = 0
    with found(memory, "past the ends of pinned memory"):
        del pinned


@pytest.mark.parametrize(
    ("misuse", "text"),
    [
        (lambda d: d.allocate(8), "memory was allocated while a stream is captured"),
        (lambda d: d.pin(8), "memory was allocated while a stream is captured"),
        (lambda d: d.wait(), "a stream was waited for while a stream is captured"),
        (lambda d: d._copy(1 << 44, 12345, 8, UP.name), "never allocated"),
        (lambda d: d._call("cudaStreamBeginCapture", d.stream, None), "captured twice"),
    ],
)
def test_what_may_not_be_captured(memory: Memory, device: Cuda, misuse: Callable[[Cuda], Any], text: str) -> None:
    fails(memory, capturing(device, lambda: misuse(device)), text)


def test_memory_is_not_freed_by_a_capture(memory: Memory, device: Cuda) -> None:
    buffers = [device.allocate(8)]
    with (
        found(memory, "memory was freed while a stream is captured"),
        pytest.raises(CounterfactoryError, match="cudaErrorStreamCaptureInvalidated"),
    ):
        device.capture(buffers.clear)


def test_other_threads_allocate_during_a_capture(device: Cuda) -> None:
    def elsewhere() -> None:
        thread = threading.Thread(target=lambda: device.allocate(8))
        thread.start()
        thread.join()

    device.capture(elsewhere)


def test_a_recording_needs_its_memory(memory: Memory, device: Cuda) -> None:
    there, here = [device.allocate(8)], device.pin(8)
    here.array[:] = 3
    launch = device.capture(lambda: device.to_device(there[0], here, 8))
    assert memory.launches == 0
    launch()
    device.wait()
    there.clear()
    fails(memory, launch, "uses device memory that was freed")


# Streams and events.


def two_streams(memory: Memory, ordered: str) -> Any:
    """Eight bytes go up on one stream and down on another; the second array, and what was kept alive."""
    one, two = Cuda(memory), Cuda(memory)
    there, here, back = one.allocate(8), one.pin(8), one.pin(8)
    here.array[:] = 5
    (event,) = memory.cudaEventCreateWithFlags(0)[1:]
    if ordered == "too early":
        memory.cudaEventRecord(event, one.stream)
    one.to_device(there, here, 8)
    if ordered == "event":
        memory.cudaEventRecord(event, one.stream)
    if ordered == "host":
        one.wait()
    if ordered in ("event", "too early"):
        memory.cudaStreamWaitEvent(two.stream, event, 0)
    two.to_host(back, there, 8)
    two.wait()
    found = back.array.copy()
    one.wait()
    memory.cudaEventDestroy(event)
    return found


@pytest.mark.parametrize("ordered", ["event", "host"])
@pytest.mark.parametrize("seed", [None, 0, 1, 2])
def test_streams_are_ordered_by_events_and_waits(ordered: str, seed: int | None) -> None:
    memory = Memory(seed=seed)
    assert two_streams(memory, ordered).tolist() == [5] * 8
    assert memory.left == {}


@pytest.mark.parametrize("ordered", ["not", "too early"])
@pytest.mark.parametrize("seed", [None, 0, 1, 2])
def test_streams_that_nothing_orders_race(ordered: str, seed: int | None) -> None:
    """Found whichever of the two comes first."""
    memory = Memory(seed=seed)
    with (
        found(memory, "use the same device on two streams, and no event"),
        pytest.raises(CounterfactoryError, match="cudaErrorIllegalAddress"),
    ):
        two_streams(memory, ordered)


def test_two_streams_may_read_the_same(memory: Memory) -> None:
    one, two = Cuda(memory), Cuda(memory)
    there, back, other = one.allocate(8), one.pin(8), one.pin(8)
    one.to_host(back, there, 8)
    two.to_host(other, there, 8)
    one.wait()
    two.wait()


def test_an_event_is_waited_for_alone(memory: Memory, device: Cuda) -> None:
    """What was queued behind it is not done, and may not be taken for done."""
    there, here = device.allocate(16), device.pin(16)
    here.array[:] = 4
    device.to_device(there, here, 16)
    first, last = (memory.cudaEventCreateWithFlags(0)[1] for _ in range(2))
    assert memory.cudaEventQuery(first) == (Error.cudaErrorNotReady,)
    backs = [device.pin(16), device.pin(16)]
    device.to_host(backs[0], there, 16)
    memory.cudaEventRecord(first, device.stream)
    device.to_host(backs[1], there, 16)
    memory.cudaEventRecord(last, device.stream)
    assert memory.cudaEventSynchronize(first) == (Error.cudaSuccess,)
    assert [int(back.array[0]) for back in backs] == [4, 255]
    assert memory.cudaEventQuery(last) == (Error.cudaErrorNotReady,)
    assert memory.cudaEventElapsedTime(first, last)[0] is Error.cudaErrorNotReady
    device.wait()
    assert memory.cudaEventElapsedTime(first, last) == (Error.cudaSuccess, 2.0)


@pytest.mark.parametrize(
    ("misuse", "text"),
    [
        (lambda m, s, e: m.cudaEventSynchronize(e), "the host waits for an event that was never recorded"),
        (lambda m, s, e: m.cudaStreamWaitEvent(s, e, 0), "a stream waits for an event that was never recorded"),
        (lambda m, s, e: m.cudaEventRecord(e, s + 1), "none of this device's"),
        (lambda m, s, e: m.cudaEventRecord(e + 1, s), "none of this device's"),
        (lambda m, s, e: m.cudaEventElapsedTime(e, e), "the timing names a event"),
        (lambda m, s, e: (m.cudaEventDestroy(e), m.cudaEventRecord(e, s))[1], "was destroyed"),
    ],
)
def test_events_are_used_as_they_are_meant(
    memory: Memory, device: Cuda, misuse: Callable[[Memory, int, int], tuple[Any, ...]], text: str
) -> None:
    _, event = memory.cudaEventCreateWithFlags(Memory.cudaEventDisableTiming)
    with found(memory, text):
        assert misuse(memory, device.stream, event)[0] not in (Error.cudaSuccess, Error.cudaErrorNotReady)


def test_a_stream_goes_when_its_work_is_done(memory: Memory) -> None:
    device = Cuda(memory)
    there, here = device.allocate(8), device.pin(8)
    stream = device.stream
    device.to_host(here, there, 8)
    with found(memory, "a stream was destroyed with work that is not done"):
        del device
    memory.cudaStreamSynchronize(stream)
    memory.cudaStreamDestroy(stream)
    with found(memory, "was destroyed"):
        memory.cudaMemcpyAsync(here.pointer, there.pointer, 8, DOWN, stream)


def test_a_context_is_run_by_one_stream_at_a_time(memory: Memory) -> None:
    one, two = Cuda(memory), Cuda(memory)
    scratch = Work("run of a plan", (), (Range("context", 1),))
    memory.put(one.stream, scratch)
    with found(memory, "use the same context on two streams"):
        memory.put(two.stream, scratch)
    one.wait()
    two.wait()


def test_a_device_that_is_virtual_has_sizes_alone() -> None:
    seen: list[int] = []
    memory = Memory(limit=24 * 10**9, virtual=True, on_change=seen.append)
    device = Cuda(memory)
    there, here = device.allocate(20 * 10**9), device.pin(8)
    here.array[:] = 1
    device.to_host(here, there, 8)
    device.wait()
    assert here.array.tolist() == [0] * 8
    with pytest.raises(CounterfactoryError, match="cudaErrorMemoryAllocation"):
        device.allocate(5 * 10**9)
    assert seen == [20 * 10**9, 20 * 10**9]


# Sessions.


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
    path = tmp_path_factory.mktemp("sum") / "sum.onnx"
    onnx.save(helper.make_model(made, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), str(path))
    return path


def opened(graph: Path, memory: Memory, device: Cuda, profile: dict[str, Shapes] = FIXED) -> Any:
    context = Engine(graph, memory, profile).create_execution_context()
    return tensorrt.bind("sum", Library(), context, device, ROWS)


def ones(length: int = WIDTH) -> np.ndarray[Any, Any]:
    return np.ones((ROWS, length), np.float32)


class Hasty(Cuda):
    """Waits for nothing."""

    def wait(self) -> None:
        pass


def test_a_session_that_does_not_wait_gives_no_numbers(graph: Path, memory: Memory) -> None:
    device = Hasty(memory)
    session = opened(graph, memory, device, GROWING)
    assert np.isnan(session.run({"x": ones(), "past": ones(0)})["total"]).all()
    Cuda.wait(device)


def test_a_session_that_does_not_wait_before_it_writes_again(graph: Path, memory: Memory) -> None:
    device = Hasty(memory)
    session = opened(graph, memory, device, GROWING)
    session.run({"x": ones(), "past": ones(0)})
    session.run({"x": 2 * ones(), "past": ones(0)})
    with (
        found(memory, "the host wrote to pinned memory before anybody waited for its copy"),
        pytest.raises(CounterfactoryError),
    ):
        Cuda.wait(device)


@pytest.mark.parametrize("profile", [FIXED, GROWING], ids=["fixed", "growing"])
def test_a_session_whose_memory_is_gone(graph: Path, memory: Memory, device: Cuda, profile: dict[str, Shapes]) -> None:
    session = opened(graph, memory, device, profile)
    feeds = {"x": ones(), "past": ones()}
    session.run(feeds)
    place = session._inputs["x"]
    memory.cudaFree(place._device.pointer)
    with found(memory, "uses device memory that was freed"), pytest.raises(CounterfactoryError):
        session.run(feeds)
    place._device = None  # which frees it once more


def test_a_session_whose_library_works_on_another_stream(graph: Path, memory: Memory) -> None:
    other = Cuda(memory)

    class Elsewhere(Cuda):
        @property
        def stream_handle(self) -> int:
            return other.stream_handle

    session = opened(graph, memory, Elsewhere(memory), GROWING)
    with found(memory, "on two streams, and no event"), pytest.raises(CounterfactoryError):
        session.run({"x": ones(), "past": ones(0)})
    del session


def test_an_address_that_a_plan_cannot_take(graph: Path, memory: Memory, device: Cuda) -> None:
    context = Engine(graph, memory, FIXED).create_execution_context()
    buffer = device.allocate(4096)
    assert context.set_tensor_address("x", buffer.pointer + ALIGNMENT)
    with found(memory, f"no multiple of {ALIGNMENT}"):
        assert not context.set_tensor_address("x", buffer.pointer + 64)


def test_a_plan_that_was_not_given_all_its_memory(graph: Path, memory: Memory, device: Cuda) -> None:
    context = Engine(graph, memory, FIXED).create_execution_context()
    assert not context.execute_async_v3(device.stream)
    for name, shape in FIXED.items():
        context.set_input_shape(name, shape.max)
    small = device.allocate(ROWS * WIDTH * 4)
    for name in (*FIXED, "both", "total"):
        context.set_tensor_address(name, small.pointer)
    with found(memory, "the run of a plan goes past the end of its device memory"):
        assert not context.execute_async_v3(device.stream)


@pytest.mark.parametrize("seed", [None, *range(24)])
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


# torch's allocator.


def test_what_torch_frees_the_device_does_not_get(memory: Memory) -> None:
    torch = CachingAllocator(memory)
    large, small = torch.allocate(50_000_000), torch.allocate(1000)
    assert (torch.used, torch.reserved) == ((48 << 20) + 1024, 50 << 20), "too little is left to cut"
    torch.free(large)
    assert (torch.used, memory.bytes_of("device")) == (1024, torch.reserved)
    assert torch.allocate(30_000_000) == large, "it is given again"
    torch.free(large)
    torch.empty_cache()
    assert memory.bytes_of("device") == torch.reserved == 2 << 20, "the rest is in use"
    torch.free(small)
    torch.empty_cache()
    assert memory.left == {}
    with pytest.raises(ValueError, match="no block begins"):
        torch.free(small)


def test_a_segment_of_torch_is_given_back_whole_or_not(memory: Memory) -> None:
    torch = CachingAllocator(memory)
    blocks = [torch.allocate(4 << 20) for _ in range(5)]
    assert memory.bytes_of("device") == 20 << 20
    for block in blocks[1:]:
        torch.free(block)
    torch.empty_cache()
    assert memory.bytes_of("device") == 20 << 20
    assert torch.allocate(16 << 20) == blocks[1], "neighbours that are free are one"
    torch.free(blocks[1])
    torch.free(blocks[0])
    torch.empty_cache()
    assert memory.left == {}
