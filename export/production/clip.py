"""CLIP ViT-L/14: one text tower for conditioning and checks, one image tower (Radford et al. 2021, arXiv 2103.00020).

Stable Diffusion 1.x was trained on the states of this very text tower, so that one graph serves both.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from transformers import CLIPConfig, CLIPModel

from counterfactory.engine.errors import CounterfactoryError

from ..graphs import modules
from ..graphs.hub import locate
from ..graphs.pretrained import load_pretrained, read_tokenizer
from ..graphs.weights import fill
from .graph import ROWS, Graph, Request, normal, static
from .small_words import clip_tokenizer

# openai/clip-vit-large-patch14's config.json; all else is as transformers has it.
VIT_L_14: Mapping[str, Any] = {
    "text_config": {"hidden_size": 768, "intermediate_size": 3072, "num_attention_heads": 12, "projection_dim": 768},
    "vision_config": {
        "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24, "num_attention_heads": 16,
        "patch_size": 14, "projection_dim": 768,
    },
    "projection_dim": 768,
}  # fmt: skip
# Of a tower of the small networks.
TINY = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2}
_TINY_WORDS = {"vocab_size": 60, "max_position_embeddings": 12, "bos_token_id": 58, "eos_token_id": 59}
SMALL: Mapping[str, Any] = {
    "text_config": {**TINY, **_TINY_WORDS},
    "vision_config": {**TINY, "image_size": 32, "patch_size": 8},
    "projection_dim": 24,
}
MEAN, STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)


def build(request: Request) -> CLIPModel:
    if request.sources is None:
        clip = CLIPModel(CLIPConfig(**(SMALL if request.small else VIT_L_14)))
        fill(clip, request.seed)
    else:
        folder = locate(request.sources.named("clip"))
        clip = load_pretrained(CLIPModel, folder, "a CLIP model", dtype=torch.float32)
    whole: CLIPModel = clip.eval().requires_grad_(False)
    return whole


def text_width(request: Request) -> int:
    """Width of the states that condition the denoiser: of the CLIP that is named, else of ViT-L/14."""
    if request.sources is None or request.sources.clip is None:
        return int((SMALL if request.small else VIT_L_14)["text_config"]["hidden_size"])
    folder = locate(request.sources.clip, weights=False)
    return int(CLIPConfig.from_pretrained(folder, local_files_only=True).text_config.hidden_size)


def text_graph(request: Request) -> Graph:
    """input_ids int64 [B, 77] to states [B, 77, 768] and unit text_embeds [B, 768]."""
    clip = build(request)
    config = clip.config.text_config
    generator = torch.Generator().manual_seed(request.seed)
    ids = torch.randint(2, config.vocab_size - 2, (2, config.max_position_embeddings), generator=generator)
    # The end token is the highest of CLIP's vocabulary; the embedding is read where it stands first.
    ids[0, 5:], ids[1, -1] = config.vocab_size - 1, config.vocab_size - 1
    inputs = {"input_ids": ids}
    plan = static(request.batch("clip_text"), inputs)
    module = modules.ClipTextEncoder(clip)
    return Graph("clip_text", module, inputs, ("states", "text_embeds"), {"input_ids": ROWS}, plan)


def image_graph(request: Request) -> Graph:
    """pixel_values [B, 3, 224, 224] in -1..1 to unit image_embeds [B, 768]; normalised inside."""
    clip = build(request)
    side = clip.config.vision_config.image_size
    inputs = {"pixel_values": normal(request.seed, 2, 3, side, side).clamp(-1, 1)}
    plan = static(request.batch("clip_image"), inputs)
    module = modules.Normalised(modules.ClipImageEncoder(clip), MEAN, STD)
    return Graph("clip_image", module, inputs, ("image_embeds",), {"pixel_values": ROWS}, plan)


def tokenizer_of(request: Request) -> Tokenizer:
    """The tokenizer beside the weights, cut and padded to the text tower's length; the small set's own."""
    if request.sources is None:
        text = SMALL["text_config"]
        return clip_tokenizer(text["vocab_size"], text["max_position_embeddings"])
    source = locate(request.sources.named("clip"), ("config.json", "tokenizer.json"), weights=False)
    tokenizer = read_tokenizer(source / "tokenizer.json")
    try:
        length = json.loads((source / "config.json").read_text())["text_config"].get("max_position_embeddings", 77)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CounterfactoryError(f"{source} needs the config.json of CLIP: {error!r}") from error
    end = "<|endoftext|>"
    tokenizer.enable_truncation(length)
    tokenizer.enable_padding(length=length, pad_id=tokenizer.token_to_id(end), pad_token=end)
    return tokenizer


def write_tokenizer(request: Request, folder: Path) -> None:
    """clip_tokenizer.json in `folder`; nothing for random weights of real size, whose tokenizer comes with CLIP's."""
    if request.small or request.sources is not None:
        (folder / "clip_tokenizer.json").write_text(tokenizer_of(request).to_str())
