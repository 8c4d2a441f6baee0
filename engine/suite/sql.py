"""Helpers for our SQLite files: their opening, long lists of keys in a query, and SQLite's errors as sentences.

A file may come from anybody. SQLite plays back a rollback journal that lies beside a file, which overwrites the file
and deletes another one that the journal names; and a file's schema may hold views and triggers, which run. So a journal
is never played back, and no statement runs in a file whose schema is not ours. Our files use a write-ahead log from
their first byte on, so that neither can be lost.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from ..errors import CounterfactoryError
from ..files.writing import write_whole

_CHUNK = 500  # SQLite allowed 999 parameters a statement for most of its life
_ATTACHING = (sqlite3.SQLITE_ATTACH, sqlite3.SQLITE_DETACH, sqlite3.SQLITE_CREATE_VTABLE, sqlite3.SQLITE_DROP_VTABLE)
_AGAIN = "and run the same command again; nothing is lost"
_ADVICE = {
    sqlite3.SQLITE_FULL: f"free some space {_AGAIN}",
    sqlite3.SQLITE_READONLY: f"allow writing there {_AGAIN}",
    sqlite3.SQLITE_PERM: f"allow writing there {_AGAIN}",
    sqlite3.SQLITE_CANTOPEN: f"allow writing there {_AGAIN}",
    sqlite3.SQLITE_IOERR: f"see that the disk is sound and has space {_AGAIN}",
    sqlite3.SQLITE_BUSY: f"close the program that reads it {_AGAIN}",
}


def create(path: Path, script: str) -> None:
    """Writes a new file that holds what `script` makes, whole or not at all. Raises CounterfactoryError."""
    with closing(sqlite3.connect(":memory:")) as database:
        database.executescript(script)
        data = bytearray(database.serialize())
    data[18:20] = b"\2\2"  # written and read with a log: sqlite.org/fileformat2.html
    write_whole(path, bytes(data))


def connect(path: Path, *, read_only: bool = False) -> sqlite3.Connection:
    """A connection to a file that `create` wrote, for several threads in turn, with no transaction open. Nothing of the
    file has been read, and what a view or a trigger would do is denied. With `read_only` nothing of its folder changes.
    Raises CounterfactoryError, and touches nothing, where a journal lies beside the file, or where it or one of its
    other files is a link, a pipe or a folder.
    """
    sizes = {end: _size(path.with_name(path.name + end)) for end in ("", "-wal", "-shm")}
    if os.path.lexists(journal := path.with_name(f"{path.name}-journal")):
        raise CounterfactoryError(f"{journal} is a journal, which we leave nowhere; {_foreign(path)}")
    # A log that is not there needs no -shm, which SQLite would write to read it.
    end = ("?mode=ro" if sizes["-wal"] else "?mode=ro&immutable=1") if read_only else ""
    database = sqlite3.connect(
        path.absolute().as_uri() + end, isolation_level=None, check_same_thread=False, timeout=10, uri=True
    )
    database.set_authorizer(_authorize)
    database.execute("PRAGMA trusted_schema = OFF")
    database.execute("PRAGMA cell_size_check = ON")
    return database


def _size(path: Path) -> int:
    """Bytes of a file, 0 where there is none. Raises CounterfactoryError for anything else of that name."""
    try:
        about = path.lstat()
    except FileNotFoundError:
        return 0
    if not stat.S_ISREG(about.st_mode):
        raise CounterfactoryError(f"{path} is no regular file; {_foreign(path)}")
    return about.st_size


def _foreign(path: Path) -> str:
    name = path.name.removesuffix("-wal").removesuffix("-shm")
    return f"nothing was touched: move {name} and what begins so out of the folder, and run the same command again"


def _authorize(action: int, _: str | None, __: str | None, ___: str | None, within: str | None) -> int:
    """Denies what a view or a trigger, `within`, asks for, and what reaches other files or modules."""
    return sqlite3.SQLITE_DENY if within is not None or action in _ATTACHING else sqlite3.SQLITE_OK


def in_chunks(keys: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """The keys in parts that a statement can take, each with its question marks for `IN (…)`."""
    for start in range(0, len(keys), _CHUNK):
        chunk = list(keys[start : start + _CHUNK])
        yield ",".join("?" * len(chunk)), chunk


def error_kind(error: sqlite3.Error) -> int:
    """SQLite's primary code of an error; 0 when it has none."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF  # the low byte is the kind, the rest details


@contextmanager
def explain_sqlite_errors(path: Path) -> Iterator[None]:
    """Turn disk errors inside the block into a CounterfactoryError that names `path` and what to do."""
    try:
        yield
    except sqlite3.Error as error:
        advice = _ADVICE.get(error_kind(error))
        if advice is None:
            raise  # a programming error, not the disk
        raise CounterfactoryError(f"cannot use {path}: {error}; {advice}") from error
