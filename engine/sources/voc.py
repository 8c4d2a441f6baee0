"""Pascal VOC: JPEGImages/ with Annotations/*.xml (boxes) and SegmentationClass/*.png (masks), either or both; or its
.xml files beside pictures or in another folder, as labelImg, Roboflow and Kaggle's sets have them.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np

from ..errors import CounterfactoryError, list_some
from ..files.disk_list import DiskList
from ..files.reading import read_bytes, read_text
from .blobs import printable, read_blob, unprintable
from .boxes import BoxCensus, BoxForm, box_of, is_marked
from .class_map import BACKGROUND, VOID, ClassMap, label_lines, load_class_map
from .companions import companion_files, heads
from .listing import Entry, Listing, entry_of, finish, image_files, is_file
from .pixels import UnreadableError, count_numbers, mask_palette, read_mask
from .shapes import Box, things

_IMAGES, _BOXES, _MASKS, _SETS = "JPEGImages", "Annotations", "SegmentationClass", "ImageSets"
# What names classes in the folder: CVAT's and labelme's files, and a plain list.
_NAMES = ("labelmap.txt", "class_names.txt", "labels.txt", "classes.txt")
_LOOKED_AT = 20
_LAST = 20
_MARKS = {
    "difficult": "what a model sees there is neither right nor wrong",
    "truncated": "these boxes are taken as the others are",
}


def is_voc(root: Path) -> bool:
    """Whether JPEGImages/ lies beside Annotations/ or SegmentationClass/."""
    return (root / _IMAGES).is_dir() and ((root / _BOXES).is_dir() or (root / _MASKS).is_dir())


def has_files(root: Path) -> bool:
    """Whether there are VOC's files of boxes below a folder, wherever they lie."""
    return any(re.search(rb"<annotation\b", head) for head in heads(root, ".xml"))


def list_voc(root: Path, split: str | None = None, form: BoxForm | None = None) -> Listing:
    """The images of JPEGImages/, or of a list of ImageSets/: "Main/val", or "val" where only one of its folders has
    that; `form` is that of boxes that are no corners. Raises CounterfactoryError without the folders or the list.
    """
    if not is_voc(root) and (split is not None or not has_files(root)):
        raise CounterfactoryError(f"{root} has no {_IMAGES}/ beside {_BOXES}/ or {_MASKS}/")
    folder = root / _IMAGES if is_voc(root) else root
    files, problems = image_files(folder)
    wanted = None if split is None else _split_names(root, split)
    if wanted is not None:
        files = DiskList(name for name in files if name.rpartition(".")[0] in wanted)
    listing = Listing("voc", problems)
    of_picture = {} if is_voc(root) else companion_files(root, files, ".xml", listing)
    files = files if is_voc(root) else DiskList(of_picture)
    listing.boxes, marks = BoxCensus.of(root, "corners", form), Counter[str]()
    missing = (wanted or set()) - {name.rpartition(".")[0] for name in files}
    listing.note_first(sorted(missing), f"of the images in {split} are not in {_IMAGES}/")
    for relative in files:
        stem = relative.rpartition(".")[0]
        xml, mask = root / of_picture.get(relative, f"{_BOXES}/{stem}.xml"), root / _MASKS / f"{stem}.png"
        entry = entry_of(folder, relative, mask=str(mask) if is_file(mask) else None)
        if entry.mask is None and not is_file(xml):
            listing.skip(relative, f"has neither {_BOXES}/{stem}.xml nor {_MASKS}/{stem}.png")
            continue
        try:
            listing.entries.append(_add_boxes(entry, xml, listing.boxes, marks) if is_file(xml) else entry)
        except (ValueError, OSError, ElementTree.ParseError) as error:
            listing.skip(relative, f"{xml.name}: {error}")
    listing.notes += [
        f"{marks[mark]} boxes are marked {mark}: {meant}" for mark, meant in _MARKS.items() if marks[mark]
    ]
    names = [box.label for entry in listing.entries for box in things(entry.boxes)]
    masks = [Path(str(entry.mask)) for entry in listing.entries if entry.mask is not None]
    if masks or (root / _MASKS).is_dir():
        listing.class_map = _class_map(root, masks[:_LOOKED_AT], names, listing)
    if listing.class_map is not None:
        names += [name for name in listing.class_map.names.values() if name != BACKGROUND]
    listing.class_names = tuple(dict.fromkeys(names))
    return finish(listing)


def _class_map(root: Path, masks: Sequence[Path], boxes: Sequence[str], listing: Listing) -> ClassMap | None:
    """The map of a file in the folder that names classes, else VOC's own, unless boxes or masks contradict it."""
    files = [root / name for name in _NAMES if (root / name).is_file()]
    if files:
        (numbers, colours), *others = [label_lines(file) for file in files]
        if differ := [file.name for file, of in zip(files[1:], others, strict=True) if of[0].names != numbers.names]:
            listing.notes.append(f"{files[0].name} names other classes than {' and '.join(differ)}, and it counts")
        return colours if colours is not None and _fits(colours, masks) else numbers
    voc = load_class_map("voc")
    strange = sorted({name for name in boxes if name not in voc.names.values()})
    reason = f"boxes name {list_some(strange, 3)}" if strange else next(filter(None, map(_contradiction, masks)), None)
    if reason is None:
        return voc
    listing.notes.append(
        f"masks go by their numbers, since {reason}, and VOC's names are other: name them in {root / _NAMES[1]} or by "
        "--class-map"
    )
    return None


