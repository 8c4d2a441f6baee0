"""The pocket CLIP: its text encoder conditions the denoiser, and the pair scores images against captions.

Every batch holds each layout twice in two appearances, so that weather, time and colours, not the layout, must tell
the two captions apart: the distinctions that the checks rest on.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from torch.nn import functional as F
from transformers import CLIPConfig, CLIPModel

from counterfactory.engine.pocket.worlds import EMBEDDED

from .data import TRAIN, ScenePool, as_pixels
from .training import Recipe, fit

RECIPE = Recipe(steps=600, lr=1.5e-3, seed=21, weight_decay=0.02, ema=0.99)
TOKENS = 64  # what the longest captions need
_SEED = 21
_PAIRS = 40
_START, _END = "<|startoftext|>", "<|endoftext|>"


def build_tokenizer() -> Tokenizer:
    """A byte-level BPE in CLIP's form (lower case, end-of-word marks), from the world's captions."""
    rng = np.random.default_rng(_SEED)
    captions = [EMBEDDED.describe(EMBEDDED.scene(TRAIN, i), rng) for i in range(1500)]
    tokenizer = Tokenizer(models.BPE(unk_token=_END, end_of_word_suffix="</w>"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Lowercase()])
    split = (pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*split, pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=900,
        special_tokens=[_START, _END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        end_of_word_suffix="</w>",
        show_progress=False,
    )
    tokenizer.train_from_iterator(captions, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{_START} $A {_END}", special_tokens=[(_START, 0), (_END, 1)]
    )
    tokenizer.enable_truncation(TOKENS)
    tokenizer.enable_padding(length=TOKENS, pad_id=1, pad_token=_END)
    return tokenizer


def encode(tokenizer: Tokenizer, captions: list[str]) -> torch.Tensor:
    """Token ids, int64 [B, T]."""
    return torch.tensor([e.ids for e in tokenizer.encode_batch(captions)])


def build(vocabulary: int, tokens: int = TOKENS) -> CLIPModel:
    """The model with seeded initial weights, for captions of at most `tokens`."""
    torch.manual_seed(_SEED)
    size = {"hidden_size": 192, "intermediate_size": 576, "num_hidden_layers": 4, "num_attention_heads": 6}
    ends = {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 1}
    text = {**size, **ends, "vocab_size": vocabulary, "max_position_embeddings": tokens}
    vision = {**size, "image_size": 128, "patch_size": 16}
    config = CLIPConfig(text_config=text, vision_config=vision, projection_dim=128, attn_implementation="eager")
    return CLIPModel(config)  # eager: the flash kernel's backward pass is several times slower on a CPU


def train(work: Path, workers: int = 0) -> tuple[CLIPModel, Tokenizer]:
    """Train, or load the finished training, from `work`."""
    kept = work / "clip_tokenizer.json"
    if not kept.exists():  # its numbering is not the same in every process
        work.mkdir(parents=True, exist_ok=True)
        kept.write_text(build_tokenizer().to_str())
    tokenizer = Tokenizer.from_file(str(kept))
    clip = build(tokenizer.get_vocab_size())
    pool = ScenePool(stream=TRAIN, size=4000, fresh=8, styles=2, workers=workers)

    def loss_of(step: int) -> torch.Tensor:
        pool.advance(step)
        rng = np.random.default_rng((RECIPE.seed, step))
        layouts = rng.choice(pool.size // 2, _PAIRS, replace=False) * 2
        index = np.concatenate([layouts, layouts + 1])
        pixels = as_pixels(pool.images[index])
        pixels += torch.randn_like(pixels) * 0.05
        ids = encode(tokenizer, [EMBEDDED.describe(pool.scenes[i], rng) for i in index])
        with torch.autocast("cpu", torch.bfloat16):
            out = clip(input_ids=ids, pixel_values=pixels)
        logits, target = out.logits_per_image.float(), torch.arange(len(index))
        return (F.cross_entropy(logits, target) + F.cross_entropy(logits.T, target)) / 2

    return fit("clip", clip, RECIPE, loss_of, work), tokenizer
