"""Edges of a shard's sources: the hint that keeps a variant's layout, found as the ControlNet was trained to expect.

Pictures of one size arrive, grey maps of the same size leave, 255 on an edge. Published ControlNets know one detector
each, and paint other layouts from another's maps:

    relative   gradients against their surroundings (kernels/edges.py): the pocket denoiser's
    canny      `cv2.Canny` as it is (kernels/canny.py): control_v11p_sd15_canny's
    hed        a network's soft edges (models/hed.py): control_v11p_sd15_softedge's, and DILLEMA's public code
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from counterfactory.kernels.canny import CannySettings, canny
from counterfactory.kernels.edges import EdgeSettings, canny_edges

from ..errors import CounterfactoryError
from ..models.hed import Hed

Detector = Literal["relative", "canny", "hed"]


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
