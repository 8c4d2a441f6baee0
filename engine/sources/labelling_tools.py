"""Boxes as tools and data sets write them beside pictures: labelme, CVAT for images 1.1, KITTI, BDD100K.

A file is about the picture of its name, or lists pictures by theirs. Corners are in pixels, from 0; of an outline the
box around it is taken. What is marked to be ignored is a crowd of any class.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any
from xml.etree import ElementTree

from ..files.reading import parse_json, read_bytes
from .aside import leave_aside
from .blobs import printable, unprintable
from .boxes import BoxCensus
from .companions import Companions, heads
from .listing import Listing, entry_of, finish, image_files
from .shapes import Box, things

_IGNORED = frozenset(("DontCare", "__ignore__", "_ignore_", "ignore"))
_DIGITS = 18


@dataclass(frozen=True)
class _Labelled:
    """The boxes of a picture, its name where a file lists several, and of which size (height, width) it is."""

    boxes: tuple[Box, ...]
    name: str = ""
    size: tuple[int, int] | None = None


def _box(label: object, points: Iterable[Iterable[Any]]) -> Box:
    """The box around points x, y. Raises ValueError and TypeError for a label that is no text and other points."""
    if not isinstance(label, str) or not label.strip() or unprintable(label):
        raise ValueError(f"a label should be text, found {label!r:.40}")
    numbers = [[float(number) for number in list(point)[:2]] for point in points]
    if len(numbers) < 2 or not all(len(point) == 2 and all(map(math.isfinite, point)) for point in numbers):
        raise ValueError(f"{printable(label)} needs two points or more, x and y each, found {numbers!r:.60}")
    xs, ys = zip(*numbers, strict=True)
    label = label.strip()
    ignored = Box(min(xs), min(ys), max(xs), max(ys), "", ignored="crowd")
    return ignored if label in _IGNORED else replace(ignored, label=label, ignored=None)


def _size(height: object, width: object) -> tuple[int, int] | None:
    sides = [int(str(side)) if str(side).isdecimal() and len(str(side)) <= _DIGITS else 0 for side in (height, width)]
    return (sides[0], sides[1]) if all(sides) else None


def _labelme(record: Mapping[str, Any], _: BoxCensus) -> _Labelled:
    """Points and lines have no box."""
    boxes = []
    for shape in record["shapes"]:
        points = [list(map(float, point)) for point in shape["points"]]
        if shape.get("shape_type") == "circle":  # its middle, and a point of it
            far = math.dist(*points)
            points = [[number + by for number in points[0]] for by in (-far, far)]
        if shape.get("shape_type") in (None, "rectangle", "circle", "mask", "polygon", "rotation"):
            boxes.append(_box(shape["label"], points))
    return _Labelled(tuple(boxes), size=_size(record.get("imageHeight"), record.get("imageWidth")))


def _bdd100k_frames(data: bytes) -> Iterator[tuple[str, list[Any], bool]]:
    """Names and labels of a list of frames, or those below `frames`, and whether any has a box: outlines beside boxes
    are lanes and roads.
    """
    content = parse_json(data, float)
    frames = content if isinstance(content, list) else [{"name": "", **content, **one} for one in content["frames"]]
    listed = [(frame, frame.get("labels") or frame.get("objects") or []) for frame in frames]
    boxed = any(one.get("box2d") for _, labels in listed for one in labels)
    return ((str(frame["name"]), labels, boxed) for frame, labels in listed)


def _bdd100k(record: tuple[str, list[Any], bool], _: BoxCensus) -> _Labelled:
    name, labels, boxed = record
    boxes = []
    for one in labels:
        if box := one.get("box2d"):
            boxes.append(_box(one["category"], [(box["x1"], box["y1"]), (box["x2"], box["y2"])]))
        elif not boxed and (lines := one.get("poly2d")):
            parts = [line["vertices"] for line in lines] if isinstance(lines[0], dict) else [lines]
            boxes.append(_box(one["category"], [point for part in parts for point in part]))
    return _Labelled(tuple(boxes), name)


def _cvat_images(data: bytes) -> Iterator[ElementTree.Element]:
    for _, element in ElementTree.iterparse(io.BytesIO(data)):
        if element.tag == "image":
            yield element
            element.clear()
        elif element.tag == "track":
            raise ValueError("holds tracks of a video; export it as 'CVAT for images 1.1'")


def _cvat(image: ElementTree.Element, census: BoxCensus) -> _Labelled:
    boxes = []
    for one in image:
        if one.tag == "box":
            x0, y0, x1, y1 = (one.get(side) for side in ("xtl", "ytl", "xbr", "ybr"))
            boxes.append(census.turn(_box(one.get("label"), [(x0, y0), (x1, y1)]), float(one.get("rotation", 0))))
        elif one.tag == "polygon":
            points = [point.split(",") for point in one.get("points", "").split(";")]
            boxes.append(_box(one.get("label"), points))
    return _Labelled(tuple(boxes), image.get("name", ""), _size(image.get("height"), image.get("width")))


def _kitti(text: bytes, _: BoxCensus) -> _Labelled:
    """A class, how much is cut off and hidden, an angle, the corners, and a box in space, of detectors also a score."""
    lines = [line.split() for line in text.decode().splitlines()]
    return _Labelled(tuple(_box(words[0], [words[4:6], words[6:8]]) for words in lines if words))


@dataclass(frozen=True)
class _Files:
    """A layout's files: their suffix, what they hold near their beginning, their records, and what reads each."""

    suffix: str
    mark: re.Pattern[bytes]
    records: Callable[[bytes], Iterable[Any]]
    read: Callable[[Any, BoxCensus], _Labelled]


