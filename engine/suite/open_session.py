"""The session that is under way.

Its costs are in the ledger from the start on, a few seconds old at most; a session that is killed is booked when the
suite is next opened. Its end moves them to run.json (see `run_record`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from threading import Event, Thread
from typing import Any

from ..errors import CounterfactoryError
from ..files.fill import fill_record, plain
from ..sources.source import Problem
from .ledger import Ledger
from .run_record import RunRecord, Standing
from .session_record import Costs, SessionFacts, SessionRecord

STAGE, KEY = "suite/session", "open"
NOTE_S = 2.0  # a kill loses so much of a session's time at most; a note takes some milliseconds


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
