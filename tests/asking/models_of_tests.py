"""Models under test by what they answer, and how often they were asked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from picture_rows import picture_row
from PIL import Image

from counterfactory.engine.asking.preparation import Picture, Size
from counterfactory.engine.asking.under_test import ModelUnderTest
from counterfactory.engine.keys import file_digest
from counterfactory.engine.suite import PictureRow

SIDES = ((8, 12), (12, 8))


class Brightness:
    """Scores of "dark" and "light" by a picture's mean; notes the sizes of the batches that it was given."""

    def __init__(self, scale: float = 1.0) -> None:
        self.batches: list[int] = []
        self.scale = scale

    def __call__(self, pictures: NDArray[np.uint8]) -> NDArray[np.float64]:
        self.batches.append(len(pictures))
        means = pictures.reshape(len(pictures), -1).mean(axis=1) / 255
        return np.stack([1 - means, means], axis=1) * self.scale


def under_test(function: Any, **named: Any) -> ModelUnderTest:
    """A function as a model under test whose answers are kept."""

    def run(inputs: NDArray[Any], _: Sequence[Size]) -> Any:
        return function(inputs)

    def prepare(picture: Picture) -> Picture:
        return picture

    named = {"name": "m", "input": "as it is", "digest": "d" * 64, **named}
    return ModelUnderTest(run=run, prepare=prepare, **named)


def pictures(folder: Path, levels: Sequence[int]) -> list[PictureRow]:
    """Pictures of one grey each, their sizes taken in turn, as rows of a suite."""
    rows = []
    for index, level in enumerate(levels):
        row = picture_row(index)
        file = folder / row.file_name
        file.parent.mkdir(parents=True, exist_ok=True)
        height, width = SIDES[index % 2]
        Image.fromarray(np.full((height, width, 3), level, np.uint8)).save(file)
        rows.append(picture_row(index, sha256=file_digest(file)))
    return rows
