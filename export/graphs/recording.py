"""What a denoiser is fed while the engine paints: inputs of real use, which 8-bit forms are calibrated on."""

from __future__ import annotations

import hashlib
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
from counterfactory.engine.runtime.session import Signature
from counterfactory.engine.stages.maps.draw_maps import edge_maps
from counterfactory.engine.stages.paint.paint_variants import PaintJob, paint

from .quantise import Feeds


def master_of(denoiser: str) -> str:
    """The plan that a denoiser's plan in int8 is made of; another plan's own name."""
    return denoiser.removesuffix("_int8")


@dataclass(frozen=True)
class _Recorder:
    """A session that keeps what it is fed, and lets `network` compute."""

    network: Batched
    feeds: list[Feeds] = field(default_factory=list)
    known: dict[Any, NDArray[Any]] = field(default_factory=dict)

    @property
    def signature(self) -> Signature:
        return self.network.signature

    def run(self, feeds: Mapping[str, Any], hold: Collection[str] = ()) -> dict[str, Any]:
        self.feeds.append({name: self._once(np.ascontiguousarray(array)) for name, array in feeds.items()})
        return self.network.run(feeds)

    def _once(self, array: NDArray[Any]) -> NDArray[Any]:
        """A copy of an array, one for all that are alike: texts and hints are at every step what they were."""
        return self.known.setdefault(hashlib.sha256(array.data).digest(), array.copy())


def painting_feeds(
    profile: Profile, images: Sequence[NDArray[np.uint8]], captions: Sequence[str], first: int = 0
) -> list[Feeds]:
    """Every batch that the profile's denoiser is fed while the engine paints each caption over the edges of its image.

    Images are uint8 RGB of one size that the profile paints; noise is that of the pictures from number `first` on.
    All steps are in it, and rows with the caption and without as far as the profile guides. The networks are those
    that an int8 form is made of, in the profile's precision.
    """
    name = master_of(profile.paint.denoiser)
    profile = replace(profile, paint=replace(profile.paint, denoiser=name, streams=1))
    settings, models = profile.paint, ModelPool(library_of(profile), Meter(lambda _: None))
    plans = models.paint_plans(*images[0].shape[:2])
    recorder = _Recorder(plans.denoiser)
    plans = replace(plans, denoiser=Batched(recorder))
    hints = plans.embed_hints(edge_maps(np.stack(images), profile.edges))
    texts, _ = models.clip_text().encode([settings.negative_prompt, *captions])
    jobs = [PaintJob(f"{first + i:064x}", texts[i + 1], hints[i], plans) for i in range(len(images))]
    for _ in paint(jobs, texts[0], settings, models.sampler()):
        pass  # the pictures do not matter here
    models.close()
    return recorder.feeds
