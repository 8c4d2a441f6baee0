"""Paints a shard's variants: edges and hint once a source, text states once a caption, jobs drawn as room comes up.

Variants and the pictures of their sources arrive; painted pictures leave, in the order in which they finish.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from ..config.profile import Profile
from ..models.opened import Opened
from ..schedule.overlap import ahead, in_chunks
from ..sources.pictures import Image
from ..variant import Variant
from .paint import PaintJob, paint
from .text_states import TextStates

Floats = NDArray[np.float32]

_EDGES_AHEAD = 8


class Painter:
    """The painter of one run. `embeds` are the text embeddings, by caption, that came up in painting."""

    def __init__(self, models: Opened, profile: Profile) -> None:
        self._models, self._profile = models, profile
        self._negative: Floats | None = None

    def paint(
        self, variants: Sequence[Variant], images: Mapping[str, Image], embeds: dict[str, Floats]
    ) -> Iterator[tuple[Variant, Image]]:
        """Yield each variant with its picture, uint8 RGB [H, W, 3]; adds to `embeds` what the checks can use again.

        `images` are the sources' pictures by source key. Pictures of one size share plans and batches.
        """
        if not variants:
            return
        variants = sorted(variants, key=lambda v: images[v.source.key].shape)
        texts = TextStates(self._models.clip_text(), [v.edited_caption for v in variants])
        jobs = self._jobs(variants, images, texts)
        for order, pixels in paint(jobs, self._negative_states(), self._profile.paint):
            yield variants[order], pixels
        embeds.update(texts.embeds)

    def _jobs(self, variants: Sequence[Variant], images: Mapping[str, Image], texts: TextStates) -> Iterator[PaintJob]:
        hint, plans, last = None, None, None
        drawn = self._edges(list(dict.fromkeys(v.source.key for v in variants)), images)
        for variant in variants:
            if variant.source.key != last:
                last, edges = next(drawn)
                plans = self._models.painter(*images[last].shape[:2])
                hint = plans.embed_hints(edges[None])[0]
            assert plans is not None
            assert hint is not None
            yield PaintJob(variant.key, texts.take(variant.edited_caption), hint, plans)

    def _edges(self, keys: Sequence[str], images: Mapping[str, Image]) -> Iterator[tuple[str, Image]]:
        """Each source's edge map [H, W], in order; pictures of one size stand together."""
        hed = self._profile.edges.hed
        if hed is not None:  # a network runs where the others do, in full batches
            for _, group in groupby(keys, key=lambda key: images[key].shape):
                for part in in_chunks(group, hed.batch):
                    yield from zip(part, self._models.edge_maps(np.stack([images[key] for key in part])), strict=True)
            return
        for key, found in ahead(keys, lambda key: self._models.edge_maps(images[key][None])[0], _EDGES_AHEAD):
            if isinstance(found, Exception):
                raise found
            yield key, found

    def _negative_states(self) -> Floats:
        """Text states of the negative prompt, encoded once a run."""
        if self._negative is None:
            self._negative = self._models.clip_text().encode([self._profile.paint.negative_prompt])[0][0]
        return self._negative
