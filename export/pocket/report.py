"""Measures packed pocket models of a world on scenes that no training saw and by which nothing was chosen: pocket.md,
pocket.json, a picture sheet, the trainings' curves.

The streets' variants are made as a user's are, by captioner, language model and painter; the wide world's are pairs of
one layout under two captions (see `pairs`), and suites stand beside them where there is a language model. The world
knows the truth of every source, the referee sees what became of it in each variant; all painted variants count, those
that the checks reject too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterfactory.engine.meter.meter import Meter
from counterfactory.engine.models.model_pool import ModelPool
from counterfactory.engine.models.networks import library_of
from counterfactory.engine.pocket.judges import Referee
from counterfactory.engine.pocket.worlds import STREETS, WIDE, World
from counterfactory.engine.profile.profile import Profile
from counterfactory.engine.stages.caption_sources import caption_images
from counterfactory.kernels.pixels import to_pictures

from .captioned import caption_figures, open_autoencoder, psnr
from .counterfacts import COUNTERFACTS
from .curves import draw_curves, read_logs
from .data import JUDGED
from .gate import SCENES as GATE_SCENES
from .gate import gate_section, measure_gate
from .judged import Judged, held_out, judge_variants
from .likeness import describe_extractor, likeness_figures, scaled
from .observed import Observed, painted_figures
from .page import write_page
from .pairs import Pair, draw_pairs, observe_pairs, paint_pairs
from .profiles import profile_of
from .referee import referee_figures
from .sheet import draw_sheet

SCENES = 300
# Of a scene, in suites and of pairs, which are of more kinds.
_SUITE_VARIANTS, _PAIR_VARIANTS = 2, 4
# The drawings of a world's trainings, the last of this work folder; the streets' first ones are older than any log.
_CURVES = MappingProxyType(
    {
        STREETS.name: ("pocket_training.svg", "pocket_training_continued.svg"),
        WIDE.name: ("pocket_training.svg",),
    }
)
Pictures = Sequence[NDArray[np.uint8]]


@dataclass(frozen=True)
class Instruments:
    """The networks that are measured, and those that measure.

    `caption` writes captions of pictures; `paint` paints the captions of pairs; `autoencode` takes pictures to pixel
    values [N, 3, 128, 128] in -1..1 and `extract` to features [N, D] that KID compares, by the name of `extractor`.
    """

    caption: Callable[[Pictures], Sequence[str]]
    paint: Callable[[Sequence[Pair]], Pictures]
    autoencode: Callable[[Pictures], NDArray[np.float32]]
    extract: Callable[[Pictures], NDArray[np.float64]]
    extractor: str
    referee: Referee


@dataclass(frozen=True)
class Subject:
    """The models to measure: those of the folder `weights`, of a world, by its profile, on so many scenes.

    Suites that are painted for the report stay in `work`, and are gone on from.
    """

    world: World
    weights: Path
    work: Path
    scenes: int = SCENES

    @property
    def profile(self) -> Profile:
        """The profile with these models."""
        return profile_of(self.world, self.weights)

    @property
    def writes(self) -> bool:
        """Whether the models can make suites: whether a language model is among them."""
        return (self.weights / "llm").is_dir()

    def open(self) -> Instruments:
        """Its networks. Raises CounterfactoryError for what is missing in the folder, when that is first used."""
        profile = self.profile
        models, side = ModelPool(library_of(profile), Meter(lambda _: None)), profile.image.short_side

        def caption(pictures: Pictures) -> Sequence[str]:
            named = [(str(i), picture) for i, picture in enumerate(pictures)]
            return caption_images(models.blip2(), named, profile.caption)

        return Instruments(
            caption=caption,
            paint=lambda pairs: paint_pairs(pairs, profile, models.paint_plans(side, side), models.clip_text()),
            autoencode=open_autoencoder(self.weights),
            extract=lambda pictures: scaled(models.clip_image().encode(pictures)),
            extractor=describe_extractor(self.weights),
            referee=Referee.load(self.weights, self.world.vocabulary),
        )


def write_report(subject: Subject, docs: Path) -> dict[str, Any]:
    """Measure the models; write pocket.json, pocket.md, pocket.webp and the curves of the trainings logged in the work
    folder to `docs`. Returns the figures.
    """
    instruments = subject.open()
    figures, observed = measure(subject, instruments)
    gate, world = "", subject.world
    if subject.writes:
        folder, scenes = subject.work / "measured" / "gate", min(subject.scenes, GATE_SCENES)
        figures |= measure_gate(subject.profile, folder, instruments.referee, scenes, world)
        gate = gate_section(figures, subject.profile.check, world)
    docs.mkdir(parents=True, exist_ok=True)
    (docs / "pocket.json").write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    curves = _CURVES[world.name]
    if logs := read_logs(subject.work):
        draw_curves(logs, docs / curves[-1])
    page = write_page(figures, world, gate, [name for name in curves if (docs / name).is_file()])
    (docs / "pocket.md").write_text(page, encoding="utf-8")
    draw_sheet(observed, docs / "pocket.webp")
    return figures


def measure(subject: Subject, instruments: Instruments) -> tuple[dict[str, Any], Sequence[Observed]]:
    """All figures but those of the checks, and the variants that they are of."""
    world, known = subject.world, held_out(subject.scenes, 0, JUDGED, subject.world)
    scenes, pictures = [scene for scene, _ in known], [drawing.picture for _, drawing in known]
    figures: dict[str, Any] = {
        "world": world.name,
        "scenes": subject.scenes,
        **caption_figures(instruments.caption(pictures), scenes, COUNTERFACTS[world.name]),
        "vae_psnr_db": psnr(instruments.autoencode, pictures),
    }
    suite = judge_suite(subject, instruments) if subject.writes else []
    observed = suite if world is STREETS else observe_pairs_of(subject, instruments)
    figures |= painted_figures(observed, instruments.referee)
    if suite:
        figures["accepted_share"] = float(np.mean([one.row.accepted for one in suite]))
    if suite and observed is not suite:
        figures["journey"] = painted_figures(suite, instruments.referee)
    found = likeness_figures(observed, instruments.extract, lambda shown: to_pictures(instruments.autoencode(shown)))
    figures |= found | {"kid_extractor": instruments.extractor} if found else {}
    figures["rows_per_variant"] = subject.profile.paint.rows_per_variant
    return figures | referee_figures(instruments.referee, known, world), observed


def judge_suite(subject: Subject, instruments: Instruments) -> list[Judged]:
    """Variants that were made as a user's are."""
    world, folder = subject.world, subject.work / "measured" / "edits"
    return judge_variants(
        subject.profile, folder, instruments.referee, subject.scenes, _SUITE_VARIANTS, stream=JUDGED, world=world
    )


def observe_pairs_of(subject: Subject, instruments: Instruments) -> list[Observed]:
    """Variants of pairs that the world writes."""
    pairs = draw_pairs(subject.world, COUNTERFACTS[subject.world.name], JUDGED, subject.scenes, _PAIR_VARIANTS)
    return observe_pairs(pairs, instruments.paint(pairs), instruments.referee)
