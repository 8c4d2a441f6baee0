"""Endless training data from the street world: a rolling pool of rendered scenes.

Scene number i of a stream is drawn from a generator seeded by (stream, i), so that any process sees the same
scenes. Held-out streams are numbered apart from the training streams.
"""

from __future__ import annotations

from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context

import numpy as np
import torch
from numpy.typing import NDArray

from counterfactory.engine.pocket.world import Scene
from counterfactory.engine.pocket.worlds import EMBEDDED, Drawing

# Settings are chosen on HELD_OUT; the report's figures are of JUDGED, by which nothing is chosen.
TRAIN, HELD_OUT, DEMO, JUDGED = 1, 900, 901, 920
# Workers draw so many steps ahead.
_AHEAD = 8


def as_pixels(images: NDArray[np.uint8]) -> torch.Tensor:
    """uint8 [B, H, W, 3] to float32 [B, 3, H, W] in -1..1."""
    return torch.from_numpy(images).permute(0, 3, 1, 2).float() / 127.5 - 1


def draw_item(stream: int, item: int, styles: int) -> tuple[Scene, Drawing]:
    """Item of a stream in which every layout comes `styles` times in a row, restyled but the first time."""
    scene = EMBEDDED.scene(stream, item // styles)
    if item % styles:
        scene = EMBEDDED.restyle(scene, np.random.default_rng((stream, item, 1)))
    return scene, EMBEDDED.draw(scene)


@dataclass
class ScenePool:
    """Rendered scenes for training; a few are replaced by new ones at every step.

    After `advance(step)` the pool holds what an uninterrupted run would hold, whoever drew it: `images` uint8
    [N, 128, 128, 3], `masks` and `nearness` uint8 [N, 128, 128], the scenes themselves, and, with `with_truth`, `truth`
    int8 [N, attributes, 128, 128] as of `World.truth`. With `styles` of two, items 2j and 2j + 1 share a layout. With
    `workers`, that many processes draw ahead.
    """

    stream: int
    size: int
    fresh: int
    styles: int = 1
    workers: int = 0
    with_truth: bool = False

    def __post_init__(self) -> None:
        first, drawing = draw_item(self.stream, 0, 1)
        self.images = np.zeros((self.size, *drawing.picture.shape), np.uint8)
        self.masks = np.zeros((self.size, *drawing.mask.shape), np.uint8)
        self.nearness = np.zeros(self.masks.shape, np.uint8)
        kept = self.size if self.with_truth else 0
        self.truth = np.zeros((kept, len(EMBEDDED.object_words), *drawing.mask.shape), np.int8)
        self.scenes = [first] * self.size
        self._held = np.full(self.size, -1, np.int64)
        self._drawn = 0  # items of the stream
        self._executor = ProcessPoolExecutor(self.workers, get_context("spawn")) if self.workers else None
        self._coming: dict[int, Future[tuple[Scene, Drawing]]] = {}

    def advance(self, step: int) -> list[int]:
        """Bring the pool to the state of `step`; returns the slots that changed."""
        # Every step brings the next `fresh` items of the stream, each into the slot of the oldest.
        last = self.size + step * self.fresh
        items = range(max(self._drawn, last - self.size), last)
        self._drawn = max(self._drawn, last)
        if self._executor is not None:
            for item in range(items.start, last + _AHEAD * self.fresh):
                if item not in self._coming:
                    self._coming[item] = self._executor.submit(draw_item, self.stream, item, self.styles)
        for item in items:
            soon, slot = self._coming.pop(item, None), item % self.size
            self.scenes[slot], drawing = soon.result() if soon else draw_item(self.stream, item, self.styles)
            self.images[slot], self.masks[slot] = drawing.picture, drawing.mask
            self.nearness[slot], self._held[slot] = drawing.nearness, item
            if self.with_truth:
                self.truth[slot] = EMBEDDED.truth(self.scenes[slot], drawing)
        return [item % self.size for item in items]

    def number(self, slot: int) -> int:
        return int(self._held[slot])
