"""What stands in, on a CPU, for the compiled parts of ExLlama and for a network's arithmetic; nothing of ours does.

Both packages' compiled extensions become modules with the few functions that the generator calls, in slow torch. The
network's forward pass becomes `forward_chunk`: its "keys" are the token ids, written into the package's own cache at
the pages that its own page table says, and the next token's scores are a hash of all ids that the row's pages hold. So
a wrong page, a lost token or a shared prefix that is none changes the answer.
"""

from __future__ import annotations

import hashlib
import importlib.machinery
import json
import sys
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from tiny_llama import byte_level, tiny_llama

PAGE = 256
# The network's head is wider than the tokenizer's vocabulary, as heads often are.
HEAD = 384


def scores(ids: Sequence[int]) -> NDArray[np.float32]:
    """Scores [HEAD] of the token after `ids`: anything, but always the same."""
    digest = hashlib.sha256(np.asarray(ids, np.int64).tobytes()).digest()
    return np.random.default_rng(int.from_bytes(digest[:8], "little")).standard_normal(HEAD).astype(np.float32)


def drawn(logits: NDArray[np.float32], temperature: float, top_p: float, random: float) -> int:
    """The token at `random` of the likeliest that sum to `top_p`, by their order."""
    weights = np.exp((logits.astype(np.float64) - logits.max()) / temperature)
    weights /= weights.sum()
    order = np.argsort(-weights, kind="stable")
    kept = order[: int(np.searchsorted(np.cumsum(weights[order]), top_p)) + 1]
    share = np.cumsum(weights[kept]) / weights[kept].sum()
    return int(kept[min(int(np.searchsorted(share, random, side="right")), len(kept) - 1)])


def real_package(name: str) -> Any:
    """The installed package over a compiled module that stands in."""
    sys.modules.setdefault(f"{name}_ext", extension(f"{name}_ext"))
    return pytest.importorskip(name, reason=f"no {name}: the engine's calls of it go unchecked", exc_type=ImportError)


def extension(name: str) -> types.ModuleType:
    """The compiled module of either package, as far as the generator needs it."""
    module = types.ModuleType(name)
    module.__spec__ = importlib.machinery.ModuleSpec(
        name, importlib.machinery.SourceFileLoader(name, "x"), origin=f"x{importlib.machinery.EXTENSION_SUFFIXES[0]}"
    )

    def absent(called: str) -> Any:
        def refuse(*_: Any, **__: Any) -> Any:
            raise NotImplementedError(f"{name}.{called} has no stand-in")

        if called.startswith("__"):
            raise AttributeError(called)
        return refuse

    def fast_fill_cpu_ones_bool(mask: torch.Tensor) -> None:
        mask.fill_(True)

    def logit_filter_exclusive(mask: torch.Tensor, lists: list[list[int]]) -> None:
        for row, tokens in enumerate(lists):
            kept = torch.zeros_like(mask[row])
            kept[tokens] = True
            mask[row] &= kept

    def sample_basic(logits: torch.Tensor, temperature: float, top_k: int, top_p: float, *rest: Any) -> list[float]:
        random, tokens, probs, mask = rest[4], rest[5], rest[6], rest[9]
        row = logits.flatten().float()
        if mask.device.type != "meta":
            row = torch.where(mask.flatten(), row, float("-inf"))
        greedy = top_k == 1
        tokens[0, 0] = int(row.argmax()) if greedy else drawn(row.numpy(), temperature, top_p, random)
        probs[0, 0] = 1.0
        return []

    def count_match(page: torch.Tensor, ids: torch.Tensor, most: int) -> int:
        a, b = page.flatten()[:most].tolist(), ids.flatten().tolist()
        return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))

    def partial_strings_match(*_: Any) -> int:
        return -1

    def cache_rotate(cache: torch.Tensor, order: torch.Tensor, buffer: torch.Tensor) -> None:
        cache[order.long()] = cache[order.roll(-1).long()].clone()

    for function in (
        cache_rotate,
        fast_fill_cpu_ones_bool,
        logit_filter_exclusive,
        sample_basic,
        count_match,
        partial_strings_match,
    ):
        setattr(module, function.__name__, function)
    module.__dict__["__getattr__"] = absent  # tables of kernels are made on import
    return module


class Forward:
    """`forward_chunk` of exllamav2's model, and what it was asked: rows and tokens of every pass."""

    def __init__(self) -> None:
        self.steps: list[int] = []
        self.read: list[int] = []
        self.fails = False

    def __call__(
        self,
        input_ids: torch.Tensor,
        preprocess_only: bool = False,
        attn_params: Any = None,
        cache: Any = None,
        **_: Any,
    ) -> dict[str, torch.Tensor]:
        if self.fails:
            raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB\nmore")
        rows, length = input_ids.shape
        if preprocess_only:
            self.read.append(length)
        else:
            self.steps.append(rows)
        keys = cache.key_states[0]
        logits = torch.zeros(rows, length, HEAD)
        for row in range(rows):
            start, pages = int(attn_params.cache_seqlens[row]), attn_params.block_index[row].tolist()

            def at(place: int, pages: list[int] = pages) -> int:
                return int(pages[place // PAGE]) * PAGE + place % PAGE

            for i in range(length):
                keys[0, at(start + i), 0, 0] = float(input_ids[row, i])
            if not preprocess_only:
                ids = [int(keys[0, at(place), 0, 0]) for place in range(start + length)]
                logits[row, -1] = torch.from_numpy(scores(ids))
        return {"logits": logits}


def write_model(folder: Path) -> Path:
    """A LLaMA of one layer as a folder from the hub: config.json, tokenizer.json, tokenizer_config.json, weights."""
    # With LLaMA-2's marks as special tokens.
    texts = ['["a red car on a street in the rain at night","weather"]'] * 20
    tokenizer = byte_level(texts, HEAD - 20, ["<unk>", "<s>", "</s>"])
    folder.mkdir(parents=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"bos_token": "<s>", "eos_token": "</s>"}))
    assert tokenizer.get_vocab_size() < HEAD
    config = {"num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 128}
    tiny_llama(tokenizer, vocab_size=HEAD, max_position_embeddings=2048, **config).half().save_pretrained(folder)
    return folder
