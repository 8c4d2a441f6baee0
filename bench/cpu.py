"""Claim: the profile cpu paints a variant in 20 s on 2 cores, 4 times as fast as diffusers, 1.2 times OpenVINO's way.

    counterfactory setup --profile cpu [--weights DIR]
    python bench/cpu.py --profile cpu --weights DIR [--write]

One variant is 512 x 512 in LCM's 4 steps, decoding included, text encoders left out on all sides. The engine paints
with the networks that setup made. `diffusers` is StableDiffusionControlNetPipeline as it comes, with the same UNet,
LoRA merged, and ControlNet: fp32, its own decoder, an image at a time, guidance_scale 1 as LCM is used. `openvino` is
that pipeline with one IR for each network, compiled by OpenVINO's documented calls in the precision that the CPU has
(openvino_peer.py). It stands for optimum-intel, which has no pipeline with a ControlNet. Before timing, the engine and
diffusers evaluate one row from the same numbers, and must agree within the bound of 8 bits.

What setup and a run over photographs take, step by step, says bench/stages.py. `--core-seconds` is for machines that do
other work beside: all sides keep all cores busy, so that core-seconds over cores are what each takes of an idle
machine, and rounds are compared by them.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from diffusers.utils import logging
from measure import DOCS, Spent, available_cores, bench_parser, compare, finish, keep_figures, spent, stamp
from numpy.typing import NDArray
from openvino_peer import put_painters, settings
from reference import open_pipeline
from sd15 import Scene, paint_scenes, scenes

from counterfactory.engine.meter.meter import Meter
from counterfactory.engine.models.model_pool import ModelPool
from counterfactory.engine.models.networks import library_of
from counterfactory.engine.profile.profile import Profile, load_profile
from counterfactory.engine.profile.published import checkpoints_of
from counterfactory.export.cpu import placed
from counterfactory.export.graphs.parity import TOLERANCE, relative_error
from counterfactory.export.production import denoiser
from counterfactory.export.production.command import request_of, sources_of
from counterfactory.export.production.graph import Sources
from counterfactory.export.production.vae import random_vae

Array = NDArray[Any]
_SIDE = 512
_STAND_INS = "STAND-INS"


class Engine:
    """The painter that setup made."""

    def __init__(self, profile: Profile) -> None:
        self.paint, models = profile.paint, ModelPool(library_of(profile), Meter(lambda _: None))
        self.plans, self.sampler = models.paint_plans(_SIDE, _SIDE), models.sampler()

    def embed(self, scene: Scene) -> Array:
        """What the ControlNet makes of a scene's hint alone, [1, D, h, w]."""
        return self.plans.hint.run({"hint": scene.hint[None, :1]})["hint_embedding"]

    def __call__(self, some: Sequence[Scene], negative: Array) -> list[Array]:
        hints = [self.embed(scene)[0] for scene in some]
        return paint_scenes(self.plans, some, hints, negative, self.paint, self.sampler)


class Pipeline:
    """diffusers' pipeline, an image at a time."""

    def __init__(self, profile: Profile, unet: Any, controlnet: Any, vae: Any) -> None:
        self._steps = profile.paint.sampler.steps
        self._pipeline = open_pipeline(unet, controlnet, vae, profile.paint.sampler, denoiser.SCHEDULER)

    def __call__(self, scene: Scene) -> None:
        text, image, noise = (torch.from_numpy(array[None]) for array in (scene.text, scene.hint, scene.noise))
        how: dict[str, Any] = {"num_inference_steps": self._steps, "guidance_scale": 1.0, "output_type": "np"}
        self._pipeline(prompt_embeds=text, image=image, latents=noise, **how)


