"""Endless training data from the street world: a rolling pool of rendered scenes.

Scene number i of a stream is drawn from a generator seeded by (stream, i), so that any process sees the same
scenes. Held-out streams are numbered apart from the training streams.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from counterfactory.engine.pocket.render import render
from counterfactory.engine.pocket.world import Scene, restyle, sample_scene

from .training import slots

TRAIN, HELD_OUT, DEMO = 1, 900, 901


def scene(stream: int, index: int) -> Scene:
    """Scene number `index` of a stream."""
    return sample_scene(np.random.default_rng((stream, index)))


def styled(stream: int, index: int, styles: int) -> Scene:
    """Item `index` of a stream in which every layout comes `styles` times in a row, restyled but the first time."""
    first = scene(stream, index // styles)
    return first if index % styles == 0 else restyle(first, np.random.default_rng((stream, index, 1)))


def as_pixels(images: NDArray[np.uint8]) -> torch.Tensor:
    """uint8 [B, H, W, 3] to float32 [B, 3, H, W] in -1..1."""
    return torch.from_numpy(images).permute(0, 3, 1, 2).float() / 127.5 - 1


@dataclass
class ScenePool:
    """Rendered scenes for training; a few are replaced by new ones at every step.

    After `advance(step)` the pool holds what an uninterrupted run would hold: `images` uint8 [N, 128, 128, 3],
    `masks` uint8 [N, 128, 128], and the scenes themselves. With `styles` of two, items 2j and 2j + 1 share a layout.
    """

    stream: int
    size: int
    fresh: int
    styles: int = 1

    def __post_init__(self) -> None:
        first = render(scene(self.stream, 0))
        self.images = np.zeros((self.size, *first[0].shape), np.uint8)
        self.masks = np.zeros((self.size, *first[1].shape), np.uint8)
        self.scenes: list[Scene] = [scene(self.stream, 0)] * self.size
        self._held = np.full(self.size, -1, np.int64)
        self._step = 0

    def advance(self, step: int) -> list[int]:
        """Bring the pool to the state of `step`; returns the slots that changed."""
        wanted = {slot: slot for slot in range(self.size)} if self._held[0] < 0 else {}
        for past in range(max(self._step, step - self.size // max(1, self.fresh) - 1), step):
            wanted.update(slots(past, self.fresh, self.size))
        self._step = step
        changed = [slot for slot, item in wanted.items() if self._held[slot] != item]
        for slot in changed:
            self._held[slot] = wanted[slot]
            self.scenes[slot] = styled(self.stream, wanted[slot], self.styles)
            self.images[slot], self.masks[slot] = render(self.scenes[slot])
        return changed
