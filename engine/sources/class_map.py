"""Class maps: the meaning of the numbers or colours in a set's masks, and which of them count for nothing.

A map comes from a TOML or JSON file, from one of the published ones in `class_maps/`, or from a set that names its own
classes. The suite's masks hold the map's numbers, one channel, and `VOID` where a pixel counts for nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import CounterfactoryError
from ..files.fill import nearest, read_toml
from ..keys import content_key
from .class_names import plain_names, read_json
from .pixels import UnreadableError

# Pixels that count for nothing, as every published set marks them.
VOID = 255
# The class that no model is asked for by name.
BACKGROUND = "background"
_MOST = 65_535
_KEYS = ("classes", "ignore", "channel")
_SHAPE = 'a table `classes` of numbers or colours and their names: 7 = "road", or "128 64 128" = "road"'

Colour = tuple[int, int, int]


@dataclass(frozen=True)
class ClassMap:
    """`names` by class number. A mask's number becomes `numbers[number]`, or its colour `colours[colour]`: a class
    number or `VOID`; one of the two is empty. `red` says that masks have the number in their red channel.
    `where` is what to call the map in errors.
    """

    where: str
    names: Mapping[int, str]
    numbers: Mapping[int, int]
    colours: Mapping[Colour, int]
    red: bool = False

    @cached_property
    def key(self) -> str:
        """Names what the map makes of masks."""
        numbers, colours = sorted(self.numbers.items()), sorted(self.colours.items())
        return content_key(sorted(self.names.items()), numbers, colours, self.red)

    def apply(self, mask: NDArray[Any]) -> NDArray[Any]:
        """The class numbers of a mask: uint8, or uint16 where a number is above 255, [H, W].

        `mask` is [H, W] of whole numbers, or uint8 [H, W, 3 or 4]. Raises UnreadableError for a number or a colour that
        the map does not have, and for a mask of the other kind.
        """
        if self.colours:
            return self._by_colour(mask)
        if mask.ndim == 3 and not self.red and (mask[..., :3] != mask[..., :1]).any():
            raise UnreadableError(f"is coloured, and {self.where} names numbers; write the map by colours")
        return self._by_number(mask[..., 0] if mask.ndim == 3 else mask)

    def shown(self, mask: NDArray[Any]) -> tuple[str, ...]:
        """The names, sorted, of the classes in a mask that `apply` gave, but for the background."""
        numbers = np.flatnonzero(np.bincount(mask.ravel()))
        return tuple(sorted({self.names[n] for n in numbers.tolist() if n != VOID} - {BACKGROUND}))

    def _by_number(self, mask: NDArray[Any]) -> NDArray[Any]:
        table = np.full(_MOST + 1, -1, np.int32)
        table[list(self.numbers)] = list(self.numbers.values())
        counts = np.bincount(mask.ravel())
        unknown = [n for n in np.flatnonzero(counts).tolist() if table[n] < 0]
        if unknown:
            raise UnreadableError(self._unknown(f"{n} ({counts[n]} pixels)" for n in unknown))
        return self._smallest_dtype(table[mask])

    def _by_colour(self, mask: NDArray[Any]) -> NDArray[Any]:
        if mask.ndim == 2:
            raise UnreadableError(f"has no colours, and {self.where} names colours; write the map by numbers")
        packed = _pack(*(mask[..., i].astype(np.int32) for i in range(3)))
        codes = np.array(sorted(_pack(*colour) for colour in self.colours))
        at = np.minimum(np.searchsorted(codes, packed), codes.size - 1)
        missing = packed[codes[at] != packed]
        if missing.size:
            colours, counts = np.unique(missing, return_counts=True)
            pairs = zip(colours.tolist(), counts.tolist(), strict=True)
            raise UnreadableError(
                self._unknown(f"colour {p >> 16} {p >> 8 & 255} {p & 255} ({n} pixels)" for p, n in pairs)
            )
        by_place = np.array([number for _, number in sorted((_pack(*c), n) for c, n in self.colours.items())])
        return self._smallest_dtype(by_place[at])

    def _smallest_dtype(self, mask: NDArray[Any]) -> NDArray[Any]:
        return mask.astype(np.uint16 if max((*self.names, VOID)) > VOID else np.uint8)

    def _unknown(self, values: Iterable[str]) -> str:
        several = list(values)
        more = f" and {len(several) - 5} more" if len(several) > 5 else ""
        return (
            f"holds {', '.join(several[:5])}{more}, which {self.where} does not name; add it to its classes, or to "
            "`ignore`"
        )


def named_classes(where: str, names: Mapping[int, str]) -> ClassMap:
    """The map of a set that names its own classes, with a background: number 0 where that is free, else the next."""
    background = 0 if 0 not in names else max(names) + 1
    background = background + 1 if background == VOID else background
    every = dict(names) if BACKGROUND in names.values() else {background: BACKGROUND, **names}
    return _by_numbers(where, every, [VOID], red=False)


def builtin_class_maps() -> tuple[str, ...]:
    """The names of the published maps that come along."""
    folder = files(__package__) / "class_maps"
    return tuple(sorted(path.name.removesuffix(".toml") for path in folder.iterdir() if path.name.endswith(".toml")))


def load_class_map(named: str) -> ClassMap:
    """The map in a .toml or .json file, of the names in a .txt file, or a published one by its name.

    Raises CounterfactoryError for a file that is none, a name or a number given twice, and numbers mixed with colours.
    """
    path = Path(named)
    if path.suffix.lower() not in (".toml", ".json", ".txt"):
        if named not in builtin_class_maps():
            raise CounterfactoryError(
                f"no class map {named!r}: name a .toml, .json or .txt file, or one of {', '.join(builtin_class_maps())}"
            )
        path = Path(str(files(__package__) / "class_maps" / f"{named}.toml"))
        return _parse(read_toml(path), f"the class map {named}")
    if (names := plain_names(path)) is not None:
        return _by_numbers(str(path), names, [], red=False)
    return _parse(read_toml(path) if path.suffix.lower() == ".toml" else read_json(path), str(path))


def label_names(named: str) -> tuple[Mapping[int, str], str]:
    """The names of labels that are numbers, by a file of names or a class map by numbers, and what to call it.

    Raises CounterfactoryError as `load_class_map` does, and for a map by colours.
    """
    if Path(named).suffix.lower() in (".txt", ".json") and (names := plain_names(Path(named))) is not None:
        return names, named
    class_map = load_class_map(named)
    if not class_map.numbers:
        raise CounterfactoryError(f"{class_map.where} names colours, and labels are numbers; write the map by numbers")
    return {
        number: class_map.names[at] for number, at in class_map.numbers.items() if at in class_map.names
    }, class_map.where


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
    classes = [(_value(key, where), name) for key, name in table["classes"].items()]
    for value, name in classes:
        if not isinstance(name, str) or not name.strip():
            raise CounterfactoryError(f"{where}: class {_shown(value)} needs a name, found {name!r}")
    void = [_value(value, where) for value in ignored]
    values = [value for value, _ in classes]
    twice = next((value for i, value in enumerate([*values, *void]) if value in [*values, *void][:i]), None)
    if twice is not None:
        raise CounterfactoryError(f"{where}: {_shown(twice)} is given twice; say once what it stands for")
    kinds = {isinstance(value, int) for value in (*values, *void)}
    if len(kinds) > 1:
        raise CounterfactoryError(f"{where}: classes and ignore are all numbers or all colours, found both")
    if kinds == {True}:
        numbers = {value: name for value, name in classes if isinstance(value, int)}
        return _by_numbers(where, numbers, [v for v in void if isinstance(v, int)], red="channel" in table)
    colours = {value: name for value, name in classes if isinstance(value, tuple)}
    return _by_colours(where, colours, [v for v in void if isinstance(v, tuple)])


def _by_numbers(where: str, classes: Mapping[int, str], void: Iterable[int], red: bool) -> ClassMap:
    if VOID in classes:
        raise CounterfactoryError(f"{where}: {VOID} marks pixels that count for nothing; give the class another number")
    number_of: dict[str, int] = {}
    for number, name in classes.items():
        number_of.setdefault(name, number)
    numbers = {number: number_of[name] for number, name in classes.items()} | dict.fromkeys([*void, VOID], VOID)
    return ClassMap(where, {number: name for name, number in number_of.items()}, numbers, {}, red)


def _by_colours(where: str, classes: Mapping[Colour, str], void: Iterable[Colour]) -> ClassMap:
    names = list(dict.fromkeys(classes.values()))
    if len(names) >= VOID:
        raise CounterfactoryError(f"{where} has {len(names)} colour-coded classes; at most {VOID - 1} are read")
    colours = {colour: names.index(name) for colour, name in classes.items()} | dict.fromkeys(void, VOID)
    return ClassMap(where, dict(enumerate(names)), {}, colours)


def _value(key: object, where: str) -> int | Colour:
    """A number, or a colour "r g b" or "#rrggbb"."""
    text = str(key).strip()
    if isinstance(key, bool) or not isinstance(key, str | int):
        raise CounterfactoryError(f"{where}: {key!r} is neither a number nor a colour; it needs {_SHAPE}")
    parts = text.replace(",", " ").split()
    if text.startswith("#") and len(text) == 7:
        parts = [str(int(text[i : i + 2], 16)) if _is_hex(text[i : i + 2]) else "x" for i in (1, 3, 5)]
    if all(part.isascii() and part.isdigit() and len(part) <= 5 for part in parts):
        if len(parts) == 1 and int(parts[0]) <= _MOST:
            return int(parts[0])
        if len(parts) == 3 and all(int(part) <= 255 for part in parts):
            return int(parts[0]), int(parts[1]), int(parts[2])
    raise CounterfactoryError(f"{where}: {key!r} is neither a number up to {_MOST} nor a colour; it needs {_SHAPE}")


def _is_hex(text: str) -> bool:
    return all(c in "0123456789abcdefABCDEF" for c in text)


def _shown(value: int | Colour) -> str:
    return str(value) if isinstance(value, int) else f"colour {' '.join(map(str, value))}"


def _pack(red: Any, green: Any, blue: Any) -> Any:
    return (red << 16) | (green << 8) | blue
