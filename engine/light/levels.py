"""How strong an edit is at a severity, so that a level means alike for all of them.

The table is fitted by bench/light_levels.py: level k changes a classifier's features by k times 0.044, a mean over
photographs. Four cannot change as much and still look right: a low sun and glare reach four fifths of that, a covered
sky and a wrong white balance three fifths. Their levels divide what they reach.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

SEVERITIES = (0.2, 0.4, 0.6, 0.8, 1.0)
AMOUNTS: Mapping[str, tuple[float, ...]] = MappingProxyType(
    {
        "at sunset": (0.282, 0.584, 0.778, 0.889, 1.0),
        "at dusk": (0.307, 0.554, 0.722, 0.864, 1.0),
        "at night": (0.26, 0.508, 0.694, 0.836, 0.962),
        "overcast": (0.35, 0.574, 0.744, 0.873, 1.0),
        "hazy": (0.101, 0.229, 0.369, 0.504, 0.642),
        "foggy": (0.106, 0.229, 0.343, 0.453, 0.562),
        "rainy": (0.163, 0.257, 0.335, 0.41, 0.495),
        "snowy": (0.097, 0.167, 0.229, 0.286, 0.342),
        "in glare": (0.134, 0.32, 0.518, 0.758, 1.0),
        "out of focus": (0.172, 0.247, 0.323, 0.4, 0.506),
        "in motion": (0.092, 0.149, 0.207, 0.283, 0.352),
        "discoloured": (0.115, 0.324, 0.555, 0.773, 1.0),
        "noisy": (0.117, 0.261, 0.434, 0.629, 0.838),
        "compressed": (0.169, 0.414, 0.593, 0.728, 0.826),
    }
)


def amount_at(value: str, severity: float) -> float:
    """The amount of an edit at a severity, 0 to 1 both, by its table."""
    return float(np.interp(severity, (0.0, *SEVERITIES), (0.0, *AMOUNTS[value])))
