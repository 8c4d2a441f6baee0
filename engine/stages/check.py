"""Scores of painted variants, and the verdict that thresholds make of them.

Scores are stored; a verdict is derived whenever it is asked for, so that a new threshold generates nothing. The
measures are LANCE's (Prabhu et al. 2023, arXiv 2305.19164, section 3.3): likeness of the new image to the new
caption, and directional similarity, the cosine between the change of the images and the change of the captions
(Gal et al. 2021, arXiv 2108.00946).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..schedule.overlap import ahead, in_chunks
from ..sources.pictures import Pictures
from ..suite import PaintedRow
from ..variant import Kind, Variant
from .desk import Desk

Floats = NDArray[np.float32]
Scores = dict[str, float]

# Pictures that are read ahead of the network.
_AHEAD = 8


@dataclass(frozen=True)
class CheckSettings:
    """`batch` is the plan's; a variant is accepted if each score reaches its minimum (-1..1)."""

    batch: int
    min_image_text: float
    min_directional: float
    min_image_image: float

    def __post_init__(self) -> None:
        if self.batch < 1:
            raise ValueError(f"[check] needs a batch of at least 1, got {self.batch}")
        for name in ("min_image_text", "min_directional", "min_image_image"):
            if not -1 <= getattr(self, name) <= 1:
                raise ValueError(f"[check] {name} is a cosine, -1 to 1, got {getattr(self, name)}")


@dataclass(frozen=True)
class Embedded:
    """Unit embeddings [N, E] of what a check compares, row by row."""

    source_image: Floats
    source_text: Floats
    variant_image: Floats
    variant_text: Floats


def run(
    desk: Desk, painted: Mapping[Variant, PaintedRow], pictures: Pictures, settings: CheckSettings
) -> dict[Variant, Scores]:
    """The scores of painted variants, without those whose source's picture cannot be read."""
    keys = {
        variant: desk.recipes.scores_key(row.image.sha256, variant.source.key, variant.caption, variant.edited_caption)
        for variant, row in painted.items()
    }

    def make(todo: list[Variant]) -> Generator[dict[Variant, Scores], None, None]:
        images = pictures.of(variant.source for variant in todo)
        shown = [variant for variant in todo if variant.source.key in images]
        yield from _scored(desk, shown, images, lambda variant: desk.suite.load_image(painted[variant]))

    with desk.meter.stage("check"):
        return desk.recorded("check", keys, make, total=desk.pictures)


def _scored(
    desk: Desk,
    variants: Sequence[Variant],
    images: Mapping[str, NDArray[np.uint8]],
    load: Callable[[Variant], NDArray[np.uint8]],
) -> Iterator[dict[Variant, Scores]]:
    """Scores, a batch at a time; each caption and each source is embedded once."""
    if not variants:
        return
    image, text = desk.models.clip_image(), desk.models.clip_text()
    captions = dict.fromkeys(caption for v in variants for caption in (v.caption, v.edited_caption))
    texts: dict[str, Floats] = {}
    for some in in_chunks(captions, text.plan.batch):
        texts |= zip(some, text.encode(some)[1], strict=True)
    originals: dict[str, Floats] = {}
    for keys in in_chunks(dict.fromkeys(v.source.key for v in variants), image.plan.batch):
        originals |= zip(keys, image.encode([images[key] for key in keys]), strict=True)
    for part in in_chunks(ahead(variants, load, _AHEAD), image.plan.batch):
        batch = [variant for variant, _ in part]
        embedded = Embedded(
            source_image=np.stack([originals[v.source.key] for v in batch]),
            source_text=np.stack([texts[v.caption] for v in batch]),
            variant_image=image.encode([_loaded(pixels) for _, pixels in part]),
            variant_text=np.stack([texts[v.edited_caption] for v in batch]),
        )
        yield dict(zip(batch, score(embedded), strict=True))


def _loaded(pixels: NDArray[np.uint8] | Exception) -> NDArray[np.uint8]:
    if isinstance(pixels, Exception):
        raise pixels
    return pixels


def score(embedded: Embedded) -> list[dict[str, float]]:
    """The scores of each variant, rounded to six digits so that they are stored and compared exactly."""
    image_text = _cosine(embedded.variant_image, embedded.variant_text)
    directional = _cosine(embedded.variant_image - embedded.source_image, embedded.variant_text - embedded.source_text)
    image_image = _cosine(embedded.variant_image, embedded.source_image)
    return [
        {"image_text": round(float(a), 6), "directional": round(float(b), 6), "image_image": round(float(c), 6)}
        for a, b, c in zip(image_text, directional, image_image, strict=True)
    ]


def verdict(scores: Mapping[str, float], settings: CheckSettings, kind: Kind = "variant") -> str | None:
    """None if the scores pass, else the reason for rejection.

    A control's caption changes nothing, so that there is no direction to hold it to; an original is what it is.
    """
    minima = {
        "image_text": settings.min_image_text,
        "directional": settings.min_directional,
        "image_image": settings.min_image_image,
    }
    if kind == "original":
        return None
    if kind == "control":
        del minima["directional"]
    for name, least in minima.items():
        if scores[name] < least:
            return f"{name} {scores[name]:.3f} is below {least:.3f}"
    return None


def _cosine(a: Floats, b: Floats) -> Floats:
    norms = np.linalg.norm(a, axis=-1) * np.linalg.norm(b, axis=-1)
    return np.asarray((a * b).sum(axis=-1) / np.maximum(norms, 1e-8), np.float32)
