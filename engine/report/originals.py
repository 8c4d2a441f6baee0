"""The sources beside their variants: which to show, and how the models saw them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ..config.profile import Profile
from ..errors import CounterfactoryError
from ..sources.source import ImageSettings, Source
from ..stages.edges import edge_maps

Images = NDArray[np.uint8]


@dataclass(frozen=True)
class Originals:
    """Sources whose pictures are shown at the size that `image` says, with their edge maps.

    `edges` takes uint8 RGB [B, H, W, 3] to uint8 [B, H, W].
    """

    sources: Sequence[Source]
    image: ImageSettings
    edges: Callable[[Images], Images]


def originals_of(sources: Sequence[Source], profile: Profile) -> Originals:
    """The sources as the models of `profile` see them."""
    return Originals(sources, profile.image, _edge_detector(profile))


def _edge_detector(profile: Profile) -> Callable[[Images], Images]:
    if profile.edges.hed is None:
        return partial(edge_maps, settings=profile.edges)
    from ..config.networks import library_of
    from ..meter.meter import Meter
    from ..models.opened import Opened

    models = Opened(library_of(profile), Meter(lambda _: None))

    def detect(images: Images) -> Images:
        try:
            return edge_maps(images, profile.edges, models.hed(*images.shape[1:3]))
        except CounterfactoryError as error:
            raise CounterfactoryError(
                f"the edges of {profile.name} are found by the network hed: {error}; report on the box that has it, or "
                "leave out --sources"
            ) from error

    return detect
