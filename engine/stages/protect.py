"""Protects a part of a picture: where its mask shows a class that is named, a variant keeps the source's pixels.

After each step the variant's latents are blended with the source's own, noised to the same level with the variant's
noise (blended latent diffusion, Avrahami et al. 2023, arXiv 2206.02779, algorithm 1). Held through all steps the region
is the source's, as far as the autoencoder knows it; held through some three quarters of them it keeps the source's
structure and takes on the edit's light and weather. Beyond the mask the blend falls off over a few pixels, so that
there is no seam.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterfactory.kernels.opencv import cv2

from ..errors import CounterfactoryError
from ..sources.pictures import Pictures
from ..sources.source import Problem, Source, load_mask
from .desk import Desk

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class ProtectSettings:
    """`classes` of the mask are protected, by name, or by number where the data set has no names. The blend falls to 0
    over `feather` pixels of the painted picture, and ends after the share `until` of the steps.
    """

    classes: tuple[str, ...]
    feather: float
    until: float

    def __post_init__(self) -> None:
        if not self.classes:
            raise ValueError("[protect] classes names none: name some, or take the table out")
        if not 0 <= self.feather <= 1024:
            raise ValueError(f"[protect] feather is 0 to 1024 pixels, got {self.feather:g}")
        if not 0 < self.until <= 1:
            raise ValueError(f"[protect] until is a share of the steps, above 0 and at most 1, got {self.until:g}")

    def holds(self, step: int, steps: int) -> bool:
        """Whether the region is held after step `step` (0 first) of `steps`."""
        return step < self.until * steps


def protect_classes(classes: tuple[str, ...], usual: ProtectSettings | None, short_side: int) -> ProtectSettings:
    """Settings that protect these classes, the rest as in a profile's own; where it has none held through all steps,
    with a feather of a 32nd of the picture's short side.
    """
    if usual is not None:
        return replace(usual, classes=classes)
    return ProtectSettings(classes, short_side / 32, 1.0)


@dataclass(frozen=True)
class Kept:
    """What a variant keeps of its source: `latents` [C, h, w], where `share` [h, w] says how much, 0 to 1."""

    latents: Floats
    share: Floats
    settings: ProtectSettings


def take_labelled(settings: ProtectSettings | None, sources: Sequence[Source]) -> tuple[list[Source], list[Problem]]:
    """The sources that have a mask to protect by, and the problems of the others; all of them without settings.

    Raises CounterfactoryError where no source has a mask, and for a class that no mask can show.
    """
    if settings is None or not sources:
        return list(sources), []
    missing = [source for source in sources if source.mask_path is None]
    if len(missing) == len(sources):
        raise CounterfactoryError(
            "[protect] needs masks (masks/ beside images/, or --masks DIR), and no source has one: give them, or "
            "protect nothing"
        )
    labelled = [source for source in sources if source.mask_path is not None]
    known = [None if source.mask is None else source.mask.names for source in labelled]
    for name in settings.classes:
        if not any(_is_shown(name, names) for names in known):
            found = sorted({shown for names in known for shown in (names or {}).values()})
            listed = f"there are {', '.join(found)}" if found else "its masks have numbers alone (see --class-map)"
            raise CounterfactoryError(f"[protect] names the class {name!r}, which the data set does not have; {listed}")
    reason = "it has no mask (masks/ beside images/, or --masks DIR), which [protect] needs"
    return labelled, [Problem(source.name, reason) for source in missing]


def _is_shown(name: str, names: Any) -> bool:
    return name.isascii() and name.isdigit() if names is None else name in names.values()


def keep(desk: Desk, pictures: Pictures, settings: ProtectSettings, sources: Sequence[Source]) -> list[Kept | None]:
    """What variants keep of sources of one picture size; None where a mask shows nothing that is protected, or can no
    longer be read, which becomes a problem of `pictures`.
    """
    images = pictures.of(sources)
    shares = []
    for source in sources:
        try:
            shares.append(_region(source, settings, images[source.key].shape[:2]))
        except CounterfactoryError as error:
            pictures.problems.append(Problem(source.name, str(error)))
            shares.append(None)
    shown = [source for source, share in zip(sources, shares, strict=True) if share is not None]
    if not shown:
        return [None] * len(sources)
    network = desk.models.vae_encoder(*images[shown[0].key].shape[:2])
    latents = dict(zip(shown, network.encode(np.stack([images[source.key] for source in shown])), strict=True))
    return [
        None if share is None else Kept(latents[source], shrink(share, latents[source].shape[-2:]), settings)
        for source, share in zip(sources, shares, strict=True)
    ]


def _region(source: Source, settings: ProtectSettings, size: tuple[int, int]) -> Floats | None:
    """How much each pixel is kept, float32 [H, W]; None where nothing is."""
    mask = load_mask(source, size)
    if mask.ndim != 2:
        raise CounterfactoryError(f"{source.mask_path}: is coloured: say by --class-map which class each colour is")
    names = None if source.mask is None else source.mask.names
    shown = [n for n in np.unique(mask).tolist() if (str(n) if names is None else names.get(n)) in settings.classes]
    return feathered(np.isin(mask, shown), settings.feather) if shown else None


def feathered(region: NDArray[np.bool_], feather: float) -> Floats:
    """1 in a region [H, W], falling to 0 over `feather` pixels around it: float32 [H, W]."""
    if not feather:
        return region.astype(np.float32)
    away = cv2.distanceTransform((~region).astype(np.uint8), cv2.DIST_L2, cv2.DIST_MASK_PRECISE)
    return np.asarray(np.clip(1 - away / feather, 0, 1), np.float32)


def shrink(share: Floats, size: tuple[int, ...]) -> Floats:
    """The mean share of each latent's pixels: float32 [h, w] of [H, W]."""
    return np.asarray(cv2.resize(share, (size[1], size[0]), interpolation=cv2.INTER_AREA), np.float32)
