"""Has a server that the user names edit the sources' pictures, by instructions that a rule makes of structured edits
(server/instructions.py). A control is what it makes of the instruction to change nothing.

Levels below the last are blends of the source and the full edit: an instruction has no strength.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing

import numpy as np

from ...server.client import SamePictureError, open_client, seed_of
from ...server.exchange import PictureRefusedError
from ...server.instructions import instruction
from ...sources.source import Pictures, Problem
from ...suite import PaintedRow
from ...variant import Variant
from ..maps.draw_maps import MapsOf
from ..run import Run
from .paint_variants import Pixels, VariantPicture, one_by_one, record_pictures


def paint_by_server(
    run: Run, variants: Sequence[Variant], maps: MapsOf, pictures: Pictures
) -> dict[Variant, PaintedRow]:
    """The suite's rows of the variants' pictures, asked for where they are not on record. No map is followed. A picture
    that the server refuses becomes a problem of `pictures` and is asked for again by the next run; a variant that comes
    back as it was sent is kept, for the checks to reject.

    Raises CounterfactoryError where the server is gone; what came before is kept.
    """
    painter = run.profile.painter
    assert painter is not None
    assert painter.server is not None, "checked by the profile"
    settings = painter.server

    def draw(todo: list[Variant]) -> Iterator[VariantPicture]:
        with closing(open_client(settings)) as client:

            def one(variant: Variant, source: Pixels) -> Pixels | Problem:
                told = instruction(variant.caption, variant.edits, variant.protected)
                try:
                    painted = client.paint(source, told, seed_of(variant.noise_key))
                except SamePictureError as same:
                    painted = same.picture
                except PictureRefusedError as error:
                    return Problem(f"{variant.source.name}, {variant.kind} {variant.index}", str(error))
                return _at_level(source, painted, variant)

            yield from one_by_one(pictures, todo, one, (settings.parallel, settings.parallel))

    return record_pictures(run, variants, draw)


def _at_level(source: Pixels, painted: Pixels, variant: Variant) -> Pixels:
    if variant.level == variant.levels:
        return painted
    share = np.float32(variant.level / variant.levels)
    return np.rint(source + share * (painted.astype(np.float32) - source)).astype(np.uint8)
