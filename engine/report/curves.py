"""Curves of thresholds for the page: the share of variants that each threshold accepts, and how many of those are valid
where judgements say so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from ..judging.threshold_curve import ThresholdCurve

_WIDTH, _HEIGHT, _LEFT, _TOP = 240, 96, 34, 8


@dataclass(frozen=True)
class Curve:
    """A sweep as the page draws it; the current threshold is marked."""

    sweep: ThresholdCurve
    # Of the drawing in pixels, and left, top, width and height of the plot in it.
    width: ClassVar[int] = _WIDTH + _LEFT + 8
    height: ClassVar[int] = _HEIGHT + _TOP + 18
    frame: ClassVar[tuple[int, int, int, int]] = (_LEFT, _TOP, _WIDTH, _HEIGHT)

    @property
    def limits(self) -> tuple[float, ...]:
        """The thresholds, rising."""
        return tuple(point.limit for point in self.sweep.points)

    @property
    def paths(self) -> tuple[tuple[str, str], ...]:
        """The lines by name, as points of a polyline; a share of nothing has none."""
        points = self.sweep.points
        lines: dict[str, Sequence[float | None]] = {"accepted": [p.accepted / self.sweep.variants for p in points]}
        if self.sweep.judged:
            lines |= {"valid of them": [p.precision for p in points], "of all valid": [p.recall for p in points]}
        return tuple((name, self._points(shares)) for name, shares in lines.items())

    @property
    def mark(self) -> float | None:
        """Where the current limit lies across the drawing."""
        return None if self.sweep.current is None else self._x(self.sweep.current)

    def _points(self, shares: Sequence[float | None]) -> str:
        pairs = [(limit, share) for limit, share in zip(self.limits, shares, strict=True) if share is not None]
        return " ".join(f"{self._x(limit)},{round(_TOP + _HEIGHT * (1 - share), 1)}" for limit, share in pairs)

    def _x(self, limit: float) -> float:
        low, high = min(self.limits), max(self.limits)
        return round(_LEFT + _WIDTH * (limit - low) / (high - low if high > low else 1.0), 1)
