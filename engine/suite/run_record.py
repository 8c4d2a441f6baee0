"""What a run leaves in writing: the report, a variant's row in metadata.parquet, and run.json."""

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
from ..stages.check import verdict
from ..variant import Variant


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


@dataclass(frozen=True)
class Result:
    """A variant of the suite as it stands, with its ledger row and scores."""

    variant: Variant
    row: Mapping[str, Any]
    scores: Mapping[str, float]


def metadata_row(result: Result, profile: Profile) -> dict[str, Any]:
    """A variant's row in metadata.parquet; its verdict follows from the stored scores and the profile's thresholds."""
    variant, row = result.variant, result.row
    reason = verdict(result.scores, profile.check)
    return {
        "file_name": row["image"]["path"],
        "source": variant.source.name,
        "label": variant.source.label,
        "mask": row["mask"] and row["mask"]["path"],
        "caption": variant.caption,
        "edited_caption": variant.edited_caption,
        "edits": [asdict(edit) for edit in variant.edits],
        "variant": variant.index,
        "seed": variant.seed,
        "steps": profile.paint.sampler.steps,
        "guidance_scale": profile.paint.guidance.scale,
        "scores": result.scores,
        "verdict": "rejected" if reason else "accepted",
        "reason": reason,
        "source_key": variant.source.key,
        "variant_key": variant.key,
    }


def dropped_row(variant: Variant) -> dict[str, Any]:
    """A dropped variant as run.json lists it."""
    return {
        "source": variant.source.name,
        "variant": variant.index,
        "edited_caption": variant.edited_caption,
        "reason": variant.dropped,
    }


def run_record(
    profile: Profile,
    settings: Any,
    makers: Mapping[Any, str],
    report: Report,
    dropped: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """What run.json says: what was asked, what ran, what it cost, and what was left out and why."""
    return {
        "profile": asdict(profile),
        "settings": asdict(settings),
        "models": dict(makers),
        "precision": arithmetic(profile.runtime),
        "versions": {name: version(name) for name in ("counterfactory", "openvino", "openvino-genai", "numpy")},
        "device": {"machine": platform.machine(), "system": platform.system(), report.device: report.devices},
        "costs": {
            **asdict(report),
            "device_hours_per_1k_accepted": report.device_hours_per_1k_accepted,
            "tokens_per_variant": report.tokens_per_variant,
        },
        "dropped": list(dropped),
    }
