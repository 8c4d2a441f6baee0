"""What tests make data sets of: pictures, masks and files, in a few bytes."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.sources.data_set import DataSet, SetOptions, read_set


def noise(seed: int = 0, height: int = 24, width: int = 32) -> NDArray[np.uint8]:
    """A picture of noise, uint8 [height, width, 3]; its own for each seed."""
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def encoded(image: Image.Image | NDArray[Any], kind: str = "PNG", **options: Any) -> bytes:
    """A picture's file."""
    file = io.BytesIO()
    (image if isinstance(image, Image.Image) else Image.fromarray(image)).save(file, kind, **options)
    return file.getvalue()


def save(path: Path, seed: int = 0, height: int = 24, width: int = 32) -> Path:
    """A picture of noise, saved."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(noise(seed, height, width)).save(path)
    return path


def save_mask(path: Path, values: Any) -> Path:
    """A mask 24 x 32: its upper half the first value, its lower half the second; numbers or colours."""
    path.parent.mkdir(parents=True, exist_ok=True)
    upper, lower = (np.asarray(value, np.uint8) for value in values)
    mask = np.zeros((24, 32, *upper.shape), np.uint8)
    mask[:12], mask[12:] = upper, lower
    Image.fromarray(mask).save(path)
    return path


def read(root: Path | str, examine: Any = None, on_progress: Any = None, **options: Any) -> DataSet:
    """The data set, by options."""
    return read_set(str(root), SetOptions(**options), on_progress, examine)


def refuse(message: str, root: Path | str, **options: Any) -> None:
    """Asserts that a data set, or an option, is refused with a message, a regular expression."""
    with pytest.raises(CounterfactoryError, match=message):
        read(root, **options)


def write(path: Path, text: str) -> Path:
    """A file of text."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def reasons(found: DataSet) -> dict[str, str]:
    """Why what cannot be used cannot, by name."""
    return {problem.name: problem.reason for problem in found.problems}


def labels(found: DataSet) -> list[tuple[str, str | None]]:
    """The names of the sources with their labels."""
    return [(source.name, source.label) for source in found.sources]
