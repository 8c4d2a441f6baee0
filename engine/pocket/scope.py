"""What the pocket models know, said before they are asked: the rendered street world and nothing else."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from pathlib import Path

from PIL import Image

from .world import SIZE

_LOOKED_AT = 100
PHOTOGRAPHS = (
    "the pocket models know rendered streets only: photographs will be painted as streets; "
    "use a full-size profile for photographs"
)


def may_be_rendered(pictures: Iterable[Path]) -> bool:
    """Whether the first hundred pictures have the street world's size; only their headers are read."""
    return all(_size(path) == (SIZE, SIZE) for path in islice(pictures, _LOOKED_AT))


def _size(path: Path) -> tuple[int, int]:
    with Image.open(path) as image:
        return image.size
