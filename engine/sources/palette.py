"""Palettes: in which colours a map of classes is given to a painter that was trained to follow one. Colours go by the
names of classes, which a data set's class map has for the numbers in its masks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import CounterfactoryError
from ..files.fill import nearest, read_toml
from ..keys import content_key
from .class_map import BACKGROUND, VOID, Colour, parse_colour, published
from .pixels import UnreadableError, count_numbers

_KEYS = ("classes", "order")
_SHAPE = 'a table `classes` of names and their colours: road = "128 64 128"'
_NOTHING: Colour = (0, 0, 0)


@dataclass(frozen=True)
class Palette:
    """`colours` by a class's name in lower case. `order` are the names of classes 0, 1, ... in masks whose data set has
    no names for them. `where` is what to call the palette in errors.
    """

    where: str
    colours: Mapping[str, Colour]
    order: tuple[str, ...] = ()

    @cached_property
    def key(self) -> str:
        """Names what the palette makes of masks."""
        return content_key("palette", sorted(self.colours.items()), self.order)

    def paint(self, mask: NDArray[Any], names: Mapping[int, str] | None) -> NDArray[np.uint8]:
        """The map uint8 RGB [H, W, 3] of a mask [H, W] whose numbers have these names; black where no class is. Raises
        UnreadableError for a mask of colours, and for a class without a colour.
        """
        if mask.ndim != 2:
            raise UnreadableError("is coloured: say by --class-map which class each colour stands for")
        class_names = dict(enumerate(self.order)) if names is None else names
        table, missing = np.zeros((int(mask.max()) + 1, 3), np.uint8), []
        for number in np.flatnonzero(count_numbers(mask)).tolist():
            name = class_names.get(number, str(number)).strip().lower()
            colour = self.colours.get(name, _NOTHING if number == VOID or name == BACKGROUND else None)
            if colour is None:
                missing.append(class_names.get(number, str(number)))
            else:
                table[number] = colour
        if missing:
            raise UnreadableError(
                f"shows {', '.join(missing[:5])}{' and more' * (len(missing) > 5)}, for which {self.where} has no "
                "colour; add it to its classes" + (", or name the numbers by --class-map" if names is None else "")
            )
        return np.asarray(table[mask])


def load_palette(named: str) -> Palette:
    """The palette in a .toml file, or a published one by its name. Raises CounterfactoryError for what is none."""
    palettes = published("palettes")
    if named.endswith(".toml"):
        return _parse(read_toml(Path(named).expanduser()), named)
    if named not in palettes:
        raise CounterfactoryError(f"no palette {named!r}: name a .toml file, or one of {', '.join(palettes)}")
    return _parse(read_toml(palettes[named]), f"the palette {named}")


def _parse(table: Mapping[str, Any], where: str) -> Palette:
    for key in table:
        if key not in _KEYS:
            raise CounterfactoryError(f"{where}: unknown key {key!r}; {nearest(key, _KEYS)}")
    classes, order = table.get("classes"), table.get("order", [])
    if not isinstance(classes, dict) or not classes:
        raise CounterfactoryError(f"{where} needs {_SHAPE}")
    colours: dict[str, Colour] = {}
    for name, text in classes.items():
        colour = parse_colour(text) if isinstance(text, str) else None
        if colour is None:
            raise CounterfactoryError(f"{where}: the colour of {name} is {text!r}; it needs {_SHAPE}")
        colours[name.strip().lower()] = colour
    if not isinstance(order, list) or not all(isinstance(name, str) for name in order):
        raise CounterfactoryError(f"{where}: order is a list of names of classes, found {order!r}")
    if strange := [name for name in order if name.strip().lower() not in colours]:
        raise CounterfactoryError(f"{where}: order names {', '.join(strange)}, which its classes do not")
    return Palette(where, colours, tuple(order))
