"""Derives verdicts anew from the scores on record by other thresholds, for the same pictures, and counts changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..errors import CounterfactoryError
from ..files.fill import nearest, plain
from ..profile.check import CheckSettings, threshold_names
from ..stages.check.verdict import failed_check, with_valid
from ..suite import RunRecord, Suite, read_run
from ..suite.by_hand import ByHand, HandVerdict, Ruling, read_by_hand, settle_rulings
from ..suite.cells import ValueCells
from ..suite.run_record import count_verdicts
from ..suite.verdicts import ScoredRow, VerdictTable, read_verdicts
from .threshold_curve import rejection


@dataclass(frozen=True)
class CheckCounts:
    """Variants that are rejected for one check, whose name the reason has: `before` and `now`; of them
    `newly_rejected` were accepted before, and `newly_accepted` were rejected for it and are accepted now.
    """

    check: str
    before: int
    now: int
    newly_rejected: int
    newly_accepted: int


@dataclass(frozen=True)
class Recheck:
    """How many of the suite's variants are accepted, and how many were; the same of its controls; and the counts of
    each check that rejects or rejected a variant, those that change most verdicts first. `cells` say what became of the
    values that the user named, `by_hand` what people decided of single pictures.
    """

    variants: int
    accepted: int
    accepted_before: int
    controls: int = 0
    controls_accepted: int = 0
    controls_accepted_before: int = 0
    checks: tuple[CheckCounts, ...] = ()
    cells: tuple[ValueCells, ...] | None = None
    by_hand: Mapping[str, HandVerdict] = field(default_factory=dict)

    @property
    def turned(self) -> int:
        """Variants with another verdict than before."""
        return sum(counts.newly_rejected + counts.newly_accepted for counts in self.checks)


def threshold_named(key: str) -> str:
    """The setting that a profile has under a key, such as "check.min_edit" or "check.max_perplexity", if it is a
    threshold; the least of a score may go by the score's name ("check.edit"), and so may the most where there is only
    that. Raises CounterfactoryError for another key.
    """
    table, _, name = key.rpartition(".")
    names = threshold_names()
    match = next((setting for setting in (name, f"min_{name}", f"max_{name}") if setting in names), None)
    if table != "check" or match is None:
        raise CounterfactoryError(f"{key!r} is no threshold of a profile; {nearest(name, names, 'check.')}")
    return match


def set_thresholds(settings: CheckSettings, changes_by_key: Mapping[str, float]) -> CheckSettings:
    """The settings with other thresholds, by their keys (see `threshold_named`). Raises CounterfactoryError for a key
    that is no threshold, and for a value that no score can be.
    """
    changes = {threshold_named(key): value for key, value in changes_by_key.items()}
    try:
        return settings.having(**changes)
    except ValueError as error:
        raise CounterfactoryError(str(error)) from error


def recheck(suite: Path, settings: CheckSettings, rulings: Sequence[tuple[str, Ruling, str]] = ()) -> Recheck:
    """Bring the suite's table and record to the verdicts that follow from its scores by the thresholds in `settings`,
    and to those that people gave of single pictures, now by `rulings` (pictures, what becomes of them, and why) or
    before.

    Where that changes nothing the suite is only read, so that it may lie where nothing can be written. Raises
    CounterfactoryError when a suite that changes is in use or cannot be written, when it lacks scores, and for rulings
    of pictures that it does not have or that contradict.
    """
    table, judged, by_hand, record, changed = _derive(suite, settings, rulings)
    if changed:
        del table, judged  # a large suite's rows are not held twice
        with Suite.open(suite) as opened:
            # Once more under the lock, which books a session that was killed: a run may have ended just before.
            table, judged, by_hand, record, _ = _derive(suite, settings, rulings)
            if rulings:
                by_hand.write(suite)
            opened.replace_table(table.with_verdicts(judged), table.files, record if record.sessions else None)
    now, before = count_verdicts(judged), count_verdicts(table.rows)
    return Recheck(
        *(now["accepted"] + now["rejected"], now["accepted"], before["accepted"]),
        *(now["controls"] + now["rejected_controls"], now["controls"], before["controls"]),
        checks=_count_checks(table.rows, judged),
        cells=None if record.standing is None else record.standing.cells,
        by_hand=by_hand.pictures,
    )


def _derive(
    suite: Path, settings: CheckSettings, rulings: Sequence[tuple[str, Ruling, str]]
) -> tuple[VerdictTable, list[ScoredRow], ByHand, RunRecord, bool]:
    """A suite's table, its rows with their new verdicts, those by hand, its new record, and whether anything of them is
    another than before.
    """
    table, old = read_verdicts(suite), read_run(suite) or RunRecord()
    scored = [_changed(row, scores=with_valid(row.kind, row.scores, settings)) for row in table.rows]
    by_hand = read_by_hand(suite)
    by_hand = by_hand.ruled(settle_rulings(rulings, suite, table.rows, by_hand))
    judged = [by_hand.judge(_changed(row, reason=rejection(row, settings))) for row in scored]
    record = old.with_verdicts(judged, plain(settings))
    return table, judged, by_hand, record, bool(rulings) or judged != list(table.rows) or record != old


def _changed(row: ScoredRow, **changes: Any) -> ScoredRow:
    """The row with another value of a field; itself where that is what it has, as most of a large suite's are."""
    return row if all(getattr(row, name) == value for name, value in changes.items()) else replace(row, **changes)


def _count_checks(before: Sequence[ScoredRow], now: Sequence[ScoredRow]) -> tuple[CheckCounts, ...]:
    pairs = Counter(
        tuple(None if row.reason is None else failed_check(row.reason) for row in (old, new))
        for old, new in zip(before, now, strict=True)
        if old.kind == "variant"
    )
    names = sorted({name for pair in pairs for name in pair if name is not None})
    old, new = Counter[str | None](), Counter[str | None]()
    for (was, is_now), count in pairs.items():
        old[was] += count
        new[is_now] += count
    counts = [CheckCounts(name, old[name], new[name], pairs[None, name], pairs[name, None]) for name in names]
    return tuple(sorted(counts, key=lambda counts: -(counts.newly_rejected + counts.newly_accepted)))
