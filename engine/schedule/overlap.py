"""Work in other threads than the caller's: loading ahead of it, writing behind it.

Items come from and go to one thread, the caller's. Worker threads load or write them in the same order, at most
`depth` items away from the caller, so that memory does not grow with the number of items. Loading and writing should
spend their time outside the interpreter (decoding, encoding, disks).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from threading import Condition, Thread
from types import TracebackType
from typing import Generic, Self, TypeVar

T = TypeVar("T")
R = TypeVar("R")


def prefetch(
    items: Iterable[T], load: Callable[[T], R], depth: int, workers: int = 1
) -> Generator[tuple[T, R | Exception], None, None]:
    """Yield (item, load(item)) in the order of `items`, loading up to `depth` items ahead in `workers` threads.

    An Exception raised by `load` is yielded in place of the result, so that one bad item fails alone; any other
    BaseException (SystemExit) is raised. `items` is drawn in the caller's thread, and only as loads begin; if it
    raises, the loads already begun are yielded first. At most `depth` results wait or are being loaded, besides the one
    that the caller holds. Closing the iterator (by `close`, a `break` or an error) begins no further load and returns
    when the current loads have ended. Raises ValueError for a `depth` or `workers` below 1.
    """
    if depth < 1 or workers < 1:
        raise ValueError(f"loading ahead needs a depth and workers of at least 1, got {depth} and {workers}")
    return _prefetch(iter(items), load, depth, workers)


def _prefetch(
    items: Iterator[T], load: Callable[[T], R], depth: int, workers: int
) -> Generator[tuple[T, R | Exception], None, None]:
    begun: deque[tuple[T, Future[R | Exception]]] = deque()
    failure: Exception | None = None
    drawing = True
    pool = ThreadPoolExecutor(workers, thread_name_prefix="ahead")
    try:
        while True:
            ready = _first(begun)
            # Before the result is yielded, so that `depth` loads run while the caller works on it.
            while drawing and len(begun) < depth:
                try:
                    item = next(items)
                except StopIteration:
                    drawing = False
                except Exception as error:
                    drawing, failure = False, error
                else:
                    begun.append((item, pool.submit(_attempt, load, item)))
            if ready:
                yield ready.pop()  # so that no reference to it is kept here
            elif not begun:
                break
        if failure is not None:
            raise failure
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _first(begun: deque[tuple[T, Future[R]]]) -> list[tuple[T, R]]:
    """The first (item, result), once it is loaded; empty if no load was begun."""
    if not begun:
        return []
    item, future = begun.popleft()
    return [(item, future.result())]


def _attempt(load: Callable[[T], R], item: T) -> R | Exception:
    try:
        return load(item)
    except Exception as error:
        return error


class BackgroundWriter(Generic[T]):
    """Writes items in order, in a thread of its own. A context manager.

        with BackgroundWriter(write, depth=2) as writer:
            for batch in paint():
                writer.put(batch)

    At most `depth` items wait or are being written. After `write` has raised, nothing more is written, and every
    `put` raises that error, as does the end of the block. The end of the block, also through an error such
    as Ctrl-C, first writes all items put so far, since they are finished work. The block's own error is the one
    raised then, with a note about the writer's. A second Ctrl-C drops the waiting items and ends after the current one.
    """

    def __init__(self, write: Callable[[T], object], depth: int) -> None:
        if depth < 1:
            raise ValueError(f"writing behind needs a depth of at least 1, got {depth}")
        self._write = write
        self._depth = depth
        self._waiting: deque[T] = deque()
        self._writing = False
        self._open = self._ended = False
        self._failure: BaseException | None = None
        self._changed = Condition()
        # A daemon: else an interrupt just before __exit__ would leave the process waiting for it for ever.
        self._thread = Thread(target=self._work, name="behind", daemon=True)

    def __enter__(self) -> Self:
        self._open = True
        try:
            self._thread.start()
        except BaseException:  # Ctrl-C while it starts: __exit__ will not be called
            with self._changed:
                self._open = False
                self._changed.notify_all()
            raise
        return self

    def put(self, item: T) -> None:
        """Queue an item for writing; blocks while `depth` items are unwritten. Raises what `write` raised."""
        with self._changed:
            if not self._open:
                raise RuntimeError("put outside of the `with` block of a writer")
            self._changed.wait_for(lambda: self._failure is not None or self._unwritten() < self._depth)
            self._raise_failure()
            self._waiting.append(item)
            self._changed.notify_all()

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._finish()
        except BaseException:
            with self._changed:
                self._waiting.clear()
            self._finish()
            raise
        if value is None:
            self._raise_failure()
        elif self._failure is not None and self._failure is not value:
            value.add_note(f"besides, writing failed: {self._failure!r}")

    def _finish(self) -> None:
        with self._changed:
            self._open = False
            self._changed.notify_all()
            # Not `join` for the long wait: in Python 3.11 an interrupted `join` marks the thread as ended.
            self._changed.wait_for(lambda: self._ended)
        self._thread.join()

    def _unwritten(self) -> int:
        return len(self._waiting) + self._writing

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _work(self) -> None:
        while self._failure is None and (taken := self._taken()):
            failure: BaseException | None = None
            try:
                self._write(taken.pop())  # so that no reference to the item is kept here
            except BaseException as error:
                failure = error
            with self._changed:
                self._writing, self._failure = False, failure
                if failure is not None:
                    self._waiting.clear()
                self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def _taken(self) -> list[T]:
        """The next item, once there is one; empty after the last."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or not self._open)
            if not self._waiting:
                return []
            self._writing = True
            return [self._waiting.popleft()]


def write_behind(items: Iterable[T], write: Callable[[T], R], depth: int) -> Generator[R, None, None]:
    """Yield write(item) in the order of `items`, writing in a thread of its own (see `BackgroundWriter`).

    Whatever ends the drawing of `items`, the items drawn by then are written.
    """
    written: deque[R] = deque()
    with BackgroundWriter[T](lambda item: written.append(write(item)), depth) as writer:
        for item in items:
            writer.put(item)
            while written:
                yield written.popleft()
    yield from written


def in_chunks(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Lists of `size` items, the last one shorter; `items` is drawn lazily."""
    waiting = iter(items)
    while chunk := list(islice(waiting, size)):
        yield chunk
