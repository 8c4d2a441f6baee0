"""What a training program is told: which pictures, which classes, how often; and where its models' answers lie.

`lesson.json` lies in the folder of the training, so that the same command goes on with the same lesson, and another one
is refused.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ..errors import CounterfactoryError
from ..files.fill import fill_record, plain
from ..files.reading import read_json
from ..files.writing import make_folder, write_whole
from .recipe import TrainingRecipe

LESSON = "lesson.json"
# "given" is the model as it comes; the other two take the same steps, the one on originals alone.
ArmName = Literal["given", "before", "after"]
_AGAIN = "name another folder by --out"


@dataclass(frozen=True)
class TrainingPicture:
    """A picture of the suite in `root`: `target` is its class number, or None where its `mask` has them."""

    root: str
    file_name: str
    target: int | None = None
    mask: str | None = None


@dataclass(frozen=True)
class Lesson:
    """A `model` that is trained by a recipe on `originals`, and on these and `variants`, once for each of the `seeds`,
    and asked about `held`. `classes` are the names of its outputs in order, `numbers` what masks hold for each.
    `suites` are the digests of what it learns and is judged by.
    """

    model: str
    recipe: TrainingRecipe
    classes: tuple[str, ...]
    numbers: tuple[int, ...]
    seeds: tuple[int, ...]
    suites: tuple[str, ...]
    originals: tuple[TrainingPicture, ...]
    variants: tuple[TrainingPicture, ...]
    held: tuple[TrainingPicture, ...]

    @property
    def steps_per_epoch(self) -> int:
        """Of all pictures. Models on originals alone take as many, so that a gain is of pictures and not of steps."""
        return -(-(len(self.originals) + len(self.variants)) // self.recipe.batch)

    @property
    def arms(self) -> tuple[ArmName, ...]:
        """The trainings; a model that comes as a module of its own is asked as it is, too."""
        own = self.recipe.start == "given" and self.model.partition(":")[0] not in ("timm", "torchvision")
        return ("given", "before", "after") if own else ("before", "after")


def answers_of(folder: Path, arm: ArmName, seed: int) -> Path:
    """Where the answers of a trained model lie: a folder with `answers.csv`, or with masks."""
    return folder / f"{arm}-{seed}"


def write_lesson(lesson: Lesson, folder: Path) -> None:
    """Keeps the lesson in the folder of the training. Raises CounterfactoryError where another one has begun there, and
    for a folder that holds something else.
    """
    path = folder / LESSON
    if path.exists() and any(other != path for other in folder.iterdir()):
        if read_lesson(folder) != lesson:
            raise CounterfactoryError(
                f"{folder} holds a training with another model, recipe, suite or seed, which stays as it is: {_AGAIN}"
            )
        return
    if folder.exists() and (not folder.is_dir() or any(other != path for other in folder.iterdir())):
        raise CounterfactoryError(f"{folder} holds something else than a training: {_AGAIN}")
    make_folder(folder)
    write_whole(path, json.dumps(plain(lesson)))


def read_lesson(folder: Path) -> Lesson:
    """The lesson of a folder. Raises CounterfactoryError where there is none, or a broken one."""
    path = folder / LESSON
    return fill_record(Lesson, read_json(path), str(path), _AGAIN)
