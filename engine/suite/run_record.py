"""run.json: every session over a suite, the costs of each and of all together, and where the suite stands.

Sessions are only ever added. The file is read and checked when a session begins, so that nothing is spent on a suite
whose record could not be kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, TypedDict

from ..errors import CounterfactoryError
from ..files.fill import fill_record, plain
from ..meter.meter import PlanUse, StageCost, device_hours_per_1k, sum_costs
from ..profile.licences import ModelLicence, licences_of
from ..sources.source import Problem
from ..sources.source_groups import SourceGroups
from .cells import ValueCells, count_accepted
from .contents import ADVICE, RUN_FILE, Contents, read_record, write_record
from .picture_row import DroppedVariant, PictureRow
from .session_record import Costs, SessionRecord
from .verdicts import ScoredRow


@dataclass(frozen=True)
class Standing:
    """Where a suite stands after its last finished session: its variants and controls by verdict (`controls` are the
    accepted ones), the variants `dropped` for their text, and the sources that have fewer variants than asked for.
    `check` is the settings that the verdicts follow. `outside_world` sources are outside of what the models know, and
    --allow-out-of-domain took them all the same. `cells` say what became of the values that the user named, if any.
    `contents` are the suite's bytes, `groups` are of sources that depend on each other; None in records of an older
    version.
    """

    sources: int
    accepted: int
    rejected: int
    controls: int
    rejected_controls: int
    dropped: tuple[DroppedVariant, ...]
    shortfalls: tuple[Problem, ...]
    check: Mapping[str, Any]
    outside_world: int = 0
    cells: tuple[ValueCells, ...] | None = None
    contents: Contents | None = None
    groups: SourceGroups | None = None


class VerdictCounts(TypedDict):
    """Variants, and controls, by verdict, under the names that records have for them."""

    accepted: int
    rejected: int
    controls: int
    rejected_controls: int


def count_verdicts(rows: Iterable[PictureRow | ScoredRow]) -> VerdictCounts:
    """How many of the rows' variants and controls were accepted and rejected."""
    counts = Counter((row.kind, row.accepted) for row in rows)
    return {
        "accepted": counts["variant", True],
        "rejected": counts["variant", False],
        "controls": counts["control", True],
        "rejected_controls": counts["control", False],
    }


@dataclass(frozen=True)
class StageTotal:
    """The costs of a stage over all sessions."""

    stage: str
    made: int
    wall_s: float
    load_s: float
    busy_s: float
    idle_s: float
    rows: int
    prompt_tokens: int
    generated_tokens: int


@dataclass(frozen=True)
class SuiteCosts:
    """The costs of a suite's `sessions`, added up; `device_hours` by kind of device (core, GPU).

    `energy_j` is None if one of the sessions could not tell.
    """

    sessions: int
    device_hours: Mapping[str, float]
    wall_s: float
    energy_j: float | None
    stages: tuple[StageTotal, ...]

    @classmethod
    def of(cls, costs: Sequence[Costs]) -> SuiteCosts:
        """The sum."""
        hours: dict[str, float] = {}
        for cost in costs:
            hours[cost.device] = hours.get(cost.device, 0.0) + cost.device_hours
        energies = [cost.energy_j for cost in costs]
        measured = [energy for energy in energies if energy is not None]
        stages = sum_costs(stage for cost in costs for stage in cost.stages)
        totals = [field.name for field in fields(StageTotal)]
        return cls(
            sessions=len(costs),
            device_hours=hours,
            wall_s=sum(cost.wall_s for cost in costs),
            energy_j=sum(measured) if measured and len(measured) == len(energies) else None,
            stages=tuple(StageTotal(*(getattr(stage, name) for name in totals)) for stage in stages),
        )

    def per_1k(self, accepted: int) -> dict[str, float]:
        """Device hours per 1,000 accepted variants, by kind of device; empty where none was accepted."""
        hours = {device: device_hours_per_1k(total, accepted) for device, total in self.device_hours.items()}
        return {device: cost for device, cost in hours.items() if cost is not None}


