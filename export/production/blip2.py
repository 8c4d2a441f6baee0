"""BLIP-2 with OPT (Li et al. 2023, arXiv 2301.12597): what sees, and what says.

`blip2_vision` is the vision encoder (ViT-g/14 of EVA-CLIP), the Q-Former and the projection in one graph; it is built
without the language model, whose 11 or 27 GB it does not need. `opt_decoder` is OPT (Zhang et al. 2022, arXiv
2205.01068) with its key-value cache in the open.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from transformers import Blip2Config, Blip2QFormerModel, Blip2VisionModel, OPTForCausalLM

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.runtime.plans import Shapes
from counterfactory.engine.runtime.session import is_cache

from ..graphs import modules
from ..graphs.hub import locate
from ..graphs.mapped import build_empty, lay_out
from ..graphs.pretrained import read_tokenizer
from ..graphs.weights import fill, load, tensors
from .clip import MEAN, STD, TINY
from .graph import ROWS, Graph, Request, normal, static
from .small_words import opt_tokenizer

# BLIP-2's language models are facebook/opt-2.7b and opt-6.7b, with an end token (a new line) and vocabulary of its own.
_OPT: dict[str, Any] = {"model_type": "opt", "vocab_size": 50304, "eos_token_id": 50118, "num_hidden_layers": 32}
_SIZES = {"2.7b": (2560, 10240), "6.7b": (4096, 16384)}
QUERIES = 32
_Module = TypeVar("_Module", bound=nn.Module)


def config_of(request: Request) -> Blip2Config:
    """The configuration: the checkpoint's, or the real or small one."""
    if request.sources is not None:
        return Blip2Config.from_pretrained(_folder(request), local_files_only=True)
    if request.small:
        opt = {**_OPT, **TINY, "word_embed_proj_dim": 32, "ffn_dim": 48, "vocab_size": 40, "eos_token_id": 3}
        vision, asks = {**TINY, "image_size": 32, "patch_size": 8}, {**TINY, "encoder_hidden_size": 32, "vocab_size": 8}
        text = {**opt, "max_position_embeddings": 64}
        return Blip2Config(vision_config=vision, qformer_config=asks, text_config=text, num_query_tokens=4)
    width, inner = _SIZES[request.captioner]
    opt = {**_OPT, "hidden_size": width, "word_embed_proj_dim": width, "ffn_dim": inner, "num_attention_heads": 32}
    # What sees is as transformers has it, which is Salesforce/blip2-opt-2.7b's; -6.7b-coco differs in the side.
    return Blip2Config(vision_config={"image_size": request.caption_side}, text_config=opt, num_query_tokens=QUERIES)


class Eyes(nn.Module):
    """Blip2ForConditionalGeneration without its language model, under the same names."""

    def __init__(self, config: Blip2Config) -> None:
        super().__init__()
        width = config.qformer_config.hidden_size
        self.vision_model = Blip2VisionModel(config.vision_config)
        self.qformer = Blip2QFormerModel(config.qformer_config)
        self.query_tokens = nn.Parameter(torch.zeros(1, config.num_query_tokens, width))
        self.language_projection = nn.Linear(width, config.text_config.hidden_size)


def build_eyes(request: Request) -> Eyes:
    """Vision encoder, Q-Former, queries and projection: 1.1 thousand million parameters at full size."""
    eyes = _laid_out(request, "eyes", lambda: Eyes(config_of(request)))
    if request.sources is None:
        fill(eyes, request.seed)
    else:
        folder = _folder(request)
        found = tensors(folder, ("vision_model.", "qformer.", "query_tokens", "language_projection."))
        # Older checkpoints carry a table of positions as if it were a weight.
        load(eyes, {name: value for name, value in found.items() if not name.endswith("position_ids")}, folder)
    return eyes.eval().requires_grad_(False)


def build_opt(request: Request) -> OPTForCausalLM:
    """The language model; 6.7b takes 27 GB in float32, of memory or, with `request.scratch`, of the disk."""
    opt = _laid_out(request, "opt", lambda: OPTForCausalLM(config_of(request).text_config))
    if request.sources is None:
        fill(opt, request.seed + 1)
    else:
        folder, prefix = _folder(request), "language_model."
        found = {name.removeprefix(prefix): value for name, value in tensors(folder, (prefix,)).items()}
        found.setdefault("lm_head.weight", found.get("model.decoder.embed_tokens.weight", torch.zeros(0)))  # tied
        load(opt, found, folder)
    return opt.eval().requires_grad_(False)


def _laid_out(request: Request, name: str, make: Callable[[], _Module]) -> _Module:
    return lay_out(build_empty(make), request.scratch / f"{name}.weights" if request.scratch else None)


