"""The pocket autoencoder: diffusers' AutoencoderTiny, factor 4, four latent channels.

Vehicles and people are small and carry the labels, so their pixels count more. A little noise on the latents
teaches the decoder to forgive what a denoiser leaves behind.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
from diffusers import AutoencoderTiny
from torch import Tensor
from torch.nn import functional as F

from counterfactory.engine.pocket.worlds import EMBEDDED

from .data import TRAIN, ScenePool, as_pixels
from .training import Recipe, batches, fit

RECIPE = Recipe(steps=1400, lr=2e-3, seed=11, weight_decay=1e-4, ema=0.995)
LATENT_CHANNELS = 4
# The decoder goes on alone, with the encoder as it is: what rests on the latents need not wait for it.
POLISH = Recipe(steps=1200, lr=1e-3, seed=12, weight_decay=1e-4, ema=0.995, save_every=100)
_SEED = 11
_BATCH = 16
_LATENT_NOISE, _POLISH_NOISE = 0.05, 0.02
_REGION = 8  # pixels in which detail is counted together


def build() -> AutoencoderTiny:
    """The autoencoder with seeded initial weights."""
    torch.manual_seed(_SEED)
    return AutoencoderTiny(
        latent_channels=LATENT_CHANNELS,
        encoder_block_out_channels=(32, 32, 32),
        decoder_block_out_channels=(32, 32, 32),
        num_encoder_blocks=(1, 2, 3),
        num_decoder_blocks=(3, 2, 1),
        upsampling_scaling_factor=2,
        scaling_factor=1.0,
    )


def gradients(pictures: Tensor) -> Tensor:
    """Differences to the pixels above and to the left, [B, 6, H - 1, W - 1], of pictures [B, 3, H, W]."""
    inner = pictures[..., 1:, 1:]
    return torch.cat([inner - pictures[..., :-1, 1:], inner - pictures[..., 1:, :-1]], 1)


def detail(pictures: Tensor) -> Tensor:
    """The mean absolute Laplacian of grey in regions, [B, 1, H / 8, W / 8], of pictures [B, 3, H, W]."""
    kernel = torch.tensor([[0.0, 1, 0], [1, -4, 1], [0, 1, 0]])[None, None]
    return F.avg_pool2d(F.conv2d(pictures.mean(1, keepdim=True), kernel, padding=1).abs(), _REGION)


def train(work: Path, workers: int = 0) -> AutoencoderTiny:
    """Train, or load the finished training, from `work`."""
    vae = build().to(memory_format=torch.channels_last)
    return fit("vae", vae, RECIPE, _loss(vae, RECIPE, _LATENT_NOISE, workers, polish=False), work)


def polish(work: Path, vae: AutoencoderTiny, workers: int = 0) -> None:
    """Train the decoder of a trained autoencoder on, or load what that came to.

    It is asked for as much detail in each small region as there is: errors of pixels alone leave what latents do not
    tell smooth.
    """
    fit("vae_decoder", vae.decoder, POLISH, _loss(vae, POLISH, _POLISH_NOISE, workers, polish=True), work)


def _loss(vae: AutoencoderTiny, recipe: Recipe, noise: float, workers: int, polish: bool) -> Callable[[int], Tensor]:
    """The loss of a step, with noise of a share of the latents' spread."""
    pool = ScenePool(stream=TRAIN, size=3000, fresh=4, workers=workers)

    def loss_of(step: int) -> Tensor:
        pool.advance(step)
        index = batches(recipe.seed, step, _BATCH, pool.size).numpy()
        pixels = as_pixels(pool.images[index]).to(memory_format=torch.channels_last)
        weight = 1 + 4 * torch.from_numpy(pool.masks[index] >= EMBEDDED.first_object).float()[:, None]
        with torch.autocast("cpu", torch.bfloat16):
            with torch.set_grad_enabled(not polish):
                latents = vae.encoder(pixels)
            made = vae.decoder(latents + torch.randn_like(latents) * latents.detach().float().std() * noise).float()
        error, edges = made - pixels, gradients(made) - gradients(pixels)
        loss: Tensor = (
            2 * (weight * error.square()).mean()
            + 0.5 * (weight * error.abs()).mean()
            + 0.5 * (weight[..., 1:, 1:] * edges.abs()).mean()
        )
        if polish:
            return loss + (detail(made) - detail(pixels)).abs().mean()
        return loss + 1e-3 * F.relu(latents.float().square().mean() - 1)

    return loss_of
