"""What a student of the denoiser learns from: variants as its teacher paints them, with the latents on the way.

The teacher is a profile: its denoiser by its sampler, guided where it guides, painting as the engine paints. Each
layout comes in two appearances, and each is painted from its own caption over the other's hint, as an edit is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from diffusers import AutoencoderTiny
from numpy.typing import NDArray
from torch import Tensor

from counterfactory.engine.keys import content_key
from counterfactory.engine.meter.meter import Meter
from counterfactory.engine.models.denoiser import Denoising, PaintPlans
from counterfactory.engine.models.model_pool import ModelPool
from counterfactory.engine.models.networks import library_of
from counterfactory.engine.models.sampler import Sampler
from counterfactory.engine.pocket.worlds import EMBEDDED
from counterfactory.engine.profile.paint import PaintSettings
from counterfactory.engine.profile.profile import Profile
from counterfactory.engine.stages.paint.paint_variants import PaintJob, paint

from .data import ScenePool
from .denoiser import LatentPool

Floats = NDArray[np.float32]
# Of scenes that neither a training nor a report sees.
STREAM = 2
_PAINTED_AT_ONCE = 64


@dataclass(frozen=True)
class Teacher:
    """What paints the lessons: plans of one picture size, how they are used, and what encodes captions.

    `encode` makes text states float32 [N, T, D], `embed` hint embeddings [N, D', h, w] of hints [N, C, H, W] in 0..1.
    """

    plans: PaintPlans
    settings: PaintSettings
    encode: Callable[[Sequence[str]], Floats]
    embed: Callable[[Tensor], Tensor]

    @classmethod
    def of(cls, profile: Profile, embed: Callable[[Tensor], Tensor]) -> Teacher:
        models, side = ModelPool(library_of(profile), Meter(lambda _: None)), profile.image.short_side
        text = models.clip_text()
        return cls(models.paint_plans(side, side), profile.paint, lambda texts: text.encode(list(texts))[0], embed)

    def ways(self, keys: Sequence[str], texts: Floats, hints: Floats) -> Floats:
        """The latents of variants before each step and after the last, float32 [N, steps + 1, C, h, w]."""
        plans = self.plans
        watched = _Watched(plans.hint, plans.denoiser, plans.decoder, plans.latent_shape)
        (negative,) = self.encode([self.settings.negative_prompt])
        jobs = [PaintJob(key, text, hint, watched) for key, text, hint in zip(keys, texts, hints, strict=True)]
        for _ in paint(jobs, negative, self.settings):
            pass  # of pictures only the latents matter here
        return np.array(watched.ways, np.float32)


@dataclass(frozen=True)
class _Watched(PaintPlans):
    """Plans that keep the latents of every variant in the order in which variants are begun, and decode none."""

    ways: list[list[Any]] = field(default_factory=list)

    def begin(self, noise: Floats, sampler: Sampler) -> Denoising:
        self.ways.append([])
        return _Watching(super().begin(noise, sampler).latents, sampler, self.ways[-1])

    def decode(self, latents: Sequence[Any]) -> Callable[[], list[NDArray[np.uint8]]]:
        """Pictures of one black pixel."""
        return lambda: [np.zeros((1, 1, 3), np.uint8)] * len(latents)


class _Watching(Denoising):
    def __init__(self, latents: Floats, sampler: Sampler, way: list[Any]) -> None:
        super().__init__(latents, sampler)
        self._way = way
        way.append(latents)

    def step(self, i: int, outputs: Sequence[Any], scale: float | None, noise: Floats | None) -> None:
        super().step(i, outputs, scale, noise)
        self._way.append(self.latents)

    def blend(self, replacement: Floats, share: Floats) -> None:
        super().blend(replacement, share)
        self._way[-1] = self.latents


class Lessons:
    """Variants painted by a teacher; a few are replaced by new ones at every step.

    After `advance(step)` it holds what an uninterrupted run would hold, N lessons: `ways` [N, len(kept), C, h, w], the
    teacher's latents before those of its steps that `kept` names (the number of steps names the end); `texts` float16
    [N, T, D]; `hints` float16 [N, D', h, w]; and `truth`, of which the latents are those of the picture that the
    caption describes, rendered in the same layout, and the weights say what an error costs where.
    """

    def __init__(
        self, teacher: Teacher, vae: AutoencoderTiny, kept: Sequence[int], size: int, fresh: int, workers: int = 0
    ) -> None:
        if size % 2 or fresh % 2:
            raise ValueError(f"lessons come in pairs of a layout, got {size} and {fresh} new ones at a step")
        self.teacher, self.kept, self.size = teacher, kept, size
        self.truth = LatentPool(ScenePool(STREAM, size, fresh, styles=2, workers=workers), vae)
        self.ways = torch.zeros(size, len(kept), *teacher.plans.latent_shape)
        self.texts, self.hints = torch.zeros(0), torch.zeros(0)

    @torch.no_grad()
    def advance(self, step: int) -> list[int]:
        """Bring the lessons to the state of `step`; returns those that changed."""
        changed = self.truth.advance(step)
        for start in range(0, len(changed), _PAINTED_AT_ONCE):
            self._paint(changed[start : start + _PAINTED_AT_ONCE])
        return changed

    def _paint(self, changed: Sequence[int]) -> None:
        scenes = self.truth.scenes
        numbers = [scenes.number(slot) for slot in changed]
        drawn = [np.random.default_rng((STREAM, number)) for number in numbers]
        captions = [EMBEDDED.describe(scenes.scenes[i], rng) for i, rng in zip(changed, drawn, strict=True)]
        texts = self.teacher.encode(captions)
        hints = self.teacher.embed(self.truth.hints(np.array(changed) ^ 1)).float()
        ways = self.teacher.ways([content_key("lesson", n) for n in numbers], texts, hints.numpy())
        if not len(self.texts):
            self.texts = torch.zeros(self.size, *texts.shape[1:], dtype=torch.float16)
            self.hints = torch.zeros(self.size, *hints.shape[1:], dtype=torch.float16)
        self.ways[changed] = torch.from_numpy(ways[:, list(self.kept)])
        self.texts[changed], self.hints[changed] = torch.from_numpy(texts).half(), hints.half()
