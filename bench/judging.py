"""What the referee says of painted variants, for benches that compare ways of painting.

Ways are judged on the same held-out scenes over the same captions and edits, so their variants pair up; how far a
difference would vary over other scenes is seen by drawing the scenes again (bootstrap, Efron 1979).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from counterfactory.engine.judging.confusion import iou
from counterfactory.export.pocket.judged import Judged
from counterfactory.export.pocket.observed import edits_seen, layout_confusion

# The share of edits of weather and time that the referee sees, of vehicles' colours, and the layout's mean IoU.
MEASURES = ("edit_success", "colour_success", "layout_miou")
_DRAWS = 2000
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Tally:
    """Counts by scene, S of them: edits asked for and seen float64 [S, 2, 2], of weather and time, then of colours;
    and pixels by class int64 [S, K, K], of masks, then of what the referee sees."""

    edits: Floats
    pixels: NDArray[np.int64]

    def measures(self, scenes: NDArray[np.int64] | slice = slice(None)) -> Floats:
        """The `MEASURES` over some scenes, float64 [3]."""
        asked, seen = self.edits[scenes].sum(0).T
        return np.array([*(seen / asked), np.nanmean(iou(self.pixels[scenes].sum(0)))])


def tally(judged: Sequence[Judged]) -> Tally:
    """Count by scene, in the order of their names."""
    by_scene: dict[str, list[Judged]] = defaultdict(list)
    for one in judged:
        by_scene[one.row.source].append(one)
    groups = [by_scene[name] for name in sorted(by_scene)]
    return Tally(np.array([_edits(group) for group in groups]), np.stack([layout_confusion(g) for g in groups]))


def _edits(judged: Sequence[Judged]) -> list[tuple[int, int]]:
    seen = edits_seen(judged)
    asked = ([*seen.get("weather", []), *seen.get("time", [])], seen.get("colour", []))
    return [(len(hits), sum(hits)) for hits in asked]


def measures(judged: Sequence[Judged]) -> dict[str, float]:
    """The `MEASURES` by name."""
    return dict(zip(MEASURES, tally(judged).measures().tolist(), strict=True))


@dataclass(frozen=True)
class Difference:
    """Candidate minus baseline, in points (hundredths), and the 95 % interval of it over scenes."""

    points: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.points:+.2f} points ({self.low:+.2f} to {self.high:+.2f})"


def differences(baseline: Sequence[Judged], candidate: Sequence[Judged]) -> Mapping[str, Difference]:
    """How the `MEASURES` differ between two ways of painting the same variants.

    Raises ValueError when they are not the same.
    """
    if [_variant(one) for one in baseline] != [_variant(one) for one in candidate]:
        raise ValueError("the two ways painted different variants, so nothing can be compared")
    ours, theirs = tally(candidate), tally(baseline)
    random, scenes = np.random.default_rng(0), len(ours.edits)
    draws = [random.integers(0, scenes, scenes) for _ in range(_DRAWS)]
    drawn = np.array([ours.measures(draw) - theirs.measures(draw) for draw in draws])
    found = ours.measures() - theirs.measures()
    low, high = np.quantile(drawn, (0.025, 0.975), axis=0)
    return {
        name: Difference(*(100 * float(x) for x in told))
        for name, told in zip(MEASURES, zip(found, low, high, strict=True), strict=True)
    }


def _variant(one: Judged) -> tuple[str, int, str]:
    return one.row.source, one.row.number, one.row.edited_caption
