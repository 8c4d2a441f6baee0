"""Edges of a shard's sources: the hint that keeps a variant's layout, found as the ControlNet was trained to expect.

Pictures of one size become grey maps of the same size, 255 on an edge. Published ControlNets know one detector each,
and paint other layouts from another's maps:

    relative   gradients against their surroundings (kernels/edges.py): the pocket denoiser's
    canny      `cv2.Canny` as it is (kernels/canny.py): control_v11p_sd15_canny's
    hed        soft edges by a network (models/picture_networks.py): control_v11p_sd15_softedge's, and DILLEMA's code
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from counterfactory.kernels.canny import canny
from counterfactory.kernels.edges import canny_edges

from ...errors import CounterfactoryError
from ...models.picture_networks import Hed
from ...profile.maps import DetectorSettings
from ...schedule.overlap import in_chunks, prefetch
from ...sources.source import Source
from ..run import Run

_WORKERS = min(4, os.cpu_count() or 1)
_AHEAD = 2 * _WORKERS


def find_edges(
    run: Run, sources: Sequence[Source], images: Mapping[str, NDArray[np.uint8]]
) -> Iterator[tuple[list[Source], NDArray[np.uint8]]]:
    """The edge maps of sources, uint8 [B, H, W] of a batch at a time; `images` are their pictures by key.

    Pictures of one size share the network's batches, where a network finds edges.
    """
    settings = run.profile.edges
    if settings.hed is None:
        for source, maps in prefetch(sources, lambda s: edge_maps(images[s.key][None], settings), _AHEAD, _WORKERS):
            if isinstance(maps, Exception):
                raise maps
            yield [source], maps
        return
    by_size = sorted(sources, key=lambda source: images[source.key].shape)
    for shape, same in groupby(by_size, key=lambda source: images[source.key].shape):
        hed = run.models.hed(*shape[:2])
        for batch in in_chunks(same, settings.hed.batch):
            yield batch, edge_maps(np.stack([images[source.key] for source in batch]), settings, hed)


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
