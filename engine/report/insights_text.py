"""What a model relies on to recognise each class, as a person reads it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .effects_text import chance, points
from .table import Table

if TYPE_CHECKING:
    from ..judging.evaluation import Evaluation
    from ..judging.insights import Insight

_MOST = 8
TITLE = "What recognising a class relies on, what costs most first"


def insights_table(insights: Sequence[Insight], everything: bool = False, title: str = TITLE) -> tuple[Table, ...]:
    """The clear insights, eight at most, or `everything`; none where there are none."""
    shown = insights if everything else [one for one in insights if one.clear][:_MOST]
    rows = []
    for one in shown:
        drop, high, low = (points(-end / 100) for end in (one.drop, one.high, one.low))
        named = (one.label, one.keyword or f"nothing like {one.alternative}", one.name)
        certainty = (f"{high} \N{HORIZONTAL ELLIPSIS} {low}", chance(one.q, one.clear), str(one.pictures))
        rows.append((*named, drop, *certainty))
    columns = ("class", "relies on", "edit", "points", "95 % interval", "q", "pictures")
    return (Table(title, columns, tuple(rows), of="class"),) if rows else ()


def insight_lines(evaluation: Evaluation) -> list[str]:
    """Why there is no insight, where variants were judged and nothing is clear."""
    insights = evaluation.insights
    if any(one.clear for one in insights) or evaluation.effects.against is None or not evaluation.variants.score.count:
        return []
    if not insights:
        return ["what recognising a class relies on is not known: no class has six sources with one kind of edit"]
    of = len({one.label for one in insights})
    return [f"no class clearly relies on anything: {len(insights)} kinds of edits in {of} classes were compared"]
