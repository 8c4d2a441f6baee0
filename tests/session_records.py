"""What sessions cost, for tests that need some, and do not care what ran."""

from __future__ import annotations

from typing import Any

from counterfactory.engine.meter.machine import Machine
from counterfactory.engine.meter.meter import PlanUse, StageCost
from counterfactory.engine.suite.session_record import Costs, SessionFacts


def stage_cost(stage: str = "paint", **changes: Any) -> StageCost:
    """A stage that made 4 of 6 items in 10 seconds."""
    spent: dict[str, Any] = {"items": 6, "made": 4, "wall_s": 10.0, "load_s": 1.0, "busy_s": 7.0, "idle_s": 2.0}
    ran: dict[str, Any] = {"items_per_s": 0.4, "calls": 2, "rows": 8, "fill": None}
    tokens = {"prompt_tokens": 30, "generated_tokens": 20}
    return StageCost(stage, **{**spent, **ran, **tokens, **changes})


def costs(**changes: Any) -> Costs:
    """Twelve seconds of two cores."""
    plan = PlanUse("denoiser", "paint", 2, 8, 1.0, 7.0, 1.0, 1, 1000)
    values: dict[str, Any] = {"wall_s": 12.0, "devices": 2, "device": "core", "painted": 4, "peak_memory_bytes": 5000}
    return Costs(**{**values, "energy_j": None, "stages": (stage_cost(),), "plans": (plan,), **changes})


def session_facts(**changes: Any) -> SessionFacts:
    """A session of the pocket profile, as far as its record goes."""
    values: dict[str, Any] = {
        "profile": {"name": "pocket", "check": {"min_image_text": 0.2}},
        "settings": {"seed": 3, "interventions": None},
        "data": {"layout": "folders"},
        "models": {"paint": "abc"},
        "precision": "f32",
        "versions": {"numpy": "2"},
        "machine": Machine("Linux", "x86_64", "A CPU", (), None),
    }
    return SessionFacts(**values | changes)
