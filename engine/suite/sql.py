"""Helpers for our SQLite files: long lists of keys in a query, and SQLite's errors as sentences."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ..errors import CounterfactoryError

_CHUNK = 500  # SQLite allowed 999 parameters a statement for most of its life
_AGAIN = "and run the same command again; nothing is lost"
_ADVICE = {
    sqlite3.SQLITE_FULL: f"free some space {_AGAIN}",
    sqlite3.SQLITE_READONLY: f"allow writing there {_AGAIN}",
    sqlite3.SQLITE_PERM: f"allow writing there {_AGAIN}",
    sqlite3.SQLITE_CANTOPEN: f"allow writing there {_AGAIN}",
    sqlite3.SQLITE_IOERR: f"see that the disk is sound and has space {_AGAIN}",
    sqlite3.SQLITE_BUSY: f"close the program that reads it {_AGAIN}",
}


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
