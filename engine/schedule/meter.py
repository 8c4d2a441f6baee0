"""Where a run's time goes, and how far it is: seconds by stage, seconds of loading, items done."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Progress:
    """`done` of `total` items of a stage, over the whole run."""

    stage: str
    done: int
    total: int


@dataclass
class Meter:
    """Counts for one run and tells `on_progress` of every advance."""

    on_progress: Callable[[Progress], None]
    seconds: dict[str, float] = field(default_factory=dict)
    load_s: float = 0.0
    _done: dict[str, int] = field(default_factory=dict)

    def advance(self, stage: str, items: int, total: int) -> None:
        """`items` more of a stage are done, of `total` in the run."""
        self._done[stage] = self._done.get(stage, 0) + items
        self.on_progress(Progress(stage, self._done[stage], total))

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time spent inside belongs to the stage, loading included."""
        since = time.monotonic()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.monotonic() - since

    @contextmanager
    def loading(self) -> Iterator[None]:
        """Time spent inside is loading of models."""
        since = time.monotonic()
        try:
            yield
        finally:
            self.load_s += time.monotonic() - since
