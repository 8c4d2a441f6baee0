"""A source's mask: where it lies or how it is drawn, and what its numbers mean."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from ..keys import content_key
from .blobs import Blob, read_blob
from .class_map import ClassMap
from .pixels import UnreadableError, read_mask
from .shapes import DrawnMask


@dataclass(frozen=True, slots=True)
class Mask:
    """Where a mask lies or how it is drawn, and the set's class map for its numbers, None without one; `names` are
    those of its class numbers, None where the set has none.
    """

    of: Blob | DrawnMask
    class_map: ClassMap | None
    names: Mapping[int, str] | None = None

    def read(self, size: tuple[int, int]) -> tuple[NDArray[Any], str]:
        """The mask of a picture of `size` (height, width), and what names it. Raises UnreadableError."""
        if isinstance(self.of, DrawnMask):
            try:
                return self.of.draw(*size), self.of.digest()
            except ValueError as error:
                raise UnreadableError(str(error)) from error
        data = read_blob(self.of)
        digest = hashlib.sha256(data).hexdigest()
        if self.class_map is None:
            return read_mask(data), digest
        mask = read_mask(data, colours=bool(self.class_map.colours))
        return self.class_map.apply(mask), content_key(digest, self.class_map.key)
