"""Compiled networks that are kept between runs: a folder of blobs, each under a key of its inputs.

A blob arrives as bytes with its key and is returned as the same bytes or not at all: a file that was torn, cut or
changed counts as absent and is deleted. The folder is bounded, blobs used longest ago go first. It is a cache: a blob
that cannot be read is made again, and where nothing can be written the next run takes as long as this one. The meaning
of blobs and their keys is the business of compiling.py.

The digest in a file finds damage; it does not prove who wrote it. The folder's rights do: it is made for its owner
alone, and a folder that belongs to another user or that others may write to is not used. A process that can write as
this user can change the program itself.
"""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from ..errors import CounterfactoryError
from ..files.caches import cache_folder
from ..files.writing import TEMPORARY_SUFFIX, explain_os_errors, make_folder, open_whole

SWITCH = "COUNTERFACTORY_COMPILED"
# The embedded networks take 46 MB for each release, processor and precision.
LIMIT_BYTES = 10**9

_SUFFIX = ".blob"
_MAGIC = b"counterfactory blob 1\n"
_DIGEST_BYTES = hashlib.sha256().digest_size
# The age of files that a killed process left half-written; a younger file may be another process's work.
_STALE_S = 3600


class BlobCache:
    """The blobs in `folder`, which need not exist, of at most `limit_bytes` together.

    Processes may share a folder. `problem` says in a sentence why nothing could be kept, None as long as all is well.
    """

    def __init__(self, folder: Path, limit_bytes: int = LIMIT_BYTES) -> None:
        self.folder, self.limit_bytes = folder, limit_bytes
        self.problem: str | None = None

    def load(self, key: str) -> bytes | None:
        """The blob of that key, as it was stored; None where there is none that can be trusted."""
        file = self._file(key)
        if self.refusal() is not None:
            return None
        try:
            head, blob = _read(file)
        except OSError:
            return None
        if head != _head(key, blob):
            with suppress(OSError):
                file.unlink(missing_ok=True)
            return None
        with suppress(OSError):  # the time of its last use, by which blobs are dropped
            os.utime(file)
        return blob

    def store(self, key: str, blob: bytes) -> None:
        """Keep a blob, whole or not at all, and drop those used longest ago beyond the bound.

        Never raises for a file or a disk: see `problem`. One that is larger than the bound is not kept.
        """
        if len(blob) + len(_MAGIC) + _DIGEST_BYTES > self.limit_bytes:
            return
        file = self._file(key)
        try:
            make_folder(self.folder.parent)
            with explain_os_errors(self.folder), suppress(FileExistsError):
                self.folder.mkdir(mode=0o700)  # for its owner alone
            if reason := self.refusal():
                raise CounterfactoryError(reason)
            # Unsynced: what a power cut tears has another digest, and is made again.
            with open_whole(file, sync="nothing") as out:
                out.write(_head(key, blob))
                out.write(blob)
        except CounterfactoryError as error:
            self.report(str(error))
            return
        self._trim(file)

    def report(self, reason: str) -> None:
        """Note why a network could not be kept; the first reason stands."""
        if self.problem is None:
            self.problem = not_kept(reason)

    def sizes(self) -> list[int]:
        return [about.st_size for _, about in self._entries(_SUFFIX)]

    def _file(self, key: str) -> Path:
        return self.folder / f"{key}{_SUFFIX}"

    def refusal(self) -> str | None:
        """Why the folder may not be used; None where it may, and where it is not there."""
        try:
            about = self.folder.stat()
        except FileNotFoundError:
            return None
        except OSError as error:
            return f"{self.folder} cannot be looked at ({error.strerror})"
        if not stat.S_ISDIR(about.st_mode):
            return f"{self.folder} is no folder"
        if about.st_uid != os.geteuid():
            return f"{self.folder} belongs to another user; name another folder with {SWITCH}"
        if about.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            return f"other users may write to {self.folder}; take that from them (chmod 700)"
        return None

    def _entries(self, suffix: str) -> Iterator[tuple[Path, os.stat_result]]:
        try:
            paths = list(self.folder.iterdir())
        except OSError:
            return
        for path in paths:
            if path.suffix == suffix:
                with suppress(OSError):  # another process dropped it
                    yield path, path.lstat()

    def _trim(self, latest: Path) -> None:
        """Drop blobs used longest ago until the rest is within the bound, and files that killed processes left."""
        blobs = sorted(self._entries(_SUFFIX), key=lambda entry: (entry[0] == latest, entry[1].st_mtime_ns))
        total = sum(about.st_size for _, about in blobs)
        for path, about in blobs:
            if total <= self.limit_bytes:
                break
            with suppress(OSError):
                path.unlink(missing_ok=True)
                total -= about.st_size
        for path, about in self._entries(TEMPORARY_SUFFIX):
            if about.st_mtime < time.time() - _STALE_S:
                with suppress(OSError):
                    path.unlink(missing_ok=True)


def not_kept(reason: str) -> str:
    """What a person is told of any cache of compiled networks or kernels that cannot be written."""
    return f"compiled networks are not kept for the next run, which will compile them again: {reason}"


def find_blob_cache() -> BlobCache | None:
    """The user's cache: compiled/ in the cache folder, or the folder that COUNTERFACTORY_COMPILED names.

    None where that is "off", and without a home. Raises CounterfactoryError for what is neither nor an absolute path.
    """
    setting = os.environ.get(SWITCH, "")
    if setting == "off":
        return None
    if not setting:
        usual = cache_folder()
        return None if usual is None else BlobCache(usual / "compiled")
    if not Path(setting).is_absolute():
        raise CounterfactoryError(
            f"{SWITCH} says where compiled networks are kept, got {setting!r}: give a folder's absolute path, or 'off'"
        )
    return BlobCache(Path(setting))


def _head(key: str, blob: bytes) -> bytes:
    """The head of a blob's file. The key is part of its digest, so that no file passes under another's name."""
    digest = hashlib.sha256(key.encode())
    digest.update(blob)
    return _MAGIC + digest.digest()


def _read(file: Path) -> tuple[bytes, bytes]:
    """A file's head, and its blob. Raises OSError for anything but a plain file of this user's."""
    # Nothing is waited for (a pipe), and no link followed.
    handle = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(handle, "rb") as opened:
        about = os.fstat(handle)
        if not stat.S_ISREG(about.st_mode) or about.st_uid != os.geteuid():
            raise PermissionError(f"{file} is no plain file of this user's")
        return opened.read(len(_MAGIC) + _DIGEST_BYTES), opened.read()