def vision_graph(request: Request) -> Graph:
    """pixel_values [B, 3, S, S] in -1..1 to query_embeds [B, 32, D]; normalised inside."""
    eyes = build_eyes(request)
    side = int(eyes.vision_model.config.image_size)
    inputs = {"pixel_values": normal(request.seed, 2, 3, side, side).clamp(-1, 1)}
    module = modules.Normalised(modules.Blip2Vision(eyes), MEAN, STD)
    plan = static(request.batch("blip2_vision"), inputs)
    return Graph("blip2_vision", module, inputs, ("query_embeds",), {"pixel_values": ROWS}, plan)


def decoder_graph(request: Request) -> Graph:
    """One step of OPT over a cache that stays on the device; see modules.CachedOptDecoder."""
    opt = build_opt(request)
    config = opt.config
    width, heads = config.hidden_size, config.num_attention_heads
    cache = (config.num_hidden_layers, heads, width // heads)
    # What is read at once are the queries and the prompt; what is cached by the last step, those and the caption.
    start = QUERIES + request.prompt_tokens
    length = start + request.caption_tokens - 1
    lengths = ((1, 5, 16), (0, 5, 24)) if request.small else ((1, start, start), (0, min(start, length), length))
    return captioner_step(request, modules.CachedOptDecoder(opt), (width, cache), lengths, {})


def captioner_step(
    request: Request,
    decoder: nn.Module,
    sizes: tuple[int, tuple[int, ...]],
    lengths: tuple[tuple[int, int, int], tuple[int, int, int]],
    more: Mapping[str, Tensor],
) -> Graph:
    """A step of a captioner's decoder over a cache: `sizes` are the width of a token's states and the shape of a
    position in the cache, `lengths` the least, usual and most tokens of a step and positions before it; `more` are
    inputs that are the same for all tokens of a row.
    """
    (width, cache), (steps, pasts) = sizes, lengths
    inputs = {"inputs_embeds": normal(request.seed, 3, 2, width), "position_ids": torch.tensor([[5, 6]] * 3)}
    inputs |= {f"cache_{kind}": normal(request.seed + i, 5, 3, *cache) for i, kind in enumerate(("keys", "values"), 1)}
    rows = request.batch("opt_decoder")
    plan = {"inputs_embeds": Shapes(*((rows, length, width) for length in steps))}
    plan["position_ids"] = Shapes(*((rows, length) for length in steps))
    plan |= dict.fromkeys(("cache_keys", "cache_values"), Shapes(*((length, rows, *cache) for length in pasts)))
    inputs |= more
    plan |= {name: Shapes.static(rows, *value.shape[1:]) for name, value in more.items()}
    if request.beams > 1:
        inputs["cache_rows"] = torch.tensor([[1, 1, 0], [0, 2, 1], [2, 1, 1], [0, 0, 0], [1, 0, 2]])
        plan["cache_rows"] = Shapes(*((length, rows) for length in pasts))
    step, kept = {0: "batch", 1: "tokens"}, {0: "past", 1: "batch"}
    axes = {name: kept if is_cache(name) else ROWS if name in more else step for name in inputs}
    outputs = ("logits", "cache_keys_added", "cache_values_added")
    return Graph("opt_decoder", decoder, inputs, outputs, axes, (plan,))


def write_tokens(request: Request, graph: Graph, folder: Path) -> None:
    """opt_embeddings.npy (float16 [V, D]), opt_tokens.json (first and last token) and the tokenizer.

    Random weights of real size have none.
    """
    assert isinstance(graph.module, modules.CachedOptDecoder)
    config = config_of(request).text_config
    write_vocabulary(request, folder, graph.module.tokens, config, int(config.bos_token_id), tokenizer_file)


def write_vocabulary(
    request: Request, folder: Path, table: Tensor, text: Any, first: int | list[int], own: Callable[[Request], Path]
) -> None:
    """A captioner's token table [V, D], in float16, what begins a caption, the token that ends it, and the tokenizer:
    of trained weights their `own`.
    """
    end = int(text.eos_token_id)
    np.save(folder / "opt_embeddings.npy", table.detach().numpy().astype(np.float16))
    (folder / "opt_tokens.json").write_text(json.dumps({"bos": first, "eos": end}) + "\n")
    if request.small:
        opt_tokenizer(text.vocab_size, end).save(str(folder / "opt_tokenizer.json"))
    if request.sources is not None:
        read_tokenizer(own(request))  # half a file is found now, and not when captions are written
        shutil.copyfile(own(request), folder / "opt_tokenizer.json")


def tokenizer_file(request: Request) -> Path:
    """The tokenizer beside the weights. Raises CounterfactoryError when it is missing."""
    tokenizer = _folder(request) / "tokenizer.json"
    if not tokenizer.is_file():
        raise CounterfactoryError(f"{tokenizer} is missing; fetch the whole BLIP-2 folder")
    return tokenizer


def _folder(request: Request) -> Path:
    assert request.sources is not None
    return locate(request.sources.named("blip2"), ("config.json", "tokenizer.json"))
