"""A user's own task from a TOML file, with the types of edits and the interventions that go with it; and a file of
types alone: what each changes, and one worked example.

[[types]]
name = "lens"
instruction = "how the picture was taken: blur, grain, lens"
place = "end"
caption = "a photo of a dog on grass"
examples = [["", "in soft focus"], ["on grass", "on grass through a fisheye lens"]]
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from ..files.fill import fill, read_toml
from ..language.edit_types import EditType
from .interventions import Interventions, parse_interventions
from .task import Task


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
