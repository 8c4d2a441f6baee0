"""Sheets of variants for the eye: sources and what was made of them, at double size, with what there is to say."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from .changes import Change
from .judged import Judged
from .observed import Observed

_SCALE, _LINE, _CHARACTERS = 2, 16, 41
_ROWS, _SOURCES_PER_ROW, _VARIANTS = 6, 2, 2
_QUALITY = 70  # of WebP: all sheets of the docs together are to stay below a megabyte
# Of the sheet of verdicts: variants of each kind, and pairs of a source and a variant beside each other.
_OF_EACH, _PAIRS_PER_ROW = 4, 2
# A picture uint8 [H, W, 3], and what stands above it.
Tile = tuple[NDArray[np.uint8], str]


def draw_sheet(observed: Sequence[Observed], path: Path) -> None:
    """Write a WebP picture of 24 variants, two of each of 12 sources, which stand before them.

    Above each is what was asked for; where the referee does not see that, it says so. Sources with fewer variants leave
    tiles white.
    """
    by_source: dict[str, list[Observed]] = {}
    for one in observed:
        by_source.setdefault(one.source, []).append(one)
    groups = [group for group in by_source.values() if len(group) >= _VARIANTS] or list(by_source.values())
    blocks = [
        [(group[0].drawing.picture, "source"), *((one.picture, _asked(one)) for one in group[:_VARIANTS])]
        for group in groups[: _ROWS * _SOURCES_PER_ROW]
    ]
    draw_blocks(blocks, _SOURCES_PER_ROW, path)


def draw_verdicts(judged: Sequence[tuple[Judged, bool]], path: Path) -> None:
    """Write a WebP picture of variants beside their sources, each with whether it is valid: rejected ones, which the
    reason stands above, valid and not, and accepted ones that are not valid, as many of a kind as there are up to four.
    """
    kinds = [("rejected", False), ("rejected", True), ("accepted", False)]
    blocks = []
    for verdict, valid in kinds:
        some = [one for one, held in judged if held is valid and one.row.accepted is (verdict == "accepted")]
        for one in some[:_OF_EACH]:
            why = (one.row.reason or "").partition(": ")[0]
            truth = "valid" if valid else "not valid"
            blocks.append(
                [
                    (one.drawing.picture, "source\n" + ", ".join(edit.value for edit in one.row.edits)),
                    (one.picture, f"{verdict}{': ' * bool(why)}{why}\n{truth}, by the referee"),
                ]
            )
    if blocks:
        draw_blocks(blocks, _PAIRS_PER_ROW, path)


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
