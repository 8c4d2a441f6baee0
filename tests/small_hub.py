"""The hub's checkpoints in little, in the forms in which they are published, for exports over the stand-in of the hub.

What an export takes is counted in operations, not in weights, so that networks here have as few blocks as their classes
allow.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from diffusers import AutoencoderTiny, ControlNetModel, UNet2DConditionModel
from published_names import florence2_published
from safetensors.torch import save_file
from tiny_llama import byte_level
from torch import nn
from transformers import CLIPModel, Florence2ForConditionalGeneration

from counterfactory.export.graphs.weights import fill
from counterfactory.export.production import denoiser, florence2
from counterfactory.export.production.small_words import clip_tokenizer

sys.path.insert(0, str(Path(__file__).parent / "export"))
from test_published import saved

PIPELINE = "stable-diffusion-v1-5/stable-diffusion-v1-5"
CONTROLNET = "lllyasviel/control_v11p_sd15_canny"
# One block, and the one in the middle, whose cross attention reads the small text encoder.
PAINTER: Mapping[str, Any] = {
    **denoiser.SMALL,
    "block_out_channels": (16,),
    "down_block_types": ("DownBlock2D",),
    "cross_attention_dim": 64,
}


def write_painter(root: Path, lora: Path, *, half_only: bool = False) -> None:
    """A UNet, its scheduler and a ControlNet, and a LoRA in kohya's names; fp16 beside float32, or alone."""
    unet = UNet2DConditionModel(**PAINTER, up_block_types=("UpBlock2D",))
    controlnet = ControlNetModel(**PAINTER, conditioning_embedding_out_channels=(8, 8, 16, 16))
    for seed, (module, folder) in enumerate(((unet, root / PIPELINE / "unet"), (controlnet, root / CONTROLNET))):
        fill(module, seed)
        with torch.no_grad():  # fp16 rounds the timestep's angle, which would be all that errors show
            for name, weight in module.named_parameters():
                weight.mul_(0.3 if "time_emb" in name else 1)
        if not half_only:
            module.save_pretrained(folder)
        module.half().save_pretrained(folder, variant="fp16")
    scheduler = root / PIPELINE / "scheduler" / "scheduler_config.json"
    scheduler.parent.mkdir(parents=True)
    scheduler.write_text(json.dumps(dict(denoiser.SCHEDULER)))
    write_lora(unet, lora)


def write_lora(unet: nn.Module, file: Path) -> None:
    """Deltas of rank 2 of each layer that makes queries or values."""
    deltas = {}
    for name, module in unet.named_modules():
        if name.endswith(("to_q", "to_v")):
            assert isinstance(module, nn.Linear)
            for part, shape in (("down", (2, module.in_features)), ("up", (module.out_features, 2))):
                deltas[f"lora_unet_{name.replace('.', '_')}.lora_{part}.weight"] = torch.full(shape, 0.01)
    file.parent.mkdir(parents=True, exist_ok=True)
    save_file(deltas, file)


def write_clip(root: Path, seed: int = 6) -> None:
    folder = root / "openai" / "clip-vit-large-patch14"
    saved(CLIPModel, folder.name, folder, seed)
    clip_tokenizer(49408, 77).save(str(folder / "tokenizer.json"))


def write_small_decoder(root: Path, **how: Any) -> None:
    one = dict.fromkeys(("num_encoder_blocks", "num_decoder_blocks"), (1,) * 4)
    narrow = dict.fromkeys(("encoder_block_out_channels", "decoder_block_out_channels"), (8,) * 4)
    decoder = AutoencoderTiny(**one, **narrow)
    fill(decoder, 5)
    decoder.save_pretrained(root / "madebyollin" / "taesd", **how)


def write_captioner(root: Path) -> None:
    """Florence-2 as a pickle of published names alone."""
    folder = root / "microsoft" / "Florence-2-base"
    folder.mkdir(parents=True, exist_ok=True)
    vision = {"dim_embed": [8, 8, 16, 16], "num_heads": [2] * 4, "num_groups": [2] * 4, "depths": [1] * 4}
    text = {"d_model": 32, "encoder_layers": 1, "decoder_layers": 2, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48}
    text |= {"encoder_attention_heads": 2, "decoder_attention_heads": 2, "vocab_size": 320}
    config = {
        "model_type": "florence2",
        "vision_config": {**florence2.BASE["vision_config"], **vision, "projection_dim": 32},
        "text_config": {**florence2.BASE["text_config"], **text},
    }
    model = Florence2ForConditionalGeneration(florence2.config_of(config))
    fill(model, 7)
    tokenizer = byte_level(["a red car on a street at night in the rain"] * 2, 320, ["<s>", "<pad>", "</s>"])
    words = [number for token, number in tokenizer.get_vocab().items() if token.startswith("Ġ") and len(token) > 3]
    with torch.no_grad():  # words are likelier than bytes, so that there is something to change
        model.get_input_embeddings().weight[words] *= 4
    (folder / "config.json").write_text(json.dumps(config))
    torch.save(florence2_published(model.state_dict(), model.config.vision_config.depths), folder / "pytorch_model.bin")
    tokenizer.save(str(folder / "tokenizer.json"))
