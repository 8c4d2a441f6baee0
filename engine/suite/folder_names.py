"""A source's name as a folder: safe on common file systems, readable, and never the same for two names.

Names are user input, any text with "/" between parts; they become relative paths, most of them unchanged. Names that
differ in case are different, as on Linux; where a file system folds case, two such sources share a folder, and their
images still differ in name.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from pathlib import PurePosixPath

# 255 bytes is what file systems allow a part; paths beside them (suite, images/, key) need room under Windows' 260.
_MAX_PART_BYTES = 80
_MAX_NAME_BYTES = 180
_KEPT_CHARACTERS = 40
_FORBIDDEN = frozenset('<>:"|?*\\/[]=')
_DEVICES = frozenset(["CON", "PRN", "AUX", "NUL", *(f"{port}{n}" for port in ("COM", "LPT") for n in range(10))])
# `datasets` (5.2, data_files.py) takes a folder with one of these words between these separators for a split, and
# then reads only the files under it: metadata.parquet goes unseen. "=" beside the word hides it.
_SPLIT_WORD = re.compile(
    r"(?<![^-._ 0-9])(train|training|validation|valid|dev|val|test|testing|eval|evaluation)(?![^-._ 0-9])"
)
_IMAGE_FILE = re.compile(r"[0-9a-f]{16}\.png", re.IGNORECASE)


def safe_name(name: str) -> PurePosixPath:
    """The relative path that stands for a source's name; different names give different paths.

    A part that a file system or a tool could stumble over keeps its harmless characters and ends in "=" and 16 hex
    digits of its SHA-256. Since "=" itself counts as harmful, no other name can look like that on purpose.
    """
    parts = [_hide_split_words(part) if _is_harmless(part) else _digest_name(part) for part in name.split("/")]
    if sum(len(part.encode()) + 1 for part in parts) > _MAX_NAME_BYTES:
        parts = [_digest_name(name)]
    return PurePosixPath(*parts)


def _is_harmless(part: str) -> bool:
    return (
        part != ""
        and part.isprintable()  # no controls, no lone surrogates, no invisible marks
        and _FORBIDDEN.isdisjoint(part)
        and part == unicodedata.normalize("NFC", part)  # macOS takes both forms for one name
        and part[0] not in ". "
        and part[-1] not in ". "
        and part.split(".")[0].rstrip().upper() not in _DEVICES
        and not _IMAGE_FILE.fullmatch(part)  # a folder of a nested source must not take an image's name
        and len(part.encode()) <= _MAX_PART_BYTES
    )


def _digest_name(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    readable = re.sub(r"[^A-Za-z0-9_-]+", "_", plain)[-_KEPT_CHARACTERS:]
    return f"{_hide_split_words(readable)}={digest}"


def _hide_split_words(part: str) -> str:
    return _SPLIT_WORD.sub(r"=\1=", part)
