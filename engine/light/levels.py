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
        "at sunset": (0.287, 0.583, 0.776, 0.888, 1.0),
        "at dusk": (0.311, 0.559, 0.723, 0.864, 1.0),
        "at night": (0.268, 0.512, 0.693, 0.836, 0.963),
        "overcast": (0.355, 0.579, 0.745, 0.873, 1.0),
        "hazy": (0.102, 0.235, 0.376, 0.51, 0.645),
        "foggy": (0.111, 0.234, 0.346, 0.455, 0.563),
        "rainy": (0.167, 0.261, 0.339, 0.414, 0.499),
        "snowy": (0.099, 0.17, 0.231, 0.288, 0.343),
        "in glare": (0.134, 0.318, 0.515, 0.752, 1.0),
        "out of focus": (0.172, 0.247, 0.323, 0.399, 0.506),
        "in motion": (0.092, 0.149, 0.206, 0.283, 0.351),
        "discoloured": (0.115, 0.324, 0.555, 0.773, 1.0),
        "noisy": (0.117, 0.261, 0.434, 0.629, 0.838),
        "compressed": (0.169, 0.414, 0.593, 0.728, 0.826),
    }
)


def amount_at(value: str, severity: float) -> float:
    """The amount of an edit at a severity, 0 to 1 both, by its table."""
    return float(np.interp(severity, (0.0, *SEVERITIES), (0.0, *AMOUNTS[value])))
