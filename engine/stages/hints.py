"""Hints of a shard's sources: the maps that keep a variant's layout, for a denoiser that follows more than edges.

    edges          outlines of the picture (edges.py), uint8 [H, W]
    depth          how near each pixel is: from a file, or by a network (models/depth.py), uint16 [H, W]
    segmentation   the labelled mask in the colours of a palette, uint8 RGB [H, W, 3]

A profile without `[[hints]]` follows the edges alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..errors import CounterfactoryError
from ..schedule.overlap import in_chunks
from ..sources.palette import Palette, load_palette
from ..sources.pictures import Pictures
from ..sources.pixels import UnreadableError
from ..sources.source import Problem, Source, load_depth, load_mask
from . import edges
from .desk import Desk
from .edges import DetectorSettings

Kind = Literal["edges", "depth", "segmentation"]
# A source's maps, one for each hint; None for one of weight 0.
Maps = tuple[NDArray[Any] | None, ...]
_Load = Callable[[Source, tuple[int, int]], NDArray[Any]]
# What a hint is made of that a source may lack.
_NEEDED: Mapping[Kind, tuple[str, Callable[[Source], bool]]] = MappingProxyType(
    {
        "depth": ("depth map (--depth DIR, or a network: [depth])", lambda source: source.depth is None),
        "segmentation": ("mask (masks/ beside images/, or --masks DIR)", lambda source: source.mask_path is None),
    }
)


@dataclass(frozen=True)
class HintSettings:
    """One hint: its `kind`, the `plan` that embeds its maps, and its `weight`, by which the control scale of
    `[paint]` is multiplied; 0 leaves it out. `palette` colours the classes of a segmentation map.
    """

    kind: Kind
    plan: str
    weight: float
    palette: str | None = None

    def __post_init__(self) -> None:
        if not self.plan.isidentifier():
            raise ValueError(f"[[hints]] plan is the name of a hint encoder, such as 'hint', got {self.plan!r}")
        if self.weight < 0:
            raise ValueError(f"[[hints]] weight cannot be negative, got {self.weight}")
        if (self.kind == "segmentation") != (self.palette is not None):
            wanted = 'needs a palette, such as palette = "ade20k"' if self.palette is None else "takes no palette"
            raise ValueError(f'[[hints]] kind = "{self.kind}" {wanted}')


@dataclass(frozen=True)
class DepthSettings:
    """A network finds depth, and no files: `batch` is its plan's."""

    batch: int

    def __post_init__(self) -> None:
        if self.batch < 1:
            raise ValueError(f"[depth] batch must be at least 1, got {self.batch}")


def check_hints(hints: Sequence[HintSettings], depth: DepthSettings | None) -> None:
    """Raise ValueError for hints that do not go together."""
    plans = [hint.plan for hint in hints]
    if len(set(plans)) != len(plans):
        raise ValueError(f"[[hints]] each have a plan of their own, found {', '.join(plans)}")
    if not any(hint.weight for hint in hints):
        raise ValueError("[[hints]] need one of weight above 0; to paint freely say [paint] control_scale = 0")
    if depth is not None and not any(hint.kind == "depth" for hint in hints):
        raise ValueError('[depth] finds what no hint shows: add one of kind = "depth" to [[hints]], or drop it')


def palettes_of(hints: Sequence[HintSettings] | None) -> list[Palette]:
    """The palettes of hints, in their order. Raises CounterfactoryError for one that there is not."""
    return [load_palette(hint.palette) for hint in hints or () if hint.palette is not None]


def reads_depth(hints: Sequence[HintSettings] | None, depth: DepthSettings | None) -> bool:
    """Whether depth maps are read from files."""
    return depth is None and any(hint.kind == "depth" and hint.weight for hint in hints or ())


