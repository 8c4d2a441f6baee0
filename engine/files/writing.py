"""Files that are either whole or absent.

Bytes are written to a temporary file in the folder of their path, synced, and take that path by rename. Errors of the
operating system become sentences. Callers decide what the bytes mean and which process may write.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Literal

from ..errors import CounterfactoryError

TEMPORARY_SUFFIX = ".tmp"
Sync = Literal["all", "bytes", "nothing"]
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
_NOT_ALLOWED = (errno.EROFS, errno.EACCES, errno.EPERM)


@contextmanager
def explain_os_errors(path: Path) -> Iterator[None]:
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
    with explain_os_errors(folder):
        missing = []
        at = folder
        while not at.is_dir():
            missing.append(at)
            at = at.parent
        for new in reversed(missing):
            new.mkdir(exist_ok=True)
            sync_folder(new.parent)


def write_whole(path: Path, data: bytes | memoryview | str, *, sync: Sync = "all") -> None:
    """Writes `data`, text as UTF-8, to `path` whole or not at all: see `replacing`."""
    with open_whole(path, sync=sync) as file:
        file.write(data.encode() if isinstance(data, str) else data)


@contextmanager
def open_whole(path: Path, *, sync: Sync = "all") -> Iterator[BinaryIO]:
    """A file to write that becomes `path` when the block ends well: see `replacing`."""
    with replacing(path, sync=sync) as temporary, temporary.open("wb") as file:
        yield file


@contextmanager
def replacing(path: Path, *, sync: Sync = "all") -> Iterator[Path]:
    """A path to write a file at, so that a kill at any point leaves the old `path` or the new one, never a part of it.

    It is a name in the same folder that ends in `.tmp`; when the block ends well the file is synced and takes the name
    `path` by rename, then the folder is synced. With `sync="bytes"` the caller syncs the folder, once for many files;
    with "nothing" a power cut may lose the file. When the block raises, the old file stays. Raises
    CounterfactoryError for errors of the operating system, the block's own included.
    """
    temporary = path.with_name(f"{path.name}.{os.getpid()}{TEMPORARY_SUFFIX}")
    with explain_os_errors(path):
        try:
            # An old file is removed, not written to: it could be a link to any other file.
            temporary.unlink(missing_ok=True)
            yield temporary
            if sync != "nothing":
                _sync_bytes(temporary)
            temporary.replace(path)
        except BaseException:
            # Ctrl-C included; where the name cannot be removed, the next opening of the suite does it.
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise
        if sync == "all":
            sync_folder(path.parent)


def _sync_bytes(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def move_file(path: Path, target: Path) -> None:
    """Renames a file within one file system, creating the target's folder. Raises CounterfactoryError."""
    make_folder(target.parent)
    with explain_os_errors(target):
        path.replace(target)
