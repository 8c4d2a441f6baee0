"""A session: one run over a suite, from its start to its end or its death, and what it cost.

Its costs are in the ledger from the start on, a few seconds old at most; a session that is killed is booked when the
suite is next opened. Its end moves them to run.json (see `run_record`). What a profile or a setting means is not known
here.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

from ..errors import CounterfactoryError
from ..files.fill import fill_record, plain
from ..meter.machine import Machine
from ..meter.meter import PlanUse, StageCost
from ..sources.source import Problem
from .ledger import Ledger

if TYPE_CHECKING:
    from .run_record import RunRecord, Standing

STAGE, KEY = "suite/session", "open"
NOTE_S = 2.0  # a kill loses so much of a session's time at most; a note takes some milliseconds


@dataclass(frozen=True)
class Costs:
    """The costs of a session: `wall_s` of `devices` of the kind `device` (core, GPU), and their breakdown.

    `painted` pictures were made. `energy_j` is None where the machine does not tell.
    """

    wall_s: float
    devices: int
    device: str
    painted: int
    peak_memory_bytes: int
    energy_j: float | None
    stages: tuple[StageCost, ...]
    plans: tuple[PlanUse, ...]

    @property
    def device_hours(self) -> float:
        """Devices held times wall time, loading and idling included."""
        return self.devices * self.wall_s / 3600


@dataclass(frozen=True)
class SessionFacts:
    """What decided a session: the `profile` and the `settings` as plain data, the `data` set (its layout, the selection
    from it, and class names by number; empty where the caller gave none), the `models` (the makers of the stages), the
    `precision` that networks ran in, the `versions` of the libraries that computed, and the `machine`.
    """

    profile: Mapping[str, Any]
    settings: Mapping[str, Any]
    data: Mapping[str, Any]
    models: Mapping[str, str]
    precision: str
    versions: Mapping[str, str]
    machine: Machine


@dataclass(frozen=True)
class SessionRecord:
    """A session on record: `began` is in UTC, `finished` whether it came to its end, `problems` what it skipped."""

    id: str
    began: str
    finished: bool
    facts: SessionFacts = field(metadata={"prefix": "", "names": tuple(fact.name for fact in fields(SessionFacts))})
    problems: tuple[Problem, ...]
    costs: Costs


def load_open_session(ledger: Ledger) -> SessionRecord | None:
    """The session that began and was never booked, as it last noted itself; None where there is none."""
    row = ledger.get(STAGE, [KEY]).get(KEY)
    return None if row is None else fill_record(SessionRecord, row, *ledger.place(STAGE, KEY))


def forget_open_session(ledger: Ledger) -> None:
    """To be called when the session is booked: no later opening of the suite is to book it again."""
    ledger.put(STAGE, {KEY: None})


class OpenSession:
    """The session that is under way; `costs` tells what it took so far, from any thread.

    It notes itself in the ledger every `interval_s`, and when it is over `book` puts it on record, with what the suite
    came to, None where it was cut short.
    """

    def __init__(
        self,
        ledger: Ledger,
        facts: SessionFacts,
        costs: Callable[[], Costs],
        book: Callable[[SessionRecord, Standing | None], RunRecord],
        interval_s: float = NOTE_S,
    ) -> None:
        now = datetime.now(UTC)
        name = f"{now:%Y%m%dT%H%M%S.%fZ}-{os.getpid()}"
        self._record = SessionRecord(name, now.isoformat(timespec="seconds"), False, facts, (), costs())
        self._ledger, self._costs, self._book, self._interval_s = ledger, costs, book, interval_s
        self._over = Event()
        self._note()
        self._thread = Thread(target=self._keep_noting, name="session", daemon=True)
        self._thread.start()

    def finish(self, standing: Standing, problems: Sequence[Problem]) -> RunRecord:
        """The session came to its end, and the suite to `standing`; `problems` are what it skipped. Its time stops.

        Returns the suite's record, this session the last. Raises CounterfactoryError when it cannot be written.
        """
        if self._over.is_set():
            raise RuntimeError("a session ends once")
        self._stop(finished=True, problems=tuple(problems))
        return self._book(self._record, standing)

    def end(self) -> None:
        """Puts a session that was cut short on record; one that finished is there."""
        if not self._over.is_set():
            self._stop()
            self._book(self._record, None)

    def _stop(self, **changes: Any) -> None:
        """It notes itself one last time."""
        self._over.set()
        self._thread.join()
        self._record = replace(self._record, **changes)
        self._note()

    def _note(self) -> None:
        self._record = replace(self._record, costs=self._costs())
        self._ledger.put(STAGE, {KEY: plain(self._record)})

    def _keep_noting(self) -> None:
        while not self._over.wait(self._interval_s):
            with suppress(CounterfactoryError):  # a full disk, say: the stages meet it too, and say so
                self._note()
