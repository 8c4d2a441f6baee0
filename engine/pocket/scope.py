"""What the pocket models know, said before they are asked: the rendered street world and nothing else."""

from __future__ import annotations

from collections.abc import Iterable

from .world import SIZE

PHOTOGRAPHS = (
    "the pocket models know rendered streets only: photographs will be painted as streets; "
    "use a full-size profile for photographs"
)


def may_be_rendered(sizes: Iterable[tuple[int, int]]) -> bool:
    """Whether pictures of these sizes (height, width) may be the street world's."""
    return all(size == (SIZE, SIZE) for size in sizes)
