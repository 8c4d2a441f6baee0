"""What a run leaves in writing: the report, and run.json."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Any

from ..config.profile import Profile
from ..meter.meter import PlanUse, StageCost
from ..runtime.opening import arithmetic
from ..sources.source import Problem
from .outcome import Dropped


@dataclass(frozen=True)
class Report:
    """What a run did.

    `variants` are those of the suite as it stands, of which `painted` were made by this run and `reused` by earlier
    ones; `dropped` ones broke the task's rules in their text and were never painted. `shortfalls` names sources with
    fewer variants than asked for, `problems` those that were skipped. `stages` and `plans` say what the time went to,
    `metrics_problem` why a metrics file fell behind. `devices` of the kind `device` (core, GPU) were held.
    """

    sources: int
    variants: int
    accepted: int
    rejected: int
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
    metrics_problem: str | None = None

    @property
    def device_hours_per_1k_accepted(self) -> float | None:
        """Devices held times wall time, loading and idling included, per 1,000 accepted variants; None without any."""
        return self.devices * self.wall_s / 3.6 / self.accepted if self.accepted else None

    @property
    def models_load_s(self) -> float:
        """Seconds in which models were loaded."""
        return sum(stage.load_s for stage in self.stages)

    @property
    def tokens_per_variant(self) -> float | None:
        """Tokens that the language model wrote for each variant that this run painted; None if it wrote none."""
        written = sum(stage.generated_tokens for stage in self.stages)
        return written / self.painted if written and self.painted else None


def run_record(
    profile: Profile,
    settings: Any,
    makers: Mapping[Any, str],
    report: Report,
    dropped: Sequence[Dropped],
) -> dict[str, Any]:
    """What run.json says: what was asked, what ran, what it cost, and what was left out and why."""
    return {
        "profile": asdict(profile),
        "settings": asdict(settings),
        "models": dict(makers),
        "precision": arithmetic(profile.runtime),
        "versions": {name: version(name) for name in ("counterfactory", "openvino", "llguidance", "numpy")},
        "device": {"machine": platform.machine(), "system": platform.system(), report.device: report.devices},
        "costs": {
            **asdict(report),
            "device_hours_per_1k_accepted": report.device_hours_per_1k_accepted,
            "tokens_per_variant": report.tokens_per_variant,
        },
        "dropped": [asdict(variant) for variant in dropped],
    }
