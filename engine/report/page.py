"""The page: a static HTML file that says what was found, and shows an album to be filtered, sorted, searched and looked
at closely.

Findings, charts, figures and tables become `index.html`, through the template `page.html`, which escapes whatever it is
given; `page.css` and `page.js` become part of the file. The album is data in it, which `page.js` draws; what is beyond
the first hundreds of sources lies in files beside it. Pictures are linked by relative paths, so that a folder that is
moved as a whole still works, or are part of the file. Nothing comes from the network.
"""

from __future__ import annotations

import hashlib
import json
import os
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from math import inf
from pathlib import Path, PurePath
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from ..edit import EDIT_TYPES
from ..files.writing import write_whole
from ..stages.check.verdict import check_meaning
from .album import Answer, Frame, Strip
from .coloured_masks import class_colour
from .curves import Curve
from .effects_text import column_words
from .findings import ReportFinding, address
from .forest import Forest
from .score_words import score_words
from .table import Table

# Where what does not fit into the page lies, beside it; and sources in the page and in each of those files.
ALBUM = "album"
_SHARD = 400
_WRONG = "wrong"
# What masks that a model gave are judged by, among the scores of variants.
_MASKED = "picture mIoU"
# Takes a picture's file to the address that the page has for it.
Link = Callable[[Path], str]


@dataclass(frozen=True)
class ReportText:
    """The words of a report: `notes` before all else, `findings` in sentences, `forests` of effects, `figures` as
    (name, value) shown large, tables, and `remarks` on all. `classes` are the names of masks' numbers 0, 1, ....
    `curves` show what thresholds would let pass; `limits` are the least and the most that scores may be, by name.
    `data` are further figures for programs, and not shown. All text is plain.
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
    findings: tuple[ReportFinding, ...] = ()
    forests: tuple[Forest, ...] = ()
    limits: Mapping[str, tuple[float | None, float | None]] = field(default_factory=dict)
    data: Mapping[str, Any] = field(default_factory=dict)


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
    album: Sequence[Strip],
    path: Path,
    text: ReportText,
    thumbnails: Mapping[Path, Path] | None = None,
    embedded: Mapping[Path, str] | None = None,
    below: Path | None = None,
) -> None:
    """Write the page of an album to `path`, below the folder `below`; `thumbnails` are shown in place of
    pictures until one is opened.

    `embedded` are the pictures as addresses that hold them: then nothing but the page is written.
    """
    forms: dict[str, Any] = {"autoescape": True, "trim_blocks": True, "lstrip_blocks": True}
    environment = Environment(loader=FunctionLoader(_read_part), undefined=StrictUndefined, **forms)
    frames = [frame for strip in album for frame in strip.frames]
    pills, lists = _pills(frames), _lists(album, frames)
    known = {one.name: {value for value, _ in one.values} for one in (*pills, *lists)}

    def shows(*choices: tuple[str, str]) -> str:
        """The address of the pictures of these choices; "" of none, and where the page has no such choice."""
        there = all(name in known.get(of, ()) for of, name in choices)
        return address(dict(choices)) if choices and there else ""

    def confused(table: Table, row: tuple[str, ...], column: int) -> str:
        truth, called = row[0], table.columns[column]
        if not table.confusion or row[column] == "0.0 %" or not {truth, called} <= known.get("class", set()):
            return ""
        return address({"class": truth, "said": called})

    link: Link = (lambda image: _link(image, path.parent)) if embedded is None else (lambda image: embedded[image])
    small = {} if thumbnails is None else thumbnails
    ordered = sorted(enumerate(album), key=lambda one: _rank(one[1]))
    size = _SHARD if embedded is None else max(len(album), 1)
    shards = [ordered[i : i + size] for i in range(0, len(ordered), size)] or [[]]

    def shard_data(shard: Sequence[tuple[int, Strip]]) -> list[dict[str, Any]]:
        return [_strip_data(place, strip, link, small) for place, strip in shard]

    data = {
        "strips": shard_data(shards[0]),
        "variants": len(frames),
        "more": [f"{ALBUM}/{number}.js" for number in range(1, len(shards))],
        "words": score_words(name for frame in frames for name in frame.row.scores),
        "limits": text.limits,
    }
    script = _read_part("page.js")
    page = environment.get_template("page.html").render(
        **{name: value for name, value in vars(text).items() if name != "data"},
        pills=pills,
        lists=lists,
        order=_order(frames),
        masks=any(strip.mask for strip in album),
        columns=max((len(strip.frames) + (strip.control is not None) for strip in album), default=1),
        colour=class_colour,
        shows=shows,
        confused=confused,
        explain=column_words,
        data=_as_json(data),
        script=Markup(script),
        # Nothing else runs in the page but what this script loads, and nothing is asked of the network.
        script_digest=b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )
    for number, shard in enumerate(shards[1:], start=1):
        script = f"addStrips({_as_json(shard_data(shard))});\n"
        write_whole(path.parent / ALBUM / f"{number}.js", script, sync="nothing", below=below or path.parent)
    write_whole(path, page, sync="nothing", below=below)


def _read_part(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _as_json(data: Any) -> Markup:
    """JSON that a page may hold as it is: no tag, comment or entity can begin in it."""
    text = json.dumps(data, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def _order(frames: Sequence[Frame]) -> str:
    """The order that nobody has to choose: what the model fails on first, as in the suite where no model was asked."""
    if any(frame.answer for frame in frames):
        return _WRONG
    return f"score:{_MASKED}" if any(_MASKED in frame.row.scores for frame in frames) else ""


def _rank(strip: Strip) -> tuple[int, float]:
    """The more accepted variants are answered wrongly, and the worse a mask, the further in front."""
    wrong = sum(frame.row.accepted and frame.answer is not None and not frame.answer.right for frame in strip.frames)
    return -wrong, min((frame.row.scores.get(_MASKED, inf) for frame in strip.frames), default=inf)


def _strip_data(place: int, strip: Strip, link: Link, small: Mapping[Path, Path]) -> dict[str, Any]:
    """A source as page.js draws it."""

    def picture(image: Path) -> list[str]:
        return [link(small[image]), link(image)] if image in small else [link(image)]

    control = strip.control and {
        "image": picture(strip.control.image),
        "reason": strip.control.row.reason,
        "answer": _answer(strip.control.answer),
    }
    return {
        "place": place,
        "source": strip.name,
        "label": strip.label,
        "caption": strip.caption,
        "image": picture(strip.image),
        "edges": strip.edges and link(strip.edges),
        "mask": strip.mask and link(strip.mask),
        "answer": _answer(strip.answer),
        "control": control,
        "frames": [_frame_data(frame, picture(frame.image)) for frame in strip.frames],
    }


def _frame_data(frame: Frame, image: list[str]) -> dict[str, Any]:
    row = frame.row
    return {
        "name": row.file_name,
        "image": image,
        "caption": row.edited_caption,
        "edits": [
            [edit.type, edit.type if edit.type in EDIT_TYPES else "other", edit.keyword, edit.alternative, score]
            for edit, score in frame.changes
        ],
        "values": frame.values,
        "circumstances": list(frame.circumstances),
        "reason": row.reason,
        "failed": frame.failed,
        "answer": _answer(frame.answer),
        "scores": {name: round(value, 4) for name, value in row.scores.items()},
    }


def _answer(given: Answer | None) -> list[str | bool] | None:
    return None if given is None else [given.text, given.right]


def _pills(frames: Sequence[Frame]) -> list[_Filter]:
    """A row of buttons for each thing with few values in which the album's variants differ."""
    present = {kind for frame in frames for kind in frame.types}
    named = [kind for kind in EDIT_TYPES if kind in present]
    filters = [_Filter("Edit", "type", _same([*named, *sorted(present.difference(named))]))]
    if {frame.row.accepted for frame in frames} == {True, False}:
        filters.append(_Filter("Verdict", "verdict", _same(("accepted", "rejected"))))
    if any(frame.answer for frame in frames):
        filters.append(_Filter("Model's answer", "answer", _same(("right", _WRONG))))
    return filters


