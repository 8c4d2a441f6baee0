"""Takes the pictures that somebody painted: each is read from its file, at the size of its source's picture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ...errors import CounterfactoryError
from ...sources.given import GivenPicture, load_given
from ...sources.source import Pictures, Problem, Source
from ...suite import PaintedRow
from ...variant import Variant
from ..maps.draw_maps import Maps
from ..run import Run, load_ahead
from .paint_variants import VariantPicture, record_pictures

# Pictures that are read ahead of those that are written, and how many at once.
_AHEAD, _WORKERS = 2, 2


def paint_given(
    run: Run, variants: Sequence[Variant], maps: Mapping[Source, Maps], pictures: Pictures
) -> dict[Variant, PaintedRow]:
    """The suite's rows of the variants' pictures, read where they are not on record. No map is followed. A variant
    whose file has changed since it was listed is left out and becomes a problem of `pictures`.
    """

    def draw(todo: list[Variant]) -> Iterator[VariantPicture]:
        images = pictures.of(variant.source for variant in todo)
        readable = [variant for variant in todo if variant.source.key in images]

        def one(variant: Variant) -> NDArray[np.uint8] | str:
            height, width = images[variant.source.key].shape[:2]
            try:
                return load_given(_given(variant), (height, width))
            except CounterfactoryError as error:
                return str(error)

        for variant, pixels in load_ahead(readable, one, _AHEAD, _WORKERS):
            if isinstance(pixels, str):
                pictures.problems.append(Problem(_given(variant).file, pixels))
            else:
                yield VariantPicture(variant, pixels)

    return record_pictures(run, variants, draw)


def _given(variant: Variant) -> GivenPicture:
    assert variant.given is not None, "its profile takes nothing else"
    return variant.given
