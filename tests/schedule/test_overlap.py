"""Work beside the caller's: in order, within bounds, every error told, and no thread left behind."""

from __future__ import annotations

import gc
import signal
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import closing, suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterfactory.engine.schedule.overlap import BackgroundWriter, in_chunks, prefetch, write_behind

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


def test_ahead_draws_nothing_before_it_is_asked() -> None:
    drawn: list[int] = []

    def items() -> Iterator[int]:
        for i in range(9):
            drawn.append(i)
            yield i

    line = prefetch(items(), str, depth=3)
    assert drawn == []
    next(line)
    assert drawn == [0, 1, 2, 3]
    line.close()


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


def test_ahead_closed_early_drops_the_loads_that_have_not_begun() -> None:
    begun = []

    def load(i: int) -> None:
        begun.append(i)
        time.sleep(0.05)

    with closing(prefetch(range(9), load, depth=6)) as line:
        next(line)
    assert 1 <= len(begun) <= 3, "one was done, one under way, and one may have begun in between"


def test_ahead_loads_one_at_a_time_unless_told_otherwise() -> None:
    loading: list[int] = []

    def load(i: int) -> int:
        loading.append(i)
        time.sleep(0.005)
        return len(loading), loading.remove(i)  # type: ignore[return-value, func-returns-value]

    assert [found for _, (found, _) in prefetch(range(6), load, depth=4)] == [1] * 6  # type: ignore[misc]


def test_ahead_asks_no_more_of_items_that_failed() -> None:
    class Items:
        asked = 0

        def __iter__(self) -> Items:
            return self

        def __next__(self) -> int:
            self.asked += 1
            if self.asked == 2:
                raise OSError("the second is broken")
            return self.asked

    items = Items()
    line = prefetch(items, str, depth=4)
    assert next(line) == (1, "1")
    with pytest.raises(OSError, match="the second is broken"):
        next(line)
    assert items.asked == 2


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


def test_an_error_of_the_items_comes_after_what_was_begun() -> None:
    def items() -> Iterator[int]:
        yield from range(3)
        raise OSError("the list ends here")

    line = prefetch(items(), str, depth=8)
    assert [next(line) for _ in range(3)] == [(0, "0"), (1, "1"), (2, "2")]
    with pytest.raises(OSError, match="the list ends here"):
        next(line)


def test_what_is_no_exception_is_raised_at_its_place() -> None:
    def load(i: int) -> int:
        if i == 1:
            raise SystemExit(3)
        return i

    line = prefetch(range(9), load, depth=4)
    assert next(line) == (0, 0)
    with pytest.raises(SystemExit):
        next(line)


def test_ahead_holds_on_to_nothing_that_it_gave() -> None:
    class Large:
        pass

    seen: list[weakref.ref[Large]] = []
    for _, result in prefetch(range(5), lambda _: Large(), depth=1):
        assert isinstance(result, Large)
        seen.append(weakref.ref(result))
        del result
        gc.collect()
        assert [ref for ref in seen if ref() is not None] == []


@pytest.mark.parametrize(("depth", "workers"), [(0, 1), (1, 0), (-1, 1)])
def test_ahead_refuses_bounds_below_one_at_once(depth: int, workers: int) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        prefetch([], str, depth, workers)


# BackgroundWriter


@settings(max_examples=60)
@given(writes=pauses, depth=st.integers(1, 5), slow_caller=st.booleans())
def test_behind_writes_all_in_order_within_its_bound(writes: list[int], depth: int, slow_caller: bool) -> None:
    written: list[int] = []
    unwritten = Counted()

    def write(i: int) -> None:
        pause(writes[i])
        written.append(i)
        unwritten.leave()

    with BackgroundWriter(write, depth) as writer:
        for i in range(len(writes)):
            pause(1 if slow_caller else 0)
            writer.put(i)
            unwritten.enter()
    assert written == list(range(len(writes)))
    assert unwritten.most <= depth + 1  # an item is counted out just before it counts as written


@settings(max_examples=40)
@given(count=st.integers(1, 10), bad=st.integers(0, 9), depth=st.integers(1, 4), stubborn=st.booleans())
def test_the_first_failure_is_told_and_nothing_is_written_after_it(
    count: int, bad: int, depth: int, stubborn: bool
) -> None:
    written = []

    def write(i: int) -> None:
        if i >= bad:
            raise OSError(f"no room for {i}")
        written.append(i)

    def run() -> None:
        with BackgroundWriter(write, depth) as writer:
            for i in range(count):
                if stubborn:  # a caller that hears nothing still cannot end well
                    with suppress(OSError):
                        writer.put(i)
                else:
                    writer.put(i)

    if bad < count:
        with pytest.raises(OSError, match=f"no room for {bad}"):
            run()
    else:
        run()
    assert written == list(range(min(bad, count)))


def test_put_waits_for_room_and_the_writer_works_beside_the_caller() -> None:
    may_write, blocked = threading.Semaphore(0), threading.Event()
    written: list[int] = []

    def write(i: int) -> None:
        assert may_write.acquire(timeout=PATIENCE_S)
        written.append(i)

    def hand_over(writer: BackgroundWriter[int]) -> None:
        writer.put(2)
        blocked.set()

    with BackgroundWriter(write, depth=2) as writer:
        writer.put(0)
        writer.put(1)
        assert written == []  # handed over, and the caller goes on
        third = threading.Thread(target=hand_over, args=[writer])
        third.start()
        assert not blocked.wait(0.1)
        may_write.release()
        assert blocked.wait(PATIENCE_S)
        third.join()
        for _ in range(2):
            may_write.release()
    assert written == [0, 1, 2]