def _lists(album: Sequence[Strip], frames: Sequence[Frame]) -> list[_Filter]:
    """A list to choose from for each thing with many values, and for the order."""
    classes = sorted({strip.label for strip in album if strip.label is not None})
    values = sorted({value for frame in frames for value in frame.values})
    checks = sorted({check for frame in frames if (check := frame.failed)})
    answers = sorted({frame.answer.text for frame in frames if frame.answer})
    lists = [
        _Filter("Class", "class", _same(classes)),
        _Filter("Model says", "said", _same(answers)),
        _Filter("Edit value", "value", _same(values)),
        _Filter("Rejected, as", "failed", tuple((check, check_meaning(check) or check) for check in checks)),
    ]
    suite = "as in the suite"
    unset = {_WRONG: "wrong first", "": suite}.get(_order(frames), f"lowest {_MASKED} first")
    others = [("suite", suite)] if unset != suite else []
    names = score_words(name for frame in frames for name in frame.row.scores)
    orders = (*others, ("source", "by source"), *((f"score:{name}", f"lowest {name} first") for name in sorted(names)))
    return [*(one for one in lists if len(one.values) > 1), _Filter("Order", "sort", orders, unset)]


def _same(values: Iterable[str]) -> tuple[tuple[str, str], ...]:
    return tuple((value, value) for value in values)


def _link(image: Path, base: Path) -> str:
    """The image's path seen from the folder `base`, as a URL."""
    # os.path.relpath walks up as well, which Path.relative_to learnt only in Python 3.12.
    return quote(os.fsencode(PurePath(os.path.relpath(image, base)).as_posix()))  # names need not be UTF-8