@dataclass(frozen=True)
class RunRecord:
    """A suite's record: its sessions in order, and where it stands, None before a session finished."""

    sessions: tuple[SessionRecord, ...] = ()
    standing: Standing | None = None

    @property
    def costs(self) -> SuiteCosts:
        """The costs of all sessions together."""
        return SuiteCosts.of([session.costs for session in self.sessions])

    @property
    def profile(self) -> Mapping[str, Any]:
        """The last session's profile, as plain data, with the thresholds that the verdicts follow; empty without any.

        A session that was cut short counts only where none finished.
        """
        finished = [session for session in self.sessions if session.finished] or list(self.sessions)
        if not finished:
            return {}
        profile = finished[-1].facts.profile
        return profile if self.standing is None else {**profile, "check": self.standing.check}

    def with_session(self, session: SessionRecord, standing: Standing | None) -> RunRecord:
        """One more session, unless it is on record already, and the suite's new standing, None to keep the old one."""
        if any(other.id == session.id for other in self.sessions):
            return self
        return RunRecord((*self.sessions, session), standing or self.standing)

    @property
    def licences(self) -> list[ModelLicence]:
        """The licences of all models that a session's profile names."""
        return licences_of(session.facts.profile for session in self.sessions)

    def with_contents(self, contents: Contents | None) -> RunRecord:
        """The record of a suite with these bytes."""
        return replace(self, standing=self.standing and replace(self.standing, contents=contents))

    def with_verdicts(self, rows: Sequence[ScoredRow], check: Mapping[str, Any]) -> RunRecord:
        """The record after the verdicts of all rows were derived anew by the settings `check`; costs stay."""
        if self.standing is None:
            return self
        cells = count_accepted(self.standing.cells or (), rows) or None
        return replace(self, standing=replace(self.standing, **count_verdicts(rows), check=check, cells=cells))

    def to_json(self) -> dict[str, Any]:
        """The record as JSON holds it, with the sums, which follow from the rest."""
        costs, standing = self.costs, self.standing
        per_1k = costs.per_1k(standing.accepted) if standing else {}
        return {
            "totals": {**plain(costs), "device_hours_per_1k_accepted": per_1k},
            "standing": standing and plain(standing),
            "licences": list(map(plain, self.licences)),
            "sessions": list(map(plain, self.sessions)),
        }

    @classmethod
    def from_json(cls, value: object, where: str) -> RunRecord:
        """The record that `to_json` gave. Raises CounterfactoryError for anything else."""
        if isinstance(value, Mapping) and "format" not in value:
            raise CounterfactoryError(
                f"{where} is not a record of sessions by this Counterfactory (an older one kept its last run "
                f"alone): {ADVICE}"
            )
        return fill_record(cls, value, where, ADVICE)


def read_run(suite: Path) -> RunRecord | None:
    """A suite's record; None where there is none. Takes no lock. Raises CounterfactoryError for a file that cannot be
    read, is no such record, is not as it was written, or is a link out of the suite.
    """
    value = read_record(suite)
    return None if value is None else RunRecord.from_json(value, str(suite / RUN_FILE))


def write_run(suite: Path, record: RunRecord) -> None:
    """Writes a suite's record, whole or not at all; the caller holds the suite's lock. Raises CounterfactoryError."""
    write_record(suite, record.to_json())


@dataclass(frozen=True)
class RunSummary:
    """What a run did.

    `variants` are those of the suite as it stands, and `controls` its accepted controls; of all its painted pictures
    `painted` were made by this run and `reused` by earlier ones. `dropped` variants broke the task's rules in their
    text and were never painted. `shortfalls` names sources with fewer variants than asked for, `problems` those that
    were skipped. `stages` and `plans` say what the time went to, `metrics_problem` why a metrics file fell behind,
    `cache_problem` why compiled networks are not kept for the next run.
    `devices` of the kind `device` (core, GPU) were held, by boxes that came and went for `device_s`. `suite` is what
    all sessions took together, this one included.
    `outside_world` sources are outside of what the models know. `cells` say what became of the values that the user
    named, if any.
    """

    sources: int
    variants: int
    accepted: int
    rejected: int
    controls: int
    rejected_controls: int
    dropped: int
    painted: int
    reused: int
    problems: tuple[Problem, ...]
    shortfalls: tuple[Problem, ...]
    stages: tuple[StageCost, ...]
    plans: tuple[PlanUse, ...]
    wall_s: float
    devices: int
    device: str
    peak_memory_bytes: int
    energy_j: float | None
    suite: SuiteCosts
    metrics_problem: str | None = None
    outside_world: int = 0
    cache_problem: str | None = None
    cells: tuple[ValueCells, ...] | None = None
    device_s: float | None = None

    @classmethod
    def of(cls, record: RunRecord, metrics_problem: str | None = None, cache_problem: str | None = None) -> RunSummary:
        """The report of the last session of a record, which has just finished."""
        session, standing = record.sessions[-1], record.standing
        if standing is None:
            raise ValueError("a report is of a finished session, and none finished")
        costs, variants = session.costs, standing.accepted + standing.rejected
        stands = ("sources", "accepted", "rejected", "controls", "rejected_controls", "shortfalls")
        return cls(
            **{name: getattr(standing, name) for name in (*stands, "outside_world", "cells")},
            **{field.name: getattr(costs, field.name) for field in fields(Costs)},
            variants=variants,
            dropped=len(standing.dropped),
            reused=variants + standing.controls + standing.rejected_controls - costs.painted,
            problems=session.problems,
            suite=record.costs,
            metrics_problem=metrics_problem,
            cache_problem=cache_problem,
        )

    @property
    def device_hours_per_1k_accepted(self) -> float | None:
        """Hours of this run's kind of device per 1,000 accepted variants, over all sessions; None without any."""
        return self.suite.per_1k(self.accepted).get(self.device)

    @property
    def session_device_hours_per_1k_accepted(self) -> float | None:
        """This session's part of `device_hours_per_1k_accepted`."""
        held_s = self.devices * self.wall_s if self.device_s is None else self.device_s
        return device_hours_per_1k(held_s / 3600, self.accepted)

    @property
    def models_load_s(self) -> float:
        """Seconds in which models were loaded."""
        return sum(stage.load_s for stage in self.stages)

    @property
    def tokens_per_variant(self) -> float | None:
        """Tokens that the language model wrote for each variant that this run painted; None if it wrote none.

        Controls are painted too and need none: the run's share of variants is taken to be the suite's.
        """
        tokens = sum(stage.generated_tokens for stage in self.stages)
        pictures = self.variants + self.controls + self.rejected_controls
        painted = self.painted * self.variants / pictures if pictures else 0
        return tokens / painted if tokens and painted else None