def agree(engine: Engine, unet: Any, controlnet: Any, scene: Scene) -> float:
    """How far the engine's painter is from diffusers' networks on one row; stops the bench where that is too far."""
    latents = scene.noise[None]
    feeds = {"latents": latents, "timestep": np.array([499]), "text": scene.text[None]}
    feeds["hint_embedding"] = engine.embed(scene)
    found = engine.plans.denoiser.run({**feeds, "control_scale": np.ones(1, np.float32)})["prediction"]
    row = [torch.from_numpy(array) for array in (latents, np.array([499]), scene.text[None], scene.hint[None])]
    with torch.no_grad():
        down, mid = controlnet(*row[:3], controlnet_cond=row[3], return_dict=False)
        added = {"down_block_additional_residuals": down, "mid_block_additional_residual": mid}
        wanted = unet(*row[:3], **added, return_dict=False)[0]
    error = relative_error(found, wanted.numpy())
    print(f"one evaluation is off by {error:.3f} of diffusers' (bound {TOLERANCE['int8']})")
    if error > TOLERANCE["int8"]:
        raise SystemExit("the engine does not compute what diffusers computes; no speed is reported")
    return error


def by_cores(work: Callable[[], object], times: int) -> Spent:
    """What `work` takes of an idle machine, of the core-seconds that it took here, over `times`."""
    took = spent(work)
    return Spent(took.cpu_s / available_cores() / times, took.cpu_s / times)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = bench_parser(__doc__, write="docs/cpu.json")
    parser.add_argument("--profile", default="cpu")
    parser.add_argument("--weights", type=Path, required=True, help="the folder that setup fetched to")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--images", type=int, default=2, help="images of a round on the engine's side")
    parser.add_argument("--core-seconds", action="store_true", help="compare core-seconds: the machine does other work")
    asked = parser.parse_args(arguments)
    logging.set_verbosity_error()
    torch.set_num_threads(available_cores())
    profile = load_profile(asked.profile)
    assert profile.weights is not None, "it has something to fetch"
    more: dict[str, Any] = {"weights": "stand-ins" if (asked.weights / _STAND_INS).is_file() else "published"}
    engine = Engine(profile)
    some, negative = scenes(asked.images, _SIDE)
    request = request_of(profile, placed(sources_of(profile.weights, Sources()), asked.weights))
    unet, controlnet, vae = denoiser.build_unet(request), denoiser.build_controlnet(request, 0), random_vae(3)
    more["evaluation_error"] = agree(engine, unet, controlnet, some[0])
    reference = Pipeline(profile, unet, controlnet, vae)
    others = copy.copy(unet), copy.copy(controlnet), copy.copy(vae)
    put_painters(*others, settings(available_cores()))
    peer = Pipeline(profile, *others)

    def timed(work: Callable[[], object], times: int) -> Callable[[], Spent]:
        if asked.core_seconds:
            return lambda: by_cores(work, times)
        return lambda: spent(work) / times

    ours = timed(lambda: engine(some, negative), len(some))
    figures: dict[str, float] = {}
    taken: list[float] = []
    ours()  # allocates
    peer(some[0])  # compiles
    for name, pipeline in (("diffusers", reference), ("optimum_intel", peer)):
        theirs = timed(partial(pipeline, some[0]), 1)
        if asked.core_seconds:
            pairs = [(theirs().wall_s, ours().wall_s) for _ in range(asked.rounds)]
            figures[f"ratio_{name}"] = median(a / b for a, b in pairs)
            figures[f"seconds_{name}"] = median(a for a, _ in pairs)
            taken += [b for _, b in pairs]
        else:
            ratio = compare(theirs, ours, asked.rounds, warm=False)
            figures[f"ratio_{name}"], figures[f"seconds_{name}"] = ratio.median, ratio.baseline.wall_s
            taken.append(ratio.candidate.wall_s)
        told = f"{figures[f'seconds_{name}']:.1f} s a variant, {figures[f'ratio_{name}']:.2f} times the engine's"
        print(f"{name}: {told}")
    more["download_gb"] = sum(one.bytes for one in checkpoints_of(profile.weights)) / 1e9
    more["clock"] = "core-seconds over cores" if asked.core_seconds else "wall"
    row = {"seconds_per_variant": median(taken), **figures, **more}
    row = {name: round(value, 3) if isinstance(value, float) else value for name, value in row.items()}
    if asked.write:
        keep_figures(DOCS / "cpu.json", {**row, **stamp()})
    finish(f"profile {profile.name}: a variant in {profile.paint.rows_per_variant} rows", **row)


if __name__ == "__main__":
    main()
