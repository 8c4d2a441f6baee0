"""What `check` says: how many verdicts other thresholds turn, by reason, and what each threshold would let pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..report.table import Table, percent
from .run_text import memory

if TYPE_CHECKING:
    from ..judging.fit_valid import Example
    from ..judging.recheck import Recheck
    from ..judging.set_quality import CaptionPerplexity, Fid
    from ..judging.threshold_curve import Point, ThresholdCurve
    from ..profile.check import CheckSettings
    from ..suite.verify import Verification

_BAR = 20


def recheck_lines(recheck: Recheck, settings: CheckSettings) -> list[str]:
    """What a check made of the verdicts, and by which thresholds; those that can reject nothing are left out."""
    least = [f"{name} {value:g}" for name, value in settings.strict.items()] or ["no threshold at all"]
    turned = f"{recheck.turned} turned" if recheck.turned else "none turned"
    lines = [
        f"{recheck.accepted} of {recheck.variants} variants accepted (before: {recheck.accepted_before}; {turned}), by "
        f"{', '.join(least)}"
    ]
    if recheck.controls_accepted != recheck.controls_accepted_before:
        lines.append(
            f"{recheck.controls_accepted} of {recheck.controls} controls accepted (before: "
            f"{recheck.controls_accepted_before})"
        )
    return lines


def verified_lines(verification: Verification) -> list[str]:
    """What is wrong with a suite's bytes, and what their digest is."""
    lines = [f"{fault.file}: {fault.fault}{fault.remedy and f'; {fault.remedy}'}" for fault in verification.faults]
    read = f"verified   {verification.files:,} files, {memory(verification.bytes)}"
    wrong = f"{len(lines):,} not as they were written" if lines else "all as they were written"
    return [*lines, f"{read}: {wrong}", *([f"digest     {verification.digest}"] if verification.digest else [])]


def fid_line(fid: Fid) -> str:
    """How far the pictures lie from the originals, and whose features say so."""
    sides = (("variants", fid.variants), ("controls", fid.controls))
    parts = ", ".join(f"{name} {distance:.4g}" for name, distance in sides if distance is not None)
    few = min(fid.pictures, fid.originals) < fid.features
    return (
        f"FID to {fid.originals} originals by {fid.extractor}, {fid.features} features: {parts or 'no pictures'}"
        f"{'; with fewer pictures than features it is too large' if few else ''}"
    )


def perplexity_line(perplexity: CaptionPerplexity) -> str:
    """How captions read before and after their edits, and to whom."""
    before, after = perplexity.captions, perplexity.edited
    return f"perplexity of captions {before:.4g}, of edited ones {after:.4g}, to {perplexity.model}"


def changes_table(recheck: Recheck) -> Table | None:
    """Rejected variants by the check that their reason names, and what turned; None where none is or was rejected."""
    if not recheck.checks:
        return None
    rows = [
        (one.check, f"{one.before:,}", f"{one.now:,}", f"{one.newly_rejected:,}", f"{one.newly_accepted:,}")
        for one in recheck.checks
    ]
    columns = ("rejected for", "before", "now", "newly rejected", "accepted again")
    return Table("Variants by reason", columns, tuple(rows))


def sweep_table(curve: ThresholdCurve) -> Table:
    """The variants that each threshold of a check lets pass; with judgements, how many of those are valid."""
    rows = []
    for point in curve.points:
        share = point.accepted / curve.variants
        marked = f"{point.limit:.3f}" + (" now" if point.limit == curve.current else "")
        rows.append(
            (marked, f"{point.accepted:,}", percent(share))
            + ((percent(point.precision), percent(point.recall)) if curve.judged else ())
            + ("#" * round(_BAR * share) + "." * (_BAR - round(_BAR * share)),)
        )
    shares = ("valid of them", "of all valid") if curve.judged else ()
    return Table(f"Thresholds of {curve.threshold}", ("limit", "accepted", "share", *shares, ""), tuple(rows))


def sweep_lines(curve: ThresholdCurve) -> list[str]:
    """What the table's shares are of."""
    if not curve.judged:
        return [f"of {curve.variants} variants; the other thresholds as they are. --valid FILE adds how many are valid"]
    base = percent(curve.valid / curve.judged)
    return [
        f"of {curve.variants} variants, {curve.judged} judged, {base} of them valid; the other thresholds as they are"
    ]


def fit_table(points: Sequence[Point], examples: Sequence[Example]) -> Table:
    """What thresholds of the fitted score let pass of the examples."""
    valid = sum(example.valid for example in examples) / len(examples)
    rows = [
        (f"{point.limit:.3f}", percent(point.accepted / len(examples)), percent(point.precision), percent(point.recall))
        for point in points
    ]
    title = f"Thresholds of min_valid, by {len(examples):,} variants of which {percent(valid)} are valid"
    return Table(title, ("limit", "accepted", "valid of them", "of all valid"), tuple(rows))
