"""status.json: how far a run is, for whoever looks at the suite's folder, from any box and without a lock; and a log of
its shards, where that is wanted.

Both are written with every shard that is done, and say nothing that a suite needs.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Self

from ..errors import CounterfactoryError
from ..files.fill import fill_record, plain
from ..files.reading import read_json
from ..files.writing import open_to_append, write_whole
from .paths import Folder

FILE = "status.json"
_ADVICE = "remove it: the next run writes a new one"


@dataclass(frozen=True)
class RunStatus:
    """`done` of `shards` are finished, `passed` of them before this run began; times are in seconds since 1970.
    `workers` boxes work, 1 where the run is by itself, and `lost` were lost or given up. `device_hours` of the kind
    `device` were held so far.
    """

    state: Literal["running", "stopped", "finished"]
    began: float
    updated: float
    shards: int
    done: int
    passed: int
    workers: int
    lost: int
    device: str
    device_hours: float

    @property
    def shards_per_h(self) -> float | None:
        """The rate of this run; None before its first shard."""
        now, spent = self.done - self.passed, self.updated - self.began
        return 3600 * now / spent if now and spent > 0 else None

    @property
    def left_s(self) -> float | None:
        """Seconds until the last shard at that rate; None where there is none."""
        return None if self.shards_per_h is None else 3600 * (self.shards - self.done) / self.shards_per_h


class StatusFile:
    """Keeps the status of a run over `shards` in a suite's folder; a context manager around the run. What cannot be
    written is left out.
    """

    def __init__(
        self, suite: Path, shards: int, device: str, device_hours: Callable[[], float], log: Path | None = None
    ) -> None:
        now = time.time()
        self._path, self._device_hours, self._log = suite / FILE, device_hours, log
        self.status = RunStatus("running", now, now, shards, 0, 0, 1, 0, device, 0.0)

    def passed(self) -> None:
        """One more shard was finished before."""
        self.status = replace(self.status, done=self.status.done + 1, passed=self.status.passed + 1)

    def shard(self, first: str, **facts: Any) -> None:
        """One more shard is finished now, whose sources begin with `first`; its log has the `facts` as well."""
        self.note(done=self.status.done + 1)
        if self._log is not None:
            line = {"time": round(self.status.updated, 3), "done": self.status.done, "of": self.status.shards}
            with suppress(OSError), open_to_append(self._log) as file:
                file.write((json.dumps({**line, "first": first, **facts}) + "\n").encode())

    def note(self, **changes: Any) -> None:
        """Writes the status with these changes."""
        self.status = replace(self.status, **changes, updated=time.time(), device_hours=self._device_hours())
        with suppress(CounterfactoryError):
            write_whole(self._path, json.dumps(plain(self.status)) + "\n", sync="nothing")

    def __enter__(self) -> Self:
        self.note()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self.note(state="finished" if kind is None else "stopped", workers=0)


def read_status(suite: Path) -> RunStatus:
    """Raises CounterfactoryError where there is none, or it is none of ours."""
    path = suite / FILE
    Folder(suite).refuse_outward_links([FILE])
    if not path.exists():
        raise CounterfactoryError(f"{suite} has no {FILE}, which a run writes: name the folder of a suite")
    return fill_record(RunStatus, read_json(path, _ADVICE), str(path), _ADVICE)
