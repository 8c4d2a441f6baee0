"""Work beside the caller's: in order, within bounds, every error told, and no thread left behind."""

from __future__ import annotations

import gc
import signal
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from typing import Any

import cv2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterfactory.engine.schedule.overlap import in_callers_threads, in_chunks, once_each, prefetch, write_behind

PATIENCE_S = 20  # how long a test waits for what must come; nothing is timed


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    assert set(threading.enumerate()) <= before


class Counted:
    """How many are inside at once, now and at most."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.now = self.most = 0

    def enter(self) -> None:
        with self._lock:
            self.now += 1
            self.most = max(self.most, self.now)

    def leave(self) -> None:
        with self._lock:
            self.now -= 1


def pause(ms: int) -> None:
    if ms:
        time.sleep(ms / 1000)


pauses = st.lists(st.sampled_from([0, 0, 0, 1, 3]), max_size=12)


# Ahead


@settings(max_examples=60)
@given(
    loads=pauses,
    depth=st.integers(1, 5),
    workers=st.integers(1, 4),
    slow_caller=st.booleans(),
    slow_items=st.booleans(),
    bad=st.sets(st.integers(0, 11)),
)
def test_ahead_keeps_order_and_bounds_and_tells_each_error_in_its_place(
    loads: list[int], depth: int, workers: int, slow_caller: bool, slow_items: bool, bad: set[int]
) -> None:
    out, running = Counted(), Counted()  # items drawn and not taken; loads that run
    drawn: list[threading.Thread] = []

    def items() -> Iterator[int]:
        for i in range(len(loads)):
            drawn.append(threading.current_thread())
            pause(1 if slow_items else 0)
            out.enter()
            yield i

    def load(i: int) -> str:
        assert threading.current_thread().name.startswith("ahead"), "what a stack dump shows"
        running.enter()
        pause(loads[i])
        running.leave()
        if i in bad:
            raise ValueError(f"item {i}")
        return f"loaded {i}"

    got = []
    for item, result in prefetch(items(), load, depth, workers):
        out.leave()
        pause(1 if slow_caller else 0)
        got.append((item, str(result), isinstance(result, ValueError)))
    assert got == [(i, f"item {i}" if i in bad else f"loaded {i}", i in bad) for i in range(len(loads))]
    assert out.most <= depth + 1  # the one in the caller's hands was counted until it had it
    assert running.most <= min(workers, depth)
    assert set(drawn) <= {threading.current_thread()}


def test_ahead_really_loads_while_the_caller_works() -> None:
    started = [threading.Event() for _ in range(6)]
    for i, _ in prefetch(range(6), lambda i: started[i].set(), depth=2):
        for later in range(i + 1, min(i + 3, 6)):
            assert started[later].wait(PATIENCE_S), f"{later} is not being loaded while {i} is worked on"
        assert not any(event.is_set() for event in started[i + 3 :])


def test_ahead_uses_its_workers_at_once() -> None:
    together = threading.Barrier(3)
    assert len(list(prefetch(range(3), lambda _: together.wait(PATIENCE_S), depth=3, workers=3))) == 3


@pytest.mark.parametrize("leave", ["break", "close", "error", "interrupt", "forget"])
def test_ahead_closed_early_begins_nothing_more_and_leaves_no_thread(leave: str) -> None:
    begun = []

    def load(i: int) -> int:
        begun.append(i)
        return i

    line = prefetch(range(1000), load, depth=4, workers=2)
    kind = {"error": ValueError, "interrupt": KeyboardInterrupt}.get(leave, GeneratorExit)
    with suppress(kind):
        for i, _ in line:
            if i == 2:
                if leave in ("break", "forget"):
                    break
                if leave == "close":
                    line.close()
                    break
                with closing(line):
                    raise kind
    del line
    gc.collect()
    count = len(begun)
    assert count <= 2 + 1 + 4
    assert not [t for t in threading.enumerate() if t.name.startswith("ahead")]
    assert len(begun) == count


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """SIGINT interrupts Python, also where the tests were started in the background with SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c")
def test_an_interrupt_while_waiting_for_a_load_gets_out() -> None:
    waited_for = threading.Event()
    begun = []

    def load(i: int) -> int:
        begun.append(i)
        if i == 1:
            assert waited_for.wait(PATIENCE_S)
            pause(100)  # the caller waits by then; an instant before, Python would tell it only afterwards
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            pause(200)
        return i

    def run() -> None:
        for _ in prefetch(range(50), load, depth=4):
            waited_for.set()

    with pytest.raises(KeyboardInterrupt):
        run()
    assert len(begun) <= 5  # of 50: what was handed over


def test_ahead_draws_as_it_is_asked_and_no_more_after_an_error_which_comes_last() -> None:
    class Items:
        asked = 0

        def __iter__(self) -> Items:
            return self

        def __next__(self) -> int:
            self.asked += 1
            if self.asked == 4:
                raise OSError("the list ends here")
            return self.asked

    items = Items()
    line = prefetch(items, str, depth=2)
    assert items.asked == 0
    assert next(line) == (1, "1")
    assert items.asked == 3
    assert [next(line), next(line)] == [(2, "2"), (3, "3")]
    with pytest.raises(OSError, match="the list ends here"):
        next(line)
    assert items.asked == 4


def test_what_is_no_exception_is_raised_at_its_place() -> None:
    def load(i: int) -> int:
        if i == 1:
            raise SystemExit(3)
        return i

    line = prefetch(range(9), load, depth=4)
    assert next(line) == (0, 0)
    with pytest.raises(SystemExit):
        next(line)


