"""Masks in colours a person can tell apart, to be laid over pictures: class numbers themselves are nearly black."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

from ..files.writing import open_whole
from ..suite.images import open_png

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


def draw_mask(mask: Path, path: Path, below: Path) -> None:
    """Write the mask in colours to `path`, below the folder `below`, RGBA: void (255) is clear, and a mask that has
    colours keeps them.

    Does nothing where the mask is missing or no mask: the page shows the pictures without it.
    """
    try:
        numbers = open_png(mask, np.asarray)
    except ValueError:
        return
    drawn = np.full((*numbers.shape[:2], 4), 255, np.uint8)
    if numbers.ndim == 2:
        for row, line in zip(drawn, numbers.astype(np.int32, copy=False), strict=True):
            row[:, :3], row[line == VOID, 3] = _COLOURS[line % len(_COLOURS)], 0
    else:
        drawn[..., :3] = numbers[..., :3]
    with open_whole(path, sync="nothing", below=below) as file:
        Image.fromarray(drawn).save(file, "PNG")
