"""Pictures of a suite as a network's training takes them: prepared, augmented by chance, with their targets.

What chance does to a picture follows from the seed, the step and the picture's place in the batch, so that a training
that was stopped goes on as if it had not been, in however many processes pictures are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Dataset, Sampler

from counterfactory.engine.asking.published_inputs import read_preparation
from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.suite.images import open_png
from counterfactory.engine.suite.paths import Folder
from counterfactory.engine.training.lesson import Lesson, TrainingPicture

IGNORED = -100  # what cross entropy does not count
_NO_CLASS = 255  # a mask's pixels of no class, as they are read
Size = tuple[int, int]
# Where a picture is in a training: its step, its place in the batch, its number. A step below 0 changes nothing.
Place = tuple[int, int, int]
# Bytes of decoded pictures that stay in memory.
_KEPT = 1 << 30
_RATIO = 4 / 3


class TrainingPictures(Dataset[tuple[Tensor, Tensor]]):
    """Inputs float32 [3, h, w] with their targets: a class number, or int64 [h, w] of them; by their `Place`."""

    def __init__(self, lesson: Lesson, pictures: Sequence[TrainingPicture], seed: int) -> None:
        self._pictures, self._seed, self._recipe = pictures, seed, lesson.recipe
        self._prepare = read_preparation(lesson.recipe.preprocess)
        self._nearest = replace(self._prepare, interpolation="nearest", antialias=True, scale=None, mean=None, std=None)
        self._index = np.full(1 << 16, _NO_CLASS, np.uint8)
        self._index[list(lesson.numbers)] = range(len(lesson.numbers))
        self._folders: dict[str, Folder] = {}
        self._kept: dict[int, tuple[NDArray[np.uint8], NDArray[np.uint8] | None]] = {}
        self._bytes = 0

    def __getitem__(self, place: Place) -> tuple[Tensor, Tensor]:
        step, slot, number = place
        picture, mask = self._read(number)
        prepare, augment = self._prepare, self._recipe.augment
        if step >= 0:
            rng = np.random.default_rng((self._seed, step, slot))
            if augment.least < 1:
                size = picture.shape[0], picture.shape[1]
                whole = prepare.resize if isinstance(prepare.resize, tuple) else size
                picture = picture[_crop(size, augment.least, rng)]
                prepare = replace(
                    prepare,
                    middle=None,
                    keep=None,
                    longest=None,
                    multiple=None,
                    pad=None,
                    crop=None,
                    resize=prepare.crop or prepare.pad or whole,
                )
            if augment.mirror and rng.random() < 0.5:
                picture, mask = picture[:, ::-1], None if mask is None else mask[:, ::-1]
        pixels = torch.from_numpy(np.ascontiguousarray(prepare.apply(picture).transpose(2, 0, 1))).float()
        if mask is None:
            return pixels, torch.tensor(self._pictures[number].target)
        flat = self._nearest.apply(np.repeat(mask[:, :, None], 3, 2))[:, :, 0].astype(np.int64)
        return pixels, torch.from_numpy(np.where(flat == _NO_CLASS, IGNORED, flat))

    def size(self, number: int) -> Size:
        height, width = self._read(number)[0].shape[:2]
        return height, width

    def _read(self, number: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8] | None]:
        """The picture, uint8 [H, W, 3], and its mask as numbers of classes."""
        if number in self._kept:
            return self._kept[number]
        one = self._pictures[number]
        folder = self._folders.setdefault(one.root, Folder(Path(one.root)))
        picture = open_png(folder.path(one.file_name), lambda image: np.asarray(image.convert("RGB")))
        mask = None if one.mask is None else self._index[open_png(folder.path(one.mask), _numbers)]
        size = picture.nbytes + (0 if mask is None else mask.nbytes)
        if self._bytes + size <= _KEPT:
            self._kept[number] = (picture, mask)
            self._bytes += size
        return picture, mask


def _numbers(image: Any) -> NDArray[np.intp]:
    return np.asarray(image).astype(np.intp)


def _crop(size: Size, least: float, rng: np.random.Generator) -> tuple[slice, slice]:
    """A part of a picture with such a share of its area, or more."""
    height, width = size
    area = rng.uniform(least, 1) * height * width
    ratio = float(np.exp(rng.uniform(-np.log(_RATIO), np.log(_RATIO))))
    sides = (height, (area / ratio) ** 0.5), (width, (area * ratio) ** 0.5)
    tall, wide = (max(1, min(side, round(part))) for side, part in sides)
    top, left = int(rng.integers(height - tall + 1)), int(rng.integers(width - wide + 1))
    return slice(top, top + tall), slice(left, left + wide)


def stack(batch: Sequence[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    """A batch's inputs and targets. Raises CounterfactoryError for inputs of several sizes."""
    sizes = sorted({tuple(inputs.shape[1:]) for inputs, _ in batch})
    if len(sizes) > 1:
        several = f"pictures become inputs of several sizes, such as {sizes[0]} and {sizes[-1]}"
        raise CounterfactoryError(f"{several}: say resize=HxW, or crop=N, in the recipe's preprocess")
    inputs, targets = zip(*batch, strict=True)
    return torch.stack(inputs), torch.stack(targets)


class TrainingOrder(Sampler[list[Place]]):
    """The batches of the steps from `start` to `stop`: the pictures in an order of each round's own, over and over."""

    def __init__(self, count: int, batch: int, seed: int, start: int, stop: int) -> None:
        self._count, self._batch, self._seed = count, batch, seed
        self._start, self._stop = start, stop

    def __iter__(self) -> Iterator[list[Place]]:
        held, order = -1, np.zeros(0, np.int64)
        for step in range(self._start, self._stop):
            places: list[Place] = []
            for slot in range(self._batch):
                turn, at = divmod(step * self._batch + slot, self._count)
                if turn != held:
                    held, order = turn, np.random.default_rng((self._seed, turn)).permutation(self._count)
                places.append((step, slot, int(order[at])))
            yield places

    def __len__(self) -> int:
        return self._stop - self._start
