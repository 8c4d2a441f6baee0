"""Pictures to latents and back: Stable Diffusion 1.x's autoencoder (Rombach et al. 2022) and the tiny one (TAESD)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from diffusers import AutoencoderKL, AutoencoderTiny
from torch import nn

from ..graphs import modules
from ..graphs.weights import fill
from .denoiser import FACTOR, SMALL_FACTOR, load_part
from .graph import PICTURE, Graph, Request, normal, static

# stable-diffusion-v1-5's vae/config.json; all else, and madebyollin/taesd's, is as diffusers' classes have it.
KL: Mapping[str, Any] = {
    "layers_per_block": 2, "block_out_channels": (128, 256, 512, 512), "sample_size": 512,
    "down_block_types": ("DownEncoderBlock2D",) * 4, "up_block_types": ("UpDecoderBlock2D",) * 4,
}  # fmt: skip
SMALL: Mapping[str, Any] = {
    "block_out_channels": (16, 16), "norm_num_groups": 8,
    "down_block_types": ("DownEncoderBlock2D",) * 2, "up_block_types": ("UpDecoderBlock2D",) * 2,
}  # fmt: skip
_SMALL_TINY: Mapping[str, Any] = {
    **dict.fromkeys(("encoder_block_out_channels", "decoder_block_out_channels"), (8, 8)),
    **dict.fromkeys(("num_encoder_blocks", "num_decoder_blocks"), (1, 1)),
}


def random_vae(seed: int, small: bool = False) -> AutoencoderKL:
    """The autoencoder with seeded weights: 84 M parameters at full size."""
    torch.manual_seed(seed)
    return AutoencoderKL(**(SMALL if small else KL)).eval().requires_grad_(False)


def build(request: Request) -> AutoencoderKL | AutoencoderTiny:
    sources = request.sources
    if sources is None:
        if not request.tiny_vae:
            return random_vae(request.seed + 2, request.small)
        tiny = AutoencoderTiny(**(_SMALL_TINY if request.small else {}))
        fill(tiny, request.seed + 2)
        return tiny.eval().requires_grad_(False)
    kind = AutoencoderTiny if sources.tiny_vae else AutoencoderKL
    loaded: AutoencoderKL | AutoencoderTiny = load_part(kind, sources.tiny_vae or sources.named("diffusion"), "vae")
    return loaded.eval().requires_grad_(False)


def decoder_graph(request: Request) -> Graph:
    """latents [B, 4, h, w], scaled as the denoiser knows them, to pixel_values [B, 3, H, W] in -1..1."""
    factor, autoencoder = SMALL_FACTOR if request.small else FACTOR, build(request)
    sizes = [(height // factor, width // factor) for height, width in request.pictures]
    inputs = {"latents": normal(request.seed, 2, 4, *(side // factor for side in request.example))}
    plan = static(request.batch("vae_decoder"), inputs, ["latents"], sizes)
    autoencoder.encoder = nn.Identity()  # half of the weights, which nothing here uses
    module = modules.VaeDecoder(autoencoder)
    facts = _scale(autoencoder)
    return Graph("vae_decoder", module, inputs, ("pixel_values",), {"latents": PICTURE}, plan, facts=facts)


def encoder_graph(request: Request) -> Graph:
    """pixel_values [B, 3, H, W] in -1..1 to latents [B, 4, h, w], scaled as the denoiser knows them."""
    autoencoder = build(request)
    inputs = {"pixel_values": normal(request.seed, 2, 3, *request.example)}
    plan = static(request.batch("vae_encoder"), inputs, ["pixel_values"], request.pictures)
    autoencoder.decoder = nn.Identity()  # half of the weights, which nothing here uses
    module = modules.VaeEncoder(autoencoder)
    facts = _scale(autoencoder)
    return Graph("vae_encoder", module, inputs, ("latents",), {"pixel_values": PICTURE}, plan, facts=facts)


def _scale(autoencoder: AutoencoderKL | AutoencoderTiny) -> dict[str, float]:
    """What the graph divides latents by, or multiplies them with, from the checkpoint's config.json."""
    return {"scaling_factor": autoencoder.config.scaling_factor}


def write_latent(request: Request, folder: Path) -> None:
    """latent.json: how many pixels a latent stands for along a side, and its channels."""
    factor = SMALL_FACTOR if request.small else FACTOR
    (folder / "latent.json").write_text(json.dumps({"factor": factor, "channels": 4}) + "\n")
