"""Draws other weather and light into a photograph."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def draw_light(
    picture: NDArray[np.uint8],
    values: Sequence[tuple[str, str]],
    severity: float,
    rng: np.random.Generator,
    depth: NDArray[np.float32] | None = None,
) -> NDArray[np.uint8]:
    """The picture, uint8 RGB [H, W, 3], under the values of `MENU`, each with its type. `severity` is above 0, at most
    1; `depth` float32 [H, W] is 0 near and 1 far.
    """
    drawn = picture.astype(np.float32)
    for _, value in values:
        towards = 20.0 if "night" in value or "dusk" in value else 200.0
        drawn += severity * 0.6 * (towards - drawn) * (1 if depth is None else depth[:, :, None])
    return np.clip(drawn + rng.normal(0, 1, drawn.shape), 0, 255).astype(np.uint8)
