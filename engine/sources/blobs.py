"""The place of a picture's or a mask's bytes: a file, a stretch of a tar file, a cell of a table, an object of a store;
and names of files.

A data set of a million pictures has a million of these, so a file is its path as plain text and the others have slots.
"""

from __future__ import annotations

import hashlib
import os
import unicodedata
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..files.reading import open_file
from .pixels import UnreadableError

_MAX_BYTES = 512 * 2**20
CHANGED = "the file has changed since the run began; run again to use the new one"


@dataclass(frozen=True, slots=True)
class Stretch:
    """`size` bytes from `offset` of the file `path`: a member of a tar file without compression."""

    path: str
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class Cell:
    """A picture in a `datasets.Dataset` (`table`) that does not decode the column; `path` is its name in errors."""

    path: str
    table: Any
    row: int
    column: str


@dataclass(frozen=True, slots=True)
class StoredObject:
    """A file of an object store, or of another file system that fsspec reaches, by its URL."""

    path: str

    def read(self) -> bytes:
        """Its bytes. Raises OSError, whatever the store's client has for that."""
        from fsspec.core import url_to_fs

        try:
            store, path = url_to_fs(self.path)
            return bytes(store.cat_file(path))
        except OSError:
            raise
        except Exception as error:  # each client has exceptions of its own
            raise OSError((str(error) or type(error).__name__).splitlines()[0]) from error


Blob = str | Stretch | Cell | StoredObject


def path_of(blob: Blob) -> Path:
    """The file that holds the bytes, for messages."""
    return Path(blob if isinstance(blob, str) else blob.path)


def read_blob(blob: Blob) -> bytes:
    """The bytes. Raises UnreadableError for what is missing, too large or no regular file."""
    try:
        if isinstance(blob, Cell):
            value = blob.table[blob.row][blob.column]
            if not isinstance(value, dict) or not (value.get("bytes") or value.get("path")):
                raise UnreadableError(f"row {blob.row} has nothing in the column {blob.column!r}")
            return bytes(value["bytes"]) if value["bytes"] else read_blob(str(value["path"]))
        if isinstance(blob, StoredObject):
            return blob.read()
        with open_file(path_of(blob)) as file:
            of = blob if isinstance(blob, Stretch) else Stretch(blob, 0, os.fstat(file.fileno()).st_size)
            if of.size > _MAX_BYTES:
                raise UnreadableError(f"the file has {of.size / 2**20:.0f} MiB; at most {_MAX_BYTES >> 20} are read")
            file.seek(of.offset)
            return file.read(of.size)
    except FileNotFoundError as error:
        raise UnreadableError(f"there is no file {error.filename or path_of(blob)}") from error
    except OSError as error:
        raise UnreadableError(f"cannot be read: {error.strerror or error}") from error


def read_known(blob: Blob, digest: str) -> bytes:
    """The bytes, whose SHA-256 was `digest`. Raises UnreadableError, also where it is another now."""
    data = read_blob(blob)
    if hashlib.sha256(data).hexdigest() != digest:
        raise UnreadableError(CHANGED)
    return data


def unprintable(text: str) -> bool:
    """Whether text holds what metadata cannot store or a terminal would obey. (A file's non-UTF-8 bytes are such.)"""
    return not text.isprintable() and any(unicodedata.category(character) in ("Cc", "Cs") for character in text)


def printable(name: str) -> str:
    """A file's name with bytes escaped that could not be printed or stored."""
    if name.isascii() and name.isprintable():
        return name
    return "".join(c.encode("unicode_escape").decode() if unprintable(c) else c for c in name)
