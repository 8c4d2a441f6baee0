"""Content keys: names made of what made a thing, and the random numbers that belong to such a name."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np

from .files.reading import open_file


def _plain(value: object) -> object:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    raise TypeError(f"a content key takes plain data, got {type(value).__name__}: hash a file's content, not its path")


def content_key(*parts: object) -> str:
    """SHA-256, as 64 hex digits, of the parts' canonical JSON. Raises TypeError for what is not plain data."""
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), default=_plain, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def file_digest(path: Path) -> str:
    """SHA-256 of a file's bytes, as 64 hex digits."""
    with open_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class Digests:
    """Digests of files, each read once for as long as this is held: again only when the file is another one by its
    size, its times or its place on the disk.
    """

    def __init__(self, digest: Callable[[Path], str] = file_digest) -> None:
        self._digest = digest
        self._known: dict[tuple[Path, int, int, int, int], str] = {}

    def of(self, path: Path) -> str:
        about = path.stat()
        key = (path, about.st_size, about.st_mtime_ns, about.st_ctime_ns, about.st_ino)
        if key not in self._known:
            self._known[key] = self._digest(path)
        return self._known[key]


def generator(key: str, purpose: str) -> np.random.Generator:
    """The random numbers that belong to a key and a purpose.

    Philox 4x64 (Salmon et al. 2011) is counter-based: the stream is a function of its 128-bit key alone, the same on
    every platform, and no other stream's use moves it.
    """
    digest = hashlib.sha256(f"{key}/{purpose}".encode()).digest()
    return np.random.Generator(np.random.Philox(key=int.from_bytes(digest[:16], "little")))
