"""A variant: one image to be made from a source, with everything that decides its bytes but the paint settings."""

from __future__ import annotations

from dataclasses import dataclass

from .edit import Edit
from .sources.source import Source


@dataclass(frozen=True)
class Variant:
    """Variant number `index` (from 0) of a source.

    `caption` is the source's, `edited_caption` what to paint. `dropped` gives the reason when the text breaks the
    task's rules; such a variant is recorded and never painted. `key` names it by content.
    """

    key: str
    source: Source
    index: int
    caption: str
    edits: tuple[Edit, ...]
    edited_caption: str
    seed: int
    dropped: str | None
