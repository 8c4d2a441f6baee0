"""Work beside the caller's own: loading ahead of it, writing behind it.

Items arrive from, or leave to, one thread: the caller's. A few threads of ours do the rest in the same order, never
more than `depth` items away from the caller, so that memory stays flat however long the line is. What loading and
writing mean is not known here; both should spend their time outside the interpreter (decoding, encoding, disks).
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


def ahead(
    items: Iterable[T], load: Callable[[T], R], depth: int, workers: int = 1
) -> Generator[tuple[T, R | Exception], None, None]:
    """Yield (item, load(item)) in the order of `items`, loading up to `depth` items ahead in `workers` threads.

    An Exception that `load` raises is yielded in its result's place, so that one bad item fails itself alone; what is
    no Exception (SystemExit) is raised there. `items` is drawn by the caller's thread, and only as loads are begun; if
    it raises, what was begun is yielded first. At most `depth` results wait or are under way, beside the one that the
    caller holds. Closing the iterator (`close`, or letting go of it: a `break`, an error) begins no further load and
    returns when the loads under way have ended. Raises ValueError for a `depth` or `workers` below 1.
    """
    if depth < 1 or workers < 1:
        raise ValueError(f"loading ahead needs a depth and workers of at least 1, got {depth} and {workers}")
    return _ahead(iter(items), load, depth, workers)


def _ahead(
    items: Iterator[T], load: Callable[[T], R], depth: int, workers: int
) -> Generator[tuple[T, R | Exception], None, None]:
    begun: deque[tuple[T, Future[R | Exception]]] = deque()
    failure: Exception | None = None
    drawing = True
    pool = ThreadPoolExecutor(workers, thread_name_prefix="ahead")
    try:
        while True:
            ready = _first(begun)
            # Before the result leaves, so that `depth` loads run while the caller works on it.
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
                yield ready.pop()  # nothing here holds on to it
            elif not begun:
                break
        if failure is not None:
            raise failure
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _first(begun: deque[tuple[T, Future[R]]]) -> list[tuple[T, R]]:
    """The first in line, when it is loaded; nothing of an empty line."""
    if not begun:
        return []
    item, future = begun.popleft()
    return [(item, future.result())]


def _attempt(load: Callable[[T], R], item: T) -> R | Exception:
    try:
        return load(item)
    except Exception as error:
        return error


class Behind(Generic[T]):
    """Writes what it is handed, in order, in one thread beside the caller's. A context manager.

        with Behind(write, depth=2) as writer:
            for batch in paint():
                writer.put(batch)

    At most `depth` items wait or are being written. After `write` has raised, nothing more is written, and every
    `put` and `drain` raises that error, as does leaving. Leaving, also by an error of the caller's such as Ctrl-C,
    first writes what was handed over: it is finished work. The caller's own error is the one that leaves then, with a
    note of the writer's. A second Ctrl-C drops what waits and ends after the item that is being written.
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
        # A daemon, lest an interrupt in the instant before __exit__ leaves the process waiting for it for ever.
        self._thread = Thread(target=self._work, name="behind", daemon=True)

    def __enter__(self) -> Self:
        self._open = True
        try:
            self._thread.start()
        except BaseException:  # Ctrl-C while it starts: there will be no __exit__
            with self._changed:
                self._open = False
                self._changed.notify_all()
            raise
        return self

    def put(self, item: T) -> None:
        """Hand over an item; waits while `depth` items are unwritten. Raises what `write` raised."""
        with self._changed:
            if not self._open:
                raise RuntimeError("put outside of the `with` block of a writer")
            self._changed.wait_for(lambda: self._failure is not None or self._unwritten() < self._depth)
            self._raise_failure()
            self._waiting.append(item)
            self._changed.notify_all()

    def drain(self) -> None:
        """Wait until everything handed over is written. Raises what `write` raised."""
        with self._changed:
            self._changed.wait_for(lambda: self._failure is not None or self._unwritten() == 0)
            self._raise_failure()

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
            # Not `join` for the long wait: in Python 3.11 one that is interrupted takes the thread for ended.
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
                self._write(taken.pop())  # nothing here holds on to the item
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
        """The next item, once there is one; nothing when there will be none."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or not self._open)
            if not self._waiting:
                return []
            self._writing = True
            return [self._waiting.popleft()]


def in_chunks(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Lists of `size` items, the last one shorter; drawn no earlier than they are asked for."""
    waiting = iter(items)
    while chunk := list(islice(waiting, size)):
        yield chunk
