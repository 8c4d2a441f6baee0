"""The pocket's denoisers with 8-bit integers, calibrated on what they meet while the engine paints rendered scenes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from counterfactory.engine.pocket.worlds import EMBEDDED
from counterfactory.engine.profile.paint import PaintSettings
from counterfactory.engine.profile.profile import Profile, load_profile, painting_as_teacher
from counterfactory.engine.profile.runtime import ModelPaths

from ..graphs.quantise import Feeds, quantise
from ..graphs.recording import master_of, painting_feeds
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
    quantise(weights / f"{name}.xml", scene_feeds(profile, calibration_runs), weights / f"{name}_int8.xml")


def scene_feeds(profile: Profile, pictures: int) -> list[Feeds]:
    """`painting_feeds` of `pictures` rendered scenes of the training's stream, each in another appearance.

    Networks run in float32, so that other machines see the same within its rounding.
    """
    images, captions = zip(*(_restyled(i) for i in range(pictures)), strict=True)
    exact = replace(profile, runtime=replace(profile.runtime, precision="f32"))
    return painting_feeds(exact, images, captions)


def _restyled(index: int) -> tuple[NDArray[np.uint8], str]:
    """A rendered scene, and what its caption would say of it in another appearance."""
    random = np.random.default_rng((TRAIN, index))
    source = EMBEDDED.scene(TRAIN, index)
    return EMBEDDED.draw(source).picture, EMBEDDED.describe(EMBEDDED.restyle(source, random), random)
