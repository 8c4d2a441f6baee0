"""Sheets of variants for the eye: sources and what was made of them, at double size, with what there is to say."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

_SCALE, _LINE, _CHARACTERS = 2, 16, 41
_QUALITY = 70  # of WebP: all sheets of the docs together are to stay below a megabyte
# A picture uint8 [H, W, 3], and what stands above it.
Tile = tuple[NDArray[np.uint8], str]


def draw_blocks(blocks: Sequence[Sequence[Tile]], across: int, path: Path) -> None:
    """Write a WebP picture of blocks of tiles, `across` blocks in a row; there is at least one. Tiles are pictures
    enlarged to double size by repeating pixels, below their lines of text; missing ones are white.
    """
    most = max(len(block) for block in blocks)
    lines = max(len(_lines(text)) for block in blocks for _, text in block)
    tiles = [[_tile(picture, _lines(text), lines) for picture, text in block] for block in blocks]
    nothing = np.full_like(tiles[0][0], 255)
    wide = [np.hstack([*block, *[nothing] * (most - len(block))]) for block in tiles]
    wide += [np.full_like(wide[0], 255)] * (-len(wide) % across)
    rows = [np.hstack(wide[i : i + across]) for i in range(0, len(wide), across)]
    sheet = cv2.cvtColor(np.vstack(rows), cv2.COLOR_RGB2BGR)
    cv2.imwrite(str(path), sheet, [cv2.IMWRITE_WEBP_QUALITY, _QUALITY])


def _lines(text: str) -> list[str]:
    """A text's lines, as long as a tile is wide."""
    return [part for line in text.split("\n") for part in textwrap.wrap(line, _CHARACTERS) or [""]]


def _tile(picture: NDArray[np.uint8], lines: Sequence[str], room: int) -> NDArray[np.uint8]:
    large = picture.repeat(_SCALE, 0).repeat(_SCALE, 1)
    strip = np.full((_LINE * room + 3, large.shape[1], 3), 255, np.uint8)
    for number, line in enumerate(lines, 1):
        place = (4, _LINE * number - 3)
        cv2.putText(strip, line, place, cv2.FONT_HERSHEY_SIMPLEX, 0.38, (0, 0, 0), 1, cv2.LINE_AA)
    return np.vstack([strip, large])
