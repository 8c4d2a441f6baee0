"""The pocket denoiser: diffusers' UNet2DConditionModel and ControlNetModel, trained together on latents of the street.

The text must rule appearance and the edges must rule layout. The world makes that easy to teach: every layout is
rendered in two appearances, and the hint of one often conditions the painting of the other, so that nothing about
weather, light or colours can be learned from edges. Text and control are each dropped at times, for guidance.
v-prediction with zero terminal SNR (Lin et al. 2023, arXiv 2305.08891).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import cv2
import numpy as np
import torch
from diffusers import AutoencoderTiny, ControlNetModel, DDIMScheduler, UNet2DConditionModel
from diffusers.models.attention_processor import AttnProcessor
from numpy.typing import NDArray
from tokenizers import Tokenizer
from torch import nn
from transformers import CLIPModel

from counterfactory.engine.pocket.worlds import EMBEDDED
from counterfactory.kernels.edges import EdgeSettings, canny_edges

from .clip import encode
from .convnets import channels_last
from .data import TRAIN, ScenePool, as_pixels
from .training import Recipe, compiled, fit
from .vae import LATENT_CHANNELS

RECIPE = Recipe(steps=14000, lr=1.2e-3, seed=31, ema=0.998, save_every=100)
_SEED = 31
_BATCH = 32
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
    return DDIMScheduler(
        1000,
        beta_start=0.00085,
        beta_end=0.012,
        beta_schedule="scaled_linear",
        prediction_type="v_prediction",
        rescale_betas_zero_snr=True,
        timestep_spacing="trailing",
        clip_sample=False,
    )


class Denoiser(nn.Module):
    """UNet and ControlNet as one module: what the engine runs as one graph."""

    def __init__(self, unet: UNet2DConditionModel, controlnet: ControlNetModel) -> None:
        super().__init__()
        self.unet, self.controlnet = unet, controlnet

    def forward(
        self, latents: torch.Tensor, timestep: torch.Tensor, text: torch.Tensor, hint: torch.Tensor, scale: torch.Tensor
    ) -> torch.Tensor:
        """Predict v. latents [B, C, h, w], timestep [B], text [B, T, D], hint [B, C, 4h, 4w] in 0..1, scale [B]."""
        down, mid = self.controlnet(latents, timestep, text, controlnet_cond=hint, return_dict=False)
        by_row = scale[:, None, None, None]
        residuals = [r * by_row for r in down]
        out = self.unet(
            latents,
            timestep,
            text,
            down_block_additional_residuals=residuals,
            mid_block_additional_residual=mid * by_row,
            return_dict=False,
        )
        predicted = out[0]
        assert isinstance(predicted, torch.Tensor)
        return predicted


def build() -> Denoiser:
    """The networks with seeded initial weights."""
    torch.manual_seed(_SEED)
    unet = UNet2DConditionModel(
        sample_size=32,
        in_channels=LATENT_CHANNELS,
        out_channels=LATENT_CHANNELS,
        layers_per_block=1,
        block_out_channels=_CHANNELS,
        down_block_types=(_DOWN, _CROSS, _CROSS, _CROSS),
        up_block_types=(_CROSS_UP, _CROSS_UP, _CROSS_UP, _UP),
        cross_attention_dim=192,
        attention_head_dim=4,
        norm_num_groups=16,
    )
    controlnet = ControlNetModel(
        in_channels=LATENT_CHANNELS,
        conditioning_channels=1,
        layers_per_block=1,
        block_out_channels=_CHANNELS,
        down_block_types=(_DOWN, _DOWN, _DOWN, _CROSS),
        cross_attention_dim=192,
        attention_head_dim=4,
        norm_num_groups=16,
        conditioning_embedding_out_channels=_HINT_WIDTHS,
    )
    # Both are trained from scratch here, so the zero convolutions that protect a pretrained UNet would only delay.
    zeros = [
        *controlnet.controlnet_down_blocks,
        controlnet.controlnet_mid_block,
        controlnet.controlnet_cond_embedding.conv_out,
    ]
    for layer in zeros:
        nn.init.normal_(layer.weight, std=0.02)
    # The flash kernel's backward pass is several times slower than plain matrix products on a CPU.
    unet.set_attn_processor(AttnProcessor())
    controlnet.set_attn_processor(AttnProcessor())
    return Denoiser(unet, controlnet)


@dataclass
class LatentPool:
    """A scene pool with what the denoiser learns from: latents, hints, and what an error costs where."""

    scenes: ScenePool
    vae: AutoencoderTiny
    latents: torch.Tensor = field(init=False)
    edges: torch.Tensor = field(init=False)
    weights: torch.Tensor = field(init=False)
    scaling: float = field(init=False)
    costs: NDArray[np.float32] = field(init=False)

    def __post_init__(self) -> None:
        size = self.scenes.size
        self.latents = torch.zeros(size, int(self.vae.config.latent_channels), 32, 32)
        self.edges = torch.zeros(size, 1, 128, 128, dtype=torch.uint8)
        self.weights = torch.zeros(size, 1, 32, 32)
        self.scaling = float(self.vae.config.scaling_factor)
        self.costs = class_costs()

    def hints(self, index: NDArray[np.int64]) -> torch.Tensor:
        """What the denoiser is to follow, float32 [N, 1, 128, 128] in 0..1."""
        return self.edges[index].float() / 255

    @torch.no_grad()
    def advance(self, step: int) -> list[int]:
        """Bring the pool to the state of `step`; returns the slots that changed."""
        changed = self.scenes.advance(step)
        for start in range(0, len(changed), 64):
            index = changed[start : start + 64]
            images = self.scenes.images[index]
            with torch.autocast("cpu", torch.bfloat16):
                self.latents[index] = self.vae.encoder(as_pixels(images)).float() * self.scaling
            self.edges[index] = torch.from_numpy(canny_edges(images, EdgeSettings()))[:, None]
            weights = [
                cv2.resize(_near(m, self.costs), (32, 32), interpolation=cv2.INTER_AREA)
                for m in self.scenes.masks[index]
            ]
            self.weights[index] = torch.from_numpy(np.stack(weights)[:, None])
        return changed


def class_costs() -> NDArray[np.float32]:
    """What an error costs in each class, float32 [classes]."""
    costs = np.ones(len(EMBEDDED.classes), np.float32)
    costs[EMBEDDED.classes.index("vegetation")] = _TREES_COST
    costs[EMBEDDED.first_object] = _VEHICLES_COST
    costs[EMBEDDED.first_object + 1 :] = _OTHERS_COST
    return costs


def _near(mask: NDArray[np.uint8], costs: NDArray[np.float32]) -> NDArray[np.float32]:
    """What an error costs at each pixel, float32 [H, W]: the most that a class within two pixels asks."""
    dilated = cv2.dilate(costs[mask], np.ones((5, 5), np.uint8))
    return np.asarray(dilated, np.float32)


@torch.no_grad()
def text_states(clip: CLIPModel, ids: torch.Tensor) -> torch.Tensor:
    """What conditions the denoiser: the text encoder's last states, float32 [B, T, D]."""
    states = clip.text_model(input_ids=ids).last_hidden_state
    assert isinstance(states, torch.Tensor)
    return states


