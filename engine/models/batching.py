"""A session that takes any number of rows: full batches of its static plan, the last one padded, and all counted."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

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

    def run_full(self, feeds: Mapping[str, Any], hold: Collection[str] = (), rows: int | None = None) -> dict[str, Any]:
        """Run one full batch, of which `rows` count (None: all); what is in `hold` may stay with the session."""
        began = time.perf_counter()
        out = self._session.run(feeds, hold)
        self._work().add(self.batch if rows is None else rows, self.batch, time.perf_counter() - began)
        return out

    def _once(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        rows = len(next(iter(feeds.values())))
        out = self.run_full({name: padded(array, self.batch) for name, array in feeds.items()}, rows=rows)
        return {name: array[:rows] for name, array in out.items()}


def padded(array: Array, batch: int) -> Array:
    """Repeat the last row until there are `batch`."""
    missing = batch - len(array)
    return np.concatenate([array, np.repeat(array[-1:], missing, axis=0)]) if missing else array
