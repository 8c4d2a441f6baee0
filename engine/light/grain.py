"""A sensor's noise: its shape by keyed random bytes, its strength by the light."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from counterfactory.kernels.opencv import cv2

from .view import Field, Floats, View, Window, scaled

# Rows that share one stream of random bytes.
_BLOCK = 64
# Pixels on the shorter side of a picture whose grain is a pixel wide. A larger one's is wider, or it would not be seen;
# a smaller one's is fainter, as if it were a larger one, made smaller.
_FINE = 900
# A pixel of red, green and blue light: the sensor's filters let less red and blue through, which is amplified.
_GAINS = (1.25, 1.0, 1.5)


@dataclass(frozen=True)
class Grain:
    """Noise of deviation 1, or less in small pictures: a seed of random bytes for each pixel, the `normals` that these
    stand for [256], the `share` of them, and a coarse field that is the rest.
    """

    seed: int
    normals: Floats
    share: float
    coarse: Field | None

    def at(self, window: Window) -> Floats:
        """The noise of some rows, float32 [rows, W, 3]."""
        first, last = window.top // _BLOCK, -(-window.bottom // _BLOCK)
        count = _BLOCK * window.width * 3
        noise = np.concatenate([_bytes(self.seed, block, count) for block in range(first, last)])
        rows = noise.reshape(-1, window.width, 3)[window.top - first * _BLOCK : window.bottom - first * _BLOCK]
        fine = np.asarray(cv2.LUT(rows, self.normals), np.float32)
        if self.coarse is None:
            return fine
        return np.asarray(cv2.addWeighted(fine, self.share, self.coarse.at(window), 1.0, 0), np.float32)


def grain(view: View, rng: np.random.Generator) -> Grain:
    """A picture's own grain."""
    seed, scale = int(rng.integers(2**62)), view.short / _FINE
    # The normal deviates that random bytes stand for, of deviation 1.
    values = np.array([NormalDist().inv_cdf((i + 0.5) / 256) for i in range(256)])
    normals = np.asarray(values / values.std(), np.float32)
    if scale <= 1:
        return Grain(seed, normals * np.float32(max(0.4, scale**0.5)), 1.0, None)
    shape = max(1, round(view.height / scale)), max(1, round(view.width / scale)), 3
    wide = _bytes(seed, -1, int(np.prod(shape))).reshape(shape)
    return Grain(seed, normals, 0.5, Field(np.asarray(cv2.LUT(wide, normals), np.float32) * np.float32(1.2)))


def add_grain(pixels: Floats, noise: Grain, window: Window, shot: float, read: float) -> Floats:
    """Linear light with noise of variance `shot` * light + `read`^2 (Foi et al. 2008), stronger in red and blue."""
    deviation = np.maximum(pixels, 0)
    cv2.addWeighted(deviation, shot, deviation, 0, read**2, dst=deviation)
    added = scaled(np.asarray(cv2.sqrt(deviation, dst=deviation), np.float32), _GAINS)
    cv2.multiply(added, noise.at(window), dst=added)
    return np.asarray(cv2.add(pixels, added, dst=added), np.float32)


def _bytes(seed: int, block: int, count: int) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    stream = np.random.SFC64([seed, block + 1])
    return stream.random_raw(-(-count // 8)).view(np.uint8)[:count]
