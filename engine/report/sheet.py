"""The contact sheet: one PNG that shows what a suite is.

It has one row per source: the source, its edges, its variants, and below each variant the words that were changed.
Rejected pictures have a red frame, variants the reason too; a wrong answer is shown. The sheet is for people only:
pictures are enlarged and nothing can be read back from it.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont, ImageOps

from ..edit import Edit
from ..suite.images import open_png
from .album import Frame, Strip

CELL, GAP, MARGIN = 256, 20, 40
_HEADER, _LINE, _BELOW = 104, 29, 12
_DOT, _ARROW = 16, 34  # widths of the dot before a changed word and of the arrow behind it
_MAX_LINES = 4

Colour = tuple[int, int, int]
PAPER: Colour = (255, 255, 255)
_INK: Colour = (24, 27, 33)
_GREY: Colour = (118, 124, 136)
_RED: Colour = (200, 30, 45)
_BLANK: Colour = (243, 244, 247)
# One hue per type of edit; page.html uses the same.
HUES: dict[str, Colour] = {
    "weather": (37, 99, 235),
    "time": (202, 108, 4),
    "colour": (192, 38, 140),
    "background": (13, 128, 98),
    "object": (115, 70, 215),
    "other": (95, 102, 115),
    "subject": (190, 30, 45),
    "adjective": (0, 121, 140),
    "domain": (109, 90, 20),
    "light": (176, 92, 0),
    "camera": (58, 92, 64),
}


def draw_sheet(album: Sequence[Strip], title: str, subtitle: str, notes: Sequence[str] = ()) -> Image.Image:
    """Draw the strips as a sheet, RGB; as wide as the longest strip. Raises ValueError if there is none."""
    if not album:
        raise ValueError("a contact sheet needs at least one source")
    lines = [max((len(_notes(frame)) for frame in strip.frames), default=1) for strip in album]
    lines = [min(_MAX_LINES, max(2, count)) for count in lines]
    columns = 2 + any(strip.control for strip in album) + max(len(strip.frames) for strip in album)
    width = 2 * MARGIN + columns * CELL + (columns - 1) * GAP
    heights = [CELL + _BELOW + count * _LINE + GAP for count in lines]
    note_lines = [line for note in notes for line in _wrap(note, 23, width - 2 * MARGIN)]
    top = MARGIN + _HEADER + len(note_lines) * _LINE
    sheet = Image.new("RGB", (width, top + sum(heights) + MARGIN // 2), PAPER)
    pen = ImageDraw.Draw(sheet)
    pen.text((MARGIN, MARGIN - 10), _latin(title), _INK, _font(40))
    pen.text((MARGIN, MARGIN + 42), _latin(subtitle), _GREY, _font(23))
    for i, line in enumerate(note_lines):
        pen.text((MARGIN, MARGIN + 42 + (i + 1) * _LINE), line, _RED, _font(23))
    for strip, height in zip(album, heights, strict=True):
        _draw_strip(sheet, pen, strip, top)
        top += height
    return sheet


def _draw_strip(sheet: Image.Image, pen: ImageDraw.ImageDraw, strip: Strip, top: int) -> None:
    left, below = MARGIN, top + CELL + _BELOW
    _paste_picture(sheet, strip.image, left, top)
    pen.text((left, below), _shorten(strip.label or strip.name, 24, CELL), _INK, _font(24))
    if strip.label:
        pen.text((left, below + _LINE), _shorten(strip.name, 19, CELL), _GREY, _font(19))
    left += CELL + GAP
    _paste_picture(sheet, strip.edges, left, top)
    pen.text((left, below), "edges", _GREY, _font(22))
    if strip.control is not None:
        left += CELL + GAP
        _paste_picture(sheet, strip.control.image, left, top)
        pen.text((left, below), "control: same caption", _GREY, _font(22))
        _frame_rejected(pen, strip.control, left, top)
        if strip.control.answer and not strip.control.answer.right:
            _draw_note(pen, (left, below + _LINE), f"model says: {strip.control.answer.text}", None, _RED)
    for frame in strip.frames:
        left += CELL + GAP
        _paste_picture(sheet, frame.image, left, top)
        _frame_rejected(pen, frame, left, top)
        for i, (text, target, colour) in enumerate(_notes(frame)[:_MAX_LINES]):
            _draw_note(pen, (left, below + i * _LINE), text, target, colour)


def _frame_rejected(pen: ImageDraw.ImageDraw, frame: Frame, left: int, top: int) -> None:
    if not frame.row.accepted:
        pen.rounded_rectangle((left - 3, top - 3, left + CELL + 2, top + CELL + 2), 12, outline=_RED, width=5)


def _notes(frame: Frame) -> list[tuple[str, str | None, Colour]]:
    """Lines below a variant: (text, text after an arrow, colour)."""
    notes: list[tuple[str, str | None, Colour]] = []
    if not frame.row.accepted:
        notes.append((f"rejected: {frame.row.reason}", None, _RED))
    notes += [_change(edit) for edit in frame.row.edits]
    notes += [(text, None, _GREY) for text in frame.circumstances]
    if frame.answer and not frame.answer.right:
        notes.append((f"model says: {frame.answer.text}", None, _RED))
    return notes


def _change(edit: Edit) -> tuple[str, str | None, Colour]:
    hue = HUES.get(edit.type, HUES["other"])
    if edit.kind == "replace":
        return edit.keyword, edit.alternative, hue
    return (f"+ {edit.alternative}" if edit.kind == "add" else f"- {edit.keyword}"), None, hue


def _draw_note(pen: ImageDraw.ImageDraw, at: tuple[int, int], text: str, target: str | None, colour: Colour) -> None:
    x, y = at
    if target is None:
        pen.text((x, y), _shorten(text, 20, CELL), colour, _font(20))
        return
    text, target = _latin(_drop_shared_end(text, target)), _latin(target)
    room = CELL - _DOT - _ARROW
    size = next((s for s in (22, 20, 18, 16) if _font(s).getlength(text) + _font(s).getlength(target) <= room), 18)
    text = _shorten(text, size, max(room // 2, room - round(_font(size).getlength(target))))
    middle = y + 13
    pen.ellipse((x, middle - 5, x + 9, middle + 4), colour)
    pen.text((x + _DOT, middle), text, _GREY, _font(size), anchor="lm")
    tip = x + _DOT + round(_font(size).getlength(text)) + _ARROW - 8
    # The font that comes with Pillow has no arrow.
    pen.line((tip - 17, middle, tip, middle), _GREY, 2)
    pen.line((tip - 6, middle - 5, tip, middle, tip - 6, middle + 5), _GREY, 2)
    pen.text((tip + 8, middle), _shorten(target, size, x + CELL - tip - 8), _INK, _font(size), anchor="lm")


def _drop_shared_end(text: str, target: str) -> str:
    """ "brick buildings" against "glass buildings" is just "brick"."""
    mine, other = text.split(), target.split()
    while len(mine) > 1 and len(other) > 1 and mine[-1] == other[-1]:
        mine.pop()
        other.pop()
    return " ".join(mine)


def _paste_picture(sheet: Image.Image, path: Path | None, left: int, top: int) -> None:
    """Paste a picture, enlarged to fit a cell and centred; an empty cell where there is none."""
    picture = None
    if path is not None:
        with suppress(ValueError):  # no PNG, whatever else it may be: a suite may come from anybody
            picture = open_png(path, lambda image: image.convert("RGB"))
    cell = ImageOps.pad(picture or Image.new("RGB", (1, 1), _BLANK), (CELL, CELL), color=_BLANK)
    corners = Image.new("L", (CELL * 2, CELL * 2), 0)
    ImageDraw.Draw(corners).rounded_rectangle((0, 0, CELL * 2 - 1, CELL * 2 - 1), 18, fill=255)
    sheet.paste(cell, (left, top), corners.resize((CELL, CELL), Image.Resampling.BOX))


@cache  # Pillow decodes its font anew at every call
def _font(size: int) -> ImageFont.FreeTypeFont:
    font = ImageFont.load_default(size)
    assert isinstance(font, ImageFont.FreeTypeFont)  # Pillow's wheels have FreeType
    return font


def _latin(text: str) -> str:
    """Text in the letters that the font has: accents dropped, anything else a question mark."""
    text = text.replace("–", "-").replace("×", "x")
    return unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode() or "?"


def _wrap(text: str, size: int, width: int) -> list[str]:
    """Text in lines of a width in pixels, broken between words."""
    lines: list[str] = []
    for word in _latin(text).split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and _font(size).getlength(longer) <= width:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


def _shorten(text: str, size: int, width: int) -> str:
    """Text cut to a width in pixels."""
    text, font = _latin(text[: 2 * width]), _font(size)  # no letter is half a pixel wide, and texts have any length
    if font.getlength(text) <= width:
        return text
    while text and font.getlength(text + "...") > width:
        text = text[:-1]
    return text.rstrip() + "..."
