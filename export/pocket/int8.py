"""The pocket denoiser with 8-bit integers, calibrated on what it meets while the engine paints rendered scenes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterfactory.engine.config.networks import library_of
from counterfactory.engine.config.profile import ModelPaths, Profile, load_profile
from counterfactory.engine.meter.meter import Meter
from counterfactory.engine.models.batching import Batched
from counterfactory.engine.models.opened import Opened
from counterfactory.engine.runtime.openvino import open_session
from counterfactory.engine.runtime.session import Session, Signature
from counterfactory.engine.stages.edges import edge_maps
from counterfactory.engine.stages.paint import PaintJob, paint

from ..graphs.quantise import Feeds, quantise
from .data import TRAIN
from .worlds import STREETS, World


def pack_int8(weights: Path, calibration_runs: int = 64, world: World = STREETS) -> None:
    """Write denoiser_int8.xml and .bin beside denoiser.xml in `weights`.

    Calibrated on what the denoiser meets while the engine paints `calibration_runs` rendered scenes of the training's
    stream, each in another appearance, as the profile "pocket" says.
    """
    profile = replace(load_profile("pocket"), models=ModelPaths(str(weights)))
    quantise(weights / "denoiser.xml", painting_feeds(profile, calibration_runs, world), weights / "denoiser_int8.xml")


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


def painting_feeds(profile: Profile, pictures: int, world: World = STREETS) -> list[Feeds]:
    """Every batch that the plan "denoiser" is fed while the engine paints `pictures` rendered scenes by `profile`.

    All steps are in it, and rows with the caption and without as far as the profile guides. Networks run in float32,
    so that other machines see the same within its rounding.
    """
    profile = replace(profile, paint=replace(profile.paint, denoiser="denoiser", streams=1))
    settings, side, folder = profile.paint, profile.image.short_side, profile.models.path
    exact = replace(profile, runtime=replace(profile.runtime, precision="f32"))
    models = Opened(library_of(exact), Meter(lambda _: None))
    plans = models.paint_plans(side, side)
    size = plans.latent_shape[1:]
    sizes = {"latents": size, "hint_embedding": size}
    recorder = _Recorder(open_session(folder / "denoiser.xml", batch=settings.batch, precision="f32", sizes=sizes))
    plans = replace(plans, denoiser=Batched(recorder))
    images, captions = zip(*(_restyled(i, world) for i in range(pictures)), strict=True)
    hints = plans.embed_hints(edge_maps(np.stack(images), profile.edges))
    texts, _ = models.clip_text().encode([settings.negative_prompt, *captions])
    jobs = [PaintJob(f"{i:064x}", texts[i + 1], hints[i], plans) for i in range(pictures)]
    for _ in paint(jobs, texts[0], settings):
        pass  # the pictures do not matter here
    return recorder.feeds


def _restyled(index: int, world: World = STREETS) -> tuple[NDArray[np.uint8], str]:
    """A rendered scene, and what its caption would say of it in another appearance."""
    random = np.random.default_rng((TRAIN, index))
    source = world.scene(TRAIN, index)
    return world.draw(source).picture, world.describe(world.restyle(source, random), random, False)
