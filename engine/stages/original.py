"""Keeps the sources as the painter sees them, cropped and scaled: a model is evaluated on them and on their variants.

A source at its own size and crop is another question than its variants: a model may lose more by the crop alone than
by any edit.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import closing

from ..schedule.overlap import in_chunks, write_behind
from ..sources.source import Pictures, Source, load_mask
from ..suite import NewPicture, PaintedRow
from .run import Run

_STAGE = "original"
# Pictures that are written together, and such batches that may wait to be written.
_AT_ONCE, _BEHIND = 8, 2


def keep_originals(run: Run, sources: Collection[Source], pictures: Pictures) -> dict[Source, PaintedRow]:
    """The suite's rows of the sources' own pictures; a source whose file cannot be read any more is left out."""
    keys = {source: run.keys.original_key(source.key) for source in sources}

    def write(batch: Sequence[Source]) -> dict[str, PaintedRow]:
        news = []
        for source in batch:
            pixels = images[source.key]
            mask = None if source.mask_path is None else load_mask(source, pixels.shape[:2])
            news.append(NewPicture(keys[source], source.name, pixels, mask, "originals"))
        return run.suite.write_images(_STAGE, news)

    with run.meter.stage("read"):
        rows = run.suite.images(_STAGE, list(keys.values()))
        missing = [source for source in sources if keys[source] not in rows]
        images = pictures.of(missing)
        readable = in_chunks((source for source in missing if source.key in images), _AT_ONCE)
        # An interrupt ends what writes behind it before the suite is closed.
        with closing(write_behind(readable, write, _BEHIND)) as batches:
            for batch in batches:
                rows |= batch
    return {source: rows[key] for source, key in keys.items() if key in rows}
