"""Whether a JPEG's picture is whole. A file that lost bytes is decoded all the same: what is missing becomes grey, what
is in the wrong place garbage, and the library that says so is not heard.

The decoder is asked instead. A whole picture uses its data to the end and nothing beyond: without the last bytes it
changes, and bytes behind them change nothing (ITU-T T.81, annex F: no length is written anywhere).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from .pixels import UnreadableError, read_picture

_END = b"\xff\xd9"
_SCAN, _BASELINE = 0xDA, (0xC0, 0xC1)
# A marker within the data of a scan: neither a stuffed zero nor fill nor a restart.
_MARKER = re.compile(rb"\xff[^\x00\xff\xd0-\xd7]")
# More than the smallest blocks need, and no zeros alone, which is what the decoder reads behind the end.
_TAIL = 10
_MORE = b"\x5a\xa5\x3c\xc3" * 64
# What is missing is decoded as grey of 128, smoothed towards its neighbours and, in CMYK, at half its value.
_GREY = (60, 170)
# A picture whose last eighth is grey was broken once, or has a border of that grey.
_BOTTOM = 8


@dataclass
class _Scans:
    """The scans of a JPEG's first picture: where the data of the last one begin and end, and how many there are.
    `missing` are the coefficients that none gives to the last bit, (component, place).
    """

    baseline: bool = False
    count: int = 0
    start: int = 0
    end: int = 0
    missing: set[tuple[int, int]] = field(default_factory=set)


def damage(data: bytes, picture: NDArray[np.uint8]) -> str | None:
    """What is wrong with a JPEG's data, None where nothing is seen: a progressive one's last scan may be cut off."""
    if not data.startswith(b"\xff\xd8") or (scans := _scans(data)) is None:
        return None
    if scans.missing:
        return "its last scans are missing, and it is blurred"
    corners = picture[[0, 0, -1, -1], [0, -1, 0, -1]].astype(int)
    grey = ((corners >= _GREY[0]) & (corners <= _GREY[1])).all(1).any()
    if grey and (more := _decoded(data[: scans.end] + _MORE + _END)) is not None and not np.array_equal(more, picture):
        return "its data end before the picture does, and the rest is grey"
    tail = data[max(scans.start, scans.end - _TAIL) : scans.end]
    flat = (corners == 128).all(1).any()
    if not scans.baseline or scans.count > 1 or flat or len(tail) < _TAIL or len(set(tail)) <= 2:
        return None
    less = _decoded(data[: scans.end - _TAIL] + _END)
    if less is not None and np.array_equal(less, picture):
        return "its picture ends before the data do, and part of it is garbage"
    return None


def _scans(data: bytes) -> _Scans | None:
    """The scans of the first picture; None for what is built otherwise."""
    scans, at = _Scans(), 2
    while at < len(data) - 1 and data[at] == 0xFF:
        marker, segment = data[at + 1], at + 4
        if marker == 0xD9:
            scans.end = at
            return scans if scans.count else None
        if marker == 0xFF:
            at += 1
            continue
        at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
        if 0xC0 <= marker <= 0xC2 and at < len(data):
            scans.baseline = marker in _BASELINE
            components = data[segment + 6 : at : 3]
            scans.missing = {(one, place) for one in components for place in range(64)}
        elif marker == _SCAN and at < len(data):
            first, last, bits = data[at - 3 : at]
            if bits & 15 == 0:  # the lowest bit is among them
                for one in data[segment + 1 : at - 3 : 2]:
                    scans.missing -= {(one, place) for place in range(first, last + 1)}
            end = _MARKER.search(data, at)
            if end is None:
                return None
            scans.count, scans.start, at = scans.count + 1, at, end.start()
    return None


def _decoded(data: bytes) -> NDArray[np.uint8] | None:
    try:
        return read_picture(data)
    except UnreadableError:
        return None


def ends_grey(picture: NDArray[np.uint8]) -> bool:
    """Whether the bottom of a picture, and no row at its top, is the grey of missing data, saved with the rest."""
    height = len(picture) // _BOTTOM
    return bool((picture[-height:] == 128).all() and not (picture[:height] == 128).all((1, 2)).any())
