"""Content keys: names made of what made a thing, and the random numbers that belong to such a name."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from pathlib import Path

import numpy as np


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
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def generator(key: str, purpose: str) -> np.random.Generator:
    """The random numbers that belong to a key and a purpose.

    Philox 4x64 (Salmon et al. 2011) is counter-based: the stream is a function of its 128-bit key alone, the same on
    every platform, and no other stream's use moves it.
    """
    digest = hashlib.sha256(f"{key}/{purpose}".encode()).digest()
    return np.random.Generator(np.random.Philox(key=int.from_bytes(digest[:16], "little")))
