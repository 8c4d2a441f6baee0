"""Text files that users write: UTF-8 with or without a byte order mark, lines that end in LF, CRLF or CR.

Functions take a path and return its text or its numbered lines. Errors are one sentence with the file's name.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ..errors import CounterfactoryError


def read_text(path: Path) -> str:
    """The text of a file, its lines ending in "\\n", without the byte order mark.

    Raises CounterfactoryError when the file cannot be read or is not UTF-8.
    """
    try:
        return path.read_text(encoding="utf-8-sig")
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
