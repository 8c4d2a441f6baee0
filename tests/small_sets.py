"""What tests make data sets of: pictures, masks and files, in a few bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from counterfactory.engine.sources.data_set import DataSet, SetOptions, read_set


def save(path: Path, seed: int = 0, height: int = 24, width: int = 32) -> Path:
    """A picture of noise; its own for each seed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)
    return path


def save_mask(path: Path, values: Any) -> Path:
    """A mask 24 x 32: its upper half the first value, its lower half the second; numbers or colours."""
    path.parent.mkdir(parents=True, exist_ok=True)
    upper, lower = (np.asarray(value, np.uint8) for value in values)
    mask = np.zeros((24, 32, *upper.shape), np.uint8)
    mask[:12], mask[12:] = upper, lower
    Image.fromarray(mask).save(path)
    return path


def read(root: Path | str, **options: Any) -> DataSet:
    """The data set, by options."""
    return read_set(str(root), SetOptions(**options))


def write(path: Path, text: str) -> Path:
    """A file of text."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path
