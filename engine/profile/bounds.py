"""Ranges that settings share."""

from __future__ import annotations

import math


def require(settings: object, least: float, *names: str, most: float = math.inf) -> None:
    """Raise ValueError for the first of the settings so named that is outside of `least` to `most`. Profiles put the
    table's name before it (files/fill.py).
    """
    for name in names:
        value = getattr(settings, name)
        if not least <= value <= most:
            bounds = f"at least {least:g}" if math.isinf(most) else f"{least:g} to {most:g}"
            raise ValueError(f"{name} is {bounds}, got {value:g}")
