"""Claim: a whole image of Stable Diffusion 1.5's size takes an eighth of the time that diffusers' default takes.

512 x 512, 20 UniPC steps, guidance 7.5, decoding included, random weights, so that this is about speed only. The
engine embeds each hint once, runs the fused step in full batches of rows from several images, and guides on a part of
the steps (`--guidance START STOP`, shares of the steps); diffusers' StableDiffusionControlNetPipeline guides all.
`--against reference` is that pipeline as it comes, in fp32, an image at a time; `--against diffusers-batched` in bf16,
channels-last, all images in one call. Before timing, both paint one image in two guided steps from the same noise, and
must agree. Text encoders are left out on both sides. `--engine-steps N` gives the engine fewer steps, for schedules
that keep quality; `--peer-steps N` times the pipeline for fewer steps and takes the rest for alike.
"""

from __future__ import annotations

import argparse
import gc
import os
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from diffusers.utils import logging
from measure import Ratio, Spent, bench_cache, bench_parser, compare, finish, keep_quiet, psnr, spent
from numpy.typing import NDArray
from reference import open_pipeline

from counterfactory.engine.estimate.flops import count_flops
from counterfactory.engine.estimate.peak import PeakPrecision, measure_peak
from counterfactory.engine.keys import generator
from counterfactory.engine.meter.meter import Work
from counterfactory.engine.models.batching import Batched
from counterfactory.engine.models.denoiser import PaintPlans
from counterfactory.engine.profile.paint import GuidanceSettings, PaintSettings, SamplerSettings
from counterfactory.engine.runtime.openvino import open_session
from counterfactory.engine.stages.paint.paint_variants import PaintJob, paint
from counterfactory.export.graphs.quantise import quantise
from counterfactory.export.production import denoiser as sd15
from counterfactory.export.production.aside import alone
from counterfactory.export.production.stable_diffusion import SEED, denoiser_sd15
from counterfactory.export.production.vae import random_vae

Array = NDArray[Any]
_SCALE = 7.5
_FULL = (0.0, 1.0)
_PEERS = ("reference", "diffusers-batched")
# PSNR in dB of the picture after two steps; random weights amplify rounding, so this is far below what trained ones
# give. Pictures of other noise stand at about 10 dB.
_LEAST_PSNR = 20.0


def quantise_once(denoiser: Path, int8: Path, feeds: dict[str, Array]) -> None:
    """Write the int8 network, calibrated on `feeds` alone, unless it is newer than what it was made from."""
    weights = int8.with_suffix(".bin")
    if not (weights.is_file() and weights.stat().st_mtime > denoiser.with_suffix(".bin").stat().st_mtime):
        # Without bias correction, which changes values and not the time that they take.
        quantise(denoiser, [feeds], int8, correct_bias=False)


@dataclass(frozen=True)
class Scene:
    """What one image is painted from: hint [3, H, W] in 0..1, text states [T, D], and the key of its noise."""

    key: str
    hint: Array
    text: Array

    @property
    def noise(self) -> Array:
        """The latents that painting starts from, [4, h, w]."""
        side = self.hint.shape[-1] // sd15.FACTOR
        return generator(self.key, "noise").standard_normal((4, side, side), np.float32)


def scenes(count: int, side: int) -> tuple[list[Scene], Array]:
    """Seeded scenes, and the text states of the negative prompt."""
    random = np.random.default_rng(15)
    texts = random.standard_normal((count + 1, sd15.TOKENS, sd15.SD15["cross_attention_dim"])).astype(np.float32)
    edges = (random.random((count, 1, side, side)) < 0.1).astype(np.float32)
    return [Scene(f"{i:064x}", np.repeat(edges[i], 3, 0), texts[i + 1]) for i in range(count)], texts[0]


def paint_scenes(
    plans: PaintPlans, some: Sequence[Scene], hints: Sequence[Array], negative: Array, *how: Any
) -> list[Array]:
    """Pictures, uint8 RGB [H, W, 3], of scenes in order, by the engine; `how` as `paint` takes it."""
    jobs = [PaintJob(scene.key, scene.text, hint, plans) for scene, hint in zip(some, hints, strict=True)]
    painted = dict(paint(jobs, negative, *how))
    return [painted[i] for i in range(len(some))]


