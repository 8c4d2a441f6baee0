"""Rendered streets for benches: sources in a folder, and paint jobs without the stages before them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from counterfactory.engine.keys import content_key
from counterfactory.engine.meter.meter import Meter
from counterfactory.engine.models.model_pool import ModelPool
from counterfactory.engine.models.networks import library_of
from counterfactory.engine.pocket.worlds import EMBEDDED
from counterfactory.engine.profile.profile import Profile
from counterfactory.engine.stages.maps.edges import edge_maps
from counterfactory.engine.stages.paint.paint_variants import PaintJob

_STREAM = 55


def render_streets(folder: Path, count: int) -> Path:
    """`count` scenes as an image folder, a class folder each kind of vehicle."""
    for i in range(count):
        scene = EMBEDDED.scene(_STREAM, i)
        path = folder / scene.label / f"{i:04d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        cv2.imwrite(str(path), cv2.cvtColor(EMBEDDED.draw(scene).picture, cv2.COLOR_RGB2BGR))
    return folder


@dataclass(frozen=True)
class Easel:
    """Paint jobs over rendered scenes, the negative prompt's states, and the models and meter behind them."""

    jobs: Sequence[PaintJob]
    negative: NDArray[np.float32]
    edges: NDArray[np.uint8]
    models: ModelPool
    meter: Meter


def set_up(profile: Profile, sources: int, variants: int) -> Easel:
    """`variants` jobs a scene: its edges, the caption of the scene in another appearance."""
    meter = Meter(lambda _: None)
    models = ModelPool(library_of(profile), meter)
    jobs: list[PaintJob] = []
    edges: list[NDArray[np.uint8]] = []
    for i in range(sources):
        scene = EMBEDDED.scene(_STREAM, i)
        image, _ = EMBEDDED.draw(scene).pair
        plans = models.paint_plans(*image.shape[:2])
        edges.append(edge_maps(image[None], profile.edges)[0])
        hint = plans.embed_hints(edges[-1][None])[0]
        for v in range(variants):
            rng = np.random.default_rng((_STREAM, i, v))
            states, _ = models.clip_text().encode([EMBEDDED.describe(EMBEDDED.restyle(scene, rng), rng, True)])
            jobs.append(PaintJob(content_key("bench", i, v), states[0], hint, plans))
    negative = models.clip_text().encode([profile.paint.negative_prompt])[0][0]
    return Easel(jobs, negative, np.stack(edges), models, meter)
