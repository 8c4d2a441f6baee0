"""The pictures of a shard's sources, at the size to paint: read when first needed, several at a time, and cached.

A picture that cannot be read is reported once and left out; it costs no other source anything.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from ..errors import CounterfactoryError
from ..schedule.overlap import prefetch
from .source import ImageSettings, Problem, Source, load_pixels

Image = NDArray[np.uint8]

_READERS = min(4, os.cpu_count() or 1)


class Pictures:
    """A cache of pictures at the profile's size. `problems` lists those that could not be read."""

    def __init__(self, settings: ImageSettings, read: Mapping[str, Image] = MappingProxyType({})) -> None:
        """`read` are pictures by source key that need not be read."""
        self.problems: list[Problem] = []
        self._settings = settings
        self._read: dict[str, Image | None] = dict(read)

    def of(self, sources: Iterable[Source]) -> dict[str, Image]:
        """Pictures, uint8 RGB [H, W, 3], by source key; those that cannot be read are missing."""
        wanted = {source.key: source for source in sources}
        missing = [source for key, source in wanted.items() if key not in self._read]
        for source, pixels in prefetch(missing, self._load, depth=2 * _READERS, workers=_READERS):
            if isinstance(pixels, CounterfactoryError):
                self.problems.append(Problem(source.name, str(pixels)))
                self._read[source.key] = None
            elif isinstance(pixels, Exception):
                raise pixels
            else:
                self._read[source.key] = pixels
        return {key: image for key in wanted if (image := self._read[key]) is not None}

    def _load(self, source: Source) -> Image:
        return load_pixels(source, self._settings)
