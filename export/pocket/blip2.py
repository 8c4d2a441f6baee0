"""The pocket captioner: transformers' Blip2ForConditionalGeneration (ViT, Q-Former, OPT), image to several sentences.

A ViT that learns only from captions learns slowly where things are, so during training a throw-away head also asks
every patch what it shows (class, vehicle colour, vehicle kind): truth that the world has for nothing.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer
from torch import nn
from torch.nn import functional as F
from transformers import Blip2Config, Blip2ForConditionalGeneration

from counterfactory.engine.pocket.worlds import EMBEDDED, NOTHING

from .clip import TOKENS
from .data import TRAIN, ScenePool, as_pixels
from .llama import byte_tokenizer
from .training import Recipe, fit

RECIPE = Recipe(steps=5200, lr=1.2e-3, seed=41, weight_decay=0.02, ema=0.995)
_SEED = 41
QUERIES, PATCH = 16, 16
_BATCH, _POOL = 48, 4000
_SPECIAL = ("<s>", "<pad>", "</s>", "<image>")
BOS, PAD, EOS, IMAGE = range(4)
_GRID = 128 // PATCH


def build_tokenizer() -> Tokenizer:
    """A byte-level BPE in OPT's form, from the world's captions."""
    rng = np.random.default_rng(_SEED)
    captions = [EMBEDDED.describe(EMBEDDED.scene(TRAIN, i), rng) for i in range(1500)]
    return byte_tokenizer(captions, 700, _SPECIAL, like_opt=True)


def build(vocabulary: int) -> Blip2ForConditionalGeneration:
    """The model with seeded initial weights."""
    torch.manual_seed(_SEED)
    size: dict[str, Any] = {"hidden_size": 192, "num_attention_heads": 6}
    vision = {"intermediate_size": 576, "num_hidden_layers": 4, "image_size": 128, "patch_size": PATCH}
    qformer = {"intermediate_size": 384, "num_hidden_layers": 2, "encoder_hidden_size": 192, "vocab_size": 8}
    undropped = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    text = {"word_embed_proj_dim": 192, "ffn_dim": 576, "num_hidden_layers": 3, "vocab_size": vocabulary}
    ends = {"bos_token_id": BOS, "pad_token_id": PAD, "eos_token_id": EOS}
    longest = QUERIES + TOKENS + 16
    config = Blip2Config(
        vision_config=size | vision | {"initializer_range": 0.02},
        qformer_config=size | qformer | undropped | {"cross_attention_frequency": 1},
        text_config=size | text | ends | {"model_type": "opt", "max_position_embeddings": longest, "dropout": 0.0},
        num_query_tokens=QUERIES,
        image_token_index=IMAGE,
        attn_implementation="eager",  # the flash kernel's backward pass is several times slower on a CPU
    )
    blip2 = Blip2ForConditionalGeneration(config)
    nn.init.normal_(blip2.query_tokens, std=0.5)  # all queries start equal otherwise, and from scratch stay so
    return blip2


class _Patches(nn.Module):
    """The captioner with its throw-away head: logits of class and objects' attributes a patch, of scenes' an image."""

    def __init__(self, blip2: Blip2ForConditionalGeneration) -> None:
        super().__init__()
        self.blip2 = blip2
        width = blip2.config.vision_config.hidden_size
        self.patch_sizes = [len(EMBEDDED.classes), *map(len, EMBEDDED.object_words.values())]
        self.image_sizes = [*map(len, EMBEDDED.words.values())]
        self.patch = nn.Linear(width, sum(self.patch_sizes))
        self.image = nn.Linear(width, sum(self.image_sizes))


def patch_truth(mask: NDArray[np.uint8], objects: NDArray[np.int8]) -> NDArray[np.int64]:
    """What each patch mostly shows: class, then each attribute of objects, int64 [1 + attributes, patches].

    `mask` is uint8 [128, 128], `objects` int8 [attributes, 128, 128] as of `World.truth`. An attribute is `NOTHING`
    unless a quarter of the patch has it; the commonest value then counts.
    """

    def tiles(values: NDArray[Any]) -> NDArray[Any]:
        return values.reshape(_GRID, PATCH, _GRID, PATCH).swapaxes(1, 2).reshape(_GRID * _GRID, -1)

    out = np.full((1 + len(objects), _GRID * _GRID), NOTHING, np.int64)
    for i, tile in enumerate(tiles(mask)):
        out[0, i] = np.bincount(tile, minlength=len(EMBEDDED.classes)).argmax()
    for k, values in enumerate(objects, 1):
        for i, tile in enumerate(tiles(values)):
            shown = tile[tile != NOTHING]
            if shown.size >= PATCH * PATCH // 4:
                out[k, i] = np.bincount(shown).argmax()
    return out


def train(work: Path, workers: int = 0) -> tuple[Blip2ForConditionalGeneration, Tokenizer]:
    """Train, or load the finished training, from `work`."""
    tokenizer = build_tokenizer()
    model = _Patches(build(tokenizer.get_vocab_size()))
    pool = ScenePool(stream=TRAIN, size=_POOL, fresh=6, workers=workers, with_truth=True)
    truth = np.zeros((pool.size, len(model.patch_sizes), _GRID * _GRID), np.int64)

    def loss_of(step: int) -> torch.Tensor:
        for slot in pool.advance(step):
            truth[slot] = patch_truth(pool.masks[slot], pool.truth[slot])
        rng = np.random.default_rng((RECIPE.seed, step))
        index = rng.choice(pool.size, _BATCH, replace=False)
        pixels, wanted = as_pixels(pool.images[index]), torch.from_numpy(truth[index])
        pixels += torch.randn_like(pixels) * 0.03
        scenes = [pool.scenes[i] for i in index]
        captions = [EMBEDDED.describe(s, rng) for s in scenes]
        attributes = [[values.index(getattr(s, name)) for s in scenes] for name, values in EMBEDDED.words.items()]
        rows = [[*tokenizer.encode(caption).ids, EOS] for caption in captions]
        length = max(map(len, rows))
        text = torch.tensor([r + [PAD] * (length - len(r)) for r in rows])
        ids = torch.cat([torch.full((_BATCH, QUERIES), IMAGE), torch.full((_BATCH, 1), BOS), text], 1)
        with torch.autocast("cpu", torch.bfloat16):
            out = model.blip2(pixel_values=pixels, input_ids=ids, attention_mask=torch.ones_like(ids))
            states = out.vision_outputs.last_hidden_state
            patches, image = model.patch(states[:, 1:]).float(), model.image(states[:, 0]).float()
        logits = out.logits.float()[:, QUERIES:-1]
        told = F.cross_entropy(logits.flatten(0, 1), text.masked_fill(text == PAD, -100).flatten(), ignore_index=-100)
        seen = torch.zeros(())
        for k, part in enumerate(patches.split(model.patch_sizes, -1)):
            if (wanted[:, k] != NOTHING).any():  # the mean of nothing is no number
                seen = seen + F.cross_entropy(part.flatten(0, 1), wanted[:, k].flatten(), ignore_index=NOTHING)
        for part, values in zip(image.split(model.image_sizes, -1), attributes, strict=True):
            seen = seen + F.cross_entropy(part, torch.tensor(values))
        return told + 0.3 * seen

    return fit("blip2", model, RECIPE, loss_of, work).blip2, tokenizer
