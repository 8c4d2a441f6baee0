"""The page: a static HTML file that shows an album, with filters by kind of edit, verdict and answer.

Strips, figures and tables arrive; `index.html` leaves. It links the pictures by relative paths, so a folder that is
moved as a whole still works, and asks nothing of the network. Every word from the outside is escaped.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from pathlib import Path, PurePath
from urllib.parse import quote

from ..edit import EDIT_TYPES
from .album import Frame, Seen, Strip, Table


def write_page(
    album: Sequence[Strip],
    path: Path,
    *,
    title: str,
    subtitle: str,
    figures: Sequence[tuple[str, str]] = (),
    tables: Sequence[Table] = (),
    footer: str = "",
) -> None:
    """Write the page of an album to `path`.

    `figures` are (name, value) pairs shown large; `tables` stand below them; `subtitle` and `footer` are plain text.
    """
    parts = {
        "title": escape(title),
        "subtitle": escape(subtitle),
        "footer": escape(footer),
        "figures": _figures(figures),
        "tables": '<div class="tables">' + "".join(map(_table, tables)) + "</div>" if tables else "",
        "filters": _filters(album),
        "strips": "\n".join(_strip(strip, path.parent) for strip in album),
    }
    # One pass over the template: a caption that reads "{{strips}}" stays what it is.
    head, *pieces = files(__package__).joinpath("page.html").read_text(encoding="utf-8").split("{{")
    page = head + "".join(parts[name] + rest for name, rest in (piece.split("}}", 1) for piece in pieces))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page, encoding="utf-8")


def _figures(figures: Sequence[tuple[str, str]]) -> str:
    if not figures:
        return ""
    tiles = (f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in figures)
    return f'<dl class="tiles">{"".join(tiles)}</dl>'


def _table(table: Table) -> str:
    head = "".join(f'<th scope="col">{escape(column)}</th>' for column in table.columns)
    body = "".join(
        f'<tr><th scope="row">{escape(row[0])}</th>' + "".join(f"<td>{escape(cell)}</td>" for cell in row[1:]) + "</tr>"
        for row in table.rows
    )
    return (
        f'<div class="table"><table><caption>{escape(table.title)}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _filters(album: Sequence[Strip]) -> str:
    """One group of choices for each thing in which the album's variants differ."""
    frames = [frame for strip in album for frame in strip.frames]
    present = {kind for frame in frames for kind in frame.types}
    groups = [_choices("Edit", "type", [kind for kind in EDIT_TYPES if kind in present])]
    if {frame.accepted for frame in frames} == {True, False}:
        groups.append(_choices("Verdict", "verdict", ["accepted", "rejected"]))
    if any(frame.seen for frame in frames):
        groups.append(_choices("Model's answer", "answer", ["right", "wrong"]))
    return "".join(groups)


def _choices(legend: str, name: str, values: Sequence[str]) -> str:
    options = "".join(
        f'<label><input type="radio" name="{name}" value="{value}"{" checked" if not value else ""}>'
        f"<span>{value or 'all'}</span></label>"
        for value in ("", *values)
    )
    return f"<fieldset><legend>{escape(legend)}</legend>{options}</fieldset>"


def _strip(strip: Strip, base: Path) -> str:
    name = f" <small>{escape(strip.name)}</small>" if strip.label else ""
    pictures = [
        _picture(image, base, alt) for image, alt in ((strip.image, "source"), (strip.edges, "its edges")) if image
    ]
    pair = f'<div class="pair">{"".join(pictures)}</div>' if pictures else ""
    frames = "".join(_frame(frame, base) for frame in strip.frames)
    return (
        f'<section class="strip"><div class="source"><h2>{escape(strip.label or strip.name)}{name}</h2>{pair}'
        f'{_answer(strip.seen)}<p>{escape(strip.caption)}</p></div><div class="frames">{frames}</div></section>'
    )


def _frame(frame: Frame, base: Path) -> str:
    verdict = "accepted" if frame.accepted else "rejected"
    answer = "" if frame.seen is None else "right" if frame.seen.right else "wrong"
    edits = "".join(
        f'<div class="{edit.type if edit.type in EDIT_TYPES else "other"}">{escape(edit.keyword)} \N{RIGHTWARDS ARROW} '
        f"<b>{escape(edit.alternative)}</b></div>"
        for edit in frame.edits
    )
    reason = "" if frame.accepted else f'<span class="bad">rejected: {escape(frame.reason)}</span>'
    return (
        f'<figure class="{verdict}" data-types="{escape(" ".join(frame.types))}" data-verdict="{verdict}" '
        f'data-answer="{answer}" title="{escape(frame.caption)}">{_picture(frame.image, base, frame.caption)}'
        f"<figcaption>{edits}{_answer(frame.seen)}{reason}</figcaption></figure>"
    )


def _answer(seen: Seen | None) -> str:
    if seen is None:
        return ""
    if seen.right:
        return f'<p class="good">\N{CHECK MARK} {escape(seen.answer)}</p>'
    return f'<p class="bad">\N{BALLOT X} model says {escape(seen.answer)}</p>'


def _picture(image: Path, base: Path, alt: str) -> str:
    # os.path.relpath walks up as well, which Path.relative_to learnt only in Python 3.12.
    link = quote(PurePath(os.path.relpath(image, base)).as_posix())
    return f'<a href="{link}"><img src="{link}" alt="{escape(alt)}" loading="lazy" decoding="async"></a>'