_LINE = re.compile(rb"(?:\A|\n)[A-Za-z]\w*(?: -?[0-9.]+(?:e-?\d+)?){14,15} *\r?(?:\n|\Z)")
_FILES: Mapping[str, _Files] = MappingProxyType(
    {
        "labelme": _Files(".json", re.compile(rb'"shapes"\s*:\s*\['), lambda data: [parse_json(data, float)], _labelme),
        "bdd100k": _Files(".json", re.compile(rb'"(box2d|poly2d)"\s*:'), _bdd100k_frames, _bdd100k),
        "cvat": _Files(".xml", re.compile(rb"<annotations\b"), _cvat_images, _cvat),
        "kitti": _Files(".txt", _LINE, lambda data: [data], _kitti),
    }
)
TOOLS = tuple(_FILES)


def is_tool(layout: str, root: Path) -> bool:
    """Whether a file is of a layout, or some below a folder are."""
    files = _FILES[layout]
    return any(files.mark.search(head) for head in heads(root, files.suffix))


def list_tool(layout: str, root: Path) -> Listing:
    """The pictures that files of a layout below a folder are about, or one file. What cannot be read is a problem."""
    files, folder = _FILES[layout], root if root.is_dir() else root.parent
    if root.is_file() and not image_files(folder)[0]:
        folder = folder.parent
    listing, seen = Listing(layout, boxes=BoxCensus.of(root, "corners", None)), set[str]()
    pictures, listing.problems = image_files(folder)
    pictures, listing.notes = leave_aside(folder, pictures)
    companions = Companions(pictures)
    own = [root.relative_to(folder).as_posix()] if root.is_file() else image_files(folder, suffixes=(files.suffix,))[0]
    for file in own:
        for labelled in _read(files, folder / file, listing):
            try:
                picture = companions.picture_of(file, labelled.name)
                if picture in seen:
                    raise ValueError(f"says something of {printable(picture)}, as another file or line does")
                seen.add(picture)
                listing.entries.append(replace(entry_of(folder, picture), boxes=labelled.boxes, size=labelled.size))
            except ValueError as error:
                listing.skip(labelled.name or file, str(error))
    listing.note_first([picture for picture in pictures if picture not in seen], f"pictures have no boxes of {layout}")
    listing.class_names = tuple(sorted({box.label for one in listing.entries for box in things(one.boxes)}))
    return finish(listing)


def _read(files: _Files, path: Path, listing: Listing) -> Iterator[_Labelled]:
    """What a file says of pictures; nothing of a file that is another's, and problems of what cannot be used."""
    assert listing.boxes is not None
    try:
        data = read_bytes(path)
        for record in files.records(data) if files.mark.search(data) else ():
            try:
                yield files.read(record, listing.boxes)
            except (ValueError, TypeError, LookupError, AttributeError) as error:
                listing.skip(path.name, _reason(error))
    except (ValueError, TypeError, LookupError, AttributeError, OSError, ElementTree.ParseError) as error:
        listing.skip(path.name, _reason(error))


def _reason(error: Exception) -> str:
    return f"lacks {error}" if isinstance(error, KeyError) else str(error)[:200]
