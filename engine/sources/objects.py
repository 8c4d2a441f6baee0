"""The boxes of `datasets`: a column whose rows hold things, each with a box and a class.

There are as many spellings as sets: a list of things or a dict of lists, `bbox` or `boxes`, `category` or `labels`,
four numbers or `xmin`, `ymin`, `xmax`, `ymax`. What is known of them is read, of anything else the keys are said.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from .blobs import unprintable
from .boxes import BoxCensus, crowd_note, crowds_are_things, is_marked
from .shapes import Box

COLUMN = "objects"
_BOXES = ("bbox", "bboxes", "boxes", "box", "bounding_box", "bounding_boxes", "bndbox")
# Four numbers that stand apart.
_SIDES = (
    *(("x", "y", "width", "height"), ("x", "y", "w", "h"), ("left", "top", "width", "height")),
    *(("xmin", "ymin", "xmax", "ymax"), ("x_min", "y_min", "x_max", "y_max"), ("x0", "y0", "x1", "y1")),
    *(("x1", "y1", "x2", "y2"), ("left", "top", "right", "bottom")),
)
_SIZES = 3
_CLASSES = (
    *("category", "categories", "label", "labels", "class", "classes", "name", "names", "category_name", "class_name"),
    *("class_label", "category_id", "category_ids", "label_id", "label_ids", "class_id", "class_ids"),
)
_AREAS = ("area", "areas")
_CROWDS = ("iscrowd", "is_crowd", "crowd", "is_group_of", "IsGroupOf", "ignore")
_DIFFICULT = ("difficult", "is_difficult")


@dataclass
class Objects:
    """The boxes of each row, why rows cannot be used, by number, and sentences on what is left out."""

    boxes: list[tuple[Box, ...]]
    problems: dict[int, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


@dataclass
class _Reader:
    """Reads things by their keys: `box` one key of four numbers, or four. `names` are those of class numbers."""

    census: BoxCensus
    box: tuple[str, ...]
    kind: str
    area: str | None
    crowd: str | None
    difficult: str | None
    names: Sequence[str] | None
    numbered: bool = False

    @property
    def keys(self) -> list[str]:
        return [*self.box, self.kind, *(key for key in (self.area, self.crowd, self.difficult) if key is not None)]

    def read(self, thing: Mapping[str, Any]) -> Box:
        """The box of a thing, with its mark. Raises ValueError for one that cannot be used."""
        label = self._label(thing[self.kind])
        values, keys = [thing[key] for key in self.box], self.box
        if len(keys) == 1:
            values = values[0]
            if isinstance(values, Mapping):
                keys = next((sides for sides in _SIDES if set(sides) <= values.keys()), ())
                values = [values[key] for key in keys]
        if not isinstance(values, list | tuple) or len(values) != 4 or not all(map(_is_number, values)):
            raise ValueError(f"{', '.join(self.box)} should be four numbers, found {values!r:.60}")
        x, y, c, d = map(float, values)
        if len(keys) == 4 and self.census.form == "sizes" and keys not in _SIDES[:_SIZES]:
            c, d = c - x, d - y  # their names say that they are corners
        area = thing[self.area] if self.area is not None else None
        box = self.census.read((x, y, c, d), label, area)
        if self.crowd is not None and is_marked(thing[self.crowd]):
            return replace(box, ignored="crowd")
        difficult = self.difficult is not None and is_marked(thing[self.difficult])
        return replace(box, ignored="difficult") if difficult else box

    def _label(self, kind: Any) -> str:
        if isinstance(kind, int) and not isinstance(kind, bool):
            self.numbered = True
            if self.names is None:
                return str(kind)
            if not 0 <= kind < len(self.names):
                raise ValueError(f"{self.kind} {kind} has no name; there are {len(self.names)}")
            return str(self.names[kind])
        if not isinstance(kind, str) or not kind.strip() or unprintable(kind):
            raise ValueError(f"{self.kind} should name a class, found {kind!r:.60}")
        return kind


def read_objects(feature: Any, values: Iterable[Any], census: BoxCensus) -> Objects:
    """The boxes of a column `objects` of `feature`, of whose rows `values` are the content."""
    rows = list(values)
    objects, fields = Objects([()] * len(rows)), _fields(feature)
    reader = _reader(fields, census)
    if reader is None:
        there = f"has the keys {', '.join(map(repr, fields))}" if fields else f"holds {feature!r:.80}"
        known = f"a box needs a key such as {', '.join(_BOXES[:4])}, its class one such as {', '.join(_CLASSES[:6])}"
        objects.notes.append(f"the column {COLUMN!r} {there}, and gives no boxes: {known}")
        return objects
    for number, row in enumerate(rows):
        try:
            objects.boxes[number] = tuple(reader.read(thing) for thing in _things(row, reader))
        except (ValueError, TypeError, KeyError) as error:
            objects.problems[number] = f"{COLUMN}: {'lacks ' * isinstance(error, KeyError)}{error}"
    marks = Counter(box.ignored for of_row in objects.boxes for box in of_row)
    crowds, count = marks["crowd"], marks.total()
    if crowds_are_things(crowds, count):
        objects.boxes = [
            tuple(replace(box, ignored=None) if box.ignored == "crowd" else box for box in of_row)
            for of_row in objects.boxes
        ]
    objects.notes += crowd_note(COLUMN, crowds, count)
    if reader.numbered and reader.names is None:
        objects.notes.append(f"{COLUMN}: {reader.kind} holds numbers, and the set has no names for them")
    return objects


def objects_of_rows(rows: Sequence[Any], census: BoxCensus) -> Objects:
    """The boxes of rows of JSON lines, whose first things tell the keys of all."""
    first: Any = next((row for row in rows if row), {})
    thing = first[0] if isinstance(first, list) else first
    return read_objects(dict.fromkeys(thing) if isinstance(thing, dict) else thing, rows, census)


def _fields(feature: Any) -> Mapping[str, Any]:
    """What things have, by key: of a list of things or of a dict of lists; nothing of anything else."""
    inner = feature[0] if isinstance(feature, list) and feature else getattr(feature, "feature", feature)
    return inner if isinstance(inner, dict) else {}


def _reader(fields: Mapping[str, Any], census: BoxCensus) -> _Reader | None:
    """What reads things with these fields, None where they have no box or no class."""
    ways: list[tuple[str, ...]] = [*((key,) for key in _BOXES), *_SIDES]
    box = next((way for way in ways if set(way) <= fields.keys()), None)
    kinds = [key for key in _CLASSES if key in fields]
    if box is None or not kinds:
        return None
    # A class with names, then text, then a number.
    leaves = {key: _leaf(fields[key]) for key in kinds}
    names = {key: getattr(leaf, "names", None) for key, leaf in leaves.items()}
    kind = min(kinds, key=lambda key: (names[key] is None, "string" not in str(getattr(leaves[key], "dtype", ""))))
    area, crowd, difficult = (
        next((key for key in keys if key in fields), None) for keys in (_AREAS, _CROWDS, _DIFFICULT)
    )
    return _Reader(census, box, kind, area, crowd, difficult, names[kind])


def _leaf(feature: Any) -> Any:
    while isinstance(feature, list) or hasattr(feature, "feature"):
        feature = feature[0] if isinstance(feature, list) else feature.feature
    return feature


def _things(row: Any, reader: _Reader) -> Iterator[Mapping[str, Any]]:
    """The things of a row: a list of them, a dict of lists, one alone, or none. Raises ValueError for another."""
    if isinstance(row, Mapping) and isinstance(row[reader.kind], str | int):
        yield row
    elif isinstance(row, Mapping):
        keys = reader.keys
        lists = [[] if row[key] is None else row[key] for key in keys]
        if len(set(map(len, lists))) > 1:
            counts = ", ".join(f"{len(values)} of {key}" for key, values in zip(keys, lists, strict=True))
            raise ValueError(f"its lists differ in length: {counts}")
        yield from (dict(zip(keys, values, strict=True)) for values in zip(*lists, strict=True))
    else:
        for thing in row or ():
            if not isinstance(thing, Mapping):
                raise ValueError(f"a thing should have {', '.join(reader.keys)}, found {thing!r:.60}")
            yield thing


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
