"""Draws the weather and the light of variants by rule as well: what a model that answers the painted ones worse than
these takes amiss is more than weather and light.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

import numpy as np
from numpy.typing import NDArray

from ...light.drawable import drawn
from ...request import SuiteRequest
from ...schedule.overlap import in_chunks, write_behind
from ...sources.source import Pictures, load_mask
from ...suite import NewPicture, PaintedRow, Provenance
from ...variant import Variant
from ..run import Run
from .paint_light import draw_variants

_STAGE = "baseline"
# Pictures that are written together, and such batches that may wait to be written.
_AT_ONCE, _BEHIND = 8, 2


def has_baseline(request: SuiteRequest, variant: Variant) -> bool:
    """Whether baselines are asked for, and light and weather can show all that a variant changes."""
    wanted = request.baseline is not None and variant.kind == "variant"
    return wanted and all(drawn(edit) is not None for edit in variant.edits)


def draw_baselines(run: Run, variants: Sequence[Variant], pictures: Pictures) -> dict[Variant, PaintedRow]:
    """The suite's rows of the variants' baselines, of those variants that have one, drawn where they are not on record;
    a source that cannot be read is left out.
    """
    wanted = [variant for variant in variants if has_baseline(run.request, variant)]
    keys = {variant: run.keys.baseline_key(variant.key) for variant in wanted}

    def write(batch: Sequence[tuple[Variant, NDArray[np.uint8]]]) -> dict[Variant, PaintedRow]:
        news = []
        for variant, pixels in batch:
            mask = None if variant.source.mask_path is None else load_mask(variant.source, pixels.shape[:2])
            mark = Provenance(variant.key, "algorithmicallyEnhanced")
            news.append(NewPicture(keys[variant], variant.source.name, pixels, mask, provenance=mark))
        rows = run.suite.write_images(_STAGE, news)
        return {variant: rows[keys[variant]] for variant, _ in batch}

    with run.meter.stage("paint"):
        rows = run.suite.images(_STAGE, list(keys.values()))
        drawn_rows = {variant: rows[key] for variant, key in keys.items() if key in rows}
        missing = [variant for variant in keys if variant not in drawn_rows]
        chunks = in_chunks(draw_variants(run, missing, pictures), _AT_ONCE)
        # An interrupt ends what writes behind it before the suite is closed.
        with closing(write_behind(chunks, write, _BEHIND)) as batches:
            for batch in batches:
                drawn_rows |= batch
    return drawn_rows