def _fits(colours: ClassMap, masks: Sequence[Path]) -> bool:
    """Whether the first mask that can be read has these colours."""
    for mask in masks:
        with suppress(UnreadableError):
            numbers = read_mask(read_blob(str(mask)), colours=True)
            try:
                colours.apply(numbers)
            except UnreadableError:
                return False
            return True
    return True


def _contradiction(mask: Path) -> str | None:
    """Why a mask is not one of VOC's, if it is not: a number, or the colour of one."""
    try:
        data = read_blob(str(mask))
        numbers, palette = read_mask(data), mask_palette(data)
    except UnreadableError:
        return None
    colours = [] if palette is None else palette.tolist()
    for number in [] if numbers.ndim == 3 else np.flatnonzero(count_numbers(numbers)).tolist():
        if number > _LAST and number != VOID:
            return f"{mask.name} holds {number}"
        if number <= _LAST and number < len(colours) and colours[number] != _voc_colour(number):
            return f"the palette of {mask.name} is another one"
    return None


def _voc_colour(number: int) -> list[int]:
    """The development kit's VOClabelcolormap.m: three bits of a number at a time, from the highest of each channel."""
    return [sum((number >> 3 * step + channel & 1) << 7 - step for step in range(8)) for channel in range(3)]


def _split_names(root: Path, split: str) -> set[str]:
    """The stems that a list of ImageSets/ names; of a class's own list ("car_val") those that show the class."""
    lists = {path.relative_to(root / _SETS).with_suffix("").as_posix(): path for path in (root / _SETS).glob("*/*.txt")}
    matches = [name for name in sorted(lists) if split in (name, name.rpartition("/")[2])]
    if len(matches) > 1:
        raise CounterfactoryError(f"--split {split} is in several folders of {_SETS}/: say {' or '.join(matches)}")
    if not matches:
        advice = f"there are {list_some(sorted(lists), 6)}" if lists else "it has none"
        raise CounterfactoryError(f"{root / _SETS} has no list {split}; {advice}")
    # Each line is a stem, in a class's list 1, 0 (hard to see) or -1 (not there) behind it.
    lines = [line.split() for line in read_text(lists[matches[0]]).splitlines()]
    return {words[0] for words in lines if words and words[1:2] != ["-1"]}


def _add_boxes(entry: Entry, xml: Path, census: BoxCensus, marks: Counter[str]) -> Entry:
    """The entry with the boxes of its annotation, whose marks are counted. Raises ValueError or ParseError."""
    try:
        root = ElementTree.fromstring(read_bytes(xml))
    except LookupError as error:  # an encoding that nobody knows
        raise ValueError(str(error)) from error
    sides = [_number(root, f"size/{side}") for side in ("height", "width")] if root.find("size") is not None else [0, 0]
    # Writers that did not open the image leave a size of 0.
    size = (int(sides[0]), int(sides[1])) if all(sides) else None
    objects = list(root.iterfind("object"))
    boxes = tuple(_box(thing, census, size) for thing in objects)
    marks.update(mark for thing in objects for mark in _MARKS if is_marked(thing.findtext(mark)))
    return replace(entry, boxes=boxes, size=size)


def _box(thing: ElementTree.Element, census: BoxCensus, size: tuple[int, int] | None) -> Box:
    """The box of an object, upright: labelImg2 and DIOR write turned ones as `robndbox`, CVAT a `rotation`."""
    name = (thing.findtext("name") or "").strip()
    if not name or unprintable(name):
        raise ValueError(f"an object has the name {printable(name)!r}")
    if thing.find("bndbox") is None and (turned := thing.find("robndbox")) is not None:
        box = _turned(turned, name, census)
    else:
        box = census.read([_number(thing, f"bndbox/{side}") for side in ("xmin", "ymin", "xmax", "ymax")], name)
        named = {one.findtext("name"): one for one in thing.iterfind("attributes/attribute")}
        box = census.turn(box, _number(named["rotation"], "value")) if "rotation" in named else box
    census.origin.add((box.x0, box.y0, box.x1, box.y1), size)
    # VOC counts pixels from 1, and the last one belongs to the box.
    last = 0 if census.form == "corners" else 1
    box = replace(box, x0=box.x0 - 1, y0=box.y0 - 1, x1=box.x1 - last, y1=box.y1 - last)
    return replace(box, ignored="difficult") if is_marked(thing.findtext("difficult")) else box


def _turned(turned: ElementTree.Element, name: str, census: BoxCensus) -> Box:
    """The upright box around a middle, a size and radians, or around four corners."""
    if turned.find("cx") is not None:
        x, y, width, height, angle = (_number(turned, side) for side in ("cx", "cy", "w", "h", "angle"))
        return census.turn(box_of((x, y, width, height), "centres", name), math.degrees(angle))
    sides = [[_number(turned, one.tag) for one in turned if one.tag.startswith(axis)] for axis in "xy"]
    if list(map(len, sides)) != [4, 4]:
        raise ValueError(f"robndbox of {name} has neither cx, cy, w, h, angle nor four corners")
    return census.around([number for point in zip(*sides, strict=True) for number in point], name)


def _number(element: ElementTree.Element, path: str) -> float:
    text = element.findtext(path) or ""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"{path} should be a number, found {printable(text)[:40]!r}")
    return value
