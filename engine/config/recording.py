"""What a run writes down of its profile: the keys of its results, the rows of its table, what its sessions say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

from ..meter.energy import EnergyMeter
from ..meter.machine import this_machine
from ..meter.meter import Meter
from ..models.library import Library
from ..recipes import STAGES, Recipes
from ..runtime.opening import arithmetic
from ..stages.check import verdict
from ..suite import PaintedRow, VariantRow
from ..suite.session import Costs, SessionFacts
from ..tasks.settings import JourneySettings
from ..variant import Variant
from .profile import Profile


def recipes_of(profile: Profile, library: Library) -> Recipes:
    """The keys of a run's results. Raises CounterfactoryError for a network that is missing."""
    return Recipes(
        image=profile.image,
        caption=profile.caption,
        sampling=profile.llm.sampling,
        edges=profile.edges,
        paint=profile.paint,
        text=profile.text,
        check_batch=profile.check.batch,
        makers={stage: library.digest(stage) for stage in STAGES},
    )


def variant_row(variant: Variant, row: PaintedRow, scores: Mapping[str, float], profile: Profile) -> VariantRow:
    """A variant's row of the table; its verdict follows from the stored scores and the profile's thresholds."""
    guidance = profile.paint.guidance
    return VariantRow(
        file_name=row.image.path,
        sha256=row.image.sha256,
        source=variant.source.name,
        label=variant.source.label,
        mask=None if row.mask is None else row.mask.path,
        caption=variant.caption,
        edited_caption=variant.edited_caption,
        edits=variant.edits,
        variant=variant.index,
        seed=variant.seed,
        steps=profile.paint.sampler.steps,
        guidance_scale=guidance.scale,
        guidance_start=guidance.start,
        guidance_stop=guidance.stop,
        scores=scores,
        reason=verdict(scores, profile.check),
        source_key=variant.source.key,
        variant_key=variant.key,
    )


def session_facts(profile: Profile, settings: JourneySettings, recipes: Recipes, library: Library) -> SessionFacts:
    """What made a session's results: settings, networks, libraries and the machine."""
    return SessionFacts(
        profile=asdict(profile),
        settings=asdict(settings),
        models={str(stage): maker for stage, maker in recipes.makers.items()},
        precision=arithmetic(profile.runtime),
        versions=library.releases(),
        machine=this_machine(),
    )


def session_costs(profile: Profile, meter: Meter, energy: EnergyMeter) -> Costs:
    """What a session has cost by now."""
    stages = meter.costs()
    return Costs(
        wall_s=round(meter.elapsed_s, 3),
        devices=profile.runtime.devices,
        device=profile.runtime.unit,
        painted=sum(cost.made for cost in stages if cost.stage == "paint"),
        peak_memory_bytes=meter.peak_memory_bytes,
        energy_j=energy.joules(),
        stages=stages,
        plans=meter.plans(),
    )
