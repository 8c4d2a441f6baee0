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
    """`lines` are named shares, one for each of the `limits`; a share of nothing is None. `current` is the profile's
    limit, None where it has none. Raises ValueError for lines of another length.
    """

    name: str
    limits: tuple[float, ...]
    lines: tuple[tuple[str, tuple[float | None, ...]], ...]
    current: float | None = None
    # Of the drawing in pixels, and left, top, width and height of the plot in it.
    width: ClassVar[int] = _WIDTH + _LEFT + 8
    height: ClassVar[int] = _HEIGHT + _TOP + 18
    frame: ClassVar[tuple[int, int, int, int]] = (_LEFT, _TOP, _WIDTH, _HEIGHT)

    def __post_init__(self) -> None:
        for name, shares in self.lines:
            if len(shares) != len(self.limits):
                raise ValueError(f"curve {self.name!r} has {len(self.limits)} limits, got {len(shares)} of {name!r}")

    @property
    def paths(self) -> tuple[tuple[str, str], ...]:
        """The lines by name, as points of a polyline."""
        return tuple((name, self._points(shares)) for name, shares in self.lines)

    @property
    def mark(self) -> float | None:
        """Where the current limit lies across the drawing."""
        return None if self.current is None else self._x(self.current)

    def _points(self, shares: Sequence[float | None]) -> str:
        pairs = zip(self.limits, shares, strict=True)
        return " ".join(f"{self._x(limit)},{self._y(share)}" for limit, share in pairs if share is not None)

    def _x(self, limit: float) -> float:
        low, high = min(self.limits), max(self.limits)
        return round(_LEFT + _WIDTH * (limit - low) / (high - low if high > low else 1.0), 1)

    def _y(self, share: float) -> float:
        return round(_TOP + _HEIGHT * (1 - share), 1)


def curve_of(curve: ThresholdCurve) -> Curve:
    """A sweep as the page draws it; the current threshold is marked."""
    lines: list[tuple[str, tuple[float | None, ...]]] = [
        ("accepted", tuple(point.accepted / curve.variants for point in curve.points))
    ]
    if curve.judged:
        lines.append(("valid of them", tuple(point.precision for point in curve.points)))
        lines.append(("of all valid", tuple(point.recall for point in curve.points)))
    return Curve(curve.threshold, tuple(point.limit for point in curve.points), tuple(lines), curve.current)
