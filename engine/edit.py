"""One change to a caption."""

from __future__ import annotations

from dataclasses import dataclass

# What an edit may change in the street world of the pocket models, and in any picture: the types of LANCE
# (arXiv 2305.19164) that those do not have.
STREET_TYPES = ("weather", "time", "colour", "background", "object", "other")
EDIT_TYPES = (*STREET_TYPES, "subject", "adjective", "domain")


@dataclass(frozen=True)
class Edit:
    """Replace the span `keyword` of a caption by `alternative`; `type` is one of `EDIT_TYPES`."""

    type: str
    keyword: str
    alternative: str
