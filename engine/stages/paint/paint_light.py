"""Changes the weather and the light of sources by rule (light/draw.py): no network, at the source's own size.

It has no controls, which would be the sources themselves. All levels of the same edits are drawn from the same random
numbers, so that nothing but their strength differs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ...errors import CounterfactoryError
from ...keys import generator
from ...light.draw import Photograph, draw_light, open_photograph
from ...light.drawable import drawn
from ...schedule.overlap import once_each
from ...sources.source import Pictures, Source, load_depth
from ...suite import PaintedRow
from ...variant import Variant
from ..maps.draw_maps import MapsOf
from ..run import Run
from .paint_variants import Pixels, VariantPicture, one_by_one, record_pictures
from .protect import protected_share

# Pictures that are drawn ahead of those that are written, and how many at once.
_WORKERS = min(4, os.cpu_count() or 1)
_PARALLEL = 4, _WORKERS
# A depth map's values; 0 is far (sources/depth.py).
_DEEPEST = 65535


def paint_light(run: Run, variants: Sequence[Variant], maps: MapsOf, pictures: Pictures) -> dict[Variant, PaintedRow]:
    """The suite's rows of the variants' pictures, drawn where they are not on record; no map but depth is followed."""

    return record_pictures(run, variants, lambda todo: draw_variants(run, todo, pictures))


def draw_variants(run: Run, variants: Sequence[Variant], pictures: Pictures) -> Iterator[VariantPicture]:
    """Variants' pictures, of their sources' size. Edits that light and weather cannot show are
    left out, [protect] keeps a part of the source, and a source that cannot be read has none. Where light comes to no
    finite number it raises CounterfactoryError.
    """
    images = pictures.of(variant.source for variant in variants)
    photograph_of = once_each(lambda source: _open(source, images[source.key]), _WORKERS)

    def draw(variant: Variant, picture: Pixels) -> Pixels:
        source = variant.source
        painted = _draw_edits(photograph_of, variant)
        kept = protected_share(run, source, picture.shape[:2], pictures)
        return painted if kept is None else _keep(picture, painted, kept)

    return one_by_one(pictures, variants, draw, _PARALLEL)


def _open(source: Source, picture: Pixels) -> Photograph:
    """The photograph of a source with this picture, and its depth where that is known."""
    if source.depth is None:
        return open_photograph(picture)
    near = load_depth(source, picture.shape[:2]) / np.float32(_DEEPEST)
    return open_photograph(picture, (1 - near).astype(np.float32))


def _draw_edits(photograph_of: Callable[[Source], Photograph], variant: Variant) -> Pixels:
    values = [(edit.type, value) for edit in variant.edits if (value := drawn(edit)) is not None]
    rng = generator(variant.noise_key, "light")
    try:
        return draw_light(photograph_of(variant.source), values, variant.level / variant.levels, rng)
    except FloatingPointError as error:
        raise CounterfactoryError(
            f"{variant.source.name} with {', '.join(value for _, value in values)} comes to numbers that are none "
            f"({error}), which would be black blocks in its picture; leave the photograph out, or name other values "
            "(--interventions), and please report both"
        ) from error


def _keep(source: Pixels, painted: Pixels, share: NDArray[np.float32]) -> Pixels:
    """The painted picture with so much of the source's pixels as `share` [H, W] says."""
    mixed = painted + share[:, :, None] * (source.astype(np.float32) - painted)
    return np.asarray(np.rint(mixed), np.uint8)
