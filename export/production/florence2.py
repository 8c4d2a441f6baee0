"""Florence-2 base (Xiao et al. 2023, arXiv 2311.06242), the captioner of machines that BLIP-2 is too large for.

It is read as Microsoft published it, config.json and pytorch_model.bin of its own code; transformers' classes, which
have other names for the same tensors, are filled with it. Its graphs stand where BLIP-2's do and have their names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from transformers import Florence2Config, Florence2ForConditionalGeneration

from counterfactory.engine.errors import CounterfactoryError

from ..graphs import modules
from ..graphs.florence2 import CachedFlorence2Decoder, Florence2Vision
from ..graphs.hub import locate
from ..graphs.mapped import build_empty, lay_out
from ..graphs.pretrained import read_tokenizer
from ..graphs.weights import fill, load, tensors
from .blip2 import captioner_step, write_vocabulary
from .graph import ROWS, Graph, Request, normal, static

# Of the published preprocessor_config.json: pixels a side, ImageNet's statistics.
SIDE, SMALL_SIDE = 768, 32
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
# What its code makes of the task <DETAILED_CAPTION>.
TASK = "Describe in detail what is shown in the image."
FILES = ("config.json", "tokenizer.json")
# What the published vision_config has under the names of transformers' class.
_SAME = (
    *("depths", "patch_size", "patch_stride", "patch_padding", "patch_prenorm", "num_heads", "num_groups"),
    *("window_size", "projection_dim"),
)
# Of the published names, in this order.
_RENAMED = (
    (r"^(vision_tower\.convs\.\d+)\.proj\.", r"\1.conv."),
    (r"\.fn\.dw\.", "."),
    (r"\.(?:window|channel)_attn\.norm\.", ".norm1."),
    (r"\.ffn\.norm\.", ".norm2."),
    (r"\.fn\.(?:net\.)?", "."),
    (r"^image_projection$", "multi_modal_projector.image_projection.weight"),
    (r"^(image_proj_norm|visual_temporal_embed)\.", r"multi_modal_projector.\1."),
    (r"^image_pos_embed\.", "multi_modal_projector.image_position_embed."),
    (r"^language_model\.model\.", "language_model."),
)
# What random weights are made smaller by, at full size: nine blocks would multiply what passes by 10^9, and scores over
# tens of thousands of tokens would leave softmax a choice between two that float32 cannot tell apart.
_CALMED = ((re.compile(r"_block\.conv[12]\.weight$"), 0.1), (re.compile(r"channel_attn\.qkv\."), 0.25))
_HEAD, _UNUSED = "language_model.lm_head.weight", "language_model.final_logits_bias"
_TABLES = ("model.language_model.encoder.embed_tokens.weight", "model.language_model.decoder.embed_tokens.weight")


def config_of(published: Mapping[str, Any]) -> Florence2Config:
    """transformers' configuration of the published config.json."""
    vision, text = published["vision_config"], {**published["text_config"], "model_type": "bart"}
    own = {name: vision[name] for name in _SAME} | {"embed_dim": vision["dim_embed"]}
    own["max_temporal_embeddings"] = vision["visual_temporal_embedding"]["max_temporal_embeddings"]
    own["max_position_embeddings"] = vision["image_pos_embed"]["max_pos_embeddings"]
    return Florence2Config(vision_config=own, text_config=text)


def renamed(published: str) -> str:
    """transformers' name of a published tensor."""
    if published == _HEAD:
        return "lm_head.weight"
    name = published
    for pattern, to in _RENAMED:
        name = re.sub(pattern, to, name)
    return f"model.{name}"


def _config(request: Request) -> Florence2Config:
    if request.sources is not None:
        file = _folder(request) / "config.json"
        try:
            return config_of(json.loads(file.read_text()))
        except (OSError, ValueError, KeyError, TypeError) as error:
            none = f"{file} is no config.json of Florence-2 as Microsoft published it"
            raise CounterfactoryError(f"{none}: {error!r}") from error
    return small_config() if request.small else config_of(BASE)


# microsoft/Florence-2-base's config.json, as far as it decides the network.
BASE: Mapping[str, Any] = {
    "vision_config": {
        "dim_embed": [128, 256, 512, 1024], "depths": [1, 1, 9, 1], "patch_size": [7, 3, 3, 3],
        "patch_stride": [4, 2, 2, 2], "patch_padding": [3, 1, 1, 1], "patch_prenorm": [False, True, True, True],
        "num_heads": [4, 8, 16, 32], "num_groups": [4, 8, 16, 32], "window_size": 12, "projection_dim": 768,
        "visual_temporal_embedding": {"type": "COSINE", "max_temporal_embeddings": 100},
        "image_pos_embed": {"type": "learned_abs_2d", "max_pos_embeddings": 50},
    },
    "text_config": {
        "vocab_size": 51289, "d_model": 768, "encoder_layers": 6, "decoder_layers": 6, "encoder_attention_heads": 12,
        "decoder_attention_heads": 12, "encoder_ffn_dim": 3072, "decoder_ffn_dim": 3072,
        "max_position_embeddings": 1024, "scale_embedding": False, "pad_token_id": 1, "bos_token_id": 0,
        "eos_token_id": 2, "decoder_start_token_id": 2, "forced_bos_token_id": 0,
    },
}  # fmt: skip


