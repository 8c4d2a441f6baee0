"""Painting's networks in miniature: diffusers' own classes with seeded weights, and the engine's plans of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from diffusers import AutoencoderTiny, ControlNetModel, UNet2DConditionModel
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from tokenizers.processors import TemplateProcessing
from torch import nn

from counterfactory.engine.models.batching import Batched
from counterfactory.engine.models.denoiser import PaintPlans
from counterfactory.engine.models.editor import EditorPlans
from counterfactory.engine.models.picture_networks import LatentEncoder
from counterfactory.engine.runtime.session import Port, Signature
from counterfactory.export.graphs import modules
from counterfactory.export.graphs.editing import EditingDenoiser
from counterfactory.export.graphs.weights import fill

TOKENS, WIDTH, FACTOR = 7, 24, 2  # text states are [TOKENS, WIDTH]; a picture has FACTOR times its latents' sides


def filled(module: nn.Module, seed: int = 0) -> nn.Module:
    """Every weight drawn anew, so that zero convolutions and near-zero initial weights hide nothing."""
    fill(module, seed)
    return module.eval()


def fresh_denoiser() -> tuple[UNet2DConditionModel, ControlNetModel]:
    """UNet and ControlNet with their initial weights, for latents of 4 channels and hints of one."""
    torch.manual_seed(0)
    unet = UNet2DConditionModel(
        sample_size=16,
        block_out_channels=(16, 32),
        layers_per_block=1,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        cross_attention_dim=WIDTH,
        attention_head_dim=2,
        norm_num_groups=8,
    )
    controlnet = ControlNetModel.from_unet(unet, conditioning_channels=1, conditioning_embedding_out_channels=(8, 16))
    return unet.eval(), controlnet.eval()


def tiny_denoiser() -> tuple[UNet2DConditionModel, ControlNetModel]:
    """The same with filled weights."""
    unet, controlnet = fresh_denoiser()
    filled(unet)
    filled(controlnet, 1)
    return unet, controlnet


def tiny_decoder(scaling_factor: float) -> AutoencoderTiny:
    """An autoencoder with filled weights."""
    vae = AutoencoderTiny(
        encoder_block_out_channels=(8, 8),
        decoder_block_out_channels=(8, 8),
        num_encoder_blocks=(1, 1),
        num_decoder_blocks=(1, 1),
        scaling_factor=scaling_factor,
    )
    filled(vae)
    return vae


def copied(controlnet: ControlNetModel) -> ControlNetModel:
    """A copy, for the fused graph takes its ControlNet apart."""
    return deepcopy(controlnet)


@dataclass(frozen=True)
class TorchSession:
    """A session that runs a torch module: what a plan of it would give, without exporting and compiling one."""

    module: nn.Module
    signature: Signature

    def run(self, feeds: Mapping[str, Any], hold: Collection[str] = ()) -> dict[str, Any]:
        """Run the module once; refuses feeds that do not fit the signature."""
        self.signature.check(type(self.module).__name__, feeds)
        with torch.no_grad():
            out = self.module(*(torch.from_numpy(np.array(feeds[port.name])) for port in self.signature.inputs))
        outs = out if isinstance(out, tuple) else (out,)
        return {port.name: found.numpy() for port, found in zip(self.signature.outputs, outs, strict=True)}


def torch_plan(module: nn.Module, output: str, streams: int = 1, **shapes: tuple[int, ...]) -> Batched:
    """A plan of a module by the shapes of its inputs; `output` names what it gives, with blanks between several."""
    integers = ("timestep", "source_rows", "self_rows")
    inputs = tuple(Port(name, shape, "int64" if name in integers else "float32") for name, shape in shapes.items())
    outputs = tuple(Port(name, (inputs[0].shape[0],), "float32") for name in output.split())
    return Batched(TorchSession(module.eval(), Signature(inputs, outputs)), streams=streams)


def step_shapes(batch: int, h: int, w: int) -> dict[str, tuple[int, ...]]:
    """Of the inputs of a denoiser without control."""
    return {"latents": (batch, 4, h, w), "timestep": (batch,), "text": (batch, TOKENS, WIDTH)}


@dataclass(frozen=True)
class TinyPainter:
    """The three networks of painting."""

    unet: UNet2DConditionModel
    controlnet: ControlNetModel
    vae: AutoencoderTiny

    def plans(
        self, height: int, width: int, *, batch: int, streams: int, decode_batch: int, hint_batch: int = 1
    ) -> PaintPlans:
        """The engine's plans for pictures of a size, over the modules that are exported."""
        h, w = height // FACTOR, width // FACTOR
        copy = copied(self.controlnet)
        hint, control = modules.HintEncoder(copy), {"hint_embedding": (batch, 16, h, w), "control_scale": (batch,)}
        fused = modules.FusedDenoiser(self.unet, copy)
        return PaintPlans(
            torch_plan(hint, "hint_embedding", hint=(hint_batch, 1, height, width)),
            torch_plan(fused, "prediction", streams, **step_shapes(batch, h, w), **control),
            torch_plan(modules.VaeDecoder(self.vae), "pixel_values", latents=(decode_batch, 4, h, w)),
            (4, h, w),
        )


