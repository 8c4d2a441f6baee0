"""Files that are either whole or absent, in the folder that was asked for.

Bytes are written to a temporary file in the folder of their path, synced, and take that path by rename. Errors of the
operating system become sentences. Callers decide what the bytes mean and which process may write.

A suite may come from anybody, with links in it. Functions take the folder that the user named as `below`: it may lie
behind links, but what lies below it is reached folder by folder, and a link on the way is refused. Without `below` that
folder is the one that the file lies in.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Literal

from ..errors import CounterfactoryError

TEMPORARY_SUFFIX = ".tmp"
Sync = Literal["all", "bytes", "nothing"]
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
_NOT_ALLOWED = (errno.EROFS, errno.EACCES, errno.EPERM)
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


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


def place_below(path: Path, root: Path) -> tuple[Path, Path | None]:
    """The path as `root` / ..., and `root`, where it lies there, however both are spelled; else the path, and None."""
    with suppress(OSError):
        known = root.stat()
        for spelled in (Path(os.path.abspath(path)), Path(os.path.realpath(path.parent), path.name)):  # noqa: PTH100
            for folder in (spelled, *spelled.parents):
                with suppress(OSError):
                    if os.path.samestat(folder.stat(), known):
                        return root / spelled.relative_to(folder), root
    return path, None


@contextmanager
def opened_folder(folder: Path, below: Path | None = None, *, create: bool = False) -> Iterator[int]:
    """A handle of the folder, for what takes a `dir_fd`. With `create`, folders that are missing below `below` are made
    and their entries synced. Raises OSError, and CounterfactoryError for a link.
    """
    handle = os.open(below or folder, _FOLDER)
    try:
        at = below or folder
        for part in () if below is None else folder.relative_to(below).parts:
            at /= part
            inner = _open_inner(at, handle, create)
            os.close(handle)
            handle = inner
        yield handle
    finally:
        os.close(handle)


def _open_inner(at: Path, folder: int, create: bool) -> int:
    try:
        return os.open(at.name, _FOLDER | os.O_NOFOLLOW, dir_fd=folder)
    except FileNotFoundError:
        if not create:
            raise
        with suppress(FileExistsError):
            os.mkdir(at.name, dir_fd=folder)
        _sync_handle(folder)
        return _open_inner(at, folder, create=False)
    except OSError:
        if stat.S_ISLNK(os.stat(at.name, dir_fd=folder, follow_symlinks=False).st_mode):
            raise CounterfactoryError(
                f"{at} is a link, through which nothing is written; nothing was touched: put a folder in its place"
            ) from None
        raise


def _sync_handle(handle: int) -> None:
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno != errno.EINVAL:  # some network file systems sync names by themselves and refuse the call
            raise


def sync_folder(folder: Path, below: Path | None = None) -> None:
    """Makes the folder's entries (new, renamed, removed names) survive a power cut. Raises CounterfactoryError."""
    with explain_os_errors(folder), opened_folder(folder, below) as handle:
        _sync_handle(handle)


def make_folder(folder: Path, below: Path | None = None) -> None:
    """Creates a folder and its missing parents, each entry synced. Raises CounterfactoryError."""
    with explain_os_errors(folder):
        at = below or folder
        while not at.is_dir():
            at = at.parent
        with opened_folder(folder, below or at, create=True):
            pass


def write_whole(path: Path, data: bytes | memoryview | str, *, sync: Sync = "all", below: Path | None = None) -> None:
    """Writes `data`, text as UTF-8, to `path` whole or not at all: see `open_whole`."""
    with open_whole(path, sync=sync, below=below) as file:
        file.write(data.encode() if isinstance(data, str) else data)


@contextmanager
def open_whole(path: Path, *, sync: Sync = "all", below: Path | None = None) -> Iterator[BinaryIO]:
    """A file to write, so that a kill at any point leaves the old `path` or the new one, never a part of it.

    It has a name in the same folder that ends in `.tmp`; when the block ends well the file is synced and takes the name
    `path` by rename, then the folder is synced. With `sync="bytes"` the caller syncs the folder, once for many files;
    with "nothing" a power cut may lose the file. When the block raises, the old file stays. Folders that are missing
    below `below` are made. Raises CounterfactoryError for errors of the operating system, the block's own included.
    """
    temporary = f"{path.name}.{os.getpid()}{TEMPORARY_SUFFIX}"
    with explain_os_errors(path), opened_folder(path.parent, below, create=True) as folder:
        try:
            # An old file is removed, not written to: it could be a link to any other file.
            with suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=folder)
            handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666, dir_fd=folder)
            try:
                with os.fdopen(handle, "wb", closefd=False) as file:
                    yield file
                if sync != "nothing":
                    os.fsync(handle)
            finally:
                os.close(handle)
            os.replace(temporary, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            # Ctrl-C included; where the name cannot be removed, the next opening of the suite does it.
            with suppress(OSError):
                os.unlink(temporary, dir_fd=folder)
            raise
        if sync == "all":
            _sync_handle(folder)


def open_to_append(path: Path) -> BinaryIO:
    """A file, made where missing, to be written at its end, not buffered. Raises OSError, also for no regular file."""
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    try:
        require_regular(handle, path)
        return os.fdopen(handle, "ab", buffering=0)
    except BaseException:
        os.close(handle)
        raise


def require_regular(handle: int, path: Path | str) -> None:
    """Raises OSError where an open file is a pipe, a device or anything else than a file with bytes in it."""
    mode = os.fstat(handle).st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "not a regular file", str(path))


def move_file(path: Path, target: Path, below: Path) -> None:
    """Renames a file within one file system, creating the target's folder. Raises CounterfactoryError."""
    with (
        explain_os_errors(target),
        opened_folder(path.parent, below) as old,
        opened_folder(target.parent, below, create=True) as new,
    ):
        os.replace(path.name, target.name, src_dir_fd=old, dst_dir_fd=new)


def remove_file(path: Path, below: Path) -> None:
    """Removes a file, or the link of that name itself. Raises CounterfactoryError."""
    with explain_os_errors(path), opened_folder(path.parent, below) as folder, suppress(FileNotFoundError):
        os.unlink(path.name, dir_fd=folder)


def remove_empty(folders: Iterable[Path], below: Path) -> None:
    """Removes those of the folders that are empty, and what is empty of the folders above them, up to `below`."""
    for folder in folders:
        with suppress(OSError, CounterfactoryError):  # not empty, or gone with an earlier one
            for empty in (folder, *folder.parents):
                if empty == below:
                    break
                with opened_folder(empty.parent, below) as handle:
                    os.rmdir(empty.name, dir_fd=handle)
