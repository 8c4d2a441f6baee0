"""What a run writes down of its profile: the keys of its results, the rows of its table, what its sessions say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from types import MappingProxyType
from typing import Any

from ..meter.energy import EnergyMeter
from ..meter.machine import this_machine
from ..meter.meter import Meter
from ..models.library import Library
from ..recipes import STAGES, Recipes
from ..runtime.opening import arithmetic
from ..sources.boxes import fit_boxes
from ..sources.pixels import crop_box
from ..sources.source import Source
from ..stages.check import Scored
from ..stages.hints import palettes_of
from ..stages.validity import by_type
from ..stages.verdict import verdict, with_valid
from ..suite import Origin, PaintedRow, Painting, PictureRow
from ..suite.session import Costs, SessionFacts
from ..tasks.settings import JourneySettings
from ..variant import Variant
from .profile import Profile


def recipes_of(profile: Profile, library: Library) -> Recipes:
    """The keys of a run's results. Raises CounterfactoryError for a network that is missing."""
    return Recipes(
        # What is None is left out, so that pictures keep the keys that they had before there were buckets.
        image={name: value for name, value in asdict(profile.image).items() if value is not None},
        caption=profile.caption,
        sampling=profile.llm.sampling,
        edges=profile.edges,
        paint=profile.paint,
        text=profile.text,
        check=profile.check.measures,
        makers={stage: library.digest(stage) for stage in STAGES},
        hints=_hints(profile),
        protect=profile.protect,
        invert=profile.invert,
    )


def _hints(profile: Profile) -> object:
    """The hints and what their palettes hold, None where pictures follow the edges alone."""
    if profile.hints is None:
        return None
    palettes = [palette.key for palette in palettes_of(profile.hints)]
    return [[asdict(hint) for hint in profile.hints], palettes, profile.depth]


def picture_rows(
    profile: Profile,
    captions: Mapping[Source, str],
    originals: Mapping[Source, PaintedRow],
    painted: Mapping[Variant, PaintedRow],
    scored: Mapping[Variant, Scored],
    texts: Mapping[Variant, Mapping[str, float]] = MappingProxyType({}),
) -> list[PictureRow]:
    """The rows of a shard: its scored controls and variants, and the originals of the sources that have some.

    `texts` are the scores beside those: of edited captions, of the captioner, of referees. Verdicts follow from the
    stored scores and the profile's thresholds. A control stands beside its source's variants whatever its verdict.
    """
    shown = {variant.source: variant.protected for variant in scored}
    first = {v.source: painted[v].image.path for v in scored if v.kind == "control" and v.index == 0}
    rows = []
    for source, protected in shown.items():
        kept = originals[source]
        rows.append(
            PictureRow(
                **_common(source, kept, kept, first.get(source), profile),
                kind="original",
                caption=captions[source],
                edited_caption=captions[source],
                edits=(),
                number=0,
                painting=None,
                scores={},
                reason=None,
                key=source.key,
                protected=protected,
            )
        )
    guidance = profile.paint.guidance
    for variant, of_it in scored.items():
        source = variant.source
        rows.append(
            PictureRow(
                **_common(source, painted[variant], originals[source], first.get(source), profile),
                kind=variant.kind,
                caption=variant.caption,
                edited_caption=variant.edited_caption,
                edits=variant.edits,
                edit_scores=of_it.edits,
                number=variant.index,
                repeat=variant.repeat,
                level=variant.level,
                levels=variant.levels,
                painting=Painting(
                    variant.seed,
                    profile.paint.sampler.steps,
                    guidance.scale,
                    guidance.start,
                    guidance.stop,
                    painted[variant].self_attention,
                ),
                scores=_scores(profile, variant, of_it, texts.get(variant, {})),
                reason=None,
                key=variant.key,
                protected=variant.protected,
            )
        )
    return [replace(row, reason=verdict(row, profile.check)) for row in rows]


def _scores(profile: Profile, variant: Variant, scored: Scored, beside: Mapping[str, float]) -> Mapping[str, float]:
    """All scores of a picture: those of the check stage, those `beside` it, and what both come to."""
    shown = by_type("edit", [edit.type for edit in variant.edits], scored.edits) if scored.edits else {}
    return with_valid(variant.kind, {**beside, **scored.scores, **shown}, profile.check)


def _common(
    source: Source, row: PaintedRow, original: PaintedRow, control: str | None, profile: Profile
) -> dict[str, Any]:
    """What a source's rows have alike."""
    height, width = source.size
    target = profile.image.size_for(height, width)
    left, top, right, bottom = crop_box(height, width, target)
    boxes, _ = fit_boxes(source.boxes, height, width, target)
    return {
        "file_name": row.image.path,
        "sha256": row.image.sha256,
        "source": source.name,
        "label": source.label,
        "mask": None if row.mask is None else row.mask.path,
        "original": original.image.path,
        "control": control,
        "boxes": boxes,
        "origin": Origin(source.file, source.digest, width, height, (left, top, right - left, bottom - top)),
        "known_world": source.known_world is not False,
        "source_key": source.key,
    }


def session_facts(
    profile: Profile, settings: JourneySettings, data: Mapping[str, Any], recipes: Recipes, library: Library
) -> SessionFacts:
    """What made a session's results: settings, the data set, networks, libraries and the machine."""
    return SessionFacts(
        profile=asdict(profile),
        settings=asdict(settings),
        data=data,
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