def tiny_editor(height: int, width: int, *, batch: int, picture_batch: int, controls: int = 0) -> EditorPlans:
    """The engine's plans for editing pictures of a size, over the modules that are exported; so many ControlNets, each
    with the encoder of its hint.
    """
    h, w, vae = height // FACTOR, width // FACTOR, tiny_painter().vae
    rows = step_shapes(batch, h, w) | {"source_rows": (batch,), "self_rows": (batch,)}
    rows |= {"cross_map": (batch, TOKENS, TOKENS), "cross_own": (batch, TOKENS), "words": (batch, TOKENS)}
    controlnets = [filled(copied(tiny_denoiser()[1]), 1 + number) for number in range(controls)]
    hint = (picture_batch, 1, height, width)
    encoders = [torch_plan(modules.HintEncoder(copied(one)), "hint_embedding", hint=hint) for one in controlnets]
    if controls:
        several = (controls,) if controls > 1 else ()
        rows |= {"hint_embedding": (batch, *several, 16, h, w), "control_scale": (batch, *several)}
    return EditorPlans(
        LatentEncoder(torch_plan(modules.VaeEncoder(vae), "latents", pixel_values=(picture_batch, 3, height, width))),
        torch_plan(EditingDenoiser(tiny_denoiser()[0], *controlnets), "prediction attention", **rows),
        torch_plan(modules.VaeDecoder(vae), "pixel_values", latents=(picture_batch, 4, h, w)),
        (4, h, w),
        tuple(encoders),
    )


def tiny_tokenizer() -> Tokenizer:
    """Reads the words of tiny captions, each a token, between a beginning and an end, padded to TOKENS."""
    words = ["<start>", "<end>", "<other>", "caption", "edited", "more", *"0123456789"]
    tokenizer = Tokenizer(WordLevel({word: i for i, word in enumerate(words)}, unk_token="<other>"))
    tokenizer.pre_tokenizer = WhitespaceSplit()
    tokenizer.post_processor = TemplateProcessing(
        single="<start> $A <end>", special_tokens=[("<start>", 0), ("<end>", 1)]
    )
    tokenizer.enable_truncation(TOKENS)
    tokenizer.enable_padding(length=TOKENS, pad_id=1, pad_token="<end>")
    return tokenizer


def tiny_painter() -> TinyPainter:
    """The three networks with filled weights; the decoder's pictures are mostly within range."""
    vae = tiny_decoder(1.7)
    last = [layer for layer in vae.decoder.modules() if isinstance(layer, nn.Conv2d)][-1]
    with torch.no_grad():
        last.weight *= 0.1
        last.bias.fill_(0.5)
    return TinyPainter(*tiny_denoiser(), vae)
