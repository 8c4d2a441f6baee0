"""What every stage has made, by content key.

Rows of plain data arrive with their stage and key and are on the disk when `put` returns; any of them come back by
key. What a stage, a key or a row means is not known here. The store is SQLite in WAL mode with full sync: a
transaction is there or not, whenever the process or the power dies.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any

from ..errors import CounterfactoryError

FORMAT = 1
_APPLICATION = 0x43464C47  # "CFLG": tells our file from any other SQLite file
_CHUNK = 500  # SQLite allowed 999 parameters a statement for most of its life

_AGAIN = "and run the same command again; nothing is lost"


class Ledger:
    """The ledger at `path`, created when missing; the caller holds the suite's lock.

    Raises CounterfactoryError for a file that is no ledger, is damaged, or was written by a newer version; nothing
    is changed then. May be used from several threads. The check at opening reads the whole file (0.8 s for half a
    million rows).
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._one_at_a_time = Lock()
        with self._told():
            self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=10)
        try:
            with self._told():
                self._check()
                self._prepare()
        except BaseException:
            self.close()
            raise

    def _is_ours(self) -> bool:
        (application,) = self._db.execute("PRAGMA application_id").fetchone()
        return bool(application == _APPLICATION)

    def _check(self) -> None:
        (version,) = self._db.execute("PRAGMA user_version").fetchone()
        (tables,) = self._db.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if tables and not self._is_ours():
            raise CounterfactoryError(f"{self._path} is not a ledger of Counterfactory: name another folder")
        if version > FORMAT:
            raise CounterfactoryError(
                f"{self._path} was written by a newer Counterfactory (ledger format {version}, this one reads up to "
                f"{FORMAT}): update Counterfactory, or name another folder"
            )
        (verdict,) = self._db.execute("PRAGMA quick_check(1)").fetchone()
        if verdict != "ok":
            raise self._damaged(str(verdict).splitlines()[-1])

    def _prepare(self) -> None:
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = FULL")
        if self._is_ours():
            return
        with self._transaction():
            self._db.execute(f"PRAGMA application_id = {_APPLICATION}")
            self._db.execute(f"PRAGMA user_version = {FORMAT}")
            self._db.execute(
                "CREATE TABLE results (stage TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL,"
                " PRIMARY KEY (stage, key)) WITHOUT ROWID"
            )

    def get(self, stage: str, keys: Sequence[str]) -> dict[str, Any]:
        """The stage's results among `keys`, in the order of `keys`; a key without one is left out."""
        found: dict[str, Any] = {}
        wanted = sorted(set(keys))  # neighbours share a page
        with self._one_at_a_time, self._told():
            for start in range(0, len(wanted), _CHUNK):
                chunk = wanted[start : start + _CHUNK]
                marks = ",".join("?" * len(chunk))
                query = f"SELECT key, CAST(value AS BLOB) FROM results WHERE stage = ? AND key IN ({marks})"
                for key, value in self._db.execute(query, [stage, *chunk]):
                    found[key] = self._parsed(value)
        return {key: found[key] for key in keys if key in found}

    def stage(self, stage: str) -> dict[str, Any]:
        """All of a stage's results, by key."""
        with self._one_at_a_time, self._told():
            rows = self._db.execute("SELECT key, CAST(value AS BLOB) FROM results WHERE stage = ?", [stage])
            return {key: self._parsed(value) for key, value in rows}

    def put(self, stage: str, rows: Mapping[str, Any]) -> None:
        """`put_stages` for one stage."""
        self.put_stages({stage: rows})

    def put_stages(self, stages: Mapping[str, Mapping[str, Any]]) -> None:
        """Keeps rows of several stages, all or none, replacing what their keys had; they are on the disk on return.

        Values are what JSON can hold: lists for tuples come back, and text for other keys; NaN is refused (ValueError).
        """
        lines = [
            (stage, key, json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False))
            for stage, rows in stages.items()
            for key, value in rows.items()
        ]
        if not lines:
            return
        with self._one_at_a_time, self._told(), self._transaction():
            self._db.executemany("INSERT OR REPLACE INTO results VALUES (?, ?, ?)", lines)

    def close(self) -> None:
        """Closes the file; a second call does nothing."""
        with self._one_at_a_time, self._told():
            self._db.close()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:  # SQLite itself has rolled back after a full disk
                self._db.execute("ROLLBACK")
            raise

    def _parsed(self, data: bytes) -> Any:
        try:
            return json.loads(data.decode())
        except ValueError as error:
            raise self._damaged("a row is no JSON") from error

    def _damaged(self, found: str) -> CounterfactoryError:
        return CounterfactoryError(
            f"{self._path} is damaged ({found}): the images are safe and stay; move ledger.sqlite and, where they "
            "exist, ledger.sqlite-wal and ledger.sqlite-shm out of the folder and run the same command again, which "
            "makes the ledger anew"
        )

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Turns SQLite's errors into sentences."""
        try:
            yield
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the low byte is the kind, the rest details
            if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
                raise self._damaged(str(error)) from error
            todo = {
                sqlite3.SQLITE_FULL: f"free some space {_AGAIN}",
                sqlite3.SQLITE_READONLY: f"allow writing there {_AGAIN}",
                sqlite3.SQLITE_PERM: f"allow writing there {_AGAIN}",
                sqlite3.SQLITE_CANTOPEN: f"allow writing there {_AGAIN}",
                sqlite3.SQLITE_IOERR: f"see that the disk is sound and has space {_AGAIN}",
                sqlite3.SQLITE_BUSY: f"close the program that reads it {_AGAIN}",
            }.get(code)
            if todo is None:
                raise  # a mistake of ours, not of the disk
            raise CounterfactoryError(f"cannot use {self._path}: {error}; {todo}") from error
