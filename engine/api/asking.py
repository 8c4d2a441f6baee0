"""Asks a model under test about the pictures of a suite, batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ..errors import CounterfactoryError
from ..suite import PictureRow

# Takes uint8 RGB [N, H, W, 3] to N labels, as text or class numbers.
Model = Callable[[NDArray[np.uint8]], Sequence[Any]]
# Pictures that a model is given at once.
BATCH = 32


def ask_model(model: Model, suite: Path, rows: Sequence[PictureRow]) -> Iterator[tuple[str, Any]]:
    """The model's label of each accepted picture, with the picture's `file_name`.

    At most `BATCH` pictures are given at once, all of one size. Raises CounterfactoryError for a picture that is no
    picture of a suite, and where there are not as many labels as pictures.
    """
    waiting: dict[tuple[int, ...], list[tuple[str, NDArray[np.uint8]]]] = {}
    for row in rows:
        if not row.accepted:
            continue
        pixels = _read(suite / row.file_name)
        batch = waiting.setdefault(pixels.shape, [])
        batch.append((row.file_name, pixels))
        if len(batch) == BATCH:
            yield from _ask(model, waiting.pop(pixels.shape))
    for batch in waiting.values():
        yield from _ask(model, batch)


def _ask(model: Model, batch: Sequence[tuple[str, NDArray[np.uint8]]]) -> Iterator[tuple[str, Any]]:
    answers = model(np.stack([pixels for _, pixels in batch]))
    labels = answers.tolist() if hasattr(answers, "tolist") else list(answers)
    if not isinstance(labels, list) or len(labels) != len(batch):
        count = len(labels) if isinstance(labels, list) else 1
        raise CounterfactoryError(f"the model was given {len(batch)} pictures, and returned {count} labels")
    yield from zip((name for name, _ in batch), labels, strict=True)


def _read(path: Path) -> NDArray[np.uint8]:
    try:
        return np.asarray(Image.open(path, formats=["PNG"]).convert("RGB"))
    except (OSError, ValueError, Image.DecompressionBombError) as error:
        raise CounterfactoryError(f"{path} cannot be read as a picture of a suite: {error}") from error
