"""Draws the weather and the light of variants by rule as well: what a model that answers the painted ones worse than
these takes amiss is more than weather and light.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence

from ...light.drawable import drawn
from ...request import SuiteRequest
from ...sources.source import Pictures
from ...suite import NewPicture, PaintedRow, Provenance
from ...variant import Variant
from ..run import Recipe, Run, picture_of
from .paint_light import draw_variants
from .paint_variants import VariantPicture

# Pictures that are written together.
_AT_ONCE = 8


def has_baseline(request: SuiteRequest, variant: Variant) -> bool:
    """Whether baselines are asked for, and light and weather can show all that a variant changes."""
    wanted = request.baseline is not None and variant.kind == "variant"
    return wanted and all(drawn(edit) is not None for edit in variant.edits)


def draw_baselines(run: Run, variants: Sequence[Variant], pictures: Pictures) -> dict[Variant, PaintedRow]:
    """The suite's rows of the baselines, of variants that have one; a source that cannot be read is left out."""
    keys = {one: run.keys.baseline_key(one.key) for one in variants if has_baseline(run.request, one)}

    def new(drawn: VariantPicture) -> tuple[Variant, NewPicture]:
        variant, mark = drawn.variant, Provenance(drawn.variant.key, "algorithmicallyEnhanced")
        return variant, picture_of(variant.source, keys[variant], drawn.pixels, provenance=mark)

    def make(todo: list[Variant]) -> Generator[dict[Variant, PaintedRow], None, None]:
        yield from run.written("baseline", draw_variants(run, todo, pictures), new, _AT_ONCE)

    with run.meter.stage("paint"):
        return run.recorded("baseline", keys, Recipe(make))
