"""Scores of painted variants, and the verdict that thresholds make of them.

Scores are stored; a verdict is derived whenever it is asked for, so that a new threshold generates nothing. The
measures are LANCE's (Prabhu et al. 2023, arXiv 2305.19164, section 3.3): likeness of the new image to the new
caption, and directional similarity, the cosine between the change of the images and the change of the captions
(Gal et al. 2021, arXiv 2108.00946).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


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


def score(embedded: Embedded) -> list[dict[str, float]]:
    """The scores of each variant, rounded to six digits so that they are stored and compared exactly."""
    image_text = _cosine(embedded.variant_image, embedded.variant_text)
    directional = _cosine(embedded.variant_image - embedded.source_image, embedded.variant_text - embedded.source_text)
    image_image = _cosine(embedded.variant_image, embedded.source_image)
    return [
        {"image_text": round(float(a), 6), "directional": round(float(b), 6), "image_image": round(float(c), 6)}
        for a, b, c in zip(image_text, directional, image_image, strict=True)
    ]


def verdict(scores: Mapping[str, float], settings: CheckSettings) -> str | None:
    """None if the scores pass, else the reason for rejection."""
    minima = {
        "image_text": settings.min_image_text,
        "directional": settings.min_directional,
        "image_image": settings.min_image_image,
    }
    for name, least in minima.items():
        if scores[name] < least:
            return f"{name} {scores[name]:.3f} is below {least:.3f}"
    return None


def _cosine(a: Floats, b: Floats) -> Floats:
    norms = np.linalg.norm(a, axis=-1) * np.linalg.norm(b, axis=-1)
    return np.asarray((a * b).sum(axis=-1) / np.maximum(norms, 1e-8), np.float32)
