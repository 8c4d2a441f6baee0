"""The pocket's denoisers with 8-bit integers, calibrated on what they meet while the engine paints rendered scenes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterfactory.engine.meter.meter import Meter
from counterfactory.engine.models.batching import Batched
from counterfactory.engine.models.model_pool import ModelPool
from counterfactory.engine.models.networks import library_of
from counterfactory.engine.pocket.worlds import EMBEDDED
from counterfactory.engine.profile.paint import PaintSettings
from counterfactory.engine.profile.profile import Profile, load_profile, painting_as_teacher
from counterfactory.engine.profile.runtime import ModelPaths
from counterfactory.engine.runtime.openvino import open_session
from counterfactory.engine.runtime.session import Session, Signature
from counterfactory.engine.stages.maps.draw_maps import edge_maps
from counterfactory.engine.stages.paint.paint_variants import PaintJob, paint

from ..graphs.quantise import Feeds, quantise
from .data import TRAIN


def full_profile(weights: Path) -> Profile:
    """The profile "pocket" over the models in `weights`, with full sampling: its teacher's, where it has one."""
    return replace(painting_as_teacher(load_profile("pocket")), models=ModelPaths(str(weights)))


def pack_int8(weights: Path, settings: PaintSettings, calibration_runs: int = 64) -> None:
    """Write the int8 form (NAME_int8.xml and .bin) of the denoiser that `settings` name beside NAME.xml in `weights`.

    Calibrated on what it meets while the engine paints `calibration_runs` rendered scenes of the training's stream,
    each in another appearance, by these settings.
    """
    name = master_of(settings.denoiser)
    profile = replace(full_profile(weights), paint=settings)
    quantise(weights / f"{name}.xml", painting_feeds(profile, calibration_runs), weights / f"{name}_int8.xml")


def master_of(denoiser: str) -> str:
    """The plan that a denoiser's plan in int8 is made of; another plan's own name."""
    return denoiser.removesuffix("_int8")


@dataclass(frozen=True)
class _Recorder:
    """A session that keeps what it is fed."""

    session: Session
    feeds: list[Feeds] = field(default_factory=list)

    @property
    def signature(self) -> Signature:
        """As that of the session."""
        return self.session.signature

    def run(self, feeds: Mapping[str, Any], hold: Collection[str] = ()) -> dict[str, Any]:
        """Keep a copy of `feeds` and run the session."""
        self.feeds.append({name: np.array(array) for name, array in feeds.items()})
        return self.session.run(feeds, hold)


def painting_feeds(profile: Profile, pictures: int) -> list[Feeds]:
    """Every batch that the profile's denoiser is fed while the engine paints `pictures` rendered scenes by `profile`.

    All steps are in it, and rows with the caption and without as far as the profile guides. Networks run in float32,
    so that other machines see the same within its rounding.
    """
    name = master_of(profile.paint.denoiser)
    profile = replace(profile, paint=replace(profile.paint, denoiser=name, streams=1))
    settings, side, folder = profile.paint, profile.image.short_side, profile.models.path
    exact = replace(profile, runtime=replace(profile.runtime, precision="f32"))
    models = ModelPool(library_of(exact), Meter(lambda _: None))
    plans = models.paint_plans(side, side)
    size = plans.latent_shape[1:]
    sizes = {"latents": size, "hint_embedding": size}
    recorder = _Recorder(open_session(folder / f"{name}.xml", batch=settings.batch, precision="f32", sizes=sizes))
    plans = replace(plans, denoiser=Batched(recorder))
    images, captions = zip(*(_restyled(i) for i in range(pictures)), strict=True)
    hints = plans.embed_hints(edge_maps(np.stack(images), profile.edges))
    texts, _ = models.clip_text().encode([settings.negative_prompt, *captions])
    jobs = [PaintJob(f"{i:064x}", texts[i + 1], hints[i], plans) for i in range(pictures)]
    for _ in paint(jobs, texts[0], settings):
        pass  # the pictures do not matter here
    return recorder.feeds


def _restyled(index: int) -> tuple[NDArray[np.uint8], str]:
    """A rendered scene, and what its caption would say of it in another appearance."""
    random = np.random.default_rng((TRAIN, index))
    source = EMBEDDED.scene(TRAIN, index)
    return EMBEDDED.draw(source).picture, EMBEDDED.describe(EMBEDDED.restyle(source, random), random)
