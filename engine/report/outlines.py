"""The edges that variants were painted over, found again for a person to see."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ..errors import CounterfactoryError
from ..profile.profile import Profile
from ..stages.maps.edges import edge_maps

Images = NDArray[np.uint8]
# Takes uint8 RGB [B, H, W, 3] to uint8 [B, H, W].
EdgeDetector = Callable[[Images], Images]


def edge_detector(profile: Profile) -> EdgeDetector:
    """The detector of `profile`. Raises CounterfactoryError, when it is used, where its network is missing."""
    if profile.edges.hed is None:
        return partial(edge_maps, settings=profile.edges)
    from ..meter.meter import Meter
    from ..models.model_pool import ModelPool
    from ..models.networks import library_of

    models = ModelPool(library_of(profile), Meter(lambda _: None))

    def detect(images: Images) -> Images:
        try:
            return edge_maps(images, profile.edges, models.hed(*images.shape[1:3]))
        except CounterfactoryError as error:
            raise CounterfactoryError(
                f"the edges of {profile.name} are found by the network hed: {error}; report on the box that has it, or "
                "with --no-edges"
            ) from error

    return detect
