"""The results of every stage, by content key.

Rows of plain data are stored by stage and key; they are on the disk when `put` returns, and are looked up by key. What
a stage, a key or a row means is not known here. The store is SQLite in WAL mode with full sync: a transaction is there
or not, whenever the process or the power dies.

A row's value is 32 hex digits, which are BLAKE2b of its stage, its key and its JSON, and then the JSON. A row that they
deny is as if it were not there: what it held is made again. Ledgers of format 1 had none, until they are opened.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any

from ..errors import CounterfactoryError
from ..files.reading import open_file, parse_json
from .sql import connect, create, error_kind, explain_sqlite_errors, in_chunks

FORMAT = 2
_APPLICATION = 0x43464C47  # "CFLG": tells our file from any other SQLite file
_MOVE_IT = (
    "move ledger.sqlite and, where they exist, ledger.sqlite-wal and ledger.sqlite-shm out of the folder and run the "
    "same command again, which makes the ledger anew"
)
_TABLE = (
    "CREATE TABLE results (stage TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (stage, key))"
    " WITHOUT ROWID"
)
_NEW = f"PRAGMA application_id = {_APPLICATION}; PRAGMA user_version = {FORMAT}; {_TABLE};"
_PAGE = 10_000  # rows that `walk` holds at a time
_DIGITS = 32
_TO_MEND = "ledger/mend"
_ROW = "CAST(key AS BLOB), CAST(value AS BLOB)"


class Ledger:
    """The ledger at `path`, created when missing; the caller holds the suite's lock. Raises CounterfactoryError for a
    file that is no ledger, is damaged, or was written by a newer version; nothing is changed then. May be used from
    several threads. The check at opening reads the whole file. With `read_only` nothing of the folder is ever changed,
    and a ledger that is missing is an error.
    """

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self._path = path
        self._read_only = read_only
        self.denied = 0  # rows that were looked up, and are not as they were written
        self.mended = False  # rows may have gone
        self.noted: set[tuple[str, str]] | None = None  # stage and key of what was put, for who wants to know
        self._one_at_a_time = Lock()
        if not read_only and not (path.exists() and path.stat().st_size):
            create(path, _NEW)
        _read_once(path)
        with self._explain_errors():
            self._db = connect(path, read_only=read_only)
        try:
            try:
                with self._explain_errors():
                    self._set_up()
            except sqlite3.OperationalError as error:  # its statements are right, so that the file is not
                raise self._damaged(str(error)) from error
            if not read_only and (not self.has_digests or self.holds(_TO_MEND, "all")):
                self.mend()
        except BaseException:
            self.close()
            raise

    def _set_up(self) -> None:
        (application,) = self._db.execute("PRAGMA application_id").fetchone()
        (version,) = self._db.execute("PRAGMA user_version").fetchone()
        ours = "type = 'table' AND name = 'results' AND tbl_name = 'results' AND sql = ?"
        tables, known = self._db.execute(f"SELECT count(*), sum({ours}) FROM sqlite_master", [_TABLE]).fetchone()
        if tables and application != _APPLICATION:
            raise CounterfactoryError(f"{self._path} is not a ledger of Counterfactory: name another folder")
        if version > FORMAT:
            raise CounterfactoryError(
                f"{self._path} was written by a newer Counterfactory (ledger format {version}, this one reads up to "
                f"{FORMAT}): update Counterfactory, or name another folder"
            )
        if (tables, known) != (1, 1):  # before any statement that a view, a trigger or a constraint could be part of
            raise self._damaged("it holds other tables, views or triggers than ours")
        (verdict,) = self._db.execute("PRAGMA quick_check(1)").fetchone()
        if verdict != "ok":
            raise self._damaged(str(verdict).splitlines()[-1])
        self._version = version
        if self._read_only:
            return
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = FULL")
        # Holds the inner pages of a ledger of millions of rows: keys are hashes, every lookup starts at the root.
        self._db.execute("PRAGMA cache_size = -8192")  # KiB

    def get(self, stage: str, keys: Sequence[str]) -> dict[str, Any]:
        """The stage's results among `keys`, in the order of `keys`; a key without one is left out."""
        rows: dict[str, Any] = {}
        wanted = sorted(set(keys))  # neighbours share a page
        with self._one_at_a_time, self._explain_errors():
            for marks, chunk in in_chunks(wanted):
                query = f"SELECT {_ROW} FROM results WHERE stage = ? AND key IN ({marks})"
                rows |= self._parsed(stage, self._db.execute(query, [stage, *chunk]))
        return {key: rows[key] for key in keys if key in rows}

    def walk(self, stage: str) -> Iterator[dict[str, Any]]:
        """All of a stage's results, by key, some at a time in the keys' order; `put` is allowed in between."""
        last = b""
        query = f"SELECT {_ROW} FROM results WHERE stage = ? AND key > CAST(? AS TEXT) ORDER BY key LIMIT ?"
        while True:
            with self._one_at_a_time, self._explain_errors():
                rows = self._db.execute(query, [stage, last, _PAGE]).fetchall()
                page = self._parsed(stage, rows)
            if page:
                yield page
            if not rows or rows[-1][0] <= last:  # never twice, in whatever order a damaged file has its rows
                return
            last = rows[-1][0]

    def stages(self) -> list[str]:
        """The stages that have rows, sorted."""
        with self._one_at_a_time, self._explain_errors():
            return [stage for (stage,) in self._db.execute("SELECT DISTINCT stage FROM results ORDER BY stage")]

    def holds(self, stage: str, key: str) -> bool:
        """Whether there is a sound row; it is not parsed."""
        with self._one_at_a_time, self._explain_errors():
            rows = self._db.execute(f"SELECT {_ROW} FROM results WHERE stage = ? AND key = ?", [stage, key]).fetchall()
        return any(_kept(stage.encode(), row[0], row[1], self._version) for row in rows)

    def put(self, stage: str, rows: Mapping[str, Any]) -> None:
        """`put_stages` for one stage."""
        self.put_stages({stage: rows})

    def put_stages(self, stages: Mapping[str, Mapping[str, Any]]) -> None:
        """Keeps rows of several stages, all or none, replacing what their keys had; they are on the disk on return.

        Values are what JSON can hold: lists for tuples come back, and text for other keys; NaN is refused (ValueError).
        """
        to_json = partial(json.dumps, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        lines = [
            (stage, key, _sealed(stage.encode(), key.encode(), to_json(value).encode()).decode())
            for stage, rows in stages.items()
            for key, value in rows.items()
        ]
        if not lines:
            return
        with self._one_at_a_time, self._explain_errors(), self._transaction():
            self._db.executemany("INSERT OR REPLACE INTO results VALUES (?, ?, ?)", lines)
        if self.noted is not None:
            self.noted.update((stage, key) for stage, key, _ in lines)

    def ask_to_mend(self) -> None:
        """The next opening mends it."""
        self.put(_TO_MEND, {"all": True})

    def unsound(self) -> int:
        """Rows that their digests deny, or that stand where no look-up finds them; reads all."""
        last, unsound = (b"", b""), 0
        with self._one_at_a_time, self._explain_errors():
            for stage, key, value in self._scan():
                unsound += _kept(stage, key, value, self._version) is None or (stage, key) <= last
                last = stage, key
        return unsound

    def mend(self) -> None:
        """Removes what `unsound` counts, and gives rows of an older format digests; reads all."""
        with self._one_at_a_time, self._explain_errors(), self._transaction():
            self._db.execute("CREATE TEMP TABLE kept (stage, key, value)")
            texts = ((stage, key, _kept(stage, key, value, self._version)) for stage, key, value in self._scan())
            rows = ((stage, key, _sealed(stage, key, text)) for stage, key, text in texts if text)
            cell = "CAST(? AS TEXT)"
            self._db.executemany(f"INSERT INTO kept VALUES ({cell}, {cell}, {cell})", rows)
            self._db.execute("DELETE FROM results")  # all pages at once, in whatever order their rows are
            self._db.execute("INSERT OR REPLACE INTO results SELECT * FROM kept WHERE stage != ?", [_TO_MEND])
            self._db.execute("DROP TABLE kept")
            self._db.execute(f"PRAGMA user_version = {FORMAT}")
            self._version = FORMAT
        self.mended = True

    @property
    def has_digests(self) -> bool:
        """Whether its rows have digests: those of an older format have none."""
        return bool(self._version == FORMAT)

    def _scan(self) -> Iterator[tuple[bytes, bytes, bytes]]:
        """Every row as it stands in the file."""
        rows = self._db.execute(f"SELECT CAST(stage AS BLOB), {_ROW} FROM results")
        return ((stage or b"", key or b"", value or b"") for stage, key, value in rows)

    def place(self, stage: str, key: str) -> tuple[str, str]:
        """The name of a result's place for errors, and what to do about one: for results that are not ours."""
        return f"{self._path}, {stage} {key[:16]}", _MOVE_IT

    def close(self) -> None:
        """Closes the file; a second call does nothing."""
        with self._one_at_a_time, self._explain_errors():
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

    def _parsed(self, stage: str, rows: Iterable[tuple[bytes, bytes]]) -> dict[str, Any]:
        """Values by key. They are read as one JSON list: half the time of one by one, in lookups by the 100,000."""
        of, lines = stage.encode(), dict[str, bytes]()
        for key, value in rows:
            if text := _kept(of, key, value, self._version):
                lines[key.decode(errors="replace")] = text
            else:
                self.denied += 1
        try:
            values = parse_json(b"[" + b",".join(lines.values()) + b"]")
        except ValueError as error:
            raise self._damaged("a row is no JSON") from error
        if len(values) != len(lines):
            raise self._damaged("a row is no JSON")
        return dict(zip(lines, values, strict=True))

    def _damaged(self, fault: str) -> CounterfactoryError:
        return CounterfactoryError(f"{self._path} is damaged ({fault}): the images are safe and stay; {_MOVE_IT}")

    @contextmanager
    def _explain_errors(self) -> Iterator[None]:
        """Turns SQLite's errors into sentences."""
        try:
            with explain_sqlite_errors(self._path):
                yield
        except sqlite3.Error as error:
            if error_kind(error) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
                raise self._damaged(str(error)) from error
            raise
        except UnicodeDecodeError as error:  # in the place of SQLite's error, whose words quote the file
            raise self._damaged("its schema is no text") from error


def _sealed(stage: bytes, key: bytes, text: bytes) -> bytes:
    """A row's value: its digest and its JSON."""
    return hashlib.blake2b(b"\0".join((stage, key, text)), digest_size=_DIGITS // 2).hexdigest().encode() + text


def _kept(stage: bytes, key: bytes, value: bytes | None, version: int) -> bytes | None:
    """The JSON of a row, None where its digest denies it; rows of older versions are taken as they are."""
    text = value[_DIGITS:] if value else b""
    if value == _sealed(stage, key, text):
        return text
    return value if version < FORMAT else None


def _read_once(path: Path) -> None:
    """Reads the file front to back, so that the check, which jumps from page to page, finds it in the kernel's cache: a
    third of the time from a disk. Before it is opened, as closing a file drops the locks that SQLite has on it.
    """
    with suppress(OSError), open_file(path) as file:  # SQLite finds what is wrong, and says so
        while file.read(1 << 20):
            pass
