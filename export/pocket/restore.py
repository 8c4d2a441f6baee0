"""The packed pocket models as the torch modules that they were exported from, for whoever wants to compare.

From a folder of weights (see engine/models/library.py), with the `parameters.json` that was written when it was packed,
it makes modules of diffusers and transformers in float32, in eval mode, with the attention that a user gets by default.
Weights come back as the engine opens them, in fp16 or made of 8 bits; training states are not needed.
"""

from __future__ import annotations

from pathlib import Path

from diffusers import AutoencoderTiny
from diffusers.models.attention_processor import AttnProcessor2_0
from tokenizers import Tokenizer
from transformers import Blip2ForConditionalGeneration, CLIPModel, LlamaForCausalLM

from counterfactory.engine.language.token_filter import load_tokenizer

from ..graphs.modules import FusedDenoiser
from . import blip2, clip, denoiser, llama, vae
from .parameters import restore_into


def restore_vae(weights: Path) -> AutoencoderTiny:
    """The autoencoder; its config knows the scale of its latents."""
    model = vae.build()
    model.register_to_config(**restore_into("vae", model, weights))
    return model.eval()


def restore_clip(weights: Path) -> tuple[CLIPModel, Tokenizer]:
    tokenizer = load_tokenizer(weights / "clip_tokenizer.json")
    model = clip.build(tokenizer.get_vocab_size(), len(tokenizer.encode("").ids))  # it pads to the longest
    restore_into("clip", model, weights)
    model.set_attn_implementation("sdpa")
    return model.eval(), tokenizer


def restore_denoiser(weights: Path, plan: str = "denoiser") -> denoiser.Denoiser:
    """UNet and ControlNet of a plan, the latter with its hint encoder; a student that was distilled from "denoiser" has
    that of its teacher.
    """
    model = denoiser.build()
    restore_into("denoiser", model, weights)
    if plan != "denoiser":
        hints = model.controlnet.controlnet_cond_embedding
        restore_into(plan, FusedDenoiser(model.unet, model.controlnet), weights)  # which cuts them off
        model.controlnet.controlnet_cond_embedding = hints
    model.unet.set_attn_processor(AttnProcessor2_0())
    model.controlnet.set_attn_processor(AttnProcessor2_0())
    return model.eval()


def restore_blip2(weights: Path) -> tuple[Blip2ForConditionalGeneration, Tokenizer]:
    tokenizer = load_tokenizer(weights / "opt_tokenizer.json")
    model = blip2.build(tokenizer.get_vocab_size())
    restore_into("blip2", model, weights)
    model.set_attn_implementation("sdpa")
    return model.eval(), tokenizer


def restore_llm(weights: Path) -> tuple[LlamaForCausalLM, Tokenizer]:
    tokenizer = load_tokenizer(weights / "llm" / "tokenizer.json")
    model = llama.build(tokenizer.get_vocab_size())
    packed = llama.PackedParameters(model)
    restore_into("llm", packed, weights)
    packed.give_back(model)
    return model.eval(), tokenizer
