"""A session that takes any number of rows: full batches of its static plan, the last one padded, and all counted."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import numpy as np

from ..runtime.session import Array, Session
from ..schedule.meter import Work


class Batched:
    """`session` for any number of rows; what it did is added to `work()` after every batch."""

    def __init__(self, session: Session, work: Callable[[], Work] | None = None) -> None:
        batch = session.signature.inputs[0].shape[0]
        assert batch is not None, "plans have a static batch"
        self.signature = session.signature
        self.batch = batch
        self._session = session
        own = Work()
        self._work = work or (lambda: own)

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Run all rows of `feeds` (every array's first axis, at least one), and return as many rows of each output."""
        rows = len(next(iter(feeds.values())))
        parts = [
            self._once({name: array[start : start + self.batch] for name, array in feeds.items()})
            for start in range(0, rows, self.batch)
        ]
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]} if parts[1:] else parts[0]

    def _once(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        rows = len(next(iter(feeds.values())))
        padded = {name: _padded(array, self.batch) for name, array in feeds.items()}
        began = time.perf_counter()
        out = self._session.run(padded)
        self._work().add(rows, self.batch, time.perf_counter() - began)
        return {name: array[:rows] for name, array in out.items()}


def _padded(array: Array, batch: int) -> Array:
    """Repeat the last row until there are `batch`."""
    missing = batch - len(array)
    return np.concatenate([array, np.repeat(array[-1:], missing, axis=0)]) if missing else array
