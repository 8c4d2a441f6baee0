"""Keeps the sources as the painter sees them, cropped and scaled: a model is evaluated on them and on their variants.

A source at its own size and crop is another question than its variants: a model may lose more by the crop alone than
by any edit.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Sequence
from contextlib import closing

from ..schedule.overlap import in_chunks, write_behind
from ..sources.source import Image, Pictures, Source, load_mask
from ..suite import NewPicture, PaintedRow
from .run import Run

_STAGE = "original"
# Pictures that are written together, and such batches that may wait to be written.
_AT_ONCE, _BEHIND = 8, 2


def keep_originals(run: Run, sources: Collection[Source], pictures: Pictures) -> dict[Source, PaintedRow]:
    """The suite's rows of the sources' own pictures; a source whose file cannot be read any more is left out."""
    keys = {source: run.keys.original_key(source.key) for source in sources}
    with run.meter.stage("read"):
        rows = run.suite.images(_STAGE, list(keys.values()))
        # An interrupt ends what writes behind it before the suite is closed.
        with closing(
            _write_missing(run, [source for source in sources if keys[source] not in rows], pictures)
        ) as batches:
            for batch in batches:
                rows |= batch
    return {source: rows[key] for source, key in keys.items() if key in rows}


def _write_missing(
    run: Run, sources: Sequence[Source], pictures: Pictures
) -> Generator[dict[str, PaintedRow], None, None]:
    images = pictures.of(sources)

    def write(batch: Sequence[Source]) -> dict[str, PaintedRow]:
        return run.suite.write_images(_STAGE, [_original(run, s, images[s.key]) for s in batch])

    yield from write_behind(in_chunks((source for source in sources if source.key in images), _AT_ONCE), write, _BEHIND)


def _original(run: Run, source: Source, pixels: Image) -> NewPicture:
    mask = None if source.mask_path is None else load_mask(source, pixels.shape[:2])
    return NewPicture(run.keys.original_key(source.key), source.name, pixels, mask, "originals")
