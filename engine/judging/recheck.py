"""Verdicts derived anew from the scores on record: other thresholds, the same pictures."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ..errors import CounterfactoryError
from ..files.reading import read_text
from ..stages.check import CheckSettings, verdict
from ..suite import Suite, VariantRow, read_metadata
from ..suite.suite import RUN_FILE


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
        accepted = sum(row.accepted for row in judged)
        opened.write_metadata(judged)
        _record_verdicts(opened, asdict(settings), accepted, len(rows) - accepted)
    return Recheck(len(rows), accepted, sum(row.accepted for row in rows))


def _rejection(row: VariantRow, settings: CheckSettings) -> str | None:
    """Why the row is rejected; None where it is accepted."""
    try:
        return verdict(row.scores, settings)
    except KeyError as error:
        raise CounterfactoryError(
            f"{row.file_name} was not scored for {error}, which its verdict needs; run `counterfactory generate` again"
        ) from error


def _record_verdicts(suite: Suite, settings: Mapping[str, Any], accepted: int, rejected: int) -> None:
    """Bring an open suite's run.json to new verdicts, by `settings` of the check; without a record it does nothing.

    Raises CounterfactoryError for a record that is broken.
    """
    path = suite.path / RUN_FILE
    if not path.is_file():
        return
    try:
        run = json.loads(read_text(path))
        costs = run["costs"]
        hours = costs["devices"] * costs["wall_s"] / 3.6 / accepted if accepted else None
        run["costs"] = {**costs, "accepted": accepted, "rejected": rejected, "device_hours_per_1k_accepted": hours}
        run["profile"]["check"] = dict(settings)
    except (ValueError, RecursionError, TypeError, KeyError) as error:
        raise CounterfactoryError(
            f"{path} is not the record of a suite ({error!r}): run the `counterfactory generate` that made the suite "
            "again, which writes it anew and repaints nothing"
        ) from error
    suite.write_run(run)
