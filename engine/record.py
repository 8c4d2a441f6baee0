"""What a run leaves in writing: the report, a variant's row in metadata.parquet, and run.json."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Any

from .models.library import Library, Role
from .profile import Profile
from .runtime.openvino import resolve_precision
from .source import Problem
from .stages.check import verdict
from .variant import Variant


@dataclass(frozen=True)
class Report:
    """What a run did.

    `variants` are those of the suite as it stands, of which `painted` were made by this run and `reused` by earlier
    ones; `dropped` ones broke the task's rules in their text and were never painted. `shortfalls` names sources with
    fewer variants than asked for, `problems` those that were skipped. `fill` is rows over capacity of paint's batches.
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
    stage_seconds: dict[str, float]
    models_load_s: float
    wall_s: float
    cores: int
    fill: float

    @property
    def core_hours_per_1k_accepted(self) -> float | None:
        """Cores held times wall time, loading and idling included, per 1,000 accepted variants; None without any."""
        return self.cores * self.wall_s / 3.6 / self.accepted if self.accepted else None


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
        "edits": variant.edits,
        "variant": variant.index,
        "seed": variant.seed,
        "steps": profile.paint.sampler.steps,
        "guidance_scale": profile.paint.guidance_scale,
        "scores": result.scores,
        "verdict": "rejected" if reason else "accepted",
        "reason": reason,
        "source_key": variant.source.key,
        "variant_key": variant.key,
    }


def run_record(
    profile: Profile, settings: Any, library: Library, report: Report, dropped: Sequence[Variant]
) -> dict[str, Any]:
    """What run.json says: what was asked, what ran, what it cost, and what was left out and why."""
    roles: tuple[Role, ...] = ("caption", "rewrite", "paint", "check")
    return {
        "profile": asdict(profile),
        "settings": asdict(settings),
        "models": {role: library.digest(role) for role in roles},
        "precision": resolve_precision(profile.runtime.precision),
        "versions": {name: version(name) for name in ("counterfactory", "openvino", "openvino-genai", "numpy")},
        "device": {"machine": platform.machine(), "system": platform.system(), "cores": report.cores},
        "costs": {**asdict(report), "core_hours_per_1k_accepted": report.core_hours_per_1k_accepted},
        "dropped": [
            {"source": v.source.name, "variant": v.index, "edited_caption": v.edited_caption, "reason": v.dropped}
            for v in dropped
        ],
    }
