"""Paints variants: the edited caption over the source's edges.

Every variant starts from noise of its own key and goes through the sampler's steps; each step asks the denoiser for
two rows, with and without the text, and combines them by classifier-free guidance (Ho & Salimans 2022,
arXiv 2207.12598, eq. 6). Rows of many variants share a batch; nothing of one enters another.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..keys import generator
from ..models.denoiser import Evaluation, ShapePlans
from ..models.sampler import Sampler, SamplerSettings, guide
from ..schedule.evaluations import Fill, Job, run_jobs

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class PaintSettings:
    """How variants are painted. `batch` rows share an evaluation, `decode_batch` pictures a decode.

    `guidance_scale` is w of the guidance equation, 1 for none; `control_scale` weighs the edges, 1 as trained.
    """

    sampler: SamplerSettings
    guidance_scale: float
    control_scale: float
    negative_prompt: str
    batch: int
    decode_batch: int

    def __post_init__(self) -> None:
        if self.batch < 1 or self.decode_batch < 1:
            raise ValueError(f"[paint] needs batches of at least 1, got {self.batch} and {self.decode_batch}")
        if self.guidance_scale < 1:
            raise ValueError(f"[paint] guidance_scale starts at 1 (no guidance), got {self.guidance_scale}")
        if self.control_scale < 0:
            raise ValueError(f"[paint] control_scale cannot be negative, got {self.control_scale}")


@dataclass(frozen=True)
class PaintJob:
    """One variant to paint: its key, its text states [T, D], and its source's hint embedding [D, h, w]."""

    key: str
    text: Floats
    hint: Floats


def paint(
    jobs: Sequence[PaintJob], negative: Floats, plans: ShapePlans, settings: PaintSettings, fill: Fill
) -> Iterator[tuple[int, NDArray[np.uint8]]]:
    """Paint jobs of one picture size; yields (position in `jobs`, uint8 RGB [H, W, 3]) as pictures finish.

    `negative` holds the text states [T, D] of the negative prompt. Pictures are decoded `decode_batch` at a time.
    """
    sampler = Sampler(settings.sampler)
    denoising = (_denoise(job, negative, plans.latent_shape, sampler, settings) for job in jobs)
    waiting: dict[int, Floats] = {}
    for order, latents in run_jobs(denoising, plans.evaluate, settings.batch, fill):
        waiting[order] = latents
        if len(waiting) == settings.decode_batch:
            yield from _decoded(waiting, plans)
            waiting = {}
    yield from _decoded(waiting, plans)


def _denoise(
    job: PaintJob, negative: Floats, shape: tuple[int, int, int], sampler: Sampler, settings: PaintSettings
) -> Job[Evaluation, Floats, Floats]:
    """One variant's way from noise to latents [C, h, w], an evaluation a yielded row."""
    latents = generator(job.key, "noise").standard_normal(shape, np.float32) * np.float32(sampler.initial_scale)
    history = sampler.start
    for i, timestep in enumerate(sampler.timesteps.tolist()):
        texts = [job.text] if settings.guidance_scale == 1 else [job.text, negative]
        rows = [Evaluation(latents, timestep, text, job.hint, settings.control_scale) for text in texts]
        outputs = yield rows
        output = outputs[0] if len(outputs) == 1 else guide(outputs[0], outputs[1], settings.guidance_scale)
        latents, history = sampler.step(i, latents, output, history)
    return latents


def _decoded(waiting: Mapping[int, Floats], plans: ShapePlans) -> Iterator[tuple[int, NDArray[np.uint8]]]:
    if waiting:
        yield from zip(waiting, plans.decode(list(waiting.values())), strict=True)
