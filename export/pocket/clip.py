"""The pocket CLIP: its text encoder conditions the denoiser, and the pair scores images against captions.

Every batch holds each layout twice in two appearances, so that weather, time and colours, not the layout, must tell
the two captions apart: the distinctions that the checks rest on.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from torch.nn import functional as F
from transformers import CLIPConfig, CLIPModel

from counterfactory.engine.pocket.worlds import EMBEDDED, World

from .data import TRAIN, ScenePool, as_pixels
from .older import take_over, take_over_tokens
from .training import Recipe, fit

RECIPES = {
    "streets": Recipe(steps=600, lr=1.5e-3, seed=21, weight_decay=0.02, ema=0.99),
    "wide": Recipe(steps=2500, lr=1.2e-3, seed=21, weight_decay=0.02, ema=0.998, save_every=100),
}
# What the longest captions need.
TOKENS = {"streets": 64, "wide": 96}
_SEED = 21
_PAIRS = 40
_START, _END = "<|startoftext|>", "<|endoftext|>"


def build_tokenizer(world: World = EMBEDDED) -> Tokenizer:
    """A byte-level BPE in CLIP's form (lower case, end-of-word marks), from the world's captions."""
    rng = np.random.default_rng(_SEED)
    captions = [world.describe(world.scene(TRAIN, i), rng, False) for i in range(1500)]
    tokenizer = Tokenizer(models.BPE(unk_token=_END, end_of_word_suffix="</w>"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.WhitespaceSplit(),
            pre_tokenizers.Punctuation(),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(
        vocab_size=900,
        special_tokens=[_START, _END],
        initial_alphabet=alphabet,
        end_of_word_suffix="</w>",
        show_progress=False,
    )
    tokenizer.train_from_iterator(captions, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{_START} $A {_END}", special_tokens=[(_START, 0), (_END, 1)]
    )
    tokenizer.enable_truncation(TOKENS[world.name])
    tokenizer.enable_padding(length=TOKENS[world.name], pad_id=1, pad_token=_END)
    return tokenizer


def encode(tokenizer: Tokenizer, captions: list[str]) -> torch.Tensor:
    """Token ids, int64 [B, T]."""
    return torch.tensor([e.ids for e in tokenizer.encode_batch(captions)])


def build(vocabulary: int, tokens: int = TOKENS["streets"]) -> CLIPModel:
    """The model with seeded initial weights, for captions of at most `tokens`."""
    torch.manual_seed(_SEED)
    size = {"hidden_size": 192, "intermediate_size": 576, "num_hidden_layers": 4, "num_attention_heads": 6}
    text = {
        **size,
        "vocab_size": vocabulary,
        "max_position_embeddings": tokens,
        "bos_token_id": 0,
        "eos_token_id": 1,
        "pad_token_id": 1,
    }
    vision = {**size, "image_size": 128, "patch_size": 16}
    config = CLIPConfig(text_config=text, vision_config=vision, projection_dim=128, attn_implementation="eager")
    return CLIPModel(config)  # eager: the flash kernel's backward pass is several times slower on a CPU


def _kept_tokenizer(path: Path, world: World) -> Tokenizer:
    """The tokenizer at `path`, made if it is not there: its numbering is not the same in every process."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(build_tokenizer(world).to_str())
    return Tokenizer.from_file(str(path))


def train(
    work: Path, world: World = EMBEDDED, workers: int = 0, older: tuple[CLIPModel, Tokenizer] | None = None
) -> tuple[CLIPModel, Tokenizer]:
    """Train, or load the finished training, from `work`; a training begins with the weights of `older`, if any."""
    recipe = RECIPES[world.name]
    tokenizer = _kept_tokenizer(work / "clip_tokenizer.json", world)
    clip = build(tokenizer.get_vocab_size(), TOKENS[world.name])
    if older is not None:
        take_over(clip, older[0])
        table, theirs = (model.text_model.embeddings.token_embedding.weight for model in (clip, older[0]))
        take_over_tokens(table, theirs, tokenizer, older[1])
    pool = ScenePool(stream=TRAIN, size=4000, fresh=8, styles=2, world=world, workers=workers)

    def loss_of(step: int) -> torch.Tensor:
        pool.advance(step)
        rng = np.random.default_rng((recipe.seed, step))
        layouts = rng.choice(pool.size // 2, _PAIRS, replace=False) * 2
        index = np.concatenate([layouts, layouts + 1])
        pixels = as_pixels(pool.images[index])
        pixels += torch.randn_like(pixels) * 0.05
        captions, confused = _captions(world, [pool.scenes[i] for i in index], rng)
        ids = encode(tokenizer, [*captions, *confused])
        with torch.autocast("cpu", torch.bfloat16):
            out = clip(input_ids=ids, pixel_values=pixels)
        logits, count = out.logits_per_image.float(), len(index)
        target = torch.arange(count)
        by_image = logits[:, :count]
        if confused:  # each picture has one caption more to be told from: its own, with one fact wrong
            same = torch.tensor([a == b for a, b in zip(captions, confused, strict=True)])
            wrong = logits[:, count:].diagonal().masked_fill(same, -torch.inf)
            by_image = torch.cat([by_image, wrong[:, None]], 1)
        return (F.cross_entropy(by_image, target) + F.cross_entropy(logits[:, :count].T, target)) / 2

    trained = fit("clip", clip, recipe, loss_of, work)
    assert isinstance(trained, CLIPModel)
    return trained, tokenizer


def _captions(world: World, scenes: list[Any], rng: np.random.Generator) -> tuple[list[str], list[str]]:
    """Captions, and the same with one fact wrong where the world can confuse its scenes."""
    if world.confuse is None:
        return [world.describe(s, rng, False) for s in scenes], []
    pairs = [world.confuse(one, rng) for one in scenes]
    return [right for right, _ in pairs], [wrong for _, wrong in pairs]
