"""Edges of a shard's sources: the hint that keeps a variant's layout, found as the ControlNet was trained to expect.

Pictures of one size become grey maps of the same size, 255 on an edge. Published ControlNets know one detector each,
and paint other layouts from another's maps:

    relative   gradients against their surroundings (kernels/edges.py): the pocket denoiser's
    canny      `cv2.Canny` as it is (kernels/canny.py): control_v11p_sd15_canny's
    hed        a network's soft edges (models/hed.py): control_v11p_sd15_softedge's, and DILLEMA's public code
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from counterfactory.kernels.canny import CannySettings, canny
from counterfactory.kernels.edges import EdgeSettings, canny_edges

from ..errors import CounterfactoryError
from ..models.hed import Hed
from ..schedule.overlap import ahead, in_chunks
from ..sources.pictures import Pictures
from ..sources.source import Source
from .desk import Desk

Detector = Literal["relative", "canny", "hed"]

_WORKERS = min(4, os.cpu_count() or 1)
_AHEAD = 2 * _WORKERS


@dataclass(frozen=True)
class HedSettings:
    """`batch` is the plan's."""

    batch: int

    def __post_init__(self) -> None:
        if self.batch < 1:
            raise ValueError(f"batch must be at least 1, got {self.batch}")


@dataclass(frozen=True)
class DetectorSettings:
    """What finds edges. Just the table of the detector that is named stands beside its name."""

    detector: Detector
    relative: EdgeSettings | None = None
    canny: CannySettings | None = None
    hed: HedSettings | None = None

    def __post_init__(self) -> None:
        tables = {"relative": self.relative, "canny": self.canny, "hed": self.hed}
        if tables[self.detector] is None:
            raise ValueError(f'[edges] detector = "{self.detector}" needs a table [edges.{self.detector}]')
        for name, table in tables.items():
            if table is not None and name != self.detector:
                raise ValueError(
                    f'[edges] detector = "{self.detector}" does not read the table [edges.{name}]: take it out, or '
                    f'say detector = "{name}"'
                )


def run(
    desk: Desk, sources: Collection[Source], needed: Sequence[Source], pictures: Pictures, settings: DetectorSettings
) -> dict[Source, NDArray[np.uint8]]:
    """The edge maps uint8 [H, W] of those sources that are needed, without those whose picture cannot be read.

    Maps are not recorded: they take less time to find than to read. Pictures of one size share the network's batches,
    where a network finds them.
    """
    with desk.meter.stage("edges"):
        desk.meter.advance("edges", len(sources) - len(needed), desk.sources)
        images = pictures.of(needed)
        readable = [source for source in needed if source.key in images]
        if readable:
            desk.models.enter("edges")
        maps: dict[Source, NDArray[np.uint8]] = {}
        for some, found in find(desk, readable, images, settings):
            maps.update(zip(some, found, strict=True))
            desk.meter.advance("edges", len(some), desk.sources, made=len(some))
    return maps


def find(
    desk: Desk, sources: Sequence[Source], images: Mapping[str, NDArray[np.uint8]], settings: DetectorSettings
) -> Iterator[tuple[list[Source], NDArray[np.uint8]]]:
    """The edge maps of sources, uint8 [B, H, W] of some of them at a time; `images` are their pictures by key."""
    if settings.hed is None:
        for source, found in ahead(sources, lambda s: edge_maps(images[s.key][None], settings), _AHEAD, _WORKERS):
            if isinstance(found, Exception):
                raise found
            yield [source], found
        return
    by_size = sorted(sources, key=lambda source: images[source.key].shape)
    for shape, same in groupby(by_size, key=lambda source: images[source.key].shape):
        hed = desk.models.hed(*shape[:2])
        for some in in_chunks(same, settings.hed.batch):
            yield some, edge_maps(np.stack([images[source.key] for source in some]), settings, hed)


def edge_maps(images: NDArray[np.uint8], settings: DetectorSettings, hed: Hed | None = None) -> NDArray[np.uint8]:
    """Edge maps of a batch: uint8 RGB [B, H, W, 3] to uint8 [B, H, W].

    `hed` is the network, for the detector of that name alone. Raises CounterfactoryError where it is missing,
    ValueError for another dtype or shape.
    """
    if settings.relative is not None:
        return canny_edges(images, settings.relative)
    if settings.canny is not None:
        return canny(images, settings.canny)
    if hed is None:
        raise CounterfactoryError('[edges] detector = "hed" finds edges with the network hed, which is not open here')
    return hed.edges(images)