@pytest.mark.parametrize("line", [prefetch([1], str, 0), prefetch([1], str, 1, 0), write_behind([1], str, 0)])
def test_bounds_below_one_are_refused(line: Iterator[Any]) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        next(line)


# Behind


@settings(max_examples=100)
@given(writes=pauses, depth=st.integers(1, 5), slow_caller=st.booleans(), bad=st.integers(0, 11))
def test_behind_writes_in_order_until_one_fails(writes: list[int], depth: int, slow_caller: bool, bad: int) -> None:
    drawn, written, given_back = [], list[int](), list[str]()

    def items() -> Iterator[int]:
        for i in range(len(writes)):
            pause(1 if slow_caller else 0)
            drawn.append(i)
            yield i
            assert len(drawn) - len(written) <= depth or bad < len(writes)

    def write(i: int) -> str:
        assert threading.current_thread().name.startswith("behind")
        pause(writes[i])
        if i == bad:
            raise OSError(f"no room for {i}")
        written.append(i)
        return f"wrote {i}"

    line = write_behind(items(), write, depth)
    if bad < len(writes):
        with pytest.raises(OSError, match=f"no room for {bad}") as caught:
            given_back += line
        assert not getattr(caught.value, "__notes__", [])
        assert len(drawn) <= bad + depth + 1
    else:
        given_back += line
        assert drawn == written
    assert written == list(range(min(bad, len(writes))))
    assert given_back == [f"wrote {i}" for i in written]


@pytest.mark.parametrize("error", [ValueError("the caller's"), KeyboardInterrupt("the caller's"), None])
def test_what_was_drawn_is_written_whatever_ends_it(error: BaseException | None) -> None:
    """An error of the items, Ctrl-C while one is drawn, or an iterator that is closed."""
    drawn, written = list[int](), list[int]()

    def items() -> Iterator[int]:
        for i in range(6):
            drawn.append(i)
            yield i
        if error is not None:
            raise error

    def write(i: int) -> None:
        pause(2)
        written.append(i)

    line = write_behind(items(), write, depth=8)
    if error is None:
        next(line)
        line.close()
    else:
        with pytest.raises(type(error), match="the caller's") as caught:
            list(line)
        assert not getattr(caught.value, "__notes__", [])
    assert written == drawn
    assert error is None or drawn == list(range(6))


def test_the_callers_error_is_not_masked_and_the_writers_is_not_swallowed() -> None:
    failed = threading.Event()

    def items() -> Iterator[int]:
        yield 0
        assert failed.wait(PATIENCE_S)
        raise ValueError("the caller's")

    def write(_: int) -> None:
        pause(50)  # the next is asked for by then
        failed.set()
        raise OSError("full")

    with pytest.raises(ValueError, match="the caller's") as caught:
        list(write_behind(items(), write, depth=3))
    assert caught.value.__notes__ == ["besides, writing failed: OSError('full')"]


@pytest.mark.usefixtures("ctrl_c")
def test_a_second_interrupt_drops_what_waits_and_ends_the_item_at_hand() -> None:
    written, first = [], threading.Event()

    def items() -> Iterator[int]:
        yield from range(9)
        assert first.wait(PATIENCE_S)
        raise KeyboardInterrupt

    def write(i: int) -> None:
        first.set()
        if i == 0:  # the caller is leaving by now, or soon
            pause(200)
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            pause(100)
        written.append(i)

    with pytest.raises(KeyboardInterrupt):
        list(write_behind(items(), write, depth=9))
    assert written == [0]


@pytest.mark.parametrize("work", [lambda items, load: prefetch(items, load, 1), lambda *both: write_behind(*both, 1)])
def test_nothing_that_was_given_is_held_on_to(work: Callable[..., Iterator[Any]]) -> None:
    class Large:
        pass

    seen: list[weakref.ref[Large]] = []
    for result in work(range(3), lambda _: Large()):
        large = result[1] if isinstance(result, tuple) else result
        assert isinstance(large, Large)
        seen.append(weakref.ref(large))
        del result, large
        gc.collect()
        assert [ref for ref in seen if ref() is not None] == []


@pytest.mark.parametrize(("count", "chunks"), [(0, []), (2, [[0, 1]]), (3, [[0, 1, 2]]), (4, [[0, 1, 2], [3]])])
def test_chunks(count: int, chunks: list[list[int]]) -> None:
    drawn = []

    def items() -> Iterator[int]:
        for i in range(count):
            drawn.append(i)
            yield i

    parts = in_chunks(items(), 3)
    assert drawn == []
    for chunk in chunks:
        assert next(parts) == chunk
        assert drawn == list(range(chunk[-1] + 1))
    assert list(parts) == []


def test_opencv_has_one_thread_within_and_its_own_after() -> None:
    before = cv2.getNumThreads()
    try:
        cv2.setNumThreads(2)
        with suppress(KeyError), in_callers_threads():
            assert cv2.getNumThreads() == 1
            raise KeyError
        assert cv2.getNumThreads() == 2
    finally:
        cv2.setNumThreads(before)


def test_what_several_threads_ask_for_is_computed_once_and_errors_are_not_kept() -> None:
    computed: list[int] = []

    def compute(number: int) -> int:
        computed.append(number)
        time.sleep(0.01)
        if number == 3 and computed.count(3) == 1:
            raise ValueError("the first time")
        return number * number

    get = once_each(compute, 2)
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(get, [4] * 16)) == [16] * 16
    assert computed == [4]
    with pytest.raises(ValueError, match="the first time"):
        get(3)
    assert get(3) == 9
    assert (get(5), get(4)) == (25, 16), "the last two are kept"
    assert computed == [4, 3, 3, 5, 4]
