"""Verdicts derived anew from the scores on record: other thresholds, the same pictures."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path

from ..errors import CounterfactoryError
from ..stages.check import CheckSettings, verdict
from ..suite import PictureRow, Suite, read_metadata
from ..suite.run_record import count_verdicts


@dataclass(frozen=True)
class Recheck:
    """How many of the suite's variants are accepted, and how many were."""

    variants: int
    accepted: int
    accepted_before: int


def recheck(suite: Path, settings: CheckSettings) -> Recheck:
    """Bring the suite's table and record to the verdicts that follow from its scores by the thresholds in `settings`.

    Raises CounterfactoryError when the suite is in use, cannot be written, or lacks scores.
    """
    with Suite.open(suite) as opened:
        rows = read_metadata(suite)  # under the lock: a run may have ended just before
        judged = [replace(row, reason=_rejection(row, settings)) for row in rows]
        record = opened.read_run()  # before anything is changed: one that is broken stops here
        opened.write_metadata(judged)
        if record.sessions:
            opened.write_run(record.with_verdicts(judged, asdict(settings)))
    now, before = count_verdicts(judged), count_verdicts(rows)
    return Recheck(now["accepted"] + now["rejected"], now["accepted"], before["accepted"])


def _rejection(row: PictureRow, settings: CheckSettings) -> str | None:
    """Why the row is rejected; None where it is accepted."""
    try:
        return verdict(row, settings)
    except KeyError as error:
        raise CounterfactoryError(
            f"{row.file_name} was not scored for {error}, which its verdict needs; run `counterfactory generate` again"
        ) from error
