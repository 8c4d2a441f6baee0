"""Scores a shard's painted variants: each picture and each caption is embedded once.

Variants, the pictures of their sources and a way to load a painted picture arrive; scores leave, a batch at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ..models.opened import Opened
from ..schedule.overlap import ahead, in_chunks
from ..sources.pictures import Image
from ..variant import Variant
from .check import Embedded, score

Floats = NDArray[np.float32]

_PICTURES_AHEAD = 8


class Checker:
    """The checker of one run."""

    def __init__(self, models: Opened) -> None:
        self._models = models

    def scores(
        self,
        variants: Sequence[Variant],
        images: Mapping[str, Image],
        embeds: Mapping[str, Floats],
        load: Callable[[Variant], Image],
    ) -> Iterator[dict[str, dict[str, float]]]:
        """Yield the scores of a batch, by variant key. `embeds` are text embeddings known already, by caption."""
        if not variants:
            return
        image, text = self._models.clip_image(), self._models.clip_text()
        said = dict(embeds)
        captions = dict.fromkeys(caption for v in variants for caption in (v.caption, v.edited_caption))
        for words in in_chunks([caption for caption in captions if caption not in said], text.plan.batch):
            said |= zip(words, text.encode(words)[1], strict=True)
        seen: dict[str, Floats] = {}
        for keys in in_chunks(list(dict.fromkeys(v.source.key for v in variants)), image.plan.batch):
            seen |= zip(keys, image.encode([images[key] for key in keys]), strict=True)
        for part in in_chunks(ahead(variants, load, _PICTURES_AHEAD), image.plan.batch):
            some = [variant for variant, _ in part]
            embedded = Embedded(
                source_image=np.stack([seen[v.source.key] for v in some]),
                source_text=np.stack([said[v.caption] for v in some]),
                variant_image=image.encode([_loaded(pixels) for _, pixels in part]),
                variant_text=np.stack([said[v.edited_caption] for v in some]),
            )
            yield dict(zip((v.key for v in some), score(embedded), strict=True))


def _loaded(pixels: Image | Exception) -> Image:
    if isinstance(pixels, Exception):
        raise pixels
    return pixels
