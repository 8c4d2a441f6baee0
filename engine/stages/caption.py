"""Captions of a shard's sources."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..keys import generator
from ..models.blip2 import Blip2
from ..models.decoding import DecodingSettings


@dataclass(frozen=True)
class CaptionSettings:
    """`batch` is the plan's. `texts` captions of an image are joined to one; each goes on after `prefix`."""

    batch: int
    texts: int
    prefix: str
    decoding: DecodingSettings

    def __post_init__(self) -> None:
        if self.batch < 1 or self.texts < 1:
            raise ValueError(f"[caption] needs batch and texts of at least 1, got {self.batch} and {self.texts}")
        if self.texts > 1 and self.decoding.mode != "nucleus":
            raise ValueError(
                f'[caption] texts = {self.texts} would join equal captions: only mode = "nucleus" writes different ones'
            )

    @property
    def rows(self) -> int:
        """Rows of the decoder that an image takes."""
        return self.texts * self.decoding.beams


def caption_images(
    images: Sequence[NDArray[np.uint8]], keys: Sequence[str], captioner: Blip2, settings: CaptionSettings
) -> list[str]:
    """The caption of each image (uint8 RGB, any sizes), in order; `keys` name the random numbers of sampling."""
    generators = [[generator(key, f"caption {i}") for i in range(settings.texts)] for key in keys]
    told = captioner.caption(images, generators, settings.prefix, settings.decoding)
    return [_joined(texts) for texts in told]


def _joined(texts: Sequence[str]) -> str:
    """Several captions as sentences of one; a single one stays as it is, and one that was said is not said again."""
    if len(texts) == 1:
        return texts[0]
    different = dict.fromkeys(text.rstrip(" .") for text in texts)
    return " ".join(f"{text}." for text in different if text)
