"""A sheet of variants for the eye: sources and what was made of them, at double size, with what was asked for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from .changes import Change
from .observed import Observed

_SCALE, _STRIP = 2, 18
_ROWS, _SOURCES_PER_ROW, _VARIANTS = 6, 2, 2


def draw_sheet(observed: Sequence[Observed], path: Path) -> None:
    """Write a WebP picture of 24 variants, two of each of 12 sources, which stand before them.

    Tiles are pictures enlarged to double size by repeating pixels, a strip above with what was asked for; where the
    referee does not see that, it says so. Sources with fewer variants leave tiles white.
    """
    by_source: dict[str, list[Observed]] = {}
    for one in observed:
        by_source.setdefault(one.source, []).append(one)
    groups = [group for group in by_source.values() if len(group) >= _VARIANTS] or list(by_source.values())
    blocks = [_block(group) for group in groups[: _ROWS * _SOURCES_PER_ROW]]
    blocks += [np.full_like(blocks[0], 255)] * (-len(blocks) % _SOURCES_PER_ROW)
    rows = [np.hstack(blocks[i : i + _SOURCES_PER_ROW]) for i in range(0, len(blocks), _SOURCES_PER_ROW)]
    sheet = cv2.cvtColor(np.vstack(rows), cv2.COLOR_RGB2BGR)
    cv2.imwrite(str(path), sheet, [cv2.IMWRITE_WEBP_QUALITY, 90])


def _block(group: Sequence[Observed]) -> NDArray[np.uint8]:
    tiles = [_tile(group[0].drawing.picture, "source")]
    tiles += [_tile(one.picture, _asked(one)) for one in group[:_VARIANTS]]
    return np.hstack([*tiles, *[np.full_like(tiles[0], 255)] * (_VARIANTS + 1 - len(tiles))])


def _tile(picture: NDArray[np.uint8], text: str) -> NDArray[np.uint8]:
    large = picture.repeat(_SCALE, 0).repeat(_SCALE, 1)
    strip = np.full((_STRIP, large.shape[1], 3), 255, np.uint8)
    cv2.putText(strip, text, (4, _STRIP - 5), cv2.FONT_HERSHEY_SIMPLEX, 0.4, (0, 0, 0), 1, cv2.LINE_AA)
    return np.vstack([strip, large])


def _asked(one: Observed) -> str:
    words = []
    for number, edit in enumerate(one.edits):
        unseen = " (unseen)" if one.edit_seen(number) is False else ""
        words.append(" and ".join(map(_words, edit)) + unseen if edit else "another word")
    return ", ".join(words)


def _words(change: Change) -> str:
    if change.name == "object":
        return f"{change.value} for {change.was}" if change.was else f"a {change.value}"
    if change.number is None:
        return change.value if change.name != "material" else f"{change.value} walls"
    return f"{change.name} {change.number + 1}: {change.value}"
