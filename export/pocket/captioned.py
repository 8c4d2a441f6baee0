"""What captions state of scenes that no training saw, and what the autoencoder leaves of their pictures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterfactory.engine.models.batching import Batched
from counterfactory.engine.models.clip import to_pixel_values
from counterfactory.engine.runtime.openvino import open_session

from .changes import Counterfacts

Pictures = Sequence[NDArray[np.uint8]]
# The facts that count; in the streets there are no others but walls and the number of people.
_COUNTED = ("weather", "time", "background", "domain", "colour", "kind")


def caption_figures(captions: Sequence[str], scenes: Sequence[Any], counterfacts: Counterfacts) -> dict[str, Any]:
    """The share of facts that captions state rightly, of all that count and by kind.

    Where captions may leave facts unsaid, `caption_stated` is the share that they state, by kind.
    """
    right: dict[str, list[bool]] = {}
    asked: dict[str, int] = {}
    for caption, scene in zip(captions, scenes, strict=True):
        for name, answer in counterfacts.check(caption, scene):
            asked[name] = asked.get(name, 0) + 1
            if answer is not None:
                right.setdefault(name, []).append(answer)
    counted = [hit for name in _COUNTED for hit in right.get(name, [])]
    figures: dict[str, Any] = {
        "caption_facts": float(np.mean(counted)),
        "caption_facts_by_kind": {name: float(np.mean(hits)) for name, hits in right.items()},
    }
    if any(asked[name] != len(right.get(name, [])) for name in asked):
        figures["caption_stated"] = {name: len(right.get(name, [])) / count for name, count in asked.items()}
    return figures


def open_autoencoder(weights: Path) -> Callable[[Pictures], NDArray[np.float32]]:
    """The autoencoder of a folder, in float32: pictures uint8 [128, 128, 3] to pixel values [N, 3, 128, 128], -1..1."""
    encoder = open_session(weights / "vae_encoder.xml", batch=8, precision="f32", sizes={"pixel_values": (128, 128)})
    decoder = open_session(weights / "vae_decoder.xml", batch=8, precision="f32", sizes={"latents": (32, 32)})

    def decode_again(pictures: Pictures) -> NDArray[np.float32]:
        latents = Batched(encoder).run({"pixel_values": to_pixel_values(pictures, 128)})
        return np.asarray(Batched(decoder).run(latents)["pixel_values"].clip(-1, 1), np.float32)

    return decode_again


def psnr(autoencode: Callable[[Pictures], NDArray[np.float32]], pictures: Pictures) -> float:
    """Mean PSNR in dB of pictures after the autoencoder, over 8-bit levels."""
    error = ((autoencode(pictures) - to_pixel_values(pictures, 128)) / 2) ** 2
    return float(np.mean(-10 * np.log10(error.mean(axis=(1, 2, 3)))))
