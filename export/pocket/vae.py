"""The pocket autoencoder: diffusers' AutoencoderTiny, factor 4, four latent channels.

Vehicles and people are small and carry the labels, so their pixels count more. A little noise on the latents
teaches the decoder to forgive what a denoiser leaves behind.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from diffusers import AutoencoderTiny
from torch.nn import functional as F

from counterfactory.engine.pocket.worlds import EMBEDDED, World

from .data import HELD_OUT, TRAIN, ScenePool, as_pixels
from .older import take_over
from .training import Recipe, batches, fit

RECIPES = {
    "streets": Recipe(steps=1400, lr=2e-3, seed=11, weight_decay=1e-4, ema=0.995),
    "wide": Recipe(steps=4400, lr=1.5e-3, seed=11, weight_decay=1e-4, ema=0.998, save_every=100),
}
# The wide world's pictures hold more than four channels of 32 x 32 can say.
LATENT_CHANNELS = {"streets": 4, "wide": 8}
# The decoder goes on alone, with the encoder as it is: what rests on the latents need not wait for it.
POLISH = {
    "streets": Recipe(steps=1200, lr=1e-3, seed=12, weight_decay=1e-4, ema=0.995, save_every=100),
    "wide": Recipe(steps=4000, lr=1e-3, seed=12, weight_decay=1e-4, ema=0.998, save_every=100),
}
_SEED = 11
_BATCH = 16
_LATENT_NOISE, _POLISH_NOISE = 0.05, 0.02
_REGION = 8  # pixels in which detail is counted together


def build(latent_channels: int = 4) -> AutoencoderTiny:
    """The autoencoder with seeded initial weights."""
    torch.manual_seed(_SEED)
    return AutoencoderTiny(
        latent_channels=latent_channels,
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


def train(
    work: Path, world: World = EMBEDDED, workers: int = 0, older: AutoencoderTiny | None = None
) -> AutoencoderTiny:
    """Train, or load the finished training, from `work`; a training begins with the weights of `older`, if any."""
    recipe = RECIPES[world.name]
    vae = build(LATENT_CHANNELS[world.name])
    if older is not None:
        take_over(vae, older)
    vae = vae.to(memory_format=torch.channels_last)
    pool = ScenePool(stream=TRAIN, size=3000, fresh=4, world=world, workers=workers)

    def loss_of(step: int) -> torch.Tensor:
        pixels, weight = _batch(pool, recipe, step)
        with torch.autocast("cpu", torch.bfloat16):
            latents = vae.encoder(pixels)
            decoded = vae.decoder(_noisy(latents, _LATENT_NOISE))
        return _difference(decoded.float(), pixels, weight) + 1e-3 * F.relu(latents.float().square().mean() - 1)

    trained = fit("vae", vae, recipe, loss_of, work)
    assert isinstance(trained, AutoencoderTiny)
    return trained


def polish(work: Path, vae: AutoencoderTiny, world: World = EMBEDDED, workers: int = 0) -> None:
    """Train the decoder of a trained autoencoder on, or load what that came to.

    It is asked for as much detail in each small region as there is: errors of pixels alone leave what latents do not
    tell smooth.
    """
    recipe = POLISH[world.name]
    pool = ScenePool(stream=TRAIN, size=3000, fresh=4, world=world, workers=workers)

    def loss_of(step: int) -> torch.Tensor:
        pixels, weight = _batch(pool, recipe, step)
        with torch.autocast("cpu", torch.bfloat16):
            with torch.no_grad():
                latents = vae.encoder(pixels)
            decoded = vae.decoder(_noisy(latents, _POLISH_NOISE))
        made = decoded.float()
        return _difference(made, pixels, weight) + (detail(made) - detail(pixels)).abs().mean()

    fit("vae_decoder", vae.decoder, recipe, loss_of, work)


def _batch(pool: ScenePool, recipe: Recipe, step: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Pictures [B, 3, 128, 128] in -1..1 of a step, and what an error costs at each pixel, [B, 1, 128, 128]."""
    pool.advance(step)
    index = batches(recipe.seed, step, _BATCH, pool.size).numpy()
    pixels = as_pixels(pool.images[index]).to(memory_format=torch.channels_last)
    return pixels, 1 + 4 * torch.from_numpy(pool.masks[index] >= pool.world.first_object).float()[:, None]


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


@torch.no_grad()
def psnr(vae: AutoencoderTiny, world: World, count: int) -> float:
    """Mean PSNR in dB of `count` held-out pictures encoded and decoded, over 8-bit levels."""
    images = np.stack([world.draw(world.scene(HELD_OUT, i)).picture for i in range(count)])
    found = []
    for start in range(0, count, _BATCH):
        pixels = as_pixels(images[start : start + _BATCH])
        decoded = vae.decoder(vae.encoder(pixels)).clamp(-1, 1)
        error = ((decoded - pixels) / 2).square().mean((1, 2, 3))
        found += (-10 * error.log10()).tolist()
    return float(np.mean(found))
