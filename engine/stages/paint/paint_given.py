"""Takes the pictures that somebody painted: each is read from its file, at the size of its source's picture."""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import CounterfactoryError
from ...sources.given import load_given
from ...sources.source import Pictures, Problem
from ...suite import PaintedRow
from ...variant import Variant
from ..maps.draw_maps import MapsOf
from ..run import Run
from .paint_variants import Pixels, one_by_one, record_pictures

# Pictures that are read ahead of those that are written, and how many at once.
_PARALLEL = 2, 2


def paint_given(run: Run, variants: Sequence[Variant], maps: MapsOf, pictures: Pictures) -> dict[Variant, PaintedRow]:
    """The suite's rows of the variants' pictures, read where they are not on record. No map is followed. A variant
    whose file has changed since it was listed is left out and becomes a problem of `pictures`.
    """

    def read(variant: Variant, image: Pixels) -> Pixels | Problem:
        assert variant.given is not None, "its profile takes nothing else"
        height, width = image.shape[:2]
        try:
            return load_given(variant.given, (height, width))
        except CounterfactoryError as error:
            return Problem(variant.given.file, str(error))

    return record_pictures(run, variants, lambda todo: one_by_one(pictures, todo, read, _PARALLEL))