def take_mapped(
    hints: Sequence[HintSettings] | None, depth: DepthSettings | None, sources: Sequence[Source]
) -> tuple[list[Source], list[Problem]]:
    """The sources that have what the hints show, and the problems of the others.

    Raises CounterfactoryError where no source has it.
    """
    kinds = {hint.kind for hint in hints or () if hint.weight}
    reasons = dict[Source, str]()
    for kind, (what, is_missing) in _NEEDED.items():
        if kind not in kinds or (kind == "depth" and not reads_depth(hints, depth)):
            continue
        missing = [source for source in sources if is_missing(source)]
        if missing and len(missing) == len(sources):
            raise CounterfactoryError(
                f'[[hints]] kind = "{kind}" needs a {what}, and no source has one: give them, or take the hint out'
            )
        reasons |= dict.fromkeys(missing, f'it has no {what}, which [[hints]] kind = "{kind}" needs')
    return (
        [source for source in sources if source not in reasons],
        [Problem(source.name, reason) for source, reason in reasons.items()],
    )


def run(
    desk: Desk,
    sources: Collection[Source],
    needed: Sequence[Source],
    pictures: Pictures,
    detector: DetectorSettings,
    hints: Sequence[HintSettings] | None,
) -> dict[Source, Maps]:
    """The maps of those sources that are needed, without those of which one cannot be read, which becomes a problem of
    `pictures`. Maps are not recorded: they take less time to find than to read.
    """
    if hints is None:
        return {source: (found,) for source, found in edges.run(desk, sources, needed, pictures, detector).items()}
    with desk.meter.stage("edges"):
        desk.meter.advance("edges", len(sources) - len(needed), desk.sources)
        images = pictures.of(needed)
        readable = [source for source in needed if source.key in images]
        if readable:
            desk.models.enter("edges")
        by_hint: list[dict[Source, NDArray[Any]] | None] = []
        for hint in hints:
            found = _found(desk, hint, readable, images, pictures, detector) if hint.weight else None
            by_hint.append(found)
            readable = readable if found is None else [source for source in readable if source in found]
        desk.meter.advance("edges", len(readable), desk.sources, made=len(readable))
    return {source: tuple(None if found is None else found[source] for found in by_hint) for source in readable}


def _found(
    desk: Desk,
    hint: HintSettings,
    sources: Sequence[Source],
    images: Mapping[str, NDArray[np.uint8]],
    pictures: Pictures,
    detector: DetectorSettings,
) -> dict[Source, NDArray[Any]]:
    """One hint's maps."""
    if hint.kind == "edges":
        batches: Iterator[tuple[list[Source], Any]] = edges.find(desk, sources, images, detector)
        return {source: found for some, maps in batches for source, found in zip(some, maps, strict=True)}
    if hint.kind == "segmentation":
        assert hint.palette is not None, "checked by the settings"
        return _read(partial(_coloured, load_palette(hint.palette)), sources, images, pictures)
    if desk.models.estimates_depth:
        return _estimated(desk, sources, images)
    return _read(load_depth, sources, images, pictures)


def _coloured(palette: Palette, source: Source, size: tuple[int, int]) -> NDArray[np.uint8]:
    names = None if source.mask is None else source.mask.names
    try:
        return palette.paint(load_mask(source, size), names)
    except UnreadableError as error:
        raise CounterfactoryError(f"{source.mask_path}: {error}") from error


def _read(
    load: _Load, sources: Sequence[Source], images: Mapping[str, NDArray[np.uint8]], pictures: Pictures
) -> dict[Source, NDArray[Any]]:
    """The maps that files give; what cannot be read fails its own source."""
    found = {}
    for source in sources:
        height, width = images[source.key].shape[:2]
        try:
            found[source] = load(source, (height, width))
        except CounterfactoryError as error:
            pictures.problems.append(Problem(source.name, str(error)))
    return found


def _estimated(
    desk: Desk, sources: Sequence[Source], images: Mapping[str, NDArray[np.uint8]]
) -> dict[Source, NDArray[Any]]:
    """The maps that the network finds; pictures of one size share its batches."""
    found: dict[Source, NDArray[Any]] = {}
    by_size = sorted(sources, key=lambda source: images[source.key].shape)
    for shape, same in groupby(by_size, key=lambda source: images[source.key].shape):
        network = desk.models.depth(*shape[:2])
        for some in in_chunks(same, network.plan.batch):
            found |= zip(some, network.nearness(np.stack([images[source.key] for source in some])), strict=True)
    return found
