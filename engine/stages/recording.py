"""What a run writes down of its profile: the keys of its results, the rows of its table, what its sessions say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ..content_keys import GIVEN, INSTRUCTIONS, LIGHT, STAGES, ContentKeys
from ..files.fill import plain
from ..meter.energy import EnergyMeter
from ..meter.machine import this_machine
from ..models.library import Library
from ..profile.image import crop_box
from ..profile.profile import Profile
from ..runtime.opening import arithmetic
from ..sources.shapes import fit_boxes
from ..sources.source import Source
from ..suite import Crop, Origin, PaintedRow, Painting, PictureRow
from ..suite.session_record import Costs, SessionFacts
from ..variant import Variant
from .check.clip_scores import by_type
from .check.score_pictures import PictureScores
from .check.verdict import verdict, with_valid
from .maps.draw_maps import palettes_of
from .run import Run


def content_keys_of(profile: Profile, library: Library) -> ContentKeys:
    """The keys of a run's results. Raises CounterfactoryError for a network that is missing."""
    hints: object = None
    if profile.hints is not None:  # they, and what their palettes hold; else pictures follow the edges alone
        palettes = [palette.key for palette in palettes_of(profile.hints)]
        hints = [[asdict(hint) for hint in profile.hints], palettes, profile.depth]
    return ContentKeys(
        # What is None is left out, so that pictures keep the keys that they had before there were buckets.
        image={name: value for name, value in asdict(profile.image).items() if value is not None},
        caption=plain(profile.caption),  # without what is absent, so that captions keep their keys
        sampling=profile.llm.sampling,
        edges=profile.edges,
        paint=profile.paint.decisive,
        text=profile.text,
        check=profile.check.measures,
        makers={stage: library.digest(stage) for stage in STAGES},
        hints=hints,
        protect=profile.protect,
        invert=profile.invert,
        painter=_painter_key(profile),
    )


def _painter_key(profile: Profile) -> object:
    """What decides a picture of a painter beside the other settings; None where a diffusion model paints."""
    if profile.painter is not None and profile.painter.server is not None:
        return "server", profile.painter.server.digest(), INSTRUCTIONS
    return {"light": ("light", LIGHT), "given": ("given", GIVEN)}.get(profile.painter_kind)


@dataclass(frozen=True)
class ShardResults:
    """The results of the stages for a shard. `others` are scores that the check stage does not measure: of edited
    captions, of the captioner's second look, of referees. `baselines` are the pictures of variants' light and weather.
    """

    captions: Mapping[Source, str]
    originals: Mapping[Source, PaintedRow]
    painted: Mapping[Variant, PaintedRow]
    scored: Mapping[Variant, PictureScores]
    others: Mapping[Variant, Mapping[str, float]]
    baselines: Mapping[Variant, PaintedRow] = field(default_factory=dict)


def picture_rows(profile: Profile, results: ShardResults) -> list[PictureRow]:
    """The rows of a shard: its scored controls and variants, and the originals of the sources that have some.

    Verdicts follow from the stored scores and the profile's thresholds. A control is listed with its source's variants
    whatever its verdict.
    """
    painted, originals, guidance = results.painted, results.originals, profile.paint.guidance
    denoised = profile.painter_kind in ("diffusion", "inversion")
    first = {v.source: painted[v].image.path for v in results.scored if v.kind == "control" and v.index == 0}
    shown = {variant.source: variant.protected for variant in results.scored}
    alike = {
        source: _of_source(source, profile)
        | {"original": originals[source].image.path, "control": first.get(source), "protected": protected}
        for source, protected in shown.items()
    }
    rows = [
        PictureRow(
            **alike[source],
            **_of_files(originals[source]),
            kind="original",
            caption=results.captions[source],
            edited_caption=results.captions[source],
            edits=(),
            number=0,
            painting=None,
            scores={},
            reason=None,
            key=source.key,
        )
        for source in shown
    ]
    for variant, scored in results.scored.items():
        row = painted[variant]
        by_edit = by_type("edit", [edit.type for edit in variant.edits], scored.edits) if scored.edits else {}
        scores = {**results.others.get(variant, {}), **scored.scores, **by_edit}
        steps = profile.paint.sampler.steps
        how = (steps, guidance.scale, guidance.start, guidance.stop) if denoised else (0, 1.0, 0.0, 0.0)
        painting = Painting(variant.seed, *how, row.self_attention)
        rows.append(
            PictureRow(
                **alike[variant.source],
                **_of_files(row),
                **_of_variant(variant),
                kind=variant.kind,
                edit_scores=scored.edits,
                painting=painting,
                painter=profile.painter_kind,
                scores=with_valid(variant.kind, scores, profile.check),
            )
        )
    judged = [replace(row, reason=verdict(row, profile.check)) for row in rows]
    for variant, row in results.baselines.items():  # drawn by rule: no check rejects it
        same = {**alike[variant.source], **_of_files(row), **_of_variant(variant)}
        drawn = Painting(variant.seed, 0, 1.0, 0.0, 0.0)
        judged.append(PictureRow(**same, kind="baseline", painting=drawn, scores={}, painter="light"))
    return judged


def _of_variant(variant: Variant) -> dict[str, Any]:
    same = ("caption", "edited_caption", "edits", "repeat", "level", "levels", "key")
    return {name: getattr(variant, name) for name in same} | {"number": variant.index, "reason": None}


def _of_files(row: PaintedRow) -> dict[str, Any]:
    mask = None if row.mask is None else row.mask.path
    return {"file_name": row.image.path, "sha256": row.image.sha256, "mask": mask}


def _of_source(source: Source, profile: Profile) -> dict[str, Any]:
    height, width = source.size
    target = profile.image.size_for(height, width)
    left, top, right, bottom = crop_box(height, width, target)
    boxes, _ = fit_boxes(source.boxes, height, width, target)
    return {
        "source": source.name,
        "label": source.label,
        "boxes": boxes,
        "origin": Origin(source.file, source.digest, width, height),
        "crop": Crop(left, top, right - left, bottom - top),
        "known_world": source.known_world is not False,
        "source_key": source.key,
    }


def session_facts(run: Run, data: Mapping[str, Any], releases: Mapping[str, str]) -> SessionFacts:
    """What made a session's results: settings, the data set, networks, libraries and the machine."""
    return SessionFacts(
        profile=plain(run.profile),
        settings=asdict(run.request),
        data=data,
        models={str(stage): maker for stage, maker in run.keys.makers.items()},
        precision=arithmetic(run.profile.runtime),
        versions=releases,
        machine=this_machine(),
    )


def session_costs(run: Run, energy: EnergyMeter) -> Costs:
    """What a session has cost by now."""
    runtime, stages = run.profile.runtime, run.meter.costs()
    return Costs(
        wall_s=round(run.meter.elapsed_s, 3),
        devices=runtime.devices,
        device=runtime.unit,
        painted=sum(cost.made for cost in stages if cost.stage == "paint"),
        peak_memory_bytes=run.meter.peak_memory_bytes,
        energy_j=energy.joules(),
        stages=stages,
        plans=run.meter.plans(),
    )
