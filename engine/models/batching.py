"""Any number of rows through a plan of one static batch: full batches, the last one padded."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..runtime.session import Array, Session


def in_batches(session: Session, feeds: Mapping[str, Array]) -> dict[str, Array]:
    """Run all rows of `feeds` (every array's first axis, at least one row), and return as many rows of each output."""
    batch = session.signature.inputs[0].shape[0]
    assert batch is not None, "plans have a static batch"
    rows = len(next(iter(feeds.values())))
    parts: list[dict[str, Array]] = []
    for start in range(0, rows, batch):
        piece = {name: pad_rows(array[start : start + batch], batch) for name, array in feeds.items()}
        parts.append(session.run(piece))
    return {name: np.concatenate([part[name] for part in parts])[:rows] for name in parts[0]}


def pad_rows(array: Array, batch: int) -> Array:
    """Repeat the last row until there are `batch`."""
    missing = batch - len(array)
    return np.concatenate([array, np.repeat(array[-1:], missing, axis=0)]) if missing else array
