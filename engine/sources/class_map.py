"""Class maps: the meaning of the numbers or colours in a set's masks, and which of them count for nothing; and names
for labels that are numbers (class folders 0 to 999, a table's numbers, the outputs of a model).

A map comes from a TOML or JSON file, from `class_maps/`, or from a set that names its own classes. The suite's masks
hold the map's numbers, one channel, and `VOID` where a pixel counts for nothing. A file of names may also be a text
file with a name on each line, numbered from 0, CVAT's labelmap.txt (name:r,g,b:parts:actions), Mapillary's config.json,
or JSON: a list, {"0": "tench"}, or {"0": ["n01440764", "tench"]}. Where a synset stands before the name it is the
label, since names of ImageNet's classes occur twice ("crane", "maillot").
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import CounterfactoryError, list_some
from ..files.fill import nearest, read_toml
from ..files.reading import read_json, read_text
from ..keys import content_key
from .blobs import unprintable
from .pixels import UnreadableError, count_numbers

# Pixels that count for nothing, as every published set marks them.
VOID = 255
# The class that no model is asked for by name.
BACKGROUND = "background"
# How WordNet's synsets are written.
SYNSET = re.compile(r"n\d{8}")
_MOST = 65_535
_KEYS = ("classes", "ignore", "channel")
_SHAPE = 'a table `classes` of numbers or colours and their names: 7 = "road", or "128 64 128" = "road"'
_NAMES = 'a list of names, or {"0": "tench", "1": "goldfish"}'
_NO_NAMES = f"has no names; it needs {_NAMES}, or a text file with a name on each line"
# How labelme and CVAT call what is no class.
_LABELLERS = {
    **dict.fromkeys(("_background_", "__background__", "background"), BACKGROUND),
    **dict.fromkeys(("__ignore__", "_ignore_", "ignore", "ignored", "void"), None),
}
_HEXADECIMAL = re.compile(r"#([0-9a-f]{2})([0-9a-f]{2})([0-9a-f]{2})", re.IGNORECASE)
_DECIMAL = re.compile(r"([0-9]{1,5})[\s,]+([0-9]{1,5})[\s,]+([0-9]{1,5})")

Colour = tuple[int, int, int]


@dataclass(frozen=True)
class ClassMap:
    """`names` by class number. A mask's number becomes `numbers[number]`, or its colour `colours[colour]`: a class
    number or `VOID`; one of the two is empty. `red` says that masks have the number in their red channel,
    `void_given` that the map itself says what 255 is. `where` is what to call the map in errors.
    """

    where: str
    names: Mapping[int, str]
    numbers: Mapping[int, int]
    colours: Mapping[Colour, int]
    red: bool = False
    void_given: bool = False

    @cached_property
    def key(self) -> str:
        """Names what the map makes of masks."""
        numbers, colours = sorted(self.numbers.items()), sorted(self.colours.items())
        return content_key(sorted(self.names.items()), numbers, colours, self.red)

    def apply(self, mask: NDArray[Any]) -> NDArray[Any]:
        """The class numbers [H, W], uint8 or, for a number above 255, uint16, of a mask [H, W] of whole numbers or
        uint8 [H, W, 3]. Raises UnreadableError for a number or a colour that the map does not have, and for the
        other kind.
        """
        if self.colours:
            numbers = self._by_colour(mask)
        elif mask.ndim == 3 and not self.red and (mask != mask[..., :1]).any():
            raise UnreadableError(f"is coloured, and {self.where} names numbers; write the map by colours")
        else:
            numbers = self._by_number(mask[..., 0] if mask.ndim == 3 else mask)
        return numbers.astype(self._kind, copy=False)

    @property
    def _kind(self) -> type[np.uint8] | type[np.uint16]:
        return np.uint16 if max((*self.names, VOID)) > VOID else np.uint8

    def shown(self, mask: NDArray[Any]) -> tuple[str, ...]:
        """The names, sorted, of the classes in a mask that `apply` gave, but for the background."""
        numbers = np.flatnonzero(count_numbers(mask))
        return tuple(sorted({self.names[n] for n in numbers.tolist() if n != VOID} - {BACKGROUND}))

    def _by_number(self, mask: NDArray[Any]) -> NDArray[Any]:
        table = np.full(_MOST + 1, -1, np.int32)
        table[list(self.numbers)] = list(self.numbers.values())
        counts = count_numbers(mask)
        unknown = [n for n in np.flatnonzero(counts).tolist() if table[n] < 0]
        if unknown:
            raise UnreadableError(self._unknown(f"{n} ({counts[n]} pixels)" for n in unknown))
        numbers = np.empty(mask.shape, self._kind)
        for line, row in zip(numbers, mask, strict=True):  # indices take eight bytes each
            line[:] = table[row]
        return numbers

    def _by_colour(self, mask: NDArray[Any]) -> NDArray[Any]:
        if mask.ndim == 2 and all(red == green == blue for red, green, blue in self.colours):
            mask = np.repeat(mask[..., None], 3, axis=2)
        if mask.ndim == 2:
            raise UnreadableError(f"has no colours, and {self.where} names colours; write the map by numbers")
        packed = pack_colour(*(mask[..., i].astype(np.int32) for i in range(3)))
        codes, numbers = np.array(sorted((pack_colour(*colour), number) for colour, number in self.colours.items())).T
        at = np.minimum(np.searchsorted(codes, packed), codes.size - 1)
        missing = packed[codes[at] != packed]
        if missing.size:
            colours, counts = np.unique(missing, return_counts=True)
            pairs = zip(colours.tolist(), counts.tolist(), strict=True)
            raise UnreadableError(self._unknown(f"{colour_name(packed)} ({count} pixels)" for packed, count in pairs))
        return np.asarray(numbers[at])

    def _unknown(self, values: Iterable[str]) -> str:
        listed = list_some(list(values), 5)
        return f"holds {listed}, which {self.where} does not name; add it to its classes, or to `ignore`"


def named_classes(where: str, names: Mapping[int, str]) -> ClassMap:
    """The map of a set that names its own classes, with a background: number 0 where that is free, else the next."""
    background = 0 if 0 not in names else max(names) + 1
    background = background + 1 if background == VOID else background
    return _by_numbers(where, names if BACKGROUND in names.values() else {background: BACKGROUND, **names})


def published(folder: str) -> dict[str, Path]:
    """The TOML files that come along in a folder of this package, by name: "class_maps" or "palettes"."""
    return {path.stem: path for path in sorted(Path(__file__).with_name(folder).glob("*.toml"))}


def load_class_map(named: str) -> ClassMap:
    """The map in a .toml or .json file, of the names in a .txt file, or a published one by its name. Raises
    CounterfactoryError for a file that is none, a name or a number given twice, and numbers mixed with colours.
    """
    path, maps = Path(named), published("class_maps")
    if path.suffix.lower() not in (".toml", ".json", ".txt"):
        if named not in maps:
            advice = f"name a .toml, .json or .txt file, or one of {', '.join(maps)}"
            raise CounterfactoryError(f"no class map {named!r}: {advice}")
        return _parse(read_toml(maps[named]), f"the class map {named}")
    if path.suffix.lower() == ".txt" and (colours := label_lines(path)[1]) is not None:
        return colours
    if (mapillary := _mapillary(path)) is not None:
        return mapillary
    if (names := _plain_names(path)) is not None:
        return _by_numbers(str(path), names)
    return _parse(read_toml(path) if path.suffix.lower() == ".toml" else read_json(path), str(path))


def label_names(named: str) -> tuple[Mapping[int, str], str]:
    """The names of labels that are numbers, by a file of names or a class map by numbers, and what to call it. Raises
    CounterfactoryError as `load_class_map` does, and for a map by colours.
    """
    if (names := _plain_names(Path(named))) is not None:
        return names, named
    class_map = load_class_map(named)
    if class_map.colours:
        raise CounterfactoryError(f"{class_map.where} names colours, and labels are numbers; write the map by numbers")
    name_of = class_map.names
    return {number: name_of[at] for number, at in class_map.numbers.items() if at in name_of}, class_map.where


def label_lines(path: Path) -> tuple[ClassMap, ClassMap | None]:
    """The maps by numbers and, where each line has a colour, by colours of a file with a line for each class, as
    labelme (class_names.txt, labels.txt) and CVAT (labelmap.txt) write them. What they call the background is
    `BACKGROUND`, and labels to ignore count for nothing; one in the first line has no number.
    """
    lines = [line.strip() for line in read_text(path).splitlines() if line.strip() and not line.startswith("#")]
    if not lines:
        raise CounterfactoryError(f"{path} {_NO_NAMES}")
    named: list[tuple[str | None, Colour | None]] = []
    for line in lines:
        colour = parse_colour("".join(line.split(":")[1:2]))
        name = line if colour is None else line.split(":")[0].strip()
        named.append((_LABELLERS.get(name, name), colour))
    numbered = named[1:] if named[0][0] is None else named
    numbers = _by_numbers(str(path), {number: name for number, (name, _) in enumerate(numbered)})
    colours = {colour: name for name, colour in named if colour is not None}
    if any(colour is None for _, colour in named):
        return numbers, None
    if len(colours) < len(named):
        raise CounterfactoryError(f"{path} gives two classes one colour")
    return numbers, _by_colours(str(path), colours)


def parse_colour(text: str) -> Colour | None:
    """A colour "r g b", "r,g,b" or "#rrggbb"; None for other text."""
    hexadecimal = _HEXADECIMAL.fullmatch(text.strip())
    match = hexadecimal or _DECIMAL.fullmatch(text.strip())
    if match is None:
        return None
    red, green, blue = (int(part, 16 if hexadecimal else 10) for part in match.groups())
    return (red, green, blue) if max(red, green, blue) <= 255 else None


def _plain_names(path: Path) -> dict[int, str] | None:
    """The names by number of a .txt file, or of a .json file without a table `classes`; None for another file."""
    if path.suffix.lower() not in (".txt", ".json"):
        return None
    content = read_text(path).rstrip().splitlines() if path.suffix.lower() == ".txt" else read_json(path)
    if isinstance(content, list):
        if not content:
            raise CounterfactoryError(f"{path} {_NO_NAMES}")
        content = {str(number): name for number, name in enumerate(content)}
    elif not isinstance(content, dict) or "classes" in content:
        return None
    names: dict[int, str] = {}
    for number, value in content.items():
        if not re.fullmatch("[0-9]{1,9}", number):
            raise CounterfactoryError(f"{path}: {number[:40]!r} is no number of a class; it needs {_NAMES}")
        parts = value if isinstance(value, list) else [value]
        name = parts[0].strip() if parts and all(isinstance(part, str) for part in parts) else ""
        if not name or unprintable(name):
            raise CounterfactoryError(f"{path}: class {number} needs a name, found {str(value)[:40]!r}")
        names[int(number)] = name.split()[0] if SYNSET.fullmatch(name.split()[0]) else name
    return names


def _mapillary(path: Path) -> ClassMap | None:
    """The map of Mapillary Vistas' config.json, whose labels lie in the order of the masks' numbers; None for another.
    What is not evaluated counts for nothing.
    """
    content = read_json(path) if path.suffix.lower() == ".json" else None
    labels = content.get("labels") if isinstance(content, dict) else None
    if not isinstance(labels, list) or not labels or not all(isinstance(label, dict) for label in labels):
        return None
    names = [label.get("readable") or label.get("name") for label in labels]
    if wrong := [name for name in names if not isinstance(name, str) or not name.strip() or unprintable(name)]:
        raise CounterfactoryError(f"{path}: a label needs a name, found {wrong[0]!r:.40}")
    used = (label.get("evaluate", True) for label in labels)
    return _by_numbers(str(path), dict(enumerate(name if use else None for name, use in zip(names, used, strict=True))))


def _parse(table: Any, where: str) -> ClassMap:
    if not isinstance(table, dict) or not isinstance(table.get("classes"), dict) or not table["classes"]:
        raise CounterfactoryError(f"{where} needs {_SHAPE}")
    for key in table:
        if key not in _KEYS:
            raise CounterfactoryError(f"{where}: unknown key {key!r}; {nearest(key, _KEYS)}")
    if table.get("channel", "red") != "red":
        raise CounterfactoryError(f"{where}: channel can be 'red' and nothing else, found {table['channel']!r}")
    ignored = table.get("ignore", [])
    if not isinstance(ignored, list):
        raise CounterfactoryError(f"{where}: ignore is a list of numbers or colours, found {ignored!r}")
    for key, name in table["classes"].items():
        if not isinstance(name, str) or not name.strip():
            raise CounterfactoryError(f"{where}: class {_shown(_value(key, where))} needs a name, found {name!r}")
    meanings: dict[int | Colour, str | None] = {}
    for key, name in [*table["classes"].items(), *((key, None) for key in ignored)]:
        value = _value(key, where)
        if value in meanings:
            raise CounterfactoryError(f"{where}: {_shown(value)} is given twice; say once what it stands for")
        meanings[value] = name
    numbers = {value: name for value, name in meanings.items() if isinstance(value, int)}
    colours = {value: name for value, name in meanings.items() if not isinstance(value, int)}
    if numbers and colours:
        raise CounterfactoryError(f"{where}: classes and ignore are all numbers or all colours, found both")
    if numbers:
        return _by_numbers(where, numbers, red="channel" in table)
    return _by_colours(where, colours)


def _by_colours(where: str, colours: Mapping[Colour, str | None]) -> ClassMap:
    """The map of colours and their names, None for what counts for nothing; names are numbered in their order."""
    names = list(dict.fromkeys(name for name in colours.values() if name is not None))
    if len(names) >= VOID:
        raise CounterfactoryError(f"{where} has {len(names)} colour-coded classes; at most {VOID - 1} are read")
    places = {colour: VOID if name is None else names.index(name) for colour, name in colours.items()}
    return ClassMap(where, dict(enumerate(names)), {}, places)


def _by_numbers(where: str, meanings: Mapping[int, str | None], red: bool = False) -> ClassMap:
    """The map of numbers and their names, None for what counts for nothing; of a name the first number counts. A class
    255 becomes the first number that is no other's.
    """
    number_of: dict[str | None, int] = {None: VOID}
    for number, name in meanings.items():
        if number != VOID:
            number_of.setdefault(name, number)
    if (white := meanings.get(VOID)) is not None:
        number_of.setdefault(white, next(free for free in range(_MOST) if free not in number_of.values()))
    numbers = {number: number_of[name] for number, name in meanings.items()}
    names = {number: name for name, number in number_of.items() if name is not None}
    return ClassMap(where, names, {VOID: VOID} | numbers, {}, red, VOID in meanings)


def _value(key: object, where: str) -> int | Colour:
    """A number or a colour."""
    if isinstance(key, str | int) and not isinstance(key, bool):
        text = str(key).strip()
        if re.fullmatch("[0-9]{1,5}", text) and int(text) <= _MOST:
            return int(text)
        if (colour := parse_colour(text)) is not None:
            return colour
    raise CounterfactoryError(f"{where}: {key!r} is neither a number up to {_MOST} nor a colour; it needs {_SHAPE}")


def _shown(value: int | Colour) -> str:
    return str(value) if isinstance(value, int) else colour_name(pack_colour(*value))


def pack_colour(red: Any, green: Any, blue: Any) -> Any:
    """Colours, whole numbers, as one number each."""
    return red << 16 | green << 8 | blue


def colour_name(packed: int) -> str:
    """A packed colour for a sentence."""
    return f"colour {packed >> 16} {packed >> 8 & 255} {packed & 255}"
