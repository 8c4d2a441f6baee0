"""Files that users bring, their text (UTF-8 with or without a byte order mark, lines that end in LF, CRLF or CR) and
their JSON.

Functions take a path and return its text, its numbered lines or its value. Errors are one sentence with its name.
Whatever the engine reads is opened here: a pipe, a device or a socket, which could block for ever or have no end, is
refused.
"""

from __future__ import annotations

import io
import json
import math
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

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


# What JSON of ours and of data sets stays far below: beyond, Python's own functions give up in many ways.
_DIGITS, _DEPTH = 300, 100
_HALF = re.compile(r"\\u[dD][89a-fA-F]|[\ud800-\udfff]")


def read_text(path: Path) -> str:
    """A file's text, lines ending in "\\n", no byte order mark. Raises CounterfactoryError, also for no UTF-8."""
    try:
        with io.TextIOWrapper(open_file(path), encoding="utf-8-sig") as file:
            return file.read()
    except OSError as error:
        raise CounterfactoryError(f"cannot read {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise CounterfactoryError(f"{path} is not UTF-8 text (byte {error.start}); save it as UTF-8") from error


def number_lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines of `read_text` with their numbers from 1, as editors count them: `splitlines` also ends a line at
    U+2028, U+0085 and other characters, which may stand inside a JSON string.
    """
    return enumerate(text.split("\n"), start=1)


def parse_json(text: str | bytes, number: Callable[[str], float] | None = None) -> Any:
    """The value of a JSON text. Raises ValueError for what is none, and for what few programs can hold: NaN, infinite
    numbers, whole ones of more than 300 digits, halves of letters, and tables within tables more than 100 deep.

    `number` reads NaN and what has a point or an exponent; `float` is faster, and lets NaN and infinities pass.
    """
    text = text if isinstance(text, str) else text.decode("utf-8-sig")
    try:
        value = json.loads(text, parse_int=_whole, parse_float=number or _finite, parse_constant=number or _finite)
    except RecursionError:
        raise ValueError(f"tables within tables more than {_DEPTH} deep") from None
    if _HALF.search(text):
        json.dumps(value, ensure_ascii=False).encode()  # UnicodeEncodeError is a ValueError
    level = [value]
    for _ in range(_DEPTH):
        inside = (box.values() if type(box) is dict else box for box in level if type(box) in (dict, list))
        level = [item for items in inside for item in items if type(item) in (dict, list)]
        if not level:
            return value
    raise ValueError(f"tables within tables more than {_DEPTH} deep")


def read_json(path: Path, advice: str = "", number: Callable[[str], float] | None = None) -> Any:
    """`parse_json` of a file's text. Raises CounterfactoryError, which ends in `advice`, for what it refuses."""
    try:
        return parse_json(read_text(path), number)
    except ValueError as error:
        raise CounterfactoryError(f"{path} is not valid JSON: {error}{'; ' if advice else ''}{advice}") from error


def _whole(text: str) -> int:
    if len(text) > _DIGITS:
        raise ValueError(f"a whole number of {len(text)} digits")
    return int(text)


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:40]} is not a finite number")
    return value
