"""A lock that admits one process per suite.

The lock on a path is held until it is released or the process dies, however it dies. The lock is the kernel's
(`flock`); the text in the file is for people. Another machine sharing the folder over a network file system is kept out
only where that file system carries flock.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ..errors import CounterfactoryError
from ..files.writing import explain_os_errors, require_regular


class Lock:
    """Holds `path` (created when missing) with the process id in it. Raises CounterfactoryError when another process,
    or this one, holds it already, and when it cannot be written.
    """

    def __init__(self, path: Path) -> None:
        with explain_os_errors(path):
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
        try:
            with explain_os_errors(path):
                require_regular(handle, path)
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError as error:
                    text = os.pread(handle, 32, 0).decode(errors="replace").strip()
                    holder = f"process {text}" if text.isdigit() else "another process"
                    raise CounterfactoryError(
                        f"{path.parent} is in use by {holder}: wait until it ends, or name another folder"
                    ) from error
                os.ftruncate(handle, 0)
                os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
        except BaseException:
            os.close(handle)
            raise
        self._handle: int | None = handle

    def release(self) -> None:
        """Lets go; a second call does nothing.

        The file stays: removing it could free a lock that another process has just taken.
        """
        if self._handle is None:
            return
        handle, self._handle = self._handle, None
        with suppress(OSError):  # the text is for people, and only while the lock is held
            os.ftruncate(handle, 0)
        os.close(handle)


@contextmanager
def reading_lock(path: Path) -> Iterator[None]:
    """Keeps others from writing within, where the folder of `path` can be written to; elsewhere nobody writes. Raises
    CounterfactoryError where one has it.
    """
    lock = None
    with suppress(FileNotFoundError):
        try:
            lock = Lock(path)
        except CounterfactoryError as error:
            if not isinstance(error.__cause__, OSError) or isinstance(error.__cause__, BlockingIOError):
                raise  # in use
    try:
        yield
    finally:
        if lock is not None:
            lock.release()
