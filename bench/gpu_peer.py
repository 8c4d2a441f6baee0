"""diffusers on the card of this machine, over random networks of a10g's sizes: what our speed is compared with."""

from __future__ import annotations

import time

import torch
from gpu_card import Figures
from reference import guide_some, open_pipeline

from counterfactory.engine.profile.profile import load_profile
from counterfactory.export.production.denoiser import random_controlnet, random_unet
from counterfactory.export.production.vae import random_vae

_PICTURES = 8  # of a call, as the bench's peer on a GPU has it


@torch.no_grad()
def check_peer() -> Figures:
    """Pictures a second of a10g's steps and guidance by diffusers' pipeline in f16, channels last, warm."""
    paint = load_profile("a10g").paint
    with torch.device("cuda"):
        unet, controlnet, vae = (
            network.half().to(memory_format=torch.channels_last)
            for network in (random_unet(0), random_controlnet(0), random_vae(0))
        )
        states, negative = (torch.randn(_PICTURES, 77, 768).half() for _ in range(2))
        image = (torch.rand(_PICTURES, 3, 512, 512) < 0.2).half()
    pipeline = open_pipeline(unet, controlnet, vae, paint.sampler)
    spent = 0.0
    for _ in range(3):
        began = time.perf_counter()
        pipeline(
            prompt_embeds=states, negative_prompt_embeds=negative, image=image, height=512, width=512,
            num_inference_steps=paint.sampler.steps, **guide_some(paint, states, negative, image),
        )  # fmt: skip
        torch.cuda.synchronize()
        spent = time.perf_counter() - began
    return {"pictures": _PICTURES, "pictures_per_s": _PICTURES / spent}
