"""Claim: a whole image of Stable Diffusion 1.5's size takes an eighth of the time that diffusers' default takes.

512 x 512, 20 UniPC steps, guidance 7.5, decoding included, random weights, so that this is about speed only. The
engine embeds each hint once, runs the fused step in full batches of rows from several images, and guides on a part of
the steps (`--guidance START STOP`, shares of the steps); diffusers' StableDiffusionControlNetPipeline guides all.
`--against reference` is that pipeline as it comes, in fp32, an image at a time; `--against diffusers-batched` in
bf16, channels-last, all images in one call. Before timing, both paint one image in two steps, both guided, from the
same noise, and must agree. Text encoders are left out on both sides. `--engine-steps N` gives the engine fewer steps
than the pipeline, for schedules that keep quality. `--peer-steps N` times the pipeline for fewer steps and takes the
rest for alike; the output says so. The last line is JSON.
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import os
import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from diffusers import StableDiffusionControlNetPipeline, UniPCMultistepScheduler
from diffusers.utils import logging
from measure import Ratio, Spent, compare, finish, keep_quiet, spent
from numpy.typing import NDArray

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
from counterfactory.export.production.stable_diffusion import SEED, denoiser_sd15
from counterfactory.export.production.vae import random_vae

Array = NDArray[Any]
_SCALE = 7.5
_FULL = (0.0, 1.0)
_PEERS = ("reference", "diffusers-batched")
# PSNR in dB of the picture after two steps; random weights amplify rounding, so this is far below what trained ones
# give. Pictures of other noise stand at about 10 dB.
_LEAST_PSNR = 20.0


@dataclass(frozen=True)
class Options:
    """What is measured: see the arguments of the command."""

    against: str | None = None
    rounds: int = 3
    images: int = 2
    side: int = 512
    steps: int = 20
    engine_steps: int | None = None
    peer_steps: int | None = None
    guidance: tuple[float, float] = (0.25, 0.75)
    batch: int = 2
    threads: int = 0
    int8: bool = False
    cache: Path | None = None


def default_cache() -> Path:
    """Where networks too large to make each time are kept."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "counterfactory" / "bench"


