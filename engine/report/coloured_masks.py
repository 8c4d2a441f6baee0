"""Masks in colours a person can tell apart, to be laid over pictures: class numbers themselves are nearly black."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

VOID = 255
# Colours of classes 0, 1, ..., and again from the start: Tableau's ten, then their light ones.
_COLOURS = np.array(
    [
        *((31, 119, 180), (255, 127, 14), (44, 160, 44), (214, 39, 40), (148, 103, 189)),
        *((140, 86, 75), (227, 119, 194), (127, 127, 127), (188, 189, 34), (23, 190, 207)),
        *((174, 199, 232), (255, 187, 120), (152, 223, 138), (255, 152, 150), (197, 176, 213)),
        *((196, 156, 148), (247, 182, 210), (199, 199, 199), (219, 219, 141), (158, 218, 229)),
    ],
    np.uint8,
)


def class_colour(number: int) -> str:
    """The colour of a class as CSS writes it."""
    return "#{:02x}{:02x}{:02x}".format(*_COLOURS[number % len(_COLOURS)].tolist())


def draw_mask(mask: Path, path: Path) -> None:
    """Write the mask in colours to `path`, RGBA: void (255) is clear, and a mask that has colours keeps them.

    Does nothing where the mask is missing or no mask: the page shows the pictures without it.
    """
    try:
        numbers = np.asarray(Image.open(mask, formats=["PNG"]))
    except (OSError, ValueError, Image.DecompressionBombError):
        return
    if numbers.ndim == 2:
        numbers = numbers.astype(np.int64)
        colours, seen = _COLOURS[numbers % len(_COLOURS)], numbers != VOID
    else:
        colours, seen = numbers[..., :3], np.ones(numbers.shape[:2], bool)
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.dstack([colours, np.where(seen, 255, 0).astype(np.uint8)])).save(path)
