"""Rows put aside on the disk until the end of a run.

Rows of plain data arrive one by one and come back in that order, as often as asked; memory holds none of them. They
live in a file without a name in a folder of the caller's choice, so that a killed process leaves nothing there.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, is_dataclass
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Any, Self

from ..errors import CounterfactoryError
from .files import ASIDE, told

_BLOCK = 1 << 20


class Spool:
    """Rows in a nameless file in `folder`, gone when closed or killed. A context manager.

    `add` may be called from several threads. Raises CounterfactoryError when the disk fails.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._rows = 0
        self._bytes = 0
        self._one_at_a_time = Lock()
        with told(folder):
            # Where the file system has no nameless files, it has this name for an instant: see `shelf`.
            self._file = tempfile.TemporaryFile(  # noqa: SIM115 (this is the context manager)
                "w+b", dir=folder, prefix="spool.", suffix=f".{os.getpid()}{ASIDE}"
            )

    def add(self, row: Mapping[str, Any]) -> None:
        """Keeps a row of what JSON can hold; a dataclass comes back as a mapping, a tuple as a list.

        Raises TypeError or ValueError (NaN) for anything else.
        """
        line = json.dumps(row, separators=(",", ":"), allow_nan=False, default=_plain).encode() + b"\n"
        with self._one_at_a_time, told(self._folder):
            self._file.write(line)
            self._bytes += len(line)
            self._rows += 1

    def __len__(self) -> int:
        return self._rows

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """The rows added until now, in order; others may be added meanwhile."""
        with self._one_at_a_time, told(self._folder):
            self._file.flush()
            end = self._bytes
        at, rest = 0, b""
        while at < end:
            with told(self._folder):
                block = os.pread(self._file.fileno(), min(_BLOCK, end - at), at)
            if not block:
                raise CounterfactoryError(f"{self._folder}: a file of ours was cut short; run the same command again")
            at += len(block)
            *lines, rest = (rest + block).split(b"\n")  # JSON escapes line ends within a row
            for line in lines:
                yield json.loads(line)

    def close(self) -> None:
        """Removes the rows; a second call does nothing."""
        with suppress(OSError):  # a full disk shows here once more; what it could not take is thrown away anyway
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _plain(value: object) -> object:
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    raise TypeError(f"a row holds plain data, got {type(value).__name__}")
