"""Edges of pictures: the hint that keeps a variant's layout, found as the ControlNet was trained to expect.

Pictures of one size become grey maps of the same size, 255 on an edge. Published ControlNets know one detector each,
and paint other layouts from another's maps:

    relative   gradients against their surroundings (kernels/edges.py): the pocket denoiser's
    canny      `cv2.Canny` as it is (kernels/canny.py): control_v11p_sd15_canny's
    hed        soft edges by a network (models/picture_networks.py): control_v11p_sd15_softedge's, and DILLEMA's code
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from counterfactory.kernels.canny import canny
from counterfactory.kernels.edges import canny_edges

from ...errors import CounterfactoryError
from ...models.picture_networks import Hed
from ...profile.maps import DetectorSettings


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
