"""Captions of a shard's sources."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..models.blip2 import Blip2


@dataclass(frozen=True)
class CaptionSettings:
    """`batch` is the plan's; `max_tokens` bounds a caption."""

    batch: int
    max_tokens: int

    def __post_init__(self) -> None:
        if self.batch < 1 or self.max_tokens < 1:
            raise ValueError(
                f"[caption] needs batch and max_tokens of at least 1, got {self.batch} and {self.max_tokens}"
            )


def caption_images(images: Sequence[NDArray[np.uint8]], captioner: Blip2, settings: CaptionSettings) -> list[str]:
    """One caption an image (uint8 RGB, any sizes), in order."""
    return captioner.caption(images, settings.max_tokens)
