"""Keeps the sources as the painter sees them, cropped and scaled: a model is evaluated on them and on their variants.

A source at its own size and crop is another question than its variants: a model may lose more by the crop alone than
by any edit.
"""

from __future__ import annotations

from collections.abc import Collection, Generator

from ..sources.source import Pictures, Source
from ..suite import NewPicture, PaintedRow
from .run import Recipe, Run, picture_of

# Pictures that are written together.
_AT_ONCE = 8


def keep_originals(run: Run, sources: Collection[Source], pictures: Pictures) -> dict[Source, PaintedRow]:
    """The suite's rows of the sources' own pictures; a source whose file cannot be read any more is left out."""
    keys = {source: run.keys.original_key(source.key) for source in sources}

    def make(todo: list[Source]) -> Generator[dict[Source, PaintedRow], None, None]:
        images = pictures.of(todo)

        def new(source: Source) -> tuple[Source, NewPicture]:
            return source, picture_of(source, keys[source], images[source.key], top="originals")

        yield from run.written("original", (source for source in todo if source.key in images), new, _AT_ONCE)

    with run.meter.stage("read"):
        return run.recorded("original", keys, Recipe(make))
