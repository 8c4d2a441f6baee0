"""The page: a static HTML file that shows an album, with filters by kind of edit, verdict and answer.

Strips, figures and tables become `index.html`. It links the pictures by relative paths, so that a folder that is moved
as a whole still works, and loads nothing from the network. The template `page.html` escapes whatever it is given.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from pathlib import Path, PurePath
from urllib.parse import quote

from jinja2 import Environment, StrictUndefined

from ..edit import EDIT_TYPES
from ..files.writing import write_whole
from .album import Strip
from .table import Table


@dataclass(frozen=True)
class _Filter:
    """A group of choices above the strips; `name` is the key of the page's script."""

    legend: str
    name: str
    values: tuple[str, ...]


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
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(files(__package__).joinpath("page.html").read_text(encoding="utf-8"))
    page = template.render(
        title=title,
        subtitle=subtitle,
        figures=figures,
        tables=tables,
        filters=_filters(album),
        album=album,
        footer=footer,
        edit_types=EDIT_TYPES,
        link=partial(_link, base=path.parent),
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, page, sync="nothing")


def _filters(album: Sequence[Strip]) -> list[_Filter]:
    """One group of choices for each thing in which the album's variants differ."""
    frames = [frame for strip in album for frame in strip.frames]
    present = {kind for frame in frames for kind in frame.types}
    filters = [_Filter("Edit", "type", tuple(kind for kind in EDIT_TYPES if kind in present))]
    if {frame.accepted for frame in frames} == {True, False}:
        filters.append(_Filter("Verdict", "verdict", ("accepted", "rejected")))
    if any(frame.answer for frame in frames):
        filters.append(_Filter("Model's answer", "answer", ("right", "wrong")))
    return filters


def _link(image: Path, base: Path) -> str:
    """The image's path seen from the folder `base`, as a URL."""
    # os.path.relpath walks up as well, which Path.relative_to learnt only in Python 3.12.
    return quote(os.fsencode(PurePath(os.path.relpath(image, base)).as_posix()))  # names need not be UTF-8
