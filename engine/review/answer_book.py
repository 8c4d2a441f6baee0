"""review.sqlite: a study, its raters, and each answer as it is given.

An answer is on the disk when `record` returns, whatever becomes of the process. Nothing is overwritten: an answer that
is changed or taken back stays on record, and the last one that stands counts. The file is the study's own, and the
suite's ledger is not touched.
"""

from __future__ import annotations

import json
import re
import secrets
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from threading import RLock
from typing import Any, NamedTuple

from ..errors import CounterfactoryError
from ..files.fill import fill_value, plain
from ..files.reading import parse_json
from ..suite.sql import connect, create, explain_sqlite_errors
from .question_set import QuestionSet
from .study import Study, StudyItem, StudyPlan

FILE = "review.sqlite"
_APPLICATION, _FORMAT = 0x43465256, 1  # "CFRV"
_TABLES = (
    "CREATE TABLE study (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    "CREATE TABLE raters (name TEXT PRIMARY KEY, token TEXT NOT NULL)",
    "CREATE TABLE answers (id INTEGER PRIMARY KEY, rater TEXT NOT NULL, item INTEGER NOT NULL, asked TEXT NOT NULL, "
    "value INTEGER NOT NULL, note TEXT NOT NULL, seconds REAL NOT NULL, date TEXT NOT NULL, undone INTEGER NOT NULL)",
)
_ADVICE = "move it away, which begins a new study, or name another file by --study"
_RATER = re.compile(r"[^\x00-\x1f\x7f,]{1,60}")
MOST_NOTE = 2000


class Rating(NamedTuple):
    """A rater's answer to what is `asked` of an item, with a note, and the seconds that it took."""

    rater: str
    item: int
    asked: str
    value: int
    note: str = ""
    seconds: float = 0.0
    date: str = ""


@dataclass(frozen=True)
class _Stored:
    questions: QuestionSet
    plan: StudyPlan
    items: tuple[StudyItem, ...]


