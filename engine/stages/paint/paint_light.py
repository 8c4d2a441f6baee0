"""Changes the weather and the light of sources by rule (light/draw.py): no network, at the source's own size.

A control is the source itself. All levels of the same edits are drawn from the same random numbers, so that nothing but
their strength differs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ...keys import generator
from ...light.draw import draw_light
from ...light.drawable import drawn
from ...sources.source import Pictures, Source, load_depth
from ...suite import PaintedRow
from ...variant import Variant
from ..maps.draw_maps import Maps
from ..run import Run, load_ahead
from .paint_variants import VariantPicture, record_pictures
from .protect import protected_share

# Pictures that are drawn ahead of those that are written, and how many at once.
_AHEAD, _WORKERS = 4, min(4, os.cpu_count() or 1)
# A depth map's values; 0 is far (sources/depth.py).
_DEEPEST = 65535


def paint_light(
    run: Run, variants: Sequence[Variant], maps: Mapping[Source, Maps], pictures: Pictures
) -> dict[Variant, PaintedRow]:
    """The suite's rows of the variants' pictures, drawn where they are not on record. No map is followed but the
    sources' own depth.
    """

    def draw(todo: list[Variant]) -> Iterator[VariantPicture]:
        images = pictures.of(variant.source for variant in todo)
        readable = [variant for variant in todo if variant.source.key in images]

        def one(variant: Variant) -> NDArray[np.uint8]:
            return draw_variant(run, variant, pictures, images[variant.source.key])

        for variant, pixels in load_ahead(readable, one, _AHEAD, _WORKERS):
            yield VariantPicture(variant, pixels)

    return record_pictures(run, variants, draw)


def draw_variant(run: Run, variant: Variant, pictures: Pictures, picture: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """A variant's picture, uint8 RGB [H, W, 3], of its source's `picture` of the same size, which a control is; edits
    that light and weather cannot show are left out, and [protect] keeps a part of the source.
    """
    if not variant.edits:
        return picture
    values = [(edit.type, value) for edit in variant.edits if (value := drawn(edit)) is not None]
    source, depth = variant.source, None
    if source.depth is not None:
        depth = (1 - load_depth(source, picture.shape[:2]) / np.float32(_DEEPEST)).astype(np.float32)
    rng = generator(variant.noise_key, "light")
    painted = draw_light(picture, values, variant.level / variant.levels, rng, depth)
    kept = protected_share(run, source, picture.shape[:2], pictures)
    return painted if kept is None else _keep(picture, painted, kept)


def _keep(source: NDArray[np.uint8], painted: NDArray[np.uint8], share: NDArray[np.float32]) -> NDArray[np.uint8]:
    """The painted picture with so much of the source's pixels as `share` [H, W] says."""
    mixed = painted + share[:, :, None] * (source.astype(np.float32) - painted)
    return np.asarray(np.rint(mixed), np.uint8)
