"""A session on record: one run over a suite, from its start to its end or its death, and what it cost.

What a profile or a setting means is not known here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from ..meter.machine import Machine
from ..meter.meter import PlanUse, StageCost
from ..sources.source import Problem


@dataclass(frozen=True)
class Costs:
    """The costs of a session: `wall_s` of `devices` of the kind `device` (core, GPU), and their breakdown.

    `painted` pictures were made. `energy_j` is None where the machine does not tell. `device_s` are the seconds of
    devices that boxes held which came and went; None where one box held its own all the time.
    """

    wall_s: float
    devices: int
    device: str
    painted: int
    peak_memory_bytes: int
    energy_j: float | None
    stages: tuple[StageCost, ...]
    plans: tuple[PlanUse, ...]
    device_s: float | None = None

    @property
    def device_hours(self) -> float:
        """Devices held times wall time, loading and idling included."""
        return (self.devices * self.wall_s if self.device_s is None else self.device_s) / 3600


@dataclass(frozen=True)
class SessionFacts:
    """What decided a session: the `profile` and the `settings` as plain data, the `data` set (its layout, the selection
    from it, and class names by number; empty where the caller gave none), the `models` (the makers of the stages), the
    `precision` that networks ran in, the `versions` of the libraries that computed, and the `machine`.
    """

    profile: Mapping[str, Any]
    settings: Mapping[str, Any]
    data: Mapping[str, Any]
    models: Mapping[str, str]
    precision: str
    versions: Mapping[str, str]
    machine: Machine


@dataclass(frozen=True)
class SessionRecord:
    """A session on record: `began` is in UTC, `finished` whether it came to its end, `problems` what it skipped."""

    id: str
    began: str
    finished: bool
    facts: SessionFacts = field(metadata={"prefix": "", "names": tuple(fact.name for fact in fields(SessionFacts))})
    problems: tuple[Problem, ...]
    costs: Costs