class AnswerBook:
    """The study in the file `path`, which `create_book` wrote; for several threads. Raises CounterfactoryError for a
    file that is missing, is none of ours, or is damaged; it is not changed then.
    """

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        if not path.exists():
            raise CounterfactoryError(
                f"there is no study {path}: begin one by `counterfactory review SUITE --raters A,B`"
            )
        self.path, self._lock = path, RLock()
        self._db = connect(path, read_only=read_only)
        self._db.text_factory = lambda data: data.decode(errors="replace")  # of a file that a bit was turned in
        try:
            self._check(read_only)
            facts = {name: parse_json(value) for name, value in self._db.execute("SELECT name, value FROM study")}
            stored = fill_value(_Stored, facts, str(path), _ADVICE)
            self.study = Study(stored.questions, stored.plan, stored.items)
        except (sqlite3.DatabaseError, ValueError, CounterfactoryError) as error:
            self._db.close()
            if isinstance(error, CounterfactoryError):
                raise
            raise CounterfactoryError(f"{path} is no study of ours, or damaged ({error}): {_ADVICE}") from error

    def _check(self, read_only: bool) -> None:
        (application,) = self._db.execute("PRAGMA application_id").fetchone()
        schema = sorted(sql for (sql,) in self._db.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL"))
        if application != _APPLICATION or schema != sorted(_TABLES):
            raise CounterfactoryError(f"{self.path} is no study of ours: {_ADVICE}")
        (verdict,) = self._db.execute("PRAGMA quick_check(1)").fetchone()
        if verdict != "ok":
            raise CounterfactoryError(f"{self.path} is damaged ({str(verdict).splitlines()[-1]}): {_ADVICE}")
        if not read_only:
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")

    def close(self) -> None:
        """Closes the file, when no other thread is at it; what was recorded is in it."""
        with self._lock:
            self._db.close()

    @property
    def raters(self) -> dict[str, str]:
        """The raters that may answer in a browser, each with the token of their link, in the order of their coming."""
        with self._lock:
            return dict(self._db.execute("SELECT name, token FROM raters WHERE token != '' ORDER BY rowid"))

    def add_raters(self, names: Sequence[str], *, links: bool = True) -> None:
        """Adds those that are not there yet. Raises CounterfactoryError for two of one name."""
        with self._lock:
            known = dict(self._db.execute("SELECT name, token FROM raters"))
        folded = {name.casefold(): name for name in known}
        for place, name in enumerate(names):
            if not _RATER.fullmatch(name) or name != name.strip():
                raise CounterfactoryError(f"{name!r} is no name of a rater: use up to 60 letters without commas")
            if name.casefold() in [other.casefold() for other in names[:place]]:
                raise CounterfactoryError(f"two raters are called {name!r}: give each a name of their own")
            if folded.get(name.casefold(), name) != name:
                raise CounterfactoryError(
                    f"a rater is called {folded[name.casefold()]!r} already: write {name!r} so, or use another name"
                )
        with self._lock, explain_sqlite_errors(self.path):
            for name in names:
                token = secrets.token_urlsafe(16) if links else ""
                self._db.execute(
                    "INSERT INTO raters VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET token = excluded.token "
                    "WHERE token = '' AND excluded.token != ''",
                    [name, token],
                )

    def record(self, ratings: Iterable[Rating]) -> None:
        """Writes answers, all of them or none. Raises CounterfactoryError where the disk does not take them."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        with self._lock, explain_sqlite_errors(self.path):
            self._db.execute("BEGIN IMMEDIATE")
            try:
                self._db.executemany(
                    "INSERT INTO answers (rater, item, asked, value, note, seconds, date, undone) "
                    "VALUES (?, ?, ?, ?, ?, ?, ?, 0)",
                    [(*one[:6], one.date or now) for one in ratings],
                )
                self._db.execute("COMMIT")
            except BaseException:
                self._db.execute("ROLLBACK")
                raise

    def undo(self, rater: str) -> int | None:
        """Takes the rater's last answer back, and gives its item; None where nothing is left to take back."""
        with self._lock, explain_sqlite_errors(self.path):
            last = self._db.execute(
                "SELECT max(id), item FROM answers WHERE rater = ? AND undone = 0", [rater]
            ).fetchone()
            if last[0] is None:
                return None
            self._db.execute("UPDATE answers SET undone = 1 WHERE id = ?", [last[0]])
        return int(last[1])

    def ratings(self) -> list[Rating]:
        """The answers that stand: an item's stay where its first one was given. What the study did not ask, which no
        answer of ours is, counts as missing.
        """
        columns = "CAST(rater AS TEXT), CAST(item AS INTEGER), CAST(asked AS TEXT), CAST(value AS INTEGER), "
        columns += "CAST(note AS TEXT), CAST(seconds AS REAL), CAST(date AS TEXT)"
        with self._lock:
            rows = self._db.execute(f"SELECT {columns} FROM answers WHERE undone = 0 ORDER BY id")
            ratings = [Rating(*row) for row in rows]
        return list({(one.rater, one.item, one.asked): one for one in ratings if self.study.takes(one[1:4])}.values())


def create_book(path: Path, study: Study) -> None:
    """Writes the file of a new study, whole or not at all. Raises CounterfactoryError, also where there is one."""
    if path.exists():
        raise CounterfactoryError(f"{path} is there already: {_ADVICE}")
    facts: Mapping[str, Any] = plain(_Stored(study.questions, study.plan, study.items))
    rows = ",".join(f"({_quoted(name)}, {_quoted(json.dumps(value))})" for name, value in facts.items())
    pragmas = f"PRAGMA application_id = {_APPLICATION}; PRAGMA user_version = {_FORMAT}"
    create(path, f"{pragmas}; {'; '.join(_TABLES)}; INSERT INTO study VALUES {rows};")


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
