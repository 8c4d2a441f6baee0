"""The pocket autoencoder: diffusers' AutoencoderTiny, factor 4, four latent channels.

Vehicles and people are small and carry the labels, so their pixels count more. A little noise on the latents
teaches the decoder to forgive what a denoiser leaves behind.
"""

from __future__ import annotations

from pathlib import Path

import torch
from diffusers import AutoencoderTiny
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


def gradients(pictures: torch.Tensor) -> torch.Tensor:
    """Differences to the pixels above and to the left, [B, 6, H - 1, W - 1], of pictures [B, 3, H, W]."""
    inner = pictures[..., 1:, 1:]
    return torch.cat([inner - pictures[..., :-1, 1:], inner - pictures[..., 1:, :-1]], 1)


def detail(pictures: torch.Tensor) -> torch.Tensor:
    """The mean absolute Laplacian of grey in regions, [B, 1, H / 8, W / 8], of pictures [B, 3, H, W]."""
    kernel = torch.tensor([[0.0, 1, 0], [1, -4, 1], [0, 1, 0]])[None, None]
    return F.avg_pool2d(F.conv2d(pictures.mean(1, keepdim=True), kernel, padding=1).abs(), _REGION)


def train(work: Path, workers: int = 0) -> AutoencoderTiny:
    """Train, or load the finished training, from `work`."""
    vae = build().to(memory_format=torch.channels_last)
    pool = ScenePool(stream=TRAIN, size=3000, fresh=4, workers=workers)

    def loss_of(step: int) -> torch.Tensor:
        pixels, weight = _batch(pool, RECIPE, step)
        with torch.autocast("cpu", torch.bfloat16):
            latents = vae.encoder(pixels)
            decoded = vae.decoder(_noisy(latents, _LATENT_NOISE))
        return _difference(decoded.float(), pixels, weight) + 1e-3 * F.relu(latents.float().square().mean() - 1)

    return fit("vae", vae, RECIPE, loss_of, work)


def polish(work: Path, vae: AutoencoderTiny, workers: int = 0) -> None:
    """Train the decoder of a trained autoencoder on, or load what that came to.

    It is asked for as much detail in each small region as there is: errors of pixels alone leave what latents do not
    tell smooth.
    """
    pool = ScenePool(stream=TRAIN, size=3000, fresh=4, workers=workers)

    def loss_of(step: int) -> torch.Tensor:
        pixels, weight = _batch(pool, POLISH, step)
        with torch.autocast("cpu", torch.bfloat16):
            with torch.no_grad():
                latents = vae.encoder(pixels)
            decoded = vae.decoder(_noisy(latents, _POLISH_NOISE))
        made = decoded.float()
        return _difference(made, pixels, weight) + (detail(made) - detail(pixels)).abs().mean()

    fit("vae_decoder", vae.decoder, POLISH, loss_of, work)


def _batch(pool: ScenePool, recipe: Recipe, step: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Pictures [B, 3, 128, 128] in -1..1 of a step, and what an error costs at each pixel, [B, 1, 128, 128]."""
    pool.advance(step)
    index = batches(recipe.seed, step, _BATCH, pool.size).numpy()
    pixels = as_pixels(pool.images[index]).to(memory_format=torch.channels_last)
    return pixels, 1 + 4 * torch.from_numpy(pool.masks[index] >= EMBEDDED.first_object).float()[:, None]


def _noisy(latents: torch.Tensor, share: float) -> torch.Tensor:
    return latents + torch.randn_like(latents) * latents.detach().float().std() * share


def _difference(decoded: torch.Tensor, pixels: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    error, edges = decoded - pixels, gradients(decoded) - gradients(pixels)
    loss: torch.Tensor = (
        2 * (weight * error.square()).mean()
        + 0.5 * (weight * error.abs()).mean()
        + 0.5 * (weight[..., 1:, 1:] * edges.abs()).mean()
    )
    return loss
