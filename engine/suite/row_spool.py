"""The table's rows before they are a table: gathered on the disk in any order, given back sorted.

Rows are added one by one and read back in the table's form and order, each picture once; whether a file is listed can
be looked up. They wait in a file of their own, so that memory holds a page of them and no more. It is never synced: it
does not outlive its process, and what a killed one leaves is removed at the next opening of the suite.
"""

from __future__ import annotations

import json
import secrets
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

from ..files.writing import TEMPORARY_SUFFIX
from ..variant import KINDS
from .picture_row import PictureRow
from .sql import explain_sqlite_errors, in_chunks

_TABLES = """
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
CREATE TABLE rows (source TEXT NOT NULL, kind INTEGER NOT NULL, number INTEGER NOT NULL,
    file_name TEXT NOT NULL UNIQUE, row TEXT NOT NULL);
CREATE INDEX in_order ON rows (source, kind, number, file_name);
CREATE TABLE files (name TEXT PRIMARY KEY) WITHOUT ROWID;
BEGIN;
"""


class RowSpool(AbstractContextManager["RowSpool"]):
    """Rows in a file in `folder`, gone when closed. A context manager; for one thread. Raises CounterfactoryError when
    the disk fails.
    """

    def __init__(self, folder: Path) -> None:
        # A number that nobody guesses: a journal for it may lie in a suite of a stranger, which SQLite would play back.
        self._path = folder / f"draft.{secrets.randbits(64)}{TEMPORARY_SUFFIX}"
        self._scores: set[str] = set()
        with explain_sqlite_errors(self._path):
            self._db = sqlite3.connect(self._path, isolation_level=None)
            try:
                self._db.executescript(_TABLES)
            except BaseException:
                self.close()
                raise

    def add(self, row: PictureRow) -> None:
        """Takes a row. Raises ValueError when another row names the same file."""
        with explain_sqlite_errors(self._path):
            line = [row.source, KINDS.index(row.kind), row.number, row.file_name, json.dumps(row.to_json())]
            try:
                self._db.execute("INSERT INTO rows VALUES (?, ?, ?, ?, ?)", line)
            except sqlite3.IntegrityError as error:
                raise ValueError(f"two rows name {row.file_name}") from error
            self._db.executemany("INSERT OR IGNORE INTO files VALUES (?)", [(name,) for name in row.files])
        self._scores.update(row.scores)

    @property
    def score_names(self) -> list[str]:
        """Names of all scores that a row has, sorted."""
        return sorted(self._scores)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """The rows by source, kind, number and file name, text by code points, each as its `to_json` gave it."""
        with explain_sqlite_errors(self._path):
            for (row,) in self._db.execute("SELECT row FROM rows ORDER BY source, kind, number, file_name"):
                yield json.loads(row)

    def files(self) -> Iterator[str]:
        """Every file that a row names, sorted."""
        with explain_sqlite_errors(self._path):
            for (name,) in self._db.execute("SELECT name FROM files ORDER BY name"):
                yield name

    def listed(self, names: Sequence[str]) -> set[str]:
        """Those of the files that a row names."""
        with explain_sqlite_errors(self._path):
            return {
                name
                for marks, chunk in in_chunks(names)
                for (name,) in self._db.execute(f"SELECT name FROM files WHERE name IN ({marks})", chunk)
            }

    def close(self) -> None:
        """Removes the rows; a second call does nothing."""
        self._db.close()
        with suppress(OSError):
            self._path.unlink(missing_ok=True)

    def __exit__(self, *_: object) -> None:
        self.close()
