"""Files that users bring, and their text: UTF-8 with or without a byte order mark, lines that end in LF, CRLF or CR.

Functions take a path and return its text or its numbered lines. Errors are one sentence with the file's name. Whatever
the engine reads is opened here: a pipe, a device or a socket, which could block for ever or have no end, is refused.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from pathlib import Path

from ..errors import CounterfactoryError
from .writing import require_regular


def open_file(path: Path | str) -> io.BufferedReader:
    """The file, to be read. Raises OSError, also for what is no regular file."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        require_regular(handle, path)
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def read_bytes(path: Path | str) -> bytes:
    """The bytes of a file. Raises OSError as `open_file` does."""
    with open_file(path) as file:
        return file.read()


def read_text(path: Path) -> str:
    """The text of a file, its lines ending in "\\n", without the byte order mark.

    Raises CounterfactoryError when the file cannot be read or is not UTF-8.
    """
    try:
        with io.TextIOWrapper(open_file(path), encoding="utf-8-sig") as file:
            return file.read()
    except OSError as error:
        raise CounterfactoryError(f"cannot read {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise CounterfactoryError(f"{path} is not UTF-8 text (byte {error.start}); save it as UTF-8") from error


def number_lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines of `read_text`, each with its number from 1, as editors count them.

    Not `splitlines`, which also ends a line at U+2028, U+0085 and other characters: these may stand inside a JSON
    string, and no editor counts a line there.
    """
    return enumerate(text.split("\n"), start=1)
