"""A user's own task from a TOML file, with the types of edits and the interventions that go with it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..files.fill import fill, read_toml
from ..language.edit_types import EditType
from .interventions import Interventions, parse_interventions
from .own_types import require_types
from .task import Task


@dataclass(frozen=True)
class UserTask:
    """`types` are the user's own, none where the file has none; `interventions` is None where it allows any edit."""

    task: Task
    types: tuple[EditType, ...]
    interventions: Interventions | None


@dataclass(frozen=True)
class _TaskFile(Task):
    types: tuple[EditType, ...] | None
    interventions: str | None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.types is not None:
            require_types(self.types)


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
