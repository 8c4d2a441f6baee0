"""The pocket denoiser: diffusers' UNet2DConditionModel and ControlNetModel, trained together on latents of the street.

The text must rule appearance and the edges must rule layout. The world makes that easy to teach: every layout is
rendered in two appearances, and the hint of one often conditions the painting of the other, so that nothing about
weather, light or colours can be learned from edges. Text and control are each dropped at times, for guidance.
v-prediction with zero terminal SNR (Lin et al. 2023, arXiv 2305.08891).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from diffusers import AutoencoderTiny, ControlNetModel, DDIMScheduler, UNet2DConditionModel
from diffusers.models.attention_processor import AttnProcessor
from numpy.typing import NDArray
from tokenizers import Tokenizer
from torch import Tensor, nn
from transformers import CLIPModel

from counterfactory.engine.pocket.worlds import EMBEDDED
from counterfactory.kernels.edges import EdgeSettings, canny_edges

from ..graphs.modules import added_to_blocks
from .clip import encode
from .data import TRAIN, ScenePool, as_pixels
from .training import Recipe, channels_last, compiled, fit
from .vae import LATENT_CHANNELS

RECIPE = Recipe(steps=14000, lr=1.2e-3, seed=31, ema=0.998, save_every=100)
_SEED = 31
BATCH = 32
# Wide only where the picture is small, text at 16 x 16 and below: at this budget scenes are what is missing.
_CHANNELS = (32, 64, 128, 192)
_DROP_TEXT, _DROP_CONTROL = 0.1, 0.1
_OTHER_HINT = 0.7  # how often the hint is that of the layout's other appearance
_HINT_WIDTHS = (8, 16, 32)
# What an error costs by class: small things that a picture must keep, and a person looks at first, then trees.
_VEHICLES_COST, _OTHERS_COST, _TREES_COST = 5.0, 8.0, 2.0
_CROSS, _DOWN = "CrossAttnDownBlock2D", "DownBlock2D"
_CROSS_UP, _UP = "CrossAttnUpBlock2D", "UpBlock2D"


def noise_schedule() -> DDIMScheduler:
    """The noise schedule that the denoiser is trained under."""
    betas = {"beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear", "rescale_betas_zero_snr": True}
    steps = {"prediction_type": "v_prediction", "timestep_spacing": "trailing", "clip_sample": False}
    return DDIMScheduler(1000, **betas, **steps)


class Denoiser(nn.Module):
    """UNet and ControlNet as one module: what the engine runs as one graph."""

    def __init__(self, unet: UNet2DConditionModel, controlnet: ControlNetModel) -> None:
        super().__init__()
        self.unet, self.controlnet = unet, controlnet

    def forward(self, latents: Tensor, timestep: Tensor, text: Tensor, hint: Tensor, scale: Tensor) -> Tensor:
        """Predict v. latents [B, C, h, w], timestep [B], text [B, T, D], hint [B, C, 4h, 4w] in 0..1, scale [B]."""
        down, mid = self.controlnet(latents, timestep, text, controlnet_cond=hint, return_dict=False)
        by_row = scale[:, None, None, None]
        residuals = added_to_blocks([residual * by_row for residual in (*down, mid)])
        predicted: Tensor = self.unet(latents, timestep, text, **residuals, return_dict=False)[0]
        return predicted


def build() -> Denoiser:
    """The networks with seeded initial weights."""
    torch.manual_seed(_SEED)
    size: dict[str, Any] = {"layers_per_block": 1, "block_out_channels": _CHANNELS, "in_channels": LATENT_CHANNELS}
    size |= {"cross_attention_dim": 192, "attention_head_dim": 4, "norm_num_groups": 16}
    blocks = {"down_block_types": (_DOWN, *[_CROSS] * 3), "up_block_types": (*[_CROSS_UP] * 3, _UP)}
    unet = UNet2DConditionModel(sample_size=32, out_channels=LATENT_CHANNELS, **blocks, **size)
    hint = {"conditioning_channels": 1, "conditioning_embedding_out_channels": _HINT_WIDTHS}
    controlnet = ControlNetModel(down_block_types=(*[_DOWN] * 3, _CROSS), **hint, **size)
    # Both are trained from scratch here, so the zero convolutions that protect a pretrained UNet would only delay.
    last = (controlnet.controlnet_mid_block, controlnet.controlnet_cond_embedding.conv_out)
    for layer in (*controlnet.controlnet_down_blocks, *last):
        nn.init.normal_(layer.weight, std=0.02)
    # The flash kernel's backward pass is several times slower than plain matrix products on a CPU.
    unet.set_attn_processor(AttnProcessor())
    controlnet.set_attn_processor(AttnProcessor())
    return Denoiser(unet, controlnet)


class LatentPool:
    """A scene pool with what the denoiser learns from: `latents` [N, C, 32, 32], `edges` uint8 [N, 1, 128, 128], and
    `weights` [N, 1, 32, 32], what an error costs where.
    """

    def __init__(self, scenes: ScenePool, vae: AutoencoderTiny) -> None:
        self.scenes, self.vae = scenes, vae
        self.latents = torch.zeros(scenes.size, int(vae.config.latent_channels), 32, 32)
        self.edges = torch.zeros(scenes.size, 1, 128, 128, dtype=torch.uint8)
        self.weights = torch.zeros(scenes.size, 1, 32, 32)

    def hints(self, index: NDArray[np.int64]) -> Tensor:
        """What the denoiser is to follow, float32 [N, 1, 128, 128] in 0..1."""
        return self.edges[index].float() / 255

    @torch.no_grad()
    def advance(self, step: int) -> list[int]:
        """Bring the pool to the state of `step`; returns the slots that changed."""
        changed, costs, scale = self.scenes.advance(step), class_costs(), float(self.vae.config.scaling_factor)
        for start in range(0, len(changed), 64):
            index = changed[start : start + 64]
            images = self.scenes.images[index]
            with torch.autocast("cpu", torch.bfloat16):
                self.latents[index] = self.vae.encoder(as_pixels(images)).float() * scale
            self.edges[index] = torch.from_numpy(canny_edges(images, EdgeSettings()))[:, None]
            # A pixel's error costs the most that a class within two pixels asks.
            near = [cv2.dilate(costs[mask], np.ones((5, 5), np.uint8)) for mask in self.scenes.masks[index]]
            weights = [cv2.resize(cost, (32, 32), interpolation=cv2.INTER_AREA) for cost in near]
            self.weights[index] = torch.from_numpy(np.stack(weights)[:, None])
        return changed


def class_costs() -> NDArray[np.float32]:
    """What an error costs in each class, float32 [classes]."""
    costs = np.ones(len(EMBEDDED.classes), np.float32)
    costs[EMBEDDED.classes.index("vegetation")] = _TREES_COST
    costs[EMBEDDED.first_object] = _VEHICLES_COST
    costs[EMBEDDED.first_object + 1 :] = _OTHERS_COST
    return costs


@torch.no_grad()
def caption_states(
    clip: CLIPModel, tokenizer: Tokenizer, scenes: ScenePool, index: NDArray[np.int64], rng: np.random.Generator
) -> Tensor:
    """The text encoder's last states for captions of scenes that a pool holds, float32 [N, T, D]; one caption in ten is
    empty, for guidance.
    """
    ids = encode(tokenizer, [EMBEDDED.describe(scenes.scenes[i], rng) for i in index])
    ids[torch.from_numpy(rng.random(len(index)) < _DROP_TEXT)] = encode(tokenizer, [""])[0]
    with torch.autocast("cpu", torch.bfloat16):
        states = clip.text_model(input_ids=ids).last_hidden_state
    assert isinstance(states, Tensor)
    return states


def velocity_loss(
    predict: Callable[..., Tensor],
    pool: LatentPool,
    index: NDArray[np.int64],
    text: Tensor,
    hint: Tensor,
    scale: Tensor,
    rng: np.random.Generator,
) -> Tensor:
    """What the prediction of v errs at random timesteps of a pool's latents, weighted by what errors cost."""
    latents, schedule = pool.latents[index].to(memory_format=torch.channels_last), noise_schedule()
    noise, t = torch.randn_like(latents), torch.from_numpy(rng.integers(0, 1000, len(index)))
    noisy, target = schedule.add_noise(latents, noise, t), schedule.get_velocity(latents, noise, t)
    with torch.autocast("cpu", torch.bfloat16):
        predicted = predict(noisy, t, text, hint, scale)
    loss: Tensor = (pool.weights[index] * (predicted.float() - target).square()).mean()
    return loss


def train(work: Path, vae: AutoencoderTiny, clip: CLIPModel, tokenizer: Tokenizer, workers: int = 0) -> Denoiser:
    """Train, or load the finished training, from `work`."""
    denoiser = build()
    channels_last(denoiser)
    pool = LatentPool(ScenePool(stream=TRAIN, size=6000, fresh=4, styles=2, workers=workers), vae)
    predict = compiled(denoiser)

    def loss_of(step: int) -> Tensor:
        pool.advance(step)
        rng = np.random.default_rng((RECIPE.seed, step))
        index = rng.choice(pool.scenes.size, BATCH, replace=False)
        hint = pool.hints(index ^ (rng.random(BATCH) < _OTHER_HINT))
        text = caption_states(clip, tokenizer, pool.scenes, index, rng)
        control = torch.from_numpy((rng.random(BATCH) >= _DROP_CONTROL).astype(np.float32))
        return velocity_loss(predict, pool, index, text, hint, control, rng)

    return fit("denoiser", denoiser, RECIPE, loss_of, work)
