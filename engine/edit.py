"""One change to a caption."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

# What an edit may change in the street world of the pocket models, and in any picture: the types of LANCE
# (arXiv 2305.19164) that those do not have, the light and the camera's place.
STREET_TYPES = ("weather", "time", "colour", "background", "object", "other")
EDIT_TYPES = (*STREET_TYPES, "subject", "adjective", "domain", "light", "camera")
# The strengths at which edits are painted, from faint to full.
SEVERITIES = 5
EditKind = Literal["replace", "add", "remove"]


@dataclass(frozen=True, slots=True)
class Edit:
    """Put `alternative` in the place of the span `keyword` of a caption; `type` is one of `EDIT_TYPES` or a user's own.

    An empty keyword adds the alternative to a caption that says nothing of it, an empty alternative removes the
    keyword; one of both is there.
    """

    type: str
    keyword: str
    alternative: str

    @property
    def kind(self) -> EditKind:
        """Whether it replaces words, adds or removes them."""
        if not self.keyword:
            return "add"
        return "replace" if self.alternative else "remove"

    @property
    def value(self) -> str:
        """What came of it, with its type: "weather: foggy", or "object: without a bus" where words only went."""
        return f"{self.type}: {self.alternative or f'without {self.keyword}'}"
