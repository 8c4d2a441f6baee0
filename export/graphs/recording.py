"""What a denoiser is fed while the engine paints: inputs of real use, which 8-bit forms are calibrated on."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterfactory.engine.meter.meter import Meter
from counterfactory.engine.models.batching import Batched
from counterfactory.engine.models.model_pool import ModelPool
from counterfactory.engine.models.networks import library_of
from counterfactory.engine.profile.profile import Profile
from counterfactory.engine.runtime.openvino import open_session
from counterfactory.engine.runtime.session import Session, Signature
from counterfactory.engine.stages.maps.draw_maps import edge_maps
from counterfactory.engine.stages.paint.paint_variants import PaintJob, paint

from .quantise import Feeds


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


def painting_feeds(profile: Profile, images: Sequence[NDArray[np.uint8]], captions: Sequence[str]) -> list[Feeds]:
    """Every batch that the profile's denoiser is fed while the engine paints each caption over the edges of its image.

    Images are uint8 RGB of one size that the profile paints. All steps are in it, and rows with the caption and without
    as far as the profile guides. The networks are those that an int8 form is made of, in the profile's precision.
    """
    name = master_of(profile.paint.denoiser)
    profile = replace(profile, paint=replace(profile.paint, denoiser=name, streams=1))
    settings, runtime, library = profile.paint, profile.runtime, library_of(profile)
    models, (height, width) = ModelPool(library, Meter(lambda _: None)), images[0].shape[:2]
    plans = models.paint_plans(height, width)
    size = plans.latent_shape[1:]
    sizes = {"latents": size, "hint_embedding": size}
    assert runtime.precision != "f16", "of OpenVINO"
    how: dict[str, Any] = {"precision": runtime.precision, "threads": runtime.threads, "sizes": sizes}
    recorder = _Recorder(open_session(library.graph(library.networks["denoiser"]), batch=settings.batch, **how))
    plans = replace(plans, denoiser=Batched(recorder))
    hints = plans.embed_hints(edge_maps(np.stack(images), profile.edges))
    texts, _ = models.clip_text().encode([settings.negative_prompt, *captions])
    jobs = [PaintJob(f"{i:064x}", texts[i + 1], hints[i], plans) for i in range(len(images))]
    for _ in paint(jobs, texts[0], settings):
        pass  # the pictures do not matter here
    return recorder.feeds