class Engine:
    """The engine's way: the painter's plans at Stable Diffusion 1.5's size."""

    def __init__(self, asked: argparse.Namespace) -> None:
        cache = asked.cache / "sd15"
        exported = alone(denoiser_sd15, cache)
        latent = (asked.side // sd15.FACTOR,) * 2
        sizes = {"latents": latent, "hint_embedding": latent}
        int8 = cache / "denoiser_int8.xml"
        if asked.int8:
            feeds = {k: v.numpy() for k, v in sd15.example_inputs(asked.batch, latent).items()}
            alone(quantise_once, exported.denoiser, int8, feeds)
        self.work: dict[str, Work] = {}
        self._row_flops: dict[str, int] = {}

        def opened(name: str, counted: Path, batch: int, its: dict[str, Any], path: Path | None = None) -> Batched:
            work = self.work.setdefault(name, Work())
            self._row_flops[name] = count_flops(counted, 1, its)
            session = open_session(path or counted, batch=batch, precision="bf16", threads=asked.threads, sizes=its)
            return Batched(session, lambda: work)

        self.plans = PaintPlans(
            opened("hint", exported.hint, 1, {"hint": (asked.side,) * 2}),
            opened("denoiser", exported.denoiser, asked.batch, sizes, int8 if asked.int8 else None),
            opened("decoder", exported.hint.parent / "vae_decoder.xml", 1, {"latents": latent}),
            (4, *latent),
        )

    def __call__(self, some: Sequence[Scene], negative: Array, settings: PaintSettings) -> list[Array]:
        hints = [self.plans.hint.run({"hint": scene.hint[None]})["hint_embedding"][0] for scene in some]
        return paint_scenes(self.plans, some, hints, negative, settings)

    def flops(self) -> int:
        return sum(self._row_flops[name] * work.rows for name, work in self.work.items())


class Pipeline:
    def __init__(self, batched: bool) -> None:
        networks = sd15.random_unet(SEED), sd15.random_controlnet(SEED + 1), random_vae(SEED + 2)
        self.batched = batched
        if batched:
            for part in networks:
                part.to(torch.bfloat16).to(memory_format=torch.channels_last)
        self._pipeline = open_pipeline(*networks, SamplerSettings("unipc", 1, "epsilon", "leading", zero_snr=False))

    def __call__(self, some: Sequence[Scene], negative: Array, steps: int) -> tuple[list[Array], float, float]:
        """Pictures of scenes, and the seconds until the last step and after it."""
        pictures: list[Array] = []
        stepping = finishing = 0.0
        for part in [some] if self.batched else [[scene] for scene in some]:
            began = time.perf_counter()
            ends: list[float] = []
            found = self._run(part, negative, steps, ends)
            stepping, finishing = stepping + ends[-1] - began, finishing + time.perf_counter() - ends[-1]
            pictures += list((found * 255).round().astype(np.uint8))
        return pictures, stepping, finishing

    def _run(self, some: Sequence[Scene], negative: Array, steps: int, ends: list[float]) -> Array:
        def tensor(arrays: Sequence[Array]) -> torch.Tensor:
            return torch.from_numpy(np.stack(arrays)).to(self._pipeline.unet.dtype)

        def end(_pipeline: Any, _step: int, _timestep: Any, kept: dict[str, Any]) -> dict[str, Any]:
            ends.append(time.perf_counter())
            return kept

        texts, image = tensor([scene.text for scene in some]), tensor([scene.hint for scene in some])
        latents, negatives = tensor([scene.noise for scene in some]), tensor([negative] * len(some))
        found = self._pipeline(
            prompt_embeds=texts, negative_prompt_embeds=negatives, image=image, latents=latents, output_type="np",
            num_inference_steps=steps, guidance_scale=_SCALE, callback_on_step_end=end,
        )  # fmt: skip
        pictures: Array = np.asarray(found.images, np.float32)
        return pictures


def settings_of(asked: argparse.Namespace) -> PaintSettings:
    sampler = SamplerSettings("unipc", asked.engine_steps or asked.steps, "epsilon", "leading", zero_snr=False)
    guidance = GuidanceSettings(_SCALE, *asked.guidance)
    batches = {"batch": asked.batch, "streams": 1, "decode_batch": 1}
    return PaintSettings(sampler, guidance, denoiser="denoiser", control_scale=1.0, negative_prompt="", **batches)


def agree(engine: Engine, pipeline: Pipeline, some: Sequence[Scene], negative: Array, settings: PaintSettings) -> float:
    """PSNR in dB of one picture in two guided steps both ways; stops the bench where they differ."""
    short = replace(settings, sampler=replace(settings.sampler, steps=2), guidance=GuidanceSettings(_SCALE, *_FULL))
    ours, theirs = engine(some[:1], negative, short)[0], pipeline(some[:1], negative, 2)[0][0]
    assert theirs.std() > 1, "the reference picture is flat, so that agreement with it would prove nothing"
    found = psnr(ours, theirs)
    print(f"two steps, both guided, agree to {found:.1f} dB (bound {_LEAST_PSNR})")
    if found < _LEAST_PSNR:
        raise SystemExit("the engine does not paint what diffusers paints; no speed is reported")
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    asked = parser_of().parse_args(arguments)
    torch.set_num_threads(asked.threads or os.cpu_count() or 1)
    logging.set_verbosity_error()  # it warns of every change of precision, which is what is asked for here
    precision: PeakPrecision = "int8" if asked.int8 else "bf16"
    engine = Engine(asked)
    some, negative = scenes(asked.images, asked.side)
    settings = settings_of(asked)
    pipeline = Pipeline(asked.against == "diffusers-batched") if asked.against else None
    gc.collect()
    more: dict[str, Any] = {}
    if pipeline:
        more["psnr_db"] = agree(engine, pipeline, some, negative, settings)
    peak = measure_peak(precision, asked.threads)
    peer_steps = asked.peer_steps or asked.steps
    if pipeline and peer_steps != asked.steps:
        print(f"diffusers is timed for {peer_steps} steps and its steps' time extrapolated to {asked.steps}")
        more["peer_extrapolated_from_steps"] = peer_steps

    def paint_ours() -> Spent:
        return spent(lambda: engine(some, negative, settings)) / len(some)

    def paint_theirs() -> Spent:
        assert pipeline is not None
        found: list[tuple[float, float]] = []
        made = some if pipeline.batched else some[:1]
        took = spent(lambda: found.append(pipeline(made, negative, peer_steps)[1:]))
        stepping, finishing = found[0]
        whole = stepping * asked.steps / peer_steps + finishing
        # The steps that were not taken would have used cores as those that were.
        return Spent(whole, took.cpu_s * whole / took.wall_s) / len(made)

    counted, before = engine.flops(), replace(engine.work["denoiser"])
    ratio: Ratio | None = None
    if pipeline:
        ratio = compare(paint_theirs, paint_ours, asked.rounds, warm=False)  # both have painted, to be compared
        taken = ratio.candidate.wall_s
    else:
        alone = keep_quiet(lambda _: paint_ours().wall_s, asked.rounds)
        taken = statistics.median(alone.results)
        more |= {"rounds": alone.asked, "rounds_dropped": alone.asked - len(alone.results)}
    peak = max(peak, measure_peak(precision, asked.threads))

    work, images = engine.work["denoiser"], asked.rounds * len(some)
    flops, rows = (engine.flops() - counted) / images, work.rows - before.rows
    fill = rows / (work.capacity - before.capacity)
    share = flops / taken / peak
    print(
        f"engine, {precision}: {taken:.2f} s an image of {settings.sampler.steps} steps, {rows / images:.0f} rows each,"
        f" batches {fill:.1%} full; {flops / 1e12:.1f} TFLOP, {share:.1%} of the {peak / 1e12:.3f} TFLOP/s ceiling"
    )
    if ratio:
        print(f"engine against {asked.against}: {ratio}; {ratio.baseline.wall_s:.2f} s an image there")
        more["peer_seconds_per_image"] = ratio.baseline.wall_s
    steps, (start, stop) = settings.sampler.steps, asked.guidance
    claim = f"sd15 {asked.side}x{asked.side} {steps} steps guided {start:g}..{stop:g} in {precision}"
    more |= {"ceiling_share": share, "seconds_per_image": taken, "fill": fill}
    keep = f"sd15 {precision} {steps} of {asked.steps} steps" if asked.write else None
    finish(f"{claim} against {asked.steps} of {asked.against}", ratio, keep=keep, **more)


def parser_of() -> argparse.ArgumentParser:
    parser = bench_parser(__doc__, write="docs/performance.json")
    parser.add_argument("--against", choices=_PEERS, help="without it the engine runs alone")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--images", type=int, default=2, help="images of a round on the engine's side")
    parser.add_argument("--side", type=int, default=512, help="pixels, a multiple of 64")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--engine-steps", type=int, help="the engine's, where it is to take another number")
    parser.add_argument("--peer-steps", type=int, help="steps of diffusers that are timed; the rest is extrapolated")
    parser.add_argument("--guidance", type=float, nargs=2, default=(0.25, 0.75), metavar=("START", "STOP"))
    parser.add_argument("--batch", type=int, default=2, help="rows of one evaluation")
    parser.add_argument("--threads", type=int, default=0, help="0: all cores")
    parser.add_argument("--int8", action="store_true", help="the engine's denoiser in int8")
    parser.add_argument("--cache", type=Path, default=bench_cache(), help="folder of exported networks")
    return parser


if __name__ == "__main__":
    main()
