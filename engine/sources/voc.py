"""Pascal VOC: JPEGImages/ with Annotations/*.xml (boxes) and SegmentationClass/*.png (masks), either or both."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

from ..errors import CounterfactoryError
from .boxes import Box
from .class_map import BACKGROUND, load_class_map
from .listing import Entry, Listing, Problem, entry_of, finish, image_files, printable
from .rows import unprintable

_IMAGES, _BOXES, _MASKS = "JPEGImages", "Annotations", "SegmentationClass"


def is_voc(root: Path) -> bool:
    """Whether JPEGImages/ lies beside Annotations/ or SegmentationClass/."""
    return (root / _IMAGES).is_dir() and ((root / _BOXES).is_dir() or (root / _MASKS).is_dir())


def list_voc(root: Path) -> Listing:
    """The images of JPEGImages/. One with neither an annotation nor a mask is a problem."""
    if not is_voc(root):
        raise CounterfactoryError(f"{root} has no {_IMAGES}/ beside {_BOXES}/ or {_MASKS}/")
    files, problems = image_files(root / _IMAGES)
    masked = (root / _MASKS).is_dir()
    listing = Listing("voc", [], problems, load_class_map("voc") if masked else None)
    names: dict[str, None] = {}
    for relative in files:
        stem = relative.rpartition(".")[0]
        xml, mask = root / _BOXES / f"{stem}.xml", root / _MASKS / f"{stem}.png"
        entry = entry_of(root / _IMAGES, relative, mask=str(mask) if mask.is_file() else None)
        if not xml.is_file():
            if entry.mask is None:
                problems.append(Problem(entry.file, f"has neither {_BOXES}/{stem}.xml nor {_MASKS}/{stem}.png"))
            else:
                listing.entries.append(entry)
            continue
        try:
            listing.entries.append(_annotated(entry, xml))
        except (ValueError, OSError, ElementTree.ParseError) as error:
            problems.append(Problem(entry.file, f"{xml.name}: {error}"))
        else:
            names |= dict.fromkeys(box.label for box in listing.entries[-1].boxes)
    published = () if listing.class_map is None else tuple(listing.class_map.names.values())
    listing.class_names = tuple(dict.fromkeys([*names, *(name for name in published if name != BACKGROUND)]))
    return finish(listing)


def _annotated(entry: Entry, xml: Path) -> Entry:
    """The entry with the boxes of its annotation. Raises ValueError or ParseError for one that cannot be used."""
    root = ElementTree.fromstring(xml.read_bytes())
    size = [_number(root, f"size/{side}") for side in ("height", "width")] if root.find("size") is not None else [0, 0]
    # Writers that did not open the image leave a size of 0.
    known = (int(size[0]), int(size[1])) if all(size) else None
    return replace(entry, boxes=tuple(_box(thing) for thing in root.iterfind("object")), size=known)


def _box(thing: ElementTree.Element) -> Box:
    """VOC counts pixels from 1, and the last one belongs to the box."""
    name = (thing.findtext("name") or "").strip()
    if not name or unprintable(name):
        raise ValueError(f"an object has the name {printable(name)!r}")
    x0, y0, x1, y1 = (_number(thing, f"bndbox/{side}") for side in ("xmin", "ymin", "xmax", "ymax"))
    return Box(x0 - 1, y0 - 1, x1, y1, name)


def _number(element: ElementTree.Element, path: str) -> float:
    text = element.findtext(path) or ""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"{path} should be a number, found {printable(text)[:40]!r}")
    return value
