"""Whether a JPEG's picture is whole. A file that lost bytes is decoded all the same: what is missing becomes grey, what
is in the wrong place garbage, and the library that says so is not heard.

The decoder is asked instead. A whole picture uses its data to the end and nothing beyond: without the last bytes it
changes, and bytes behind them change nothing (ITU-T T.81, annex F: no length is written anywhere).
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

_END = b"\xff\xd9"
_SCAN, _BASELINE = 0xDA, (0xC0, 0xC1)
# A marker within the data of a scan: neither a stuffed zero nor fill nor a restart.
_MARKER = re.compile(rb"\xff[^\x00\xff\xd0-\xd7]")
# More than the smallest blocks need, and no zeros alone, which is what the decoder reads behind the end.
_TAIL = 10
_MORE = b"\x5a\xa5\x3c\xc3" * 64
# What is missing is decoded as grey of 128, smoothed towards its neighbours and, in CMYK, at half its value.
_GREY = (60, 170)

Decode = Callable[[bytes], NDArray[np.uint8]]


def damage(data: bytes, picture: NDArray[np.uint8], decode: Decode) -> str | None:
    """What is wrong with the data of a JPEG whose picture `decode` gives, None where nothing is seen. Data of several
    scans may be cut off within the later ones without being seen.
    """
    if not data.startswith(b"\xff\xd8") or (scans := _scans(data)) is None:
        return None
    baseline, start, end = scans
    corners = picture[[0, 0, -1, -1], [0, -1, 0, -1]].astype(int)
    grey = ((corners >= _GREY[0]) & (corners <= _GREY[1])).all(1).any()
    if grey and not np.array_equal(decode(data[:end] + _MORE + _END), picture):
        return "its data end before the picture does, and the rest is grey"
    tail = data[max(start, end - _TAIL) : end]
    flat = (corners == 128).all(1).any()
    if not baseline or flat or len(tail) < _TAIL or len(set(tail)) <= 2:
        return None
    if np.array_equal(decode(data[: end - _TAIL] + _END), picture):
        return "its picture ends before the data do, and part of it is garbage"
    return None


def _scans(data: bytes) -> tuple[bool, int, int] | None:
    """Whether the first picture of a JPEG is baseline and of one scan, and where the data of its last scan begin and
    end; None for what is built otherwise.
    """
    at, kind, count, start = 2, 0, 0, 0
    while at < len(data) - 1 and data[at] == 0xFF:
        marker = data[at + 1]
        if marker == 0xD9:
            return (count == 1 and kind in _BASELINE, start, at) if count else None
        if marker == 0xFF:
            at += 1
            continue
        at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
        if 0xC0 <= marker <= 0xC3:
            kind = marker
        if marker == _SCAN:
            count, start = count + 1, at
            end = _MARKER.search(data, at)
            if end is None:
                return None
            at = end.start()
    return None
