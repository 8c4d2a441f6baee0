"""Effects as a chart: a row for each, a bar from end to end of its interval, and the address of its pictures."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor

from ..judging.effects import Effect
from ..judging.evaluation import Effects
from .effects_text import PAINTING, by_certain_harm, effects_title, interval, points


@dataclass(frozen=True)
class ForestRow:
    """An effect `of` a "type", "value" or "class" called `name`, or of painting (""), with the `sources` or groups that
    tell it, in words; `left`, `dot` and `width` are percent of the chart's width.
    """

    name: str
    figures: str
    sources: str
    clear: bool
    left: float
    dot: float
    width: float
    of: str


@dataclass(frozen=True)
class Forest:
    """The effects of one measure; `groups` are a heading, "" of the first, and rows. `ticks` are percent of the width
    and points.
    """

    title: str
    groups: tuple[tuple[str, tuple[ForestRow, ...]], ...]
    ticks: tuple[tuple[float, str], ...]
    zero: float


def draw_forest(effects: Effects, unit: str = "sources") -> Forest | None:
    """The chart of painting, types, values and classes, of one edit alone where that leads, which say how many of a
    `unit` tell them; None where there is no effect with an interval.
    """
    named = {"type": effects.leading_types, "value": effects.leading_values, "class": effects.by_class}
    groups = {kind: by_certain_harm(some) for kind, some in named.items()}
    painter = [effects.painter] if effects.painter and effects.painter.high is not None else []
    every = [*painter, *(one for some in groups.values() for one in some)]
    if effects.against is None or not every:
        return None
    ends = [end for one in every for end in (one.low or 0.0, one.high or 0.0)]
    low, high = (ceil(10 * bound) / 10 for bound in (max(-min(ends), 0.1), max(max(ends), 0.1)))
    whole = low + high

    def place(share: float) -> float:
        return round(100 * (share + low) / whole, 2)

    def row(one: Effect, name: str, of: str) -> ForestRow:
        left, right = place(one.low or 0.0), place(one.high or 0.0)
        figures = f"{points(one.value)} ({interval(one)})"
        width = round(right - left, 2)
        return ForestRow(name, figures, f"{one.sources} {unit}", one.clear, left, place(one.value or 0.0), width, of)

    rows = {kind: tuple(row(one, one.name, kind) for one in some) for kind, some in groups.items()}
    first = (*(row(one, PAINTING, "") for one in painter), *rows["type"])
    plural = {"value": "values", "class": "classes, by all their edits" if effects.mixed else "classes"}
    more = tuple((f"{len(rows[kind]):,} {word}", rows[kind]) for kind, word in plural.items() if len(rows[kind]) > 1)
    step = 0.5 if whole > 1.5 else 0.25 if whole > 0.8 else 0.1 if whole > 0.3 else 0.05
    marks = [step * k for k in range(-floor(low / step + 1e-9), floor(high / step + 1e-9) + 1)]
    ticks = tuple((place(mark), points(mark).removesuffix(".0")) for mark in marks)
    return Forest(effects_title(effects), (("", first), *more), ticks, place(0.0))
