"""Hints of a shard's sources: the maps that keep a variant's layout, for a denoiser that follows more than edges.

    edges          outlines of the picture (edges.py), uint8 [H, W]
    depth          how near each pixel is: from a file, or by a network (models/picture_networks.py), uint16 [H, W]
    segmentation   the labelled mask in the colours of a palette, uint8 RGB [H, W, 3]

A profile without `[[hints]]` follows the edges alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import CounterfactoryError
from ...profile.maps import HintSettings, Kind
from ...profile.profile import Profile
from ...schedule.overlap import in_chunks
from ...sources.palette import Palette, load_palette
from ...sources.pixels import UnreadableError
from ...sources.source import Pictures, Problem, Source, load_depth, load_mask
from ..run import Run
from . import edges

# A source's maps, one for each hint; None for one of weight 0.
Maps = tuple[NDArray[Any] | None, ...]
# What a profile without [[hints]] follows.
EDGES_ALONE = HintSettings("edges", "hint", 1.0)
_Load = Callable[[Source, tuple[int, int]], NDArray[Any]]
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
    """The sources that lack what the profile's hints show, and why.

    Raises CounterfactoryError where no source has it.
    """
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


def draw_maps(
    run: Run, sources: Collection[Source], needed: Sequence[Source], pictures: Pictures
) -> dict[Source, Maps]:
    """The maps of the shard's sources that are `needed`. A source with a map that cannot be read is left out and
    becomes a problem of `pictures`. Maps are not recorded: they take less time to draw than to read.
    """
    hints = run.profile.hints or (EDGES_ALONE,)
    with run.meter.stage("edges"):
        run.advance("edges", len(sources) - len(needed))
        images = pictures.of(needed)
        readable = [source for source in needed if source.key in images]
        if readable:
            run.models.enter("edges")
        by_hint: list[dict[Source, NDArray[Any]] | None] = []
        for hint in hints:
            drawn = _draw(run, hint, readable, pictures) if hint.weight else None
            by_hint.append(drawn)
            readable = readable if drawn is None else [source for source in readable if source in drawn]
        run.advance("edges", len(readable), computed=len(readable))
    return {source: tuple(None if drawn is None else drawn[source] for drawn in by_hint) for source in readable}


def _draw(run: Run, hint: HintSettings, sources: Sequence[Source], pictures: Pictures) -> dict[Source, NDArray[Any]]:
    """One hint's maps."""
    images = pictures.of(sources)
    if hint.kind == "edges":
        batches: Iterator[tuple[list[Source], Any]] = edges.find_edges(run, sources, images)
        return {source: drawn for batch, maps in batches for source, drawn in zip(batch, maps, strict=True)}
    if hint.kind == "segmentation":
        assert hint.palette is not None, "checked by the settings"
        return _read(partial(_colour_mask, load_palette(hint.palette)), sources, pictures)
    if run.models.estimates_depth:
        return _estimate_depth(run, sources, images)
    return _read(load_depth, sources, pictures)


def _colour_mask(palette: Palette, source: Source, size: tuple[int, int]) -> NDArray[np.uint8]:
    names = None if source.mask is None else source.mask.names
    try:
        return palette.paint(load_mask(source, size), names)
    except UnreadableError as error:
        raise CounterfactoryError(f"{source.mask_path}: {error}") from error


def _read(load: _Load, sources: Sequence[Source], pictures: Pictures) -> dict[Source, NDArray[Any]]:
    """The maps that files give; what cannot be read fails its own source."""
    images, maps = pictures.of(sources), {}
    for source in sources:
        height, width = images[source.key].shape[:2]
        try:
            maps[source] = load(source, (height, width))
        except CounterfactoryError as error:
            pictures.problems.append(Problem(source.name, str(error)))
    return maps


def _estimate_depth(
    run: Run, sources: Sequence[Source], images: Mapping[str, NDArray[np.uint8]]
) -> dict[Source, NDArray[Any]]:
    """The maps that the network finds; pictures of one size share its batches."""
    maps: dict[Source, NDArray[Any]] = {}
    by_size = sorted(sources, key=lambda source: images[source.key].shape)
    for shape, same in groupby(by_size, key=lambda source: images[source.key].shape):
        network = run.models.depth(*shape[:2])
        for batch in in_chunks(same, network.plan.batch):
            maps |= zip(batch, network.nearness(np.stack([images[source.key] for source in batch])), strict=True)
    return maps
