"""Runs any number of rows through a plan of a static batch: full batches, the last one padded, all of them metered.

Several batches run side by side if the session supports that. Numbers that are not finite end the run: nothing that is
made of them means anything.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from ..meter.meter import Work
from ..runtime.buffers import DeviceArray
from ..runtime.pipeline import Pipeline
from ..runtime.session import Array, Session, require_finite

if TYPE_CHECKING:
    from ..runtime.device_session import DeviceSession

T = TypeVar("T")
R = TypeVar("R")


class Batched:
    """`session` for any number of rows, `streams` batches at a time; each run is added to the meter's `work()`.

    Runs raise CounterfactoryError where the network, by its `name`, gives numbers that are not finite.
    """

    def __init__(
        self, session: Session, work: Callable[[], Work] | None = None, streams: int = 1, name: str = "network"
    ) -> None:
        batch = session.signature.inputs[0].shape[0]
        assert batch is not None, "plans have a static batch"
        self.signature = session.signature
        self.batch, self.name = batch, name
        self._streams = streams
        self._pool = ThreadPoolExecutor(streams)  # starts no thread until there are two batches to run
        self._session = session
        self._lock, self._running, self._began = Lock(), 0, 0.0
        own = Work()
        self._work = work or (lambda: own)

    @property
    def at_once(self) -> int:
        """The rows that go through the plan together: its streams' batches."""
        return self.batch * self._streams

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Run all rows of `feeds`, at least one (the arrays' first axis); returns as many rows of each output."""
        rows = len(next(iter(feeds.values())))
        parts = [
            {name: pad_rows(array[start : start + self.batch], self.batch) for name, array in feeds.items()}
            for start in range(0, rows, self.batch)
        ]
        began = time.perf_counter()
        outs = self.each(self._session.run, parts)
        self._work().add(rows, len(parts) * self.batch, time.perf_counter() - began)
        if len(outs) == 1:
            results = {name: array[:rows] for name, array in outs[0].items()}
        else:
            results = {name: np.concatenate([out[name] for out in outs])[:rows] for name in outs[0]}
        require_finite(self.name, results)
        return results

    def each(self, work: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """`work` of each item, which runs full batches one by one: as many items at once as streams, a thread each."""
        if self._streams == 1 or len(items) == 1:
            return [work(item) for item in items]
        return list(self._pool.map(work, items))

    def run_full(self, feeds: Mapping[str, Any], hold: Collection[str] = (), rows: int | None = None) -> dict[str, Any]:
        """Run one full batch, of which `rows` count as work (None: all); outputs in `hold` may stay on the device."""
        with self._lock:
            if not self._running:
                self._began = time.perf_counter()
            self._running += 1
        done = 0
        try:
            outputs = self._session.run(feeds, hold)
            done = self.batch if rows is None else rows
        finally:
            with self._lock:
                self._running -= 1  # time counts once, however many run at the same time
                spent = 0.0 if self._running else time.perf_counter() - self._began
                if done:  # a run that failed is no work
                    self._work().add(done, self.batch, spent)
        require_finite(self.name, {name: output for name, output in outputs.items() if isinstance(output, np.ndarray)})
        return outputs

    def queue(
        self, feeds: Mapping[str, DeviceArray | Sequence[DeviceArray]], rows: int, pipeline: Pipeline
    ) -> dict[str, DeviceArray]:
        """Queue one batch on what lies on the device, of which `rows` count as work; nothing is waited for.

        An input is a full batch as one array, or at most so many rows. Outputs are overwritten by the next batch. The
        time that is metered is the device's.
        """
        full = {
            name: feed if isinstance(feed, DeviceArray) else [*feed, *[feed[-1]] * (self.batch - len(feed))]
            for name, feed in feeds.items()
        }
        work = self._work()
        with pipeline.timing(lambda seconds: work.add(rows, self.batch, seconds)):
            return cast("DeviceSession", self._session).queue(full)


def pad_rows(array: Array, batch: int) -> Array:
    """`array` with its last row repeated until it has `batch` rows."""
    missing = batch - len(array)
    return np.concatenate([array, np.repeat(array[-1:], missing, axis=0)]) if missing else array
