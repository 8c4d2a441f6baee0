"""A user's own task, types of edits, and axes and values of change ("only rain and snow, and only at night").

A file of types is TOML: what each changes, and one worked example.

[[types]]
name = "lens"
instruction = "how the picture was taken: blur, grain, lens"
place = "end"
caption = "a photo of a dog on grass"
examples = [["", "in soft focus"], ["on grass", "on grass through a fisheye lens"]]

A file of interventions is text with one axis per line (`weather: rainy, snowy`), or several separated by `;`, and
comments after `#`. It gives the edit types that are allowed, each with its values; no other type is edited.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..edit import EDIT_TYPES
from ..errors import CounterfactoryError
from ..files.fill import fill, nearest, read_toml
from ..files.reading import number_lines, read_text
from ..language.edit_types import EditType
from .task import Task

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
    """The axes and values in a file; see `parse_interventions`."""
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


@dataclass(frozen=True)
class UserTask:
    """`types` are the user's own, none where the file has none; `interventions` is None where it allows any edit."""

    task: Task
    types: tuple[EditType, ...]
    interventions: Interventions | None


@dataclass(frozen=True)
class _TypesFile:
    types: tuple[EditType, ...]

    def __post_init__(self) -> None:
        if not self.types:
            raise ValueError("it has no [[types]]")
        names = [type_.name for type_ in self.types]
        for name in names:
            if not re.fullmatch("[a-z][a-z0-9 _-]*", name):
                raise ValueError(f"a type's name is in small letters, found {name!r}")
            if names.count(name) > 1:
                raise ValueError(f"the type {name!r} is there twice")


@dataclass(frozen=True)
class _TaskFile(Task):
    types: tuple[EditType, ...] | None
    interventions: str | None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.types is not None:
            _TypesFile(self.types)


def load_types(path: Path) -> tuple[EditType, ...]:
    """The types in a file, at least one; a type with a built-in name replaces the built-in one. Raises
    CounterfactoryError, naming the file, for one that does not parse and for a type that shows nothing.
    """
    return fill(_TypesFile, read_toml(path), str(path)).types


def load_task(path: Path) -> UserTask:
    """A task from a TOML file: the keys of a `Task`, and where wanted `[[types]]` as a file of types has them, and
    `interventions`, the text of a file of interventions.

    Raises CounterfactoryError, naming the file, for one that cannot be read, an unknown or missing key, a wrong type,
    and for types and interventions that their own files would be refused for.
    """
    file = fill(_TaskFile, read_toml(path), str(path))
    types, text = file.types or (), file.interventions
    names = [type_.name for type_ in types]
    return UserTask(
        Task(file.name, file.sentence, file.protect, file.protect_label),
        types,
        None if text is None else parse_interventions(text, f"{path}: interventions", names),
    )
