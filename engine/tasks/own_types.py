"""A user's own types of edits, from a TOML file: what each changes, and one worked example.

[[types]]
name = "lens"
instruction = "how the picture was taken: blur, grain, lens"
place = "end"
caption = "a photo of a dog on grass"
examples = [["", "in soft focus"], ["on grass", "on grass through a fisheye lens"]]
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..files.fill import fill, read_toml
from ..language.edit_types import EditType


@dataclass(frozen=True)
class _TypesFile:
    types: tuple[EditType, ...]

    def __post_init__(self) -> None:
        require_types(self.types)


def require_types(types: Sequence[EditType]) -> None:
    """Refuse types that cannot go together, and none at all, with a ValueError."""
    if not types:
        raise ValueError("it has no [[types]]")
    names = [type_.name for type_ in types]
    for name in names:
        if not re.fullmatch("[a-z][a-z0-9 _-]*", name):
            raise ValueError(f"a type's name is in small letters, found {name!r}")
        if names.count(name) > 1:
            raise ValueError(f"the type {name!r} is there twice")


def load_types(path: Path) -> tuple[EditType, ...]:
    """The types in a file, at least one; a type with a built-in name replaces the built-in one.

    Raises CounterfactoryError, naming the file, for one that does not parse and for a type that shows nothing.
    """
    return fill(_TypesFile, read_toml(path), str(path)).types
