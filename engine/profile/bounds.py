"""Ranges that settings share."""

from __future__ import annotations

import math
from dataclasses import dataclass


def require(settings: object, least: float, *names: str, most: float = math.inf) -> None:
    """Raise ValueError for the first of the settings so named that is outside of `least` to `most`. Profiles put the
    table's name before it (files/fill.py).
    """
    for name in names:
        value = getattr(settings, name)
        if not least <= value <= most:
            bounds = f"at least {least:g}" if math.isinf(most) else f"{least:g} to {most:g}"
            raise ValueError(f"{name} is {bounds}, got {value:g}")


@dataclass(frozen=True)
class PlanSettings:
    """`batch` is the rows of a network's plan."""

    batch: int

    def __post_init__(self) -> None:
        require(self, 1, "batch")
