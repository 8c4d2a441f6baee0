"""The page: a static HTML file that shows an album, to be filtered, sorted, searched and looked at closely.

Notes, figures, tables and strips become `index.html`. It links the pictures by relative paths, so that a folder that is
moved as a whole still works, and loads nothing from the network. The template `page.html` escapes whatever it is given;
`page.css` and `page.js` become part of the file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from pathlib import Path, PurePath
from types import MappingProxyType
from urllib.parse import quote

from jinja2 import Environment, FunctionLoader, StrictUndefined

from ..edit import EDIT_TYPES
from ..files.writing import write_whole
from ..stages.check.verdict import check_meaning
from .album import Strip
from .coloured_masks import class_colour
from .curves import Curve
from .table import Table


@dataclass(frozen=True)
class ReportText:
    """The words of a report: `notes` before all else, `figures` as (name, value) shown large, tables,
    and `remarks` on what they compare; `classes` are the names of masks' numbers 0, 1, .... All is plain text. `curves`
    show what thresholds would let pass.
    """

    title: str
    subtitle: str
    figures: tuple[tuple[str, str], ...] = ()
    tables: tuple[Table, ...] = ()
    footer: str = ""
    notes: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    curves: tuple[Curve, ...] = ()


@dataclass(frozen=True)
class _Filter:
    """A choice above the strips: `name` is the key of the page's script, `values` are pairs of value and text, `unset`
    the text of choosing none.
    """

    legend: str
    name: str
    values: tuple[tuple[str, str], ...]
    unset: str = "all"


def write_page(
    album: Sequence[Strip], path: Path, text: ReportText, thumbnails: Mapping[Path, Path] = MappingProxyType({})
) -> None:
    """Write the page of an album to `path`; `thumbnails` are shown in place of pictures until one is opened."""
    environment = Environment(
        loader=FunctionLoader(_read_part),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["as_json"] = partial(json.dumps, ensure_ascii=False, default=dict)
    page = environment.get_template("page.html").render(
        **vars(text),
        pills=_pills(album),
        lists=_lists(album),
        masks=any(strip.mask for strip in album),
        album=album,
        columns=max((len(strip.frames) + (strip.control is not None) for strip in album), default=1),
        edit_types=EDIT_TYPES,
        colour=class_colour,
        link=partial(_link, base=path.parent),
        thumbnails=thumbnails,
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, page, sync="nothing")


def _read_part(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _pills(album: Sequence[Strip]) -> list[_Filter]:
    """A row of buttons for each thing with few values in which the album's variants differ."""
    frames = [frame for strip in album for frame in strip.frames]
    present = {kind for frame in frames for kind in frame.types}
    named = [kind for kind in EDIT_TYPES if kind in present]
    filters = [_Filter("Edit", "type", _same([*named, *sorted(present.difference(named))]))]
    if {frame.row.accepted for frame in frames} == {True, False}:
        filters.append(_Filter("Verdict", "verdict", _same(("accepted", "rejected"))))
    if any(frame.answer for frame in frames):
        filters.append(_Filter("Model's answer", "answer", _same(("right", "wrong"))))
    return filters


def _lists(album: Sequence[Strip]) -> list[_Filter]:
    """A list to choose from for each thing with many values, and for the order."""
    frames = [frame for strip in album for frame in strip.frames]
    classes = sorted({strip.label for strip in album if strip.label is not None})
    values = sorted({value for frame in frames for value in frame.values})
    checks = sorted({check for frame in frames if (check := frame.failed)})
    lists = [
        _Filter("Class", "class", _same(classes)),
        _Filter("Edit value", "value", _same(values)),
        _Filter("Rejected, as", "failed", tuple((check, check_meaning(check) or check) for check in checks)),
    ]
    orders = [("wrong", "wrong first")] if any(frame.answer for frame in frames) else []
    orders += [("source", "by source")]
    names = sorted({name for frame in frames for name in frame.row.scores})
    orders += [(f"score:{name}", f"lowest {name.replace('_', '-')} first") for name in names]
    return [*(one for one in lists if len(one.values) > 1), _Filter("Order", "sort", tuple(orders), "as in the suite")]


def _same(values: Iterable[str]) -> tuple[tuple[str, str], ...]:
    return tuple((value, value) for value in values)


def _link(image: Path, base: Path) -> str:
    """The image's path seen from the folder `base`, as a URL."""
    # os.path.relpath walks up as well, which Path.relative_to learnt only in Python 3.12.
    return quote(os.fsencode(PurePath(os.path.relpath(image, base)).as_posix()))  # names need not be UTF-8
