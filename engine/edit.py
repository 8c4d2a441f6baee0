"""One change to a caption."""

from __future__ import annotations

from dataclasses import dataclass

EDIT_TYPES = ("weather", "time", "colour", "background", "object", "other")


@dataclass(frozen=True)
class Edit:
    """Replace the span `keyword` of a caption by `alternative`; `type` is one of `EDIT_TYPES`."""

    type: str
    keyword: str
    alternative: str