def train(
    work: Path,
    vae: AutoencoderTiny,
    clip: CLIPModel,
    tokenizer: Tokenizer,
    workers: int = 0,
) -> Denoiser:
    """Train, or load the finished training, from `work`."""
    denoiser = build()
    channels_last(denoiser)
    schedule = noise_schedule()
    pool = LatentPool(ScenePool(stream=TRAIN, size=6000, fresh=4, styles=2, workers=workers), vae)
    empty = encode(tokenizer, [""])
    predict = compiled(denoiser)

    def loss_of(step: int) -> torch.Tensor:
        pool.advance(step)
        rng = np.random.default_rng((RECIPE.seed, step))
        index = rng.choice(pool.scenes.size, _BATCH, replace=False)
        hints = index ^ (rng.random(_BATCH) < _OTHER_HINT)
        ids = encode(tokenizer, [EMBEDDED.describe(pool.scenes.scenes[i], rng, False) for i in index])
        ids[torch.from_numpy(rng.random(_BATCH) < _DROP_TEXT)] = empty[0]
        control = torch.from_numpy((rng.random(_BATCH) >= _DROP_CONTROL).astype(np.float32))
        latents = pool.latents[index].to(memory_format=torch.channels_last)
        hint = pool.hints(hints)
        noise, t = torch.randn_like(latents), torch.from_numpy(rng.integers(0, 1000, _BATCH))
        noisy = schedule.add_noise(latents, noise, t)
        target = schedule.get_velocity(latents, noise, t)
        with torch.autocast("cpu", torch.bfloat16):
            predicted = predict(noisy, t, text_states(clip, ids), hint, control)
        loss: torch.Tensor = (pool.weights[index] * (predicted.float() - target).square()).mean()
        return loss

    trained = fit("denoiser", denoiser, RECIPE, loss_of, work)
    assert isinstance(trained, Denoiser)
    return trained
