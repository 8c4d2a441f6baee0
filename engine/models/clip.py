"""CLIP as the engine uses it: text states that condition the denoiser, and embeddings that score images.

Any number of captions or images is split into batches of the plan's size.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from counterfactory.kernels.opencv import cv2

from ..runtime.pipeline import Pipeline
from ..runtime.session import Array
from ..schedule.overlap import in_chunks
from .batching import Batched, pad_rows

if TYPE_CHECKING:
    from tokenizers import Tokenizer

Floats = NDArray[np.float32]


# A side of the embedded networks alone, which learned from pictures that were resized by area.
_BY_AREA = 128


def to_pixel_values(images: Sequence[NDArray[np.uint8]], side: int) -> Floats:
    """uint8 RGB images of any sizes to float32 [B, 3, side, side] in -1..1, resized to a square as the processors of
    published networks do, by Pillow's bicubic filter; for embedded networks by area.
    """
    squares = [image if image.shape[:2] == (side, side) else _resized(image, side) for image in images]
    values = np.empty((len(squares), 3, side, side), np.float32)
    for place, square in zip(values, squares, strict=True):
        np.divide(square.transpose(2, 0, 1), np.float32(127.5), out=place, dtype=np.float32)
    values -= 1
    return values


def _resized(image: NDArray[np.uint8], side: int) -> NDArray[np.uint8]:
    if side == _BY_AREA:
        return cv2.resize(image, (side, side), interpolation=cv2.INTER_AREA).astype(np.uint8, copy=False)
    return np.asarray(Image.fromarray(image).resize((side, side), Image.Resampling.BICUBIC))


# Captions whose embeddings are kept, a few kilobytes each: more than a shard has.
_LATEST = 4096
# Rounds of batches that are encoded in one go, so that no stream waits for another after each.
_TOGETHER = 4


def read_chars(tokenizer: Tokenizer, caption: str) -> int:
    """How many of a caption's characters the text encoder reads: all, or those before the tokens that are cut off."""
    encoding = tokenizer.encode(caption)
    if not encoding.overflowing:
        return len(caption)
    tokens = zip(encoding.offsets, encoding.special_tokens_mask, strict=True)
    return max((end for (_, end), special in tokens if not special), default=0)


@dataclass(frozen=True)
class ClipText:
    """The text encoder: captions to states and embeddings.

    With a `pipeline`, states for painting stay on its device. Embeddings of the latest captions are kept: a picture is
    checked against the caption that it was painted from.
    """

    plan: Batched
    tokenizer: Tokenizer
    pipeline: Pipeline | None = None
    _latest: dict[str, Floats] = field(default_factory=dict, repr=False, compare=False)

    def encode(self, captions: Sequence[str]) -> tuple[Floats, Floats]:
        """States [N, T, D] of the last layer, and unit embeddings [N, E]. Captions are truncated to T tokens."""
        out = self.plan.run({"input_ids": self._ids(captions)})
        self._latest.update(zip(captions, out["text_embeds"].copy(), strict=True))
        for old in list(islice(self._latest, max(0, len(self._latest) - _LATEST))):
            del self._latest[old]
        return out["states"], out["text_embeds"]

    def embed(self, captions: Iterable[str]) -> dict[str, Floats]:
        """Unit embeddings [E] of captions, each once; what was encoded lately is not encoded again."""
        wanted = dict.fromkeys(captions)
        embeddings = {caption: self._latest[caption] for caption in wanted if caption in self._latest}
        missing = [caption for caption in wanted if caption not in embeddings]
        for chunk in in_chunks(missing, _TOGETHER * self.plan.at_once):
            embeddings |= zip(chunk, self.encode(chunk)[1], strict=True)
        return embeddings

    def encode_states(self, captions: Sequence[str]) -> Sequence[Any]:
        """States [T, D] of at most `plan.at_once` captions, where the denoiser takes them."""
        if self.pipeline is None:
            return list(self.encode(captions)[0])
        with self.pipeline.parcel([pad_rows(self._ids(captions), self.plan.batch)]) as (ids,):
            states = self.plan.queue({"input_ids": ids}, len(captions), self.pipeline)["states"]
            return [self.pipeline.keep(states.row(at)) for at in range(len(captions))]

    def _ids(self, captions: Sequence[str]) -> Array:
        return np.array([e.ids for e in self.tokenizer.encode_batch(list(captions))], np.int64)


@dataclass(frozen=True)
class ClipImage:
    """The image encoder: images to embeddings."""

    plan: Batched

    def encode(self, images: Sequence[NDArray[np.uint8]]) -> Floats:
        """Unit embeddings [N, E] of uint8 RGB images of any sizes."""
        side = self.plan.signature.inputs[0].shape[-1]
        assert side is not None
        return self.plan.run({"pixel_values": to_pixel_values(images, side)})["image_embeds"]