def in_process(work: Callable[..., Any], *args: Any) -> Any:
    """`work(*args)` in a process of its own, which gives all its memory back."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(work, *args).result()


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


def scenes(count: int, side: int) -> tuple[list[Scene], Array]:
    """Seeded scenes, and the text states of the negative prompt."""
    random = np.random.default_rng(15)
    texts = random.standard_normal((count + 1, sd15.TOKENS, sd15.SD15["cross_attention_dim"])).astype(np.float32)
    edges = (random.random((count, 1, side, side)) < 0.1).astype(np.float32)
    return [Scene(f"{i:064x}", np.repeat(edges[i], 3, 0), texts[i + 1]) for i in range(count)], texts[0]


class Engine:
    """The engine's way: the painter's plans at Stable Diffusion 1.5's size."""

    def __init__(self, asked: Options, cache: Path) -> None:
        exported = in_process(denoiser_sd15, cache)
        int8 = cache / "denoiser_int8.xml"
        latent = (asked.side // sd15.FACTOR,) * 2
        sizes = {"latents": latent, "hint_embedding": latent}
        if asked.int8:
            feeds = {k: v.numpy() for k, v in sd15.example_inputs(asked.batch, latent).items()}
            in_process(quantise_once, exported.denoiser, int8, feeds)

        def opened(path: Path, batch: int, its: dict[str, Any], work: Work) -> Batched:
            session = open_session(path, batch=batch, precision="bf16", threads=asked.threads, sizes=its)
            return Batched(session, lambda: work)

        self.work = {name: Work() for name in ("hint", "denoiser", "decoder")}
        self.plans = PaintPlans(
            opened(exported.hint, 1, {"hint": (asked.side,) * 2}, self.work["hint"]),
            opened(int8 if asked.int8 else exported.denoiser, asked.batch, sizes, self.work["denoiser"]),
            opened(exported.hint.parent / "vae_decoder.xml", 1, {"latents": latent}, self.work["decoder"]),
            (4, *latent),
        )
        self._flops = {
            "hint": count_flops(exported.hint, 1, {"hint": (asked.side,) * 2}),
            "denoiser": count_flops(exported.denoiser, 1, sizes),
            "decoder": count_flops(exported.hint.parent / "vae_decoder.xml", 1, {"latents": latent}),
        }

    def __call__(self, some: Sequence[Scene], negative: Array, settings: PaintSettings) -> list[Array]:
        """Pictures, uint8 RGB [H, W, 3], of scenes in order."""
        hints = [self.plans.hint.run({"hint": scene.hint[None]})["hint_embedding"][0] for scene in some]
        jobs = [PaintJob(scene.key, scene.text, hint, self.plans) for scene, hint in zip(some, hints, strict=True)]
        painted = dict(paint(jobs, negative, settings))
        return [painted[i] for i in range(len(some))]

    def flops(self, rows: dict[str, int]) -> int:
        """Operations of that many rows of each plan."""
        return sum(self._flops[name] * count for name, count in rows.items())

    def rows(self) -> dict[str, int]:
        """Rows that each plan has run so far."""
        return {name: work.rows for name, work in self.work.items()}


class Pipeline:
    """diffusers' way."""

    def __init__(self, batched: bool) -> None:
        scheduler = UniPCMultistepScheduler(
            beta_start=0.00085,
            beta_end=0.012,
            beta_schedule="scaled_linear",
            steps_offset=1,
            timestep_spacing="leading",
        )
        self._pipeline = StableDiffusionControlNetPipeline(
            vae=random_vae(SEED + 2),
            text_encoder=None,
            tokenizer=None,
            unet=sd15.random_unet(SEED),
            controlnet=sd15.random_controlnet(SEED + 1),
            scheduler=scheduler,
            safety_checker=None,
            feature_extractor=None,
            requires_safety_checker=False,
        )
        self._pipeline.set_progress_bar_config(disable=True)
        self.batched = batched
        if batched:
            for part in (self._pipeline.unet, self._pipeline.controlnet, self._pipeline.vae):
                part.to(torch.bfloat16).to(memory_format=torch.channels_last)

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
        dtype = self._pipeline.unet.dtype

        def tensor(arrays: Sequence[Array]) -> torch.Tensor:
            return torch.from_numpy(np.stack(arrays)).to(dtype)

        def end(_pipeline: Any, _step: int, _timestep: Any, kept: dict[str, Any]) -> dict[str, Any]:
            ends.append(time.perf_counter())
            return kept

        side = some[0].hint.shape[-1] // sd15.FACTOR
        noise = [generator(scene.key, "noise").standard_normal((4, side, side), np.float32) for scene in some]
        found = self._pipeline(
            prompt_embeds=tensor([scene.text for scene in some]),
            negative_prompt_embeds=tensor([negative] * len(some)),
            image=tensor([scene.hint for scene in some]),
            latents=tensor(noise),
            num_inference_steps=steps,
            guidance_scale=_SCALE,
            output_type="np",
            callback_on_step_end=end,
        )
        pictures: Array = np.asarray(found.images, np.float32)
        return pictures


def psnr(a: Array, b: Array) -> float:
    """Of two 8-bit pictures, dB."""
    error = float(np.mean((a.astype(np.float64) - b.astype(np.float64)) ** 2))
    return float(10 * np.log10(255**2 / max(error, 1e-9)))


def settings_of(asked: Options) -> PaintSettings:
    """How the engine paints."""
    return PaintSettings(
        sampler=SamplerSettings("unipc", asked.engine_steps or asked.steps, "epsilon", "leading", zero_snr=False),
        guidance=GuidanceSettings(_SCALE, *asked.guidance),
        denoiser="denoiser",
        control_scale=1.0,
        negative_prompt="",
        batch=asked.batch,
        streams=1,
        decode_batch=1,
    )


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


def main_sd15(against: str | None, rounds: int) -> None:
    """The bench with default settings; `against` is "reference", "diffusers-batched" or None for the engine alone."""
    run_bench(Options(against=against, rounds=rounds))


def run_bench(asked: Options) -> None:
    """Measure, print, and end with the JSON line."""
    if asked.against not in (None, *_PEERS):
        raise SystemExit(f"--against takes {' or '.join(_PEERS)}, got {asked.against}")
    torch.set_num_threads(asked.threads or os.cpu_count() or 1)
    logging.set_verbosity_error()  # it warns of every change of precision, which is what is asked for here
    precision: PeakPrecision = "int8" if asked.int8 else "bf16"
    engine = Engine(asked, (asked.cache or default_cache()) / "sd15")
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

    before = engine.rows()
    denoised = replace(engine.work["denoiser"])
    ratio: Ratio | None = None
    if pipeline:
        ratio = compare(paint_theirs, paint_ours, asked.rounds, warm=False)  # both have painted, to be compared
        taken = ratio.candidate.wall_s
    else:
        alone = keep_quiet(lambda _: paint_ours().wall_s, asked.rounds)
        taken = statistics.median(alone.results)
        more |= {"rounds": alone.asked, "rounds_dropped": alone.asked - len(alone.results)}
    peak = max(peak, measure_peak(precision, asked.threads))

    rows = {name: count - before[name] for name, count in engine.rows().items()}
    flops = engine.flops(rows) / (asked.rounds * len(some))
    work = engine.work["denoiser"]
    fill = (work.rows - denoised.rows) / (work.capacity - denoised.capacity)
    share = flops / taken / peak
    print(
        f"engine, {precision}: {taken:.2f} s an image of {settings.sampler.steps} steps, "
        f"{rows['denoiser'] / asked.rounds / len(some):.0f} rows each, "
        f"batches {fill:.1%} full; {flops / 1e12:.1f} TFLOP, {share:.1%} of the {peak / 1e12:.3f} TFLOP/s ceiling"
    )
    if ratio:
        print(f"engine against {asked.against}: {ratio}; {ratio.baseline.wall_s:.2f} s an image there")
        more["peer_seconds_per_image"] = ratio.baseline.wall_s
    finish(
        f"sd15 {asked.side}x{asked.side} {settings.sampler.steps} steps guided {asked.guidance[0]:g}.."
        f"{asked.guidance[1]:g} in {precision} against {asked.steps} of {asked.against}",
        ratio,
        share,
        seconds_per_image=taken,
        fill=fill,
        **more,
    )


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    given = Options()
    parser.add_argument("--against", choices=_PEERS, help="without it the engine runs alone")
    parser.add_argument("--rounds", type=int, default=given.rounds)
    parser.add_argument("--images", type=int, default=given.images, help="images of a round on the engine's side")
    parser.add_argument("--side", type=int, default=given.side, help="pixels, a multiple of 64")
    parser.add_argument("--steps", type=int, default=given.steps)
    parser.add_argument("--engine-steps", type=int, help="the engine's, where it is to take another number")
    parser.add_argument("--peer-steps", type=int, help="steps of diffusers that are timed; the rest is extrapolated")
    parser.add_argument("--guidance", type=float, nargs=2, default=given.guidance, metavar=("START", "STOP"))
    parser.add_argument("--batch", type=int, default=given.batch, help="rows of one evaluation")
    parser.add_argument("--threads", type=int, default=given.threads, help="0: all cores")
    parser.add_argument("--int8", action="store_true", help="the engine's denoiser in int8")
    parser.add_argument("--cache", type=Path, default=default_cache(), help="folder of exported networks")
    asked = vars(parser.parse_args())
    run_bench(Options(**(asked | {"guidance": tuple(asked["guidance"])})))


if __name__ == "__main__":
    main()
