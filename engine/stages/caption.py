"""Captions of sources: what the pictures show, in words."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..keys import generator
from ..models.blip2 import Blip2
from ..models.decoding import DecodingSettings
from ..schedule.overlap import in_chunks
from ..sources.pictures import Pictures
from ..sources.source import Source
from .desk import Desk


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

    @property
    def form(self) -> str:
        """What sets the captioner's plans apart: beams take another decoder, and other rows, in the same folder."""
        return "_beams" if self.decoding.beams > 1 else ""

    @property
    def prompt_tokens(self) -> int:
        """Tokens that a caption goes on after at most: the one that begins texts, and one per byte of the prefix."""
        return 1 + len(self.prefix.encode())


def keys(desk: Desk, sources: Sequence[Source]) -> dict[Source, str]:
    """The content keys of sources' captions."""
    return {source: desk.recipes.caption_key(source.digest) for source in sources}


def missing(desk: Desk, sources: Sequence[Source]) -> list[Source]:
    """The sources whose captions are not on record."""
    return desk.missing(keys(desk, sources), lambda wanted: desk.suite.ledger.get("caption", wanted))


def run(desk: Desk, sources: Sequence[Source], pictures: Pictures, settings: CaptionSettings) -> dict[Source, str]:
    """The captions of sources, without those whose picture cannot be read."""
    named = keys(desk, sources)

    def make(todo: list[Source]) -> Generator[dict[Source, str], None, None]:
        images = pictures.of(todo)
        readable = [source for source in todo if source.key in images]
        for some in in_chunks(readable, settings.batch):
            shown, names = [images[source.key] for source in some], [named[source] for source in some]
            yield dict(zip(some, caption_images(shown, names, desk.models.blip2(), settings), strict=True))

    with desk.meter.stage("caption"):
        return desk.recorded("caption", named, make, total=desk.sources)


def caption_images(
    images: Sequence[NDArray[np.uint8]], keys: Sequence[str], captioner: Blip2, settings: CaptionSettings
) -> list[str]:
    """The caption of each image (uint8 RGB, any sizes), in order; `keys` name the random numbers of sampling."""
    generators = [[generator(key, f"caption {i}") for i in range(settings.texts)] for key in keys]
    captions = captioner.caption(images, generators, settings.prefix, settings.decoding)
    return [_join(texts) for texts in captions]


def _join(texts: Sequence[str]) -> str:
    """Several captions as sentences of one; a single one stays as it is, and one that was written is not repeated."""
    if len(texts) == 1:
        return texts[0]
    different = dict.fromkeys(text.rstrip(" .") for text in texts)
    return " ".join(f"{text}." for text in different if text)
