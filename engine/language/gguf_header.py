"""The header of a GGUF file: which tensors it has, and how many bytes they take.

Versions 2 and 3, little-endian. Key-value pairs are stepped over, and no tensor is read: a file of many gigabytes
costs no more than a small one. A damaged file is refused before any length in it is believed.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, ClassVar

from ..errors import CounterfactoryError


@dataclass(frozen=True)
class Header:
    """Of a GGUF file: the shapes of its tensors by name, innermost axis first, and the bytes after its header."""

    shapes: Mapping[str, tuple[int, ...]]
    weight_bytes: int


def read_header(path: Path) -> Header:
    """The header of the GGUF file at `path`. Raises CounterfactoryError when it is missing, damaged or no GGUF."""
    if not path.is_file():
        raise CounterfactoryError(f"the language model {path} is missing; restore the file or name another folder")
    try:
        with path.open("rb") as file:
            reader = _Reader(file, path.stat().st_size)
            return Header(dict(reader.tensors()), reader.size - file.tell())
    except (ValueError, struct.error, UnicodeDecodeError) as error:
        raise CounterfactoryError(f"{path} is no GGUF file that can be read: {error}") from error


class _Reader:
    """A GGUF header, version 2 or 3, little-endian: magic, counts, key-value pairs (skipped), tensor infos."""

    _SCALARS: ClassVar = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
    _STRING, _ARRAY = 8, 9

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file, self.size = file, size
        magic, version, self._tensors, self._pairs = struct.unpack("<4sIQQ", self._take(24))
        if magic != b"GGUF" or version not in (2, 3):
            raise ValueError(f"it begins with {magic!r}, version {version}")

    def tensors(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Name and shape of every tensor; the file is then just past the header."""
        for _ in range(self._pairs):
            self._text()
            self._skip(self._number("I"))
        for _ in range(self._tensors):
            name, axes = self._text(), self._number("I")
            shape = struct.unpack(f"<{axes}Q", self._take(8 * axes))
            self._take(12)  # type and offset
            yield name, shape

    def _skip(self, kind: int) -> None:
        if kind == self._STRING:
            self._text()
        elif kind == self._ARRAY:
            inner, count = self._number("I"), self._number("Q")
            if inner == self._ARRAY:
                raise ValueError("a value is an array of arrays")
            for _ in range(count):
                self._skip(inner)
        elif kind in self._SCALARS:
            self._take(self._SCALARS[kind])
        else:
            raise ValueError(f"a value has the unknown type {kind}")

    def _text(self) -> str:
        return self._take(self._number("Q")).decode()

    def _number(self, form: str) -> int:
        (value,) = struct.unpack(f"<{form}", self._take(struct.calcsize(f"<{form}")))
        return int(value)

    def _take(self, count: int) -> bytes:
        # Asked before reading: a damaged length may be more than the memory holds.
        if count > self.size - self._file.tell():
            raise ValueError(f"it ends within its header, at {self.size:,} bytes")
        return self._file.read(count)
