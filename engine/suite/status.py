"""status.json: how far a run is and whether it lives, for whoever looks at the suite's folder, from any box and without
a lock; and a log of its shards, where that is wanted.

A thread writes it anew every `BEAT_S` seconds, and whatever changes it does at once; it says nothing that a suite
needs. A run that stands still is told by its own longest pause, and one whose beats end by their age.
"""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from threading import Event, RLock, Thread
from typing import Any, Literal, Self

from ..errors import CounterfactoryError
from ..files.fill import fill_record
from ..files.reading import read_json, read_text
from ..files.writing import open_to_append, write_whole
from .lock import Lock
from .paths import Folder
from .suite import LOCK
from .watchdog import feed_watchdog

FILE = "status.json"
BEAT_S = 10.0
# Beats that are so old are of a process that does not run: a network file system may keep a file's news for a minute.
STALE_S = 120.0
# A pause in which no batch ends is a stall beyond this, which covers loading and compiling, and beyond `_LONGER` times
# the longest pause so far: batches of one run differ by less, be it on slower cards.
QUIET_S = 1800.0
_LONGER = 10
_ADVICE = "remove it: the next run writes a new one"
Health = Literal["listing", "running", "stalled", "killed", "stopped", "failed", "finished"]


def _absent(value: object) -> Any:
    """A field that older releases did not write."""
    return field(default=value, metadata={"absent": value})


@dataclass(frozen=True)
class RunStatus:
    """`done` of `shards` are finished, `passed` of them before this run began; times are in seconds since 1970.
    `workers` boxes work, 1 where the run is by itself, and `lost` were lost or given up. `device_hours` of the kind
    `device` were held so far. `process` on `host` wrote it; the work last moved at `progressed`, and after `patience_s`
    without that it stands still. `throttle` names what holds the clocks of that host's GPUs down, `problem` is what a
    failed run ended with.
    """

    state: Literal["listing", "running", "stopped", "failed", "finished"]
    began: float
    updated: float
    shards: int
    done: int
    passed: int
    workers: int
    lost: int
    device: str
    device_hours: float
    host: str = _absent("")
    process: int = _absent(0)
    progressed: float = _absent(0.0)
    patience_s: float = _absent(QUIET_S)
    throttle: tuple[str, ...] = _absent(())
    problem: str = _absent("")

    @property
    def shards_per_h(self) -> float | None:
        """The rate of this run; None before its first shard."""
        now, spent = self.done - self.passed, self.updated - self.began
        return 3600 * now / spent if now and spent > 0 else None

    @property
    def left_s(self) -> float | None:
        """Seconds until the last shard at that rate; None where there is none."""
        return None if self.shards_per_h is None else 3600 * (self.shards - self.done) / self.shards_per_h

    def health(self, now: float, host: str, lives: Callable[[int], bool]) -> Health:
        """What became of the run, seen at `now` on `host`, where `lives` knows processes."""
        if self.state not in ("listing", "running") or not self.host:
            return self.state
        if self.host == host and not lives(self.process):
            return "killed"
        still = self.state == "running" and now - self.progressed > self.patience_s
        return "stalled" if still or now - self.updated > STALE_S else self.state


class StatusFile:
    """Keeps the status of a run over `shards` in a suite's folder; a context manager around the run. What cannot be
    written is left out. `progress` gives another number whenever work has moved, `throttles` what slows the GPUs.
    """

    def __init__(
        self,
        suite: Path,
        shards: int,
        device: str,
        device_hours: Callable[[], float],
        log: Path | None = None,
        progress: Callable[[], float] = lambda: 0,
        throttles: Callable[[], Sequence[str]] = tuple,
        clock: Callable[[], float] = time.time,
    ) -> None:
        now, who = clock(), (platform.node(), os.getpid())
        self._path, self._device_hours, self._log = suite / FILE, device_hours, log
        self._progress, self._throttles, self._clock = progress, throttles, clock
        self._seen, self._longest_s, self._allowed_s = progress(), 0.0, 0.0
        self._ended, self._one_at_a_time = Event(), RLock()
        self.status = RunStatus("running", now, now, shards, 0, 0, 1, 0, device, 0.0, *who, now)

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

    @property
    def finished_none(self) -> bool:
        """Whether no shard was finished in this run so far."""
        return self.status.done == self.status.passed

    def allow(self, seconds: float) -> None:
        """Work that is given out may take so long before anything moves."""
        self._allowed_s = seconds

    def note(self, **changes: Any) -> None:
        """Writes the status with these changes, by which the work moves."""
        with self._one_at_a_time:
            self._moved()
            self._write(changes)

    def beat(self) -> None:
        """Writes that the process lives, and whether its work has moved."""
        with self._one_at_a_time:
            if (seen := self._progress()) != self._seen:
                self._seen = seen
                self._moved()
            self._write({})

    def _moved(self) -> None:
        now = self._clock()
        self._longest_s = max(self._longest_s, now - self.status.progressed)
        self.status = replace(self.status, progressed=now)

    def _write(self, changes: dict[str, Any]) -> None:
        patience_s = max(QUIET_S, self._allowed_s, _LONGER * self._longest_s)
        now: dict[str, Any] = {
            "updated": self._clock(),
            "device_hours": self._device_hours(),
            "throttle": tuple(self._throttles()),
        }
        self.status = replace(self.status, **changes, **now, patience_s=patience_s)
        with suppress(CounterfactoryError):
            write_whole(self._path, json.dumps(asdict(self.status)) + "\n", sync="nothing")
        if self.status.health(self.status.updated, self.status.host, lambda _: True) != "stalled":
            feed_watchdog()

    def _beat_on(self) -> None:
        while not self._ended.wait(BEAT_S):
            self.beat()

    def __enter__(self) -> Self:
        self.note()
        self._thread = Thread(target=self._beat_on, name="status", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, *_: object) -> None:
        self.stop_beating()
        if kind is None or issubclass(kind, KeyboardInterrupt):
            self.note(state="stopped" if kind else "finished", workers=0)
        else:
            self.note(state="failed", workers=0, problem=str(error) or kind.__name__)

    def stop_beating(self) -> None:
        self._ended.set()
        self._thread.join()


@contextmanager
def listing(suite: Path) -> Iterator[None]:
    """Within, the status of a suite that nobody works on says that a run lists its sources, which may take minutes;
    afterwards it is as it was. A suite without one gets none.
    """
    before, file = "", None
    with suppress(CounterfactoryError):
        if (suite / FILE).is_file():
            Lock(suite / LOCK).release()
            was, before = read_status(suite), read_text(suite / FILE)
            file = StatusFile(suite, was.shards, was.device, lambda: was.device_hours)
            file.status = replace(file.status, state="listing", done=was.done, passed=was.done)
    if file is None:
        yield
        return
    file.__enter__()
    try:
        yield
    finally:
        file.stop_beating()
        with suppress(CounterfactoryError):
            write_whole(suite / FILE, before, sync="nothing")


def process_lives(process: int) -> bool:
    """Whether this machine has a process of that number, be it another user's."""
    try:
        os.kill(process, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return True


def read_status(suite: Path) -> RunStatus:
    """Raises CounterfactoryError where there is none, or it is none of ours."""
    path = suite / FILE
    Folder(suite).refuse_outward_links([FILE])
    if not path.exists():
        raise CounterfactoryError(f"{suite} has no {FILE}, which a run writes: name the folder of a suite")
    return fill_record(RunStatus, read_json(path, _ADVICE), str(path), _ADVICE)