def small_config() -> Florence2Config:
    """The same classes in little, for pictures of 32 x 32."""
    widths = {"dim_embed": [16, 32], "num_heads": [2, 2], "num_groups": [2, 2], "depths": [1, 1], "window_size": 3}
    patches = {"patch_size": [7, 3], "patch_stride": [4, 2], "patch_padding": [3, 1], "patch_prenorm": [False, True]}
    text = {"d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48}
    text |= {"encoder_attention_heads": 2, "decoder_attention_heads": 2, "vocab_size": 40}
    vision = {**BASE["vision_config"], **widths, **patches, "projection_dim": 32}
    return config_of({"vision_config": vision, "text_config": {**BASE["text_config"], **text}})


def build(request: Request) -> Florence2ForConditionalGeneration:
    """The whole model, 232 M parameters."""
    empty = build_empty(lambda: Florence2ForConditionalGeneration(_config(request)))
    model = lay_out(empty, request.scratch / "florence2.weights" if request.scratch else None)
    if request.sources is None:
        fill(model, request.seed)
        for name, parameter in [] if request.small else model.named_parameters():
            for pattern, factor in _CALMED:
                if pattern.search(name):
                    with torch.no_grad():
                        parameter.mul_(factor)
    else:
        folder = _folder(request)
        read = {renamed(name): tensor for name, tensor in tensors(folder).items() if name != _UNUSED}
        projection = "model.multi_modal_projector.image_projection.weight"
        if projection in read:
            read[projection] = read[projection].T  # published as what features are multiplied by
        shared = read.get("model.language_model.shared.weight", torch.zeros(0))
        for tied in (*_TABLES, "lm_head.weight"):
            read.setdefault(tied, shared)
        load(model, read, folder)
    return model.eval().requires_grad_(False)


def vision_graph(request: Request) -> Graph:
    """pixel_values [B, 3, S, S] in -1..1 to what the decoder attends to; normalised inside. See Florence2Vision."""
    side = SMALL_SIDE if request.small else SIDE
    inputs = {"pixel_values": normal(request.seed, 2, 3, side, side).clamp(-1, 1)}
    module = modules.Normalised(Florence2Vision(build(request), task_ids(request)), MEAN, STD)
    plan = static(request.batch("blip2_vision"), inputs)
    return Graph("blip2_vision", module, inputs, ("query_embeds",), {"pixel_values": ROWS}, plan)


def decoder_graph(request: Request) -> Graph:
    """One step of the decoder over a cache; see CachedFlorence2Decoder."""
    model = build(request)
    text, layers = model.config.text_config, model.config.text_config.decoder_layers
    heads, width = text.decoder_attention_heads, text.d_model // text.decoder_attention_heads
    side = SMALL_SIDE if request.small else SIDE
    shrink = 2 ** (1 + len(model.config.vision_config.embed_dim))
    attended = (side // shrink) ** 2 + 1 + len(task_ids(request))
    start = len(first_tokens(text)) - 1 + request.prompt_tokens
    lengths = (1, start, start), (0, start, start + request.caption_tokens - 1)
    sizes = text.d_model, (layers, heads, width)
    queries = normal(request.seed + 3, 3, 2 * layers, heads, attended, width)
    return captioner_step(request, CachedFlorence2Decoder(model), sizes, lengths, {"query_embeds": queries})


def write_tokens(request: Request, graph: Graph, folder: Path) -> None:
    """What blip2.write_tokens writes."""
    assert isinstance(graph.module, CachedFlorence2Decoder)
    text = _config(request).text_config
    write_vocabulary(request, folder, graph.module.tokens, text, first_tokens(text), tokenizer_file)


def first_tokens(text: Any) -> list[int]:
    """What a caption begins with: the token that the decoder starts from, and the one that is forced behind it."""
    forced = getattr(text, "forced_bos_token_id", None)
    return [int(text.decoder_start_token_id), int(text.bos_token_id if forced is None else forced)]


def task_ids(request: Request) -> list[int]:
    text = _config(request).text_config
    if request.sources is None:  # random weights know no words
        words = list(range(4, 14))
    else:
        words = read_tokenizer(tokenizer_file(request)).encode(TASK, add_special_tokens=False).ids
    return [int(text.bos_token_id), *words, int(text.eos_token_id)]


def tokenizer_file(request: Request) -> Path:
    """The tokenizer beside the weights. Raises CounterfactoryError when it is missing."""
    tokenizer = _folder(request) / "tokenizer.json"
    if not tokenizer.is_file():
        raise CounterfactoryError(f"{tokenizer} is missing; fetch the whole folder of Florence-2")
    return tokenizer


def _folder(request: Request) -> Path:
    assert request.sources is not None
    return locate(request.sources.named("florence2"), FILES)
