"""Work in other threads than the caller's: loading ahead of it, writing behind it.

Items come from and go to one thread, the caller's. Worker threads load or write them in the same order, at most
`depth` items away from the caller, so that memory does not grow with the number of items. Loading and writing should
spend their time outside the interpreter (decoding, encoding, disks). OpenCV's own threads are switched off meanwhile.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import lru_cache
from itertools import islice
from threading import Lock
from typing import TypeVar

from counterfactory.kernels.opencv import cv2

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
    begun: deque[tuple[T, Future[R | Exception]]] = deque()
    failure: Exception | None = None
    drawing, drawn = True, iter(items)
    pool = ThreadPoolExecutor(workers, thread_name_prefix="ahead")
    try:
        while True:
            ready = [_wait_for(*begun.popleft())] if begun else []
            # Before the result is yielded, so that `depth` loads run while the caller works on it.
            while drawing and len(begun) < depth:
                try:
                    item = next(drawn)
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


def _wait_for(item: T, future: Future[R]) -> tuple[T, R]:
    return item, future.result()


def _attempt(load: Callable[[T], R], item: T) -> R | Exception:
    try:
        return load(item)
    except Exception as error:
        return error


def write_behind(items: Iterable[T], write: Callable[[T], R], depth: int) -> Generator[R, None, None]:
    """Yield write(item) in the order of `items`, writing in a thread of its own.

    At most `depth` items wait or are being written. After `write` has raised, nothing more is written, and that error
    is raised. Whatever ends the drawing of `items` (an error, Ctrl-C, closing the iterator), the items drawn by then
    are written first, since they are finished work; the error raised then has a note about the writer's own. A second
    Ctrl-C drops the waiting items and ends after the current one. Raises ValueError for a `depth` below 1.
    """
    if depth < 1:
        raise ValueError(f"writing behind needs a depth of at least 1, got {depth}")
    begun: deque[Future[R]] = deque()
    failures: list[BaseException] = []

    def attempt(item: T) -> R:
        if failures:
            raise failures[0]
        try:
            return write(item)
        except BaseException as error:
            failures.append(error)
            raise

    pool = ThreadPoolExecutor(1, thread_name_prefix="behind")
    try:
        for item in items:
            if len(begun) >= depth:
                wait([begun[0]])
            begun.append(pool.submit(attempt, item))
            while begun and begun[0].done():
                yield begun.popleft().result()
        while begun:
            yield begun.popleft().result()
    except BaseException as error:
        try:
            # Not the pool's shutdown for the long wait: in Python 3.11 an interrupted `join` marks a thread as ended.
            wait(begun)
        finally:
            wait([future for future in begun if not future.cancel()])
        if failures and error is not failures[0]:
            error.add_note(f"besides, writing failed: {failures[0]!r}")
        raise
    finally:
        pool.shutdown()


def once_each(compute: Callable[..., R], keep: int) -> Callable[..., R]:
    """`compute` for any number of threads: what several of them ask for together is computed once. The last `keep`
    results are kept, of hashable arguments; an error is none.
    """
    lock, kept = Lock(), lru_cache(keep)(compute)

    def get(*args: Hashable) -> R:
        with lock:
            return kept(*args)

    return get


def in_chunks(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Lists of `size` items, the last one shorter; `items` is drawn lazily."""
    waiting = iter(items)
    while chunk := list(islice(waiting, size)):
        yield chunk


@contextmanager
def in_callers_threads() -> Generator[None, None, None]:
    """Within, OpenCV works in the thread that calls it; the process's setting comes back after.

    Its pool waits for work by spinning, which takes cores from networks and from our own threads: a small picture's
    edge map costs twice the processor time, and is not done sooner.
    """
    before = cv2.getNumThreads()
    cv2.setNumThreads(1)
    try:
        yield
    finally:
        cv2.setNumThreads(before)