def test_put_that_waits_hears_of_the_failure() -> None:
    let_fail = threading.Event()

    def write(_: int) -> None:
        let_fail.wait(PATIENCE_S)
        raise OSError("full")

    timer = threading.Timer(0.05, let_fail.set)

    def run() -> None:
        with BackgroundWriter(write, depth=1) as writer:
            writer.put(0)
            timer.start()
            writer.put(1)
            pytest.fail("put handed over to a writer that had failed")

    with pytest.raises(OSError, match="full"):
        run()
    timer.join()


@pytest.mark.parametrize("error", [ValueError("the caller's"), KeyboardInterrupt("the caller's")])
def test_an_error_of_the_callers_leaves_after_what_was_handed_over_is_written(error: BaseException) -> None:
    written = []

    def write(i: int) -> None:
        pause(2)
        written.append(i)

    def run() -> None:
        with BackgroundWriter(write, depth=8) as writer:
            for i in range(6):
                writer.put(i)
            raise error

    with pytest.raises(type(error), match="the caller's") as caught:
        run()
    assert written == list(range(6))
    assert not getattr(caught.value, "__notes__", [])


def test_the_callers_error_is_not_masked_and_the_writers_is_not_swallowed() -> None:
    failed = threading.Event()

    def write(_: int) -> None:
        failed.set()
        raise OSError("full")

    def run() -> None:
        with BackgroundWriter(write, depth=3) as writer:
            writer.put(0)
            assert failed.wait(PATIENCE_S)
            raise ValueError("the caller's")

    with pytest.raises(ValueError, match="the caller's") as caught:
        run()
    assert caught.value.__notes__ == ["besides, writing failed: OSError('full')"]


@pytest.mark.usefixtures("ctrl_c")
def test_a_second_interrupt_drops_what_waits_and_ends_the_item_at_hand() -> None:
    written, first = [], threading.Event()

    def write(i: int) -> None:
        first.set()
        if i == 0:  # the caller is leaving by now, or soon
            pause(200)
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            pause(100)
        written.append(i)

    def run() -> None:
        with BackgroundWriter(write, depth=9) as writer:
            for i in range(9):
                writer.put(i)
            assert first.wait(PATIENCE_S)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run()
    assert written == [0]


def test_behind_holds_on_to_nothing_that_is_written() -> None:
    class Large:
        pass

    def write(_: Large) -> None:
        pass

    with BackgroundWriter(write, depth=2) as writer:
        large = Large()
        seen = weakref.ref(large)
        writer.put(large)
        del large
        deadline = time.monotonic() + PATIENCE_S
        while seen() is not None and time.monotonic() < deadline:
            time.sleep(0.001)
            gc.collect()
        assert seen() is None


def test_behind_is_used_within_its_block() -> None:
    writer: BackgroundWriter[int] = BackgroundWriter(print, depth=1)
    with pytest.raises(RuntimeError, match="outside"):
        writer.put(0)
    with writer:
        pass
    with pytest.raises(RuntimeError, match="outside"):
        writer.put(0)
    with pytest.raises(ValueError, match="at least 1"):
        BackgroundWriter(print, depth=0)


def test_an_interrupt_while_the_writer_starts_leaves_no_thread() -> None:
    writer: BackgroundWriter[int] = BackgroundWriter(print, depth=1)
    start = writer._thread.start

    def interrupted() -> None:
        start()
        raise KeyboardInterrupt

    writer._thread.start = interrupted  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt), writer:
        raise AssertionError("the block was entered")
    writer._thread.join(PATIENCE_S)
    assert not writer._thread.is_alive()
    with pytest.raises(RuntimeError, match=r"^put outside of the `with` block of a writer$"):
        writer.put(0)


def test_the_writer_does_not_keep_an_ending_process() -> None:
    assert BackgroundWriter(print, depth=1)._thread.daemon


def test_threads_have_names() -> None:
    """What a debugger or a stack dump shows."""
    names: list[str] = []
    with BackgroundWriter[int](lambda _: names.append(threading.current_thread().name), depth=1) as writer:
        writer.put(0)
    list(prefetch([0], lambda _: names.append(threading.current_thread().name), depth=1))
    assert names == ["behind", "ahead_0"]


@given(st.integers(0, 9), st.integers(1, 3))
def test_behind_gives_what_was_written_in_order(count: int, depth: int) -> None:
    drawn, written = [], []

    def items() -> Iterator[int]:
        for i in range(count):
            drawn.append(i)
            yield i
            assert len(drawn) - len(written) <= depth + 1

    def write(item: int) -> str:
        assert threading.current_thread().name == "behind"
        written.append(item)
        return f"wrote {item}"

    assert list(write_behind(items(), write, depth)) == [f"wrote {i}" for i in range(count)]
    assert written == list(range(count))


def test_behind_writes_what_was_drawn_before_an_error() -> None:
    written: list[int] = []

    def items() -> Iterator[int]:
        yield from range(3)
        raise OSError("no more")

    with pytest.raises(OSError, match="no more"):
        list(write_behind(items(), written.append, 5))
    assert written == [0, 1, 2]
    with pytest.raises(ValueError, match="disk"):
        list(write_behind(range(3), lambda _: (_ for _ in ()).throw(ValueError("disk")), 1))


@pytest.mark.parametrize(
    ("count", "size", "chunks"), [(0, 3, []), (2, 3, [[0, 1]]), (3, 3, [[0, 1, 2]]), (4, 3, [[0, 1, 2], [3]])]
)
def test_chunks(count: int, size: int, chunks: list[list[int]]) -> None:
    drawn = []

    def items() -> Iterator[int]:
        for i in range(count):
            drawn.append(i)
            yield i

    parts = in_chunks(items(), size)
    assert drawn == []
    for chunk in chunks:
        assert next(parts) == chunk
        assert drawn == list(range(chunk[-1] + 1))
    assert list(parts) == []
