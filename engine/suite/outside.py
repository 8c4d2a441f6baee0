"""The warning on every result of a suite that has sources outside of what the models know."""

from __future__ import annotations

from collections.abc import Iterable

from .picture_row import PictureRow


def count_outside(rows: Iterable[PictureRow]) -> tuple[int, int]:
    """How many of the rows' sources are outside of what the models know, and how many sources there are."""
    in_domain = {row.source: row.known_world for row in rows}
    return list(in_domain.values()).count(False), len(in_domain)


def caution(outside: int, sources: int) -> str | None:
    """The sentence for so many of the sources; None where the models know all of them."""
    if not outside:
        return None
    which = "the source is" if sources == 1 else f"{outside} of {sources} sources are"
    of_it = "it" if sources == 1 else "them"
    return (
        f"{which} unlike anything that the models were trained on: pictures painted from {of_it}, and figures about "
        f"{of_it}, are meaningless"
    )
