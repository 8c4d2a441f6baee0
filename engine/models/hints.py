"""Hints: the maps that keep a picture's layout, as inputs of hint encoders, and their embeddings for the denoiser.

A denoiser follows one hint or several. Where they share one ControlNet their embeddings [D, h, w] are added, each
times its weight; where each has a ControlNet of its own they are stacked, [N, D, h, w], and the weights go to the
control scale. The denoiser's input tells which of the two it takes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import CounterfactoryError
from ..runtime.session import Signature
from .batching import Batched

Floats = NDArray[np.float32]


def hints_of(maps: NDArray[Any], channels: int | None = None) -> Floats:
    """A hint encoder's input, float32 [N, C, H, W] in 0..1, from maps [N, H, W] or [N, H, W, 3] of whole numbers of 8
    or 16 bits, of which the largest possible becomes 1.

    `channels` is the number that the encoder takes: a grey map is repeated for colours. Raises CounterfactoryError for
    colours that would have to become grey.
    """
    planes = maps[:, None] if maps.ndim == 3 else maps.transpose(0, 3, 1, 2)
    if channels is not None and planes.shape[1] != channels:
        if planes.shape[1] != 1:
            raise CounterfactoryError(
                f"a map of {planes.shape[1]} colours was given to a hint encoder of {channels} channel"
                f"{'s' * (channels != 1)}: name the encoder that was exported for maps of classes as the hint's "
                "plan, or export it again with --hint-channels 3"
            )
        planes = np.repeat(planes, channels, axis=1)
    return np.ascontiguousarray(planes).astype(np.float32) / np.float32(np.iinfo(maps.dtype).max)


def embed(encoder: Batched, maps: NDArray[Any]) -> Sequence[Floats]:
    """Embeddings [D, h, w] of one hint's maps, in as many channels as its encoder takes."""
    return list(encoder.run({"hint": hints_of(maps, encoder.signature.inputs[0].shape[1])})["hint_embedding"])


def embed_several(
    encoders: Sequence[Batched],
    denoiser: Signature,
    maps: Sequence[NDArray[Any] | None],
    weights: Sequence[float],
    embed_one: Callable[[Batched, NDArray[Any]], Sequence[Floats]] = embed,
) -> list[Floats]:
    """Hint embeddings of N pictures as a denoiser takes them, of the maps of each hint, [N, H, W] or [N, H, W, 3] (see
    `hints_of`), None where its weight is 0; `encoders` are those of the others, in their order.

    Raises CounterfactoryError where the denoiser follows another number of hints, and for maps of other channels.
    """
    apart = hints_apart(denoiser)
    if apart is not None and apart != len(weights):
        raise CounterfactoryError(
            f"the denoiser has {apart} ControlNets, and the profile names {len(weights)} hint"
            f"{'s' * (len(weights) != 1)}: name as many tables [[hints]], in the order of the export, with weight = 0 "
            "for one that is left out"
        )
    each = iter(encoders)
    embedded = [None if hint_maps is None else embed_one(next(each), hint_maps) for hint_maps in maps]
    (first, *_) = (rows for rows in embedded if rows is not None)
    nothing, embeddings = np.zeros_like(first[0]), []
    for i in range(len(first)):
        rows = [nothing if hint_rows is None else hint_rows[i] for hint_rows in embedded]
        if apart is not None:
            embeddings.append(np.stack(rows))
            continue
        # A map of zeros alone counts as absent, and adds nothing, as in the training of such a denoiser.
        counted = [
            np.float32(weight) * row
            for row, hint_maps, weight in zip(rows, maps, weights, strict=True)
            if hint_maps is not None and hint_maps[i].any()
        ]
        embeddings.append(sum(counted, nothing))
    return embeddings


def hints_apart(denoiser: Signature) -> int | None:
    """How many hints have a ControlNet of their own in a denoiser; None where one ControlNet follows all of them."""
    (port,) = (port for port in denoiser.inputs if port.name == "hint_embedding")
    return port.shape[1] if len(port.shape) == 5 else None
