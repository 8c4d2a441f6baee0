"""A Llama in miniature, of seeded random weights."""

from __future__ import annotations

from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM


def tiny_llama(vocabulary: int, seed: int, **sizes: Any) -> LlamaForCausalLM:
    """Two layers of two heads, unless `sizes` says otherwise."""
    torch.manual_seed(seed)
    usual = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 2}
    return LlamaForCausalLM(LlamaConfig(vocab_size=vocabulary, **usual | sizes)).eval()
