"""Hints of a shard's sources: the maps that keep a variant's layout, for a denoiser that follows more than edges.

    edges          outlines of the picture, uint8 [H, W]: 255 on an edge
    depth          how near each pixel is: from a file, or by a network (models/picture_networks.py), uint16 [H, W]
    segmentation   the labelled mask in the colours of a palette, uint8 RGB [H, W, 3]

A profile without `[[hints]]` follows the edges alone. Published ControlNets know one detector of edges each, and paint
other layouts from another's maps:

    relative   gradients against their surroundings (kernels/edges.py): the pocket denoiser's
    canny      `cv2.Canny` as it is (kernels/canny.py): control_v11p_sd15_canny's
    hed        soft edges by a network (models/picture_networks.py): control_v11p_sd15_softedge's, and DILLEMA's code
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from itertools import groupby
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterfactory.kernels.canny import canny
from counterfactory.kernels.edges import canny_edges

from ...errors import CounterfactoryError
from ...models.picture_networks import Hed
from ...profile.maps import DetectorSettings, HintSettings, Kind
from ...profile.profile import Profile
from ...schedule.overlap import in_chunks
from ...sources.palette import Palette, load_palette
from ...sources.pixels import UnreadableError
from ...sources.source import Image, Pictures, Problem, Source, load_depth, load_mask
from ..run import Run, load_ahead

# A source's maps, one for each hint; None for one of weight 0.
Maps = tuple[NDArray[Any] | None, ...]
MapsOf = Mapping[Source, Maps]
_Drawn = dict[Source, NDArray[Any]]
# Gives the maps of a batch of pictures of one size, uint8 RGB [B, H, W, 3].
_Network = Callable[[NDArray[np.uint8]], NDArray[Any]]
# What a profile without [[hints]] follows.
_EDGES_ALONE = HintSettings("edges", "hint", 1.0)
_WORKERS = min(4, os.cpu_count() or 1)
# What a hint is made of that a source may lack.
_NEEDED: Mapping[Kind, tuple[str, Callable[[Source], bool]]] = MappingProxyType(
    {
        "depth": ("depth map (--depth DIR, or a network: [depth])", lambda source: source.depth is None),
        "segmentation": ("mask (masks/ beside images/, or --masks DIR)", lambda source: source.mask_path is None),
    }
)


def palettes_of(hints: Sequence[HintSettings] | None) -> list[Palette]:
    """The palettes of hints, in their order. Raises CounterfactoryError for a palette that does not exist."""
    return [load_palette(hint.palette) for hint in hints or () if hint.palette is not None]


def without_maps(profile: Profile, sources: Sequence[Source]) -> dict[Source, str]:
    """The sources that lack what the hints show, and why. Raises CounterfactoryError where no source has it."""
    kinds = {hint.kind for hint in profile.hints or () if hint.weight}
    reasons = dict[Source, str]()
    for kind, (what, is_missing) in _NEEDED.items():
        if kind not in kinds or (kind == "depth" and not profile.reads_depth):
            continue
        missing = [source for source in sources if is_missing(source)]
        if missing and len(missing) == len(sources):
            raise CounterfactoryError(
                f'[[hints]] kind = "{kind}" needs a {what}, and no source has one: give them, or take the hint out'
            )
        reasons |= dict.fromkeys(missing, f'it has no {what}, which [[hints]] kind = "{kind}" needs')
    return reasons


def draw_maps(run: Run, sources: Collection[Source], needed: Sequence[Source], pictures: Pictures) -> MapsOf:
    """The maps of the shard's sources that are `needed`. A source with a map that cannot be read is left out and
    becomes a problem of `pictures`. Maps are not recorded: they take less time to draw than to read.
    """
    with run.meter.stage("edges"):
        run.advance("edges", len(sources) - len(needed))
        images = pictures.of(needed)
        readable = [source for source in needed if source.key in images]
        if readable:
            run.models.enter("edges")
        by_hint: list[_Drawn | None] = []
        for hint in run.profile.hints or (_EDGES_ALONE,):
            drawn = _draw(run, hint, readable, pictures) if hint.weight else None
            by_hint.append(drawn)
            readable = readable if drawn is None else [source for source in readable if source in drawn]
        run.advance("edges", len(readable), computed=len(readable))
    return {source: tuple(None if drawn is None else drawn[source] for drawn in by_hint) for source in readable}


def _draw(run: Run, hint: HintSettings, sources: Sequence[Source], pictures: Pictures) -> _Drawn:
    images, settings = pictures.of(sources), run.profile.edges
    if hint.kind == "edges" and settings.hed is None:
        maps = load_ahead(sources, lambda s: edge_maps(images[s.key][None], settings), 2 * _WORKERS, _WORKERS)
        return {source: edge_map for source, (edge_map,) in maps}
    if hint.kind == "edges" or (hint.kind == "depth" and run.models.estimates_depth):
        return _by_network(run, hint, sources, images)
    load: Callable[[Source, tuple[int, int]], NDArray[Any]] = load_depth
    if hint.kind == "segmentation":
        assert hint.palette is not None, "checked by the settings"
        load = partial(_colour_mask, load_palette(hint.palette))
    drawn: _Drawn = {}
    for source in sources:
        height, width = images[source.key].shape[:2]
        try:
            drawn[source] = load(source, (height, width))
        except CounterfactoryError as error:  # what cannot be read fails its own source
            pictures.problems.append(Problem(source.name, str(error)))
    return drawn


def _by_network(run: Run, hint: HintSettings, sources: Sequence[Source], images: Mapping[str, Image]) -> _Drawn:
    """The maps that a network finds; pictures of one size share its batches."""

    def shape(source: Source) -> tuple[int, ...]:
        return images[source.key].shape

    drawn: _Drawn = {}
    for (height, width, _), same in groupby(sorted(sources, key=shape), key=shape):
        if hint.kind == "edges":
            assert run.profile.edges.hed is not None
            batch = run.profile.edges.hed.batch
            network: _Network = partial(edge_maps, settings=run.profile.edges, hed=run.models.hed(height, width))
        else:
            depth = run.models.depth(height, width)
            network, batch = depth.nearness, depth.plan.batch
        for part in in_chunks(same, batch):
            drawn |= zip(part, network(np.stack([images[source.key] for source in part])), strict=True)
    return drawn


def _colour_mask(palette: Palette, source: Source, size: tuple[int, int]) -> NDArray[np.uint8]:
    names = None if source.mask is None else source.mask.names
    try:
        return palette.paint(load_mask(source, size), names)
    except UnreadableError as error:
        raise CounterfactoryError(f"{source.mask_path}: {error}") from error


def edge_maps(images: NDArray[np.uint8], settings: DetectorSettings, hed: Hed | None = None) -> NDArray[np.uint8]:
    """Edge maps of a batch: uint8 RGB [B, H, W, 3] to uint8 [B, H, W]. `hed` is the network, for the detector of that
    name alone. Raises CounterfactoryError where it is missing, ValueError for another dtype or shape.
    """
    if settings.relative is not None:
        return canny_edges(images, settings.relative)
    if settings.canny is not None:
        return canny(images, settings.canny)
    if hed is None:
        raise CounterfactoryError('[edges] detector = "hed" finds edges with the network hed, which is not open here')
    return hed.edges(images)
