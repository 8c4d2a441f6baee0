"""A user's own axes and values of change: "only rain and snow, and only at night".

The text file has one axis per line (`weather: rainy, snowy`), or several separated by `;`, and comments after `#`. It
gives the edit types that are allowed, each with its values. An axis that is not named is not edited.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..edit import EDIT_TYPES
from ..errors import CounterfactoryError
from ..files.fill import nearest
from ..files.reading import number_lines, read_text

# A value becomes part of a caption, and the text encoder reads 77 tokens in all.
MAX_VALUE_CHARS = 60


@dataclass(frozen=True)
class Interventions:
    """The edits that a user allows: for each type of `EDIT_TYPES` in the file, its alternatives in the file's order."""

    axes: tuple[tuple[str, tuple[str, ...]], ...]

    @property
    def types(self) -> tuple[str, ...]:
        """The edit types that are allowed."""
        return tuple(type_ for type_, _ in self.axes)

    def values(self, type_: str) -> tuple[str, ...]:
        """The alternatives that are allowed for an edit type; none for a type that is not named."""
        return dict(self.axes).get(type_, ())


def load_interventions(path: Path, own: Sequence[str] = ()) -> Interventions:
    """Read a file of axes and values; `own` are the names of the user's own types. Raises CounterfactoryError, with
    file and line, if it does not parse.
    """
    return parse_interventions(read_text(path), str(path), own)


def parse_interventions(text: str, where: str, own: Sequence[str] = ()) -> Interventions:
    """The axes and values in `text`; `where` names it in errors, `own` are axes in addition to those of `EDIT_TYPES`.

    Raises CounterfactoryError for an unknown or repeated axis, an axis without values, an empty, repeated or over-long
    value, and for a text without axes.
    """
    axes: dict[str, tuple[str, ...]] = {}
    for number, line in number_lines(text):
        for part in line.partition("#")[0].split(";"):
            if not part.strip():
                continue
            try:
                axis, values = _axis(part, (*EDIT_TYPES, *own))
            except ValueError as error:
                raise CounterfactoryError(f"{where}:{number}: {error}") from error
            if axis in axes:
                raise CounterfactoryError(f"{where}:{number}: axis {axis!r} is there twice; put its values on one line")
            axes[axis] = values
    if not axes:
        raise CounterfactoryError(f"{where} names no axis; write lines such as 'weather: rainy, snowy'")
    return Interventions(tuple(axes.items()))


def _axis(part: str, names: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    axis, colon, listed = part.partition(":")
    axis = axis.strip().lower()
    if not colon:
        raise ValueError(f"found {part.strip()!r}; write an axis and its values, such as 'weather: rainy, snowy'")
    if axis not in names:
        raise ValueError(f"unknown axis {axis!r}; {nearest(axis, names)}")
    values: dict[str, str] = {}
    for value in (" ".join(value.split()) for value in listed.split(",")):
        if not value:
            raise ValueError(f"an empty value for {axis!r}; write values with commas between, such as 'rainy, snowy'")
        if len(value) > MAX_VALUE_CHARS:
            raise ValueError(f"a value of {len(value)} characters for {axis!r}; at most {MAX_VALUE_CHARS} are taken")
        # The value goes into a JSON grammar and a caption: letters, digits and what joins words.
        if odd := re.search(r"[^\w .'\u2019&/()+%-]", value):
            raise ValueError(f"the value {value!r} holds {odd.group()!r}; words are needed")
        if value.casefold() in values:
            raise ValueError(f"the value {value!r} is there twice for {axis!r}")
        values[value.casefold()] = value
    return axis, tuple(values.values())
