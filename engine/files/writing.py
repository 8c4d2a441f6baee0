"""Files that are either whole or absent.

Bytes arrive with the path they shall have; they leave on the disk, synced, under that path or not at all. Operating
system errors leave as sentences. What the bytes mean, and which process may write, is decided elsewhere.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from ..errors import CounterfactoryError

ASIDE = ".tmp"
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
_NOT_ALLOWED = (errno.EROFS, errno.EACCES, errno.EPERM)


@contextmanager
def told(path: Path) -> Iterator[None]:
    """Turns an OSError from within into a CounterfactoryError that names `path` and what to do."""
    try:
        yield
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        if error.errno in _NO_SPACE:
            todo = "free some space and run the same command again; nothing is lost"
        elif error.errno in _NOT_ALLOWED:
            todo = "allow writing there or name another folder, and run the same command again; nothing is lost"
        else:
            todo = "mend that and run the same command again; nothing is lost"
        raise CounterfactoryError(f"cannot write {path}: {reason}; {todo}") from error


def sync_folder(folder: Path) -> None:
    """Makes the folder's entries (new, renamed, removed names) survive a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno != errno.EINVAL:  # some network file systems sync names by themselves and refuse the call
            raise
    finally:
        os.close(handle)


def make_folder(folder: Path) -> None:
    """Creates a folder and its missing parents, each entry synced. Raises CounterfactoryError."""
    with told(folder):
        missing = []
        at = folder
        while not at.is_dir():
            missing.append(at)
            at = at.parent
        for new in reversed(missing):
            new.mkdir(exist_ok=True)
            sync_folder(new.parent)


def write_aside(path: Path, data: bytes, *, sync_name: bool = True) -> None:
    """Writes `data` to `path` whole or not at all: see `aside`."""
    with aside(path, sync_name=sync_name) as file:
        file.write(data)


@contextmanager
def aside(path: Path, *, sync_name: bool = True) -> Iterator[BinaryIO]:
    """A file to write so that a kill at any point leaves the old `path` or the new one, never a part of it.

    The bytes go to a `.tmp` file in the same folder; when the block ends well they are synced and take the name by
    rename, then the folder is synced. With `sync_name=False` the caller syncs the folder, once for many files. When
    the block raises, the old file stays. Raises CounterfactoryError.
    """
    temporary = path.with_name(f"{path.name}.{os.getpid()}{ASIDE}")
    with told(path):
        try:
            handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
            with os.fdopen(handle, "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except BaseException:
            # Ctrl-C included; where the name cannot be removed, the next opening of the suite does it.
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise
        if sync_name:
            sync_folder(path.parent)


def move(path: Path, target: Path) -> None:
    """Renames a file within one file system, creating the target's folder. Raises CounterfactoryError."""
    make_folder(target.parent)
    with told(target):
        path.replace(target)
