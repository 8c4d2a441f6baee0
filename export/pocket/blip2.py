"""The pocket captioner: transformers' Blip2ForConditionalGeneration (ViT, Q-Former, OPT), image to several sentences.

A ViT that learns only from captions learns slowly where things are, so during training a throw-away head also asks
every patch what it shows (class, vehicle colour, vehicle kind): truth that the world has for nothing.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import nn
from torch.nn import functional as F
from transformers import Blip2Config, Blip2ForConditionalGeneration

from counterfactory.engine.pocket.captions import describe
from counterfactory.engine.pocket.world import CLASSES, COLOURS, KINDS, TIMES, WEATHERS, Scene, vehicle_box

from .data import TRAIN, ScenePool, as_pixels, scene
from .training import Recipe, fit

RECIPE = Recipe(steps=5200, lr=1.2e-3, seed=41, weight_decay=0.02, ema=0.995)
TOKENS, QUERIES, PATCH = 64, 16, 16
_BATCH = 48
_SPECIAL = ("<s>", "<pad>", "</s>", "<image>")
BOS, PAD, EOS, IMAGE = range(4)
_GRID = 128 // PATCH


def build_tokenizer() -> Tokenizer:
    """A byte-level BPE in OPT's form, from the world's captions."""
    rng = np.random.default_rng(RECIPE.seed)
    captions = [describe(scene(TRAIN, i), rng) for i in range(1500)]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(
        vocab_size=700, special_tokens=list(_SPECIAL), initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(captions, trainer)
    return tokenizer


def build(vocabulary: int) -> Blip2ForConditionalGeneration:
    """The model with seeded initial weights."""
    torch.manual_seed(RECIPE.seed)
    size = {"hidden_size": 192, "num_attention_heads": 6}
    config = Blip2Config(
        vision_config={
            **size,
            "intermediate_size": 576,
            "num_hidden_layers": 4,
            "image_size": 128,
            "patch_size": PATCH,
            "initializer_range": 0.02,
        },
        qformer_config={
            **size,
            "intermediate_size": 384,
            "num_hidden_layers": 2,
            "encoder_hidden_size": 192,
            "cross_attention_frequency": 1,
            "vocab_size": 8,
            "hidden_dropout_prob": 0.0,
            "attention_probs_dropout_prob": 0.0,
        },
        text_config={
            **size,
            "model_type": "opt",
            "word_embed_proj_dim": 192,
            "ffn_dim": 576,
            "num_hidden_layers": 3,
            "vocab_size": vocabulary,
            "max_position_embeddings": QUERIES + TOKENS + 16,
            "dropout": 0.0,
            "bos_token_id": BOS,
            "pad_token_id": PAD,
            "eos_token_id": EOS,
        },
        num_query_tokens=QUERIES,
        image_token_index=IMAGE,
        attn_implementation="eager",  # the flash kernel's backward pass is several times slower on a CPU
    )
    blip2 = Blip2ForConditionalGeneration(config)
    nn.init.normal_(blip2.query_tokens, std=0.5)  # all queries start equal otherwise, and from scratch stay so
    return blip2


class _Patches(nn.Module):
    """The captioner with its throw-away head: logits of class, colour and kind a patch, weather and time an image."""

    def __init__(self, blip2: Blip2ForConditionalGeneration) -> None:
        super().__init__()
        self.blip2 = blip2
        width = blip2.config.vision_config.hidden_size
        self.patch = nn.Linear(width, len(CLASSES) + len(COLOURS) + len(KINDS))
        self.image = nn.Linear(width, len(WEATHERS) + len(TIMES))


def patch_truth(a_scene: Scene, mask: NDArray[np.uint8]) -> NDArray[np.int64]:
    """What each patch mostly shows: class, vehicle colour and kind (-100 where none), int64 [3, patches]."""
    labels = np.zeros((3, 128, 128), np.int64) - 100
    labels[0] = mask
    for vehicle in reversed(a_scene.vehicles):  # far to near: the nearest has the last word
        box = vehicle_box(a_scene, vehicle)
        rows = slice(max(0, round(box.y0 * 128)), round(box.y1 * 128))
        columns = slice(max(0, round(box.x0 * 128)), round(box.x1 * 128))
        on = mask[rows, columns] == CLASSES.index("vehicle")
        labels[1, rows, columns][on] = COLOURS.index(vehicle.colour)
        labels[2, rows, columns][on] = KINDS.index(vehicle.kind)
    # A patch is a vehicle's if a quarter of it is; the middle value of its vehicle pixels then names which one.
    tiles = labels.reshape(3, _GRID, PATCH, _GRID, PATCH).transpose(0, 1, 3, 2, 4).reshape(3, _GRID * _GRID, -1)
    out = np.full((3, _GRID * _GRID), -100, np.int64)
    for i in range(_GRID * _GRID):
        counts = np.bincount(tiles[0, i], minlength=len(CLASSES))
        out[0, i] = counts.argmax()
        if counts[CLASSES.index("vehicle")] >= PATCH * PATCH // 4:
            for k in (1, 2):
                out[k, i] = np.bincount(tiles[k, i][tiles[k, i] >= 0]).argmax() if (tiles[k, i] >= 0).any() else -100
    return out


def train(work: Path) -> tuple[Blip2ForConditionalGeneration, Tokenizer]:
    """Train, or load the finished training, from `work`."""
    tokenizer = build_tokenizer()
    model = _Patches(build(tokenizer.get_vocab_size()))
    pool = ScenePool(stream=TRAIN, size=4000, fresh=6)
    truth = np.zeros((pool.size, 3, _GRID * _GRID), np.int64)

    def loss_of(step: int) -> torch.Tensor:
        for slot in pool.advance(step):
            truth[slot] = patch_truth(pool.scenes[slot], pool.masks[slot])
        rng = np.random.default_rng((RECIPE.seed, step))
        index = rng.choice(pool.size, _BATCH, replace=False)
        pixels = as_pixels(pool.images[index])
        pixels += torch.randn_like(pixels) * 0.03
        scenes = [pool.scenes[i] for i in index]
        rows = [[*tokenizer.encode(describe(s, rng)).ids, EOS] for s in scenes]
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
        wanted = torch.from_numpy(truth[index])
        for k, part in enumerate(patches.split([len(CLASSES), len(COLOURS), len(KINDS)], -1)):
            seen = seen + F.cross_entropy(part.flatten(0, 1), wanted[:, k].flatten(), ignore_index=-100)
        sky = torch.tensor([WEATHERS.index(s.weather) for s in scenes])
        when = torch.tensor([TIMES.index(s.time) for s in scenes])
        weather, time = image.split([len(WEATHERS), len(TIMES)], -1)
        seen = seen + F.cross_entropy(weather, sky) + F.cross_entropy(time, when)
        return told + 0.3 * seen

    trained = fit("blip2", model, RECIPE, loss_of, work)
    assert isinstance(trained, _Patches)
    return trained.blip2, tokenizer
