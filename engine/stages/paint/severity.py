"""Graded severity: an edit painted faintly, more and more, and in full, with nothing else changed.

Below its last level a variant is painted by text states between those of the source's own caption and those of the
edited one, from the noise of the variant at the last level.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...variant import Variant

Floats = NDArray[np.float32]

# The share of the edited caption's states below which the pocket's pictures show nothing of it, as measured.
_FAINTEST = 0.4


def text_share(level: int, levels: int) -> float:
    """How much of the edited caption's states is taken at a level, 1 at the last: even steps above `_FAINTEST`."""
    return _FAINTEST + (1 - _FAINTEST) * level / levels


def between(plain: Floats, edited: Floats, share: float) -> Floats:
    """Text states [T, D] on the straight line from a caption's to an edited one's."""
    return plain + np.float32(share) * (edited - plain)


def text_of(variant: Variant, plain: Floats, edited: Floats) -> Floats:
    """What a variant is made by, of the states of its source's caption and of its edited one."""
    return (
        edited if variant.level == variant.levels else between(plain, edited, text_share(variant.level, variant.levels))
    )
