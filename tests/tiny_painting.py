"""How tests of stages paint tiny sources, and when two of their pictures are the same."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from counterfactory.engine.profile.maps import DetectorSettings
from counterfactory.engine.profile.paint import GuidanceSettings, PaintSettings, SamplerSettings
from counterfactory.engine.sources.source import ImageSettings, Source, load_pixels
from counterfactory.engine.stages.maps.draw_maps import Maps, edge_maps
from counterfactory.kernels.edges import EdgeSettings

Pixels = NDArray[np.uint8]
RELATIVE = DetectorSettings("relative", relative=EdgeSettings())
UNIPC, EARLY = SamplerSettings("unipc", 2, "v_prediction", "trailing", True), GuidanceSettings(3.0, 0.0, 0.5)
PAINT = PaintSettings(UNIPC, EARLY, "denoiser", 1.2, "nothing", batch=3, streams=1, decode_batch=2)


def pixels_of(source: Source) -> Pixels:
    return load_pixels(source, ImageSettings(32, 16, 48))


def hints(sources: list[Source]) -> dict[Source, Maps]:
    return {source: (edge_maps(pixels_of(source)[None], RELATIVE)[0],) for source in sources}


def same_picture(one: Pixels, other: Pixels) -> bool:
    """Equal but for the rounding of torch's sums, which depends on the batch."""
    return one.shape == other.shape and int(np.abs(one.astype(int) - other.astype(int)).max()) <= 1
