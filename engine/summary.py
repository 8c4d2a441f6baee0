"""The summary: a run's report in a few lines for a person, and as plain data for a machine."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from .report.album import Table

if TYPE_CHECKING:
    from .evaluate import Evaluation
    from .journey import Report


_SHOWN = 5


def cost_line(report: Report) -> str:
    """What a thousand accepted images cost, loading and waiting included."""
    if report.core_hours_per_1k_accepted is None:
        return f"cost       no image was accepted; {duration(report.wall_s)}"
    return (
        f"cost       {figure(report.core_hours_per_1k_accepted)} core-hours per 1,000 accepted images "
        f"({duration(report.wall_s)}, loading {duration(report.models_load_s)})"
    )


def count_line(report: Report) -> str:
    """What became of the variants."""
    parts = [f"{report.accepted} of {report.variants} accepted"]
    if report.rejected:
        parts.append(f"{report.rejected} rejected")
    if report.dropped:
        parts.append(f"{report.dropped} more dropped for their text")
    if report.reused:
        parts.append(f"{report.reused} kept from before")
    return f"variants   {', '.join(parts)}; {report.sources} sources"


def shortfall_lines(report: Report) -> list[str]:
    """Sources that have fewer variants than were asked for: the first few by name, the others by number."""
    shown = [f"fewer      {problem.name}: {problem.reason}" for problem in report.shortfalls[:_SHOWN]]
    rest = len(report.shortfalls) - len(shown)
    return shown + ([f"fewer      and {rest} more sources, all in run.json"] if rest else [])


def as_data(report: Report) -> dict[str, Any]:
    """The report in JSON's own types."""
    return {**asdict(report), "core_hours_per_1k_accepted": report.core_hours_per_1k_accepted}


def evaluation_table(evaluation: Evaluation) -> Table:
    """Score of the originals, of the accepted variants, and by kind of edit."""
    scores = {"originals": evaluation.originals.score, "variants": evaluation.variants.score}
    scores |= {f"  {kind} edited": score for kind, score in evaluation.by_edit_type.items()}
    rows = tuple((name, str(score.count), percent(score.value)) for name, score in scores.items())
    return Table("Model under test", ("pictures", "count", evaluation.measure), rows)


def percent(value: float | None) -> str:
    """A share as a person reads it."""
    return "-" if value is None else f"{100 * value:.1f} %"


def figure(value: float | None) -> str:
    """A cost, to three digits."""
    return "-" if value is None else f"{value:.3g}"


def duration(seconds: float) -> str:
    """Seconds as a person reads them."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"
