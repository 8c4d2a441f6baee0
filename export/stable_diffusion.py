"""Stable Diffusion 1.5 with a ControlNet at full size and random weights: networks to time, not to look at.

A folder arrives; hint.xml, denoiser.xml and vae_decoder.xml stand in it afterwards. The sizes are those published for
Stable Diffusion 1.5 (Rombach et al. 2022, arXiv 2112.10752) and its ControlNets (Zhang et al. 2023, arXiv 2302.05543).
Nothing is downloaded: speed does not depend on weights, and what depends on them is ignored here.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from diffusers import AutoencoderKL, ControlNetModel, UNet2DConditionModel
from torch import nn

from . import graphs
from .onnx import to_ir

TOKENS, TEXT_WIDTH, HINT_WIDTH, FACTOR = 77, 768, 320, 8
_SEED = 15
_CHANNELS = (320, 640, 1280, 1280)
_CROSS, _DOWN = "CrossAttnDownBlock2D", "DownBlock2D"
_CROSS_UP, _UP = "CrossAttnUpBlock2D", "UpBlock2D"
_ROWS = {0: "batch"}
_PICTURE = {0: "batch", 2: "height", 3: "width"}


@dataclass(frozen=True)
class Sd15Paths:
    """The exported networks; each .xml has its .bin beside it."""

    hint: Path
    denoiser: Path
    decoder: Path


def build_unet() -> UNet2DConditionModel:
    """The UNet: 860 M parameters in fp32 (3.4 GB), seeded. `attention_head_dim` 8 means eight heads in diffusers."""
    torch.manual_seed(_SEED)
    unet = UNet2DConditionModel(
        sample_size=64,
        in_channels=4,
        out_channels=4,
        layers_per_block=2,
        block_out_channels=_CHANNELS,
        down_block_types=(_CROSS, _CROSS, _CROSS, _DOWN),
        up_block_types=(_UP, _CROSS_UP, _CROSS_UP, _CROSS_UP),
        cross_attention_dim=TEXT_WIDTH,
        attention_head_dim=8,
    )
    return _frozen(unet)


def build_controlnet() -> ControlNetModel:
    """The ControlNet: 361 M parameters in fp32 (1.4 GB), seeded, its zero convolutions filled."""
    torch.manual_seed(_SEED + 1)
    controlnet = ControlNetModel(
        in_channels=4,
        conditioning_channels=3,
        layers_per_block=2,
        block_out_channels=_CHANNELS,
        down_block_types=(_CROSS, _CROSS, _CROSS, _DOWN),
        cross_attention_dim=TEXT_WIDTH,
        attention_head_dim=8,
        conditioning_embedding_out_channels=(16, 32, 96, 256),
    )
    fill_zero_convolutions(controlnet)
    return _frozen(controlnet)


def build_vae() -> AutoencoderKL:
    """The autoencoder: 84 M parameters in fp32, seeded."""
    torch.manual_seed(_SEED + 2)
    vae = AutoencoderKL(
        in_channels=3,
        out_channels=3,
        latent_channels=4,
        layers_per_block=2,
        block_out_channels=(128, 256, 512, 512),
        down_block_types=("DownEncoderBlock2D",) * 4,
        up_block_types=("UpDecoderBlock2D",) * 4,
        sample_size=512,
        scaling_factor=0.18215,
    )
    return _frozen(vae)


def fill_zero_convolutions(controlnet: ControlNetModel) -> None:
    """Give the convolutions that a fresh ControlNet starts from zero some weight: else it computes nothing.

    A runtime may fold multiplications by zero, and a comparison of outputs would not see the ControlNet.
    """
    layers = [
        *controlnet.controlnet_down_blocks,
        controlnet.controlnet_mid_block,
        controlnet.controlnet_cond_embedding.conv_out,
    ]
    for layer in layers:
        nn.init.normal_(layer.weight, std=0.5 * layer.weight[0].numel() ** -0.5)


def example_inputs(rows: int, height: int, width: int) -> dict[str, torch.Tensor]:
    """Seeded inputs of the denoiser for `rows` pictures of `height` x `width` pixels, by name and in order."""
    generator = torch.Generator().manual_seed(_SEED)
    size = (height // FACTOR, width // FACTOR)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator)

    return {
        "latents": normal(rows, 4, *size),
        "timestep": torch.linspace(999, 1, rows).long(),
        "text": normal(rows, TOKENS, TEXT_WIDTH),
        "hint_embedding": normal(rows, HINT_WIDTH, *size),
        "control_scale": torch.ones(rows),
    }


def denoiser_sd15(folder: Path) -> Sd15Paths:
    """Export all three networks to `folder`, weights in fp16 (2.6 GB in all); a finished export is taken as it is.

    Takes minutes, 12 GB of memory at most and, while it runs, 5 GB of temporary files on the disk.
    """
    paths = Sd15Paths(folder / "hint.xml", folder / "denoiser.xml", folder / "vae_decoder.xml")
    recipe = {"seed": _SEED, "torch": torch.__version__, "channels": _CHANNELS, "hint": HINT_WIDTH, "form": 1}
    done = folder / "done.json"
    if done.is_file() and json.loads(done.read_text()) == json.loads(json.dumps(recipe)):
        return paths
    done.unlink(missing_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    _export_decoder(paths.decoder)
    _export_denoiser(paths)
    written = done.with_suffix(".tmp")
    written.write_text(json.dumps(recipe))
    os.replace(written, done)  # noqa: PTH105 - the last act: half an export never looks like a whole one
    return paths


def _export_decoder(path: Path) -> None:
    # Two rows: torch.export takes an axis of length 1 for a fixed one.
    latents = {"latents": torch.randn(2, 4, 32, 48)}
    to_ir(graphs.VaeDecoder(build_vae()), latents, ["pixel_values"], path, {"latents": _PICTURE})


def _export_denoiser(paths: Sd15Paths) -> None:
    controlnet = build_controlnet()
    hint = {"hint": torch.rand(2, 3, 256, 384)}
    to_ir(graphs.HintEncoder(controlnet), hint, ["hint_embedding"], paths.hint, {"hint": _PICTURE})
    # Small pictures: the graph is the same for all sizes, and tracing it computes nothing worth waiting for.
    inputs = example_inputs(2, 256, 384)
    axes = {name: _PICTURE if name in ("latents", "hint_embedding") else _ROWS for name in inputs}
    to_ir(graphs.FusedDenoiser(build_unet(), controlnet), inputs, ["prediction"], paths.denoiser, axes)


def _frozen(module: Any) -> Any:
    return module.eval().requires_grad_(False)
