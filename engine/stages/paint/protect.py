"""Protects a part of a picture: where its mask shows a class that is named, a variant keeps the source's pixels.

After each step the variant's latents are blended with the source's own, noised to the same level with the variant's
noise (blended latent diffusion, Avrahami et al. 2023, arXiv 2206.02779, algorithm 1). Held through all steps the region
is the source's, as far as the autoencoder knows it; held through some three quarters of them it takes on the edit's
light and weather. Beyond the mask the blend falls off over a few pixels, so that there is no seam.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from counterfactory.kernels.opencv import cv2

from ...errors import CounterfactoryError
from ...profile.paint import ProtectSettings
from ...sources.source import Pictures, Problem, Source, load_mask
from ..run import Run

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class ProtectedRegion:
    """What a variant keeps of its source: `latents` [C, h, w], where `share` [h, w] says how much, 0 to 1."""

    latents: Floats
    share: Floats
    settings: ProtectSettings


def without_masks(settings: ProtectSettings | None, sources: Sequence[Source]) -> dict[Source, str]:
    """The sources that have no mask to protect by, and why; none without settings. Raises CounterfactoryError where no
    source has a mask, and for a class that no mask can show.
    """
    if settings is None or not sources:
        return {}
    missing = [source for source in sources if source.mask_path is None]
    if len(missing) == len(sources):
        raise CounterfactoryError(
            "[protect] needs masks (masks/ beside images/, or --masks DIR), and no source has one: give them, or "
            "protect nothing"
        )
    mask_names = [None if s.mask is None else s.mask.names for s in sources if s.mask_path is not None]
    for name in settings.classes:
        number = name.isascii() and name.isdigit()
        if not any(number if names is None else name in names.values() for names in mask_names):
            classes = sorted({shown for names in mask_names for shown in (names or {}).values()})
            listed = f"there are {', '.join(classes)}" if classes else "its masks have numbers alone (see --class-map)"
            raise CounterfactoryError(f"[protect] names the class {name!r}, which the data set does not have; {listed}")
    return dict.fromkeys(missing, "it has no mask (masks/ beside images/, or --masks DIR), which [protect] needs")


def keep_regions(run: Run, sources: Sequence[Source], pictures: Pictures) -> list[ProtectedRegion | None]:
    """What variants keep of sources of one picture size; None where nothing is protected, a mask shows nothing that is,
    or can no longer be read, which becomes a problem of `pictures`.
    """
    settings = run.profile.protect
    if settings is None:
        return [None] * len(sources)
    images = pictures.of(sources)
    shares = [protected_share(run, source, images[source.key].shape[:2], pictures) for source in sources]
    shown = [source for source, share in zip(sources, shares, strict=True) if share is not None]
    if not shown:
        return [None] * len(sources)
    network = run.models.vae_encoder(*images[shown[0].key].shape[:2])
    latents = dict(zip(shown, network.encode(np.stack([images[source.key] for source in shown])), strict=True))
    return [
        None if share is None else ProtectedRegion(latents[source], shrink(share, latents[source].shape[-2:]), settings)
        for source, share in zip(sources, shares, strict=True)
    ]


def protected_share(run: Run, source: Source, size: tuple[int, int], pictures: Pictures) -> Floats | None:
    """How much each pixel of a source of that size is kept, float32 [H, W], 0 to 1; None as in `keep_regions`."""
    settings = run.profile.protect
    try:
        return None if settings is None else _region(source, settings, size)
    except CounterfactoryError as error:
        pictures.problems.append(Problem(source.name, str(error)))
        return None


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
