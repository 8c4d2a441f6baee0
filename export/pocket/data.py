"""Endless training data from the street world: a rolling pool of rendered scenes.

Scene number i of a stream is drawn from a generator seeded by (stream, i), so that any process sees the same
scenes. Held-out streams are numbered apart from the training streams.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from counterfactory.engine.pocket.worlds import EMBEDDED, Drawing, drawn

from .training import slots

# Settings are chosen on HELD_OUT; the report's figures are of JUDGED, by which nothing is chosen.
TRAIN, HELD_OUT, DEMO, JUDGED = 1, 900, 901, 920
# Workers draw so many steps ahead.
_AHEAD = 8


def as_pixels(images: NDArray[np.uint8]) -> torch.Tensor:
    """uint8 [B, H, W, 3] to float32 [B, 3, H, W] in -1..1."""
    return torch.from_numpy(images).permute(0, 3, 1, 2).float() / 127.5 - 1


@dataclass
class ScenePool:
    """Rendered scenes for training; a few are replaced by new ones at every step.

    After `advance(step)` the pool holds what an uninterrupted run would hold, whoever drew it: `images` uint8
    [N, 128, 128, 3], `masks` uint8 [N, 128, 128], the scenes themselves, and, with `with_truth`, `truth` int8
    [N, attributes, 128, 128] as of `World.truth`; `nearness` uint8 [N, 128, 128]. With
    `styles` of two, items 2j and 2j + 1 share a layout. With `workers`, that many processes draw ahead.
    """

    stream: int
    size: int
    fresh: int
    styles: int = 1
    workers: int = 0
    with_truth: bool = False

    def __post_init__(self) -> None:
        first, drawing = drawn(self.stream, 0, 1)
        self.images = np.zeros((self.size, *drawing.picture.shape), np.uint8)
        self.masks = np.zeros((self.size, *drawing.mask.shape), np.uint8)
        self.nearness = np.zeros(self.masks.shape, np.uint8)
        kept = self.size if self.with_truth else 0
        self.truth = np.zeros((kept, len(EMBEDDED.object_words), *drawing.mask.shape), np.int8)
        self.scenes: list[Any] = [first] * self.size
        self._held = np.full(self.size, -1, np.int64)
        self._step = 0
        self._executor: ProcessPoolExecutor | None = None
        self._coming: dict[int, Future[tuple[Any, Drawing]]] = {}

    def advance(self, step: int) -> list[int]:
        """Bring the pool to the state of `step`; returns the slots that changed."""
        wanted = {slot: slot for slot in range(self.size)} if self._held[0] < 0 else {}
        for past in range(max(self._step, step - self.size // max(1, self.fresh) - 1), step):
            wanted.update(slots(past, self.fresh, self.size))
        self._step = step
        changed = [slot for slot, item in wanted.items() if self._held[slot] != item]
        items = [wanted[slot] for slot in changed]
        self._order(items)
        for slot, item in zip(changed, items, strict=True):
            self.scenes[slot], drawing = self._take(item)
            self._held[slot] = item
            self.images[slot], self.masks[slot] = drawing.picture, drawing.mask
            self.nearness[slot] = drawing.nearness
            if self.with_truth:
                self.truth[slot] = EMBEDDED.truth(self.scenes[slot], drawing)
        return changed

    def number(self, slot: int) -> int:
        """Which item of the stream a slot holds."""
        return int(self._held[slot])

    def _order(self, items: Iterable[int]) -> None:
        """Have the workers draw these items and those of the next steps."""
        if not self.workers:
            return
        if self._executor is None:
            self._executor = ProcessPoolExecutor(self.workers, get_context("spawn"))
        soon = [
            item for past in range(self._step, self._step + _AHEAD) for _, item in slots(past, self.fresh, self.size)
        ]
        for item in (*items, *soon):
            if item not in self._coming:
                self._coming[item] = self._executor.submit(drawn, self.stream, item, self.styles)

    def _take(self, item: int) -> tuple[Any, Drawing]:
        if item in self._coming:
            return self._coming.pop(item).result()
        return drawn(self.stream, item, self.styles)
