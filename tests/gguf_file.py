"""Writes a small Llama as the GGUF file that llama.cpp's converter would make of it, with whatever a test changes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from tokenizers import Tokenizer
from transformers import LlamaForCausalLM

_LAYER = {
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def write_gguf(
    model: LlamaForCausalLM,
    tokenizer: Tokenizer,
    path: Path,
    *,
    special: int,
    end: int | None,
    architecture: str = "llama",
    fields: Mapping[str, Any] | None = None,
    without: str = "",
    beside: Mapping[str, Any] | None = None,
) -> Path:
    """Matrices in fp16, norms in fp32. The first `special` tokens are control tokens. `fields` are set last, tensors
    whose names hold `without` are left out, and those `beside` are added.
    """
    config, name = model.config, architecture
    vocabulary = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
    writer = gguf.GGUFWriter(str(path), architecture)
    numbers = {
        f"{name}.context_length": config.max_position_embeddings,
        f"{name}.embedding_length": config.hidden_size,
        f"{name}.block_count": config.num_hidden_layers,
        f"{name}.feed_forward_length": config.intermediate_size,
        f"{name}.attention.head_count": config.num_attention_heads,
        f"{name}.attention.head_count_kv": config.num_key_value_heads,
        f"{name}.attention.layer_norm_rms_epsilon": float(config.rms_norm_eps),
        f"{name}.rope.freq_base": float(config.rope_parameters["rope_theta"]),
        f"{name}.rope.dimension_count": config.hidden_size // config.num_attention_heads,
        f"{name}.vocab_size": config.vocab_size,
    }
    text = {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "smollm"}
    for key, value in (numbers | text | dict(fields or {})).items():
        kinds: dict[type, Any] = {int: writer.add_uint32, float: writer.add_float32, str: writer.add_string}
        kinds[type(value)](key, value)
    writer.add_token_list([token for token, _ in vocabulary])
    writer.add_token_types([3 if i < special else 1 for i in range(len(vocabulary))])
    writer.add_token_merges([" ".join(pair) for pair in json.loads(tokenizer.to_str())["model"]["merges"]])
    if end is not None:
        writer.add_eos_token_id(end)
    tensors = {name: value.detach().float().numpy() for name, value in model.named_parameters()}
    named = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
    named |= {
        f"blk.{i}.{ours}": f"model.layers.{i}.{theirs}"
        for i in range(config.num_hidden_layers)
        for ours, theirs in _LAYER.items()
    }
    heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}
    for ours, theirs in named.items():
        if f"{theirs}.weight" not in tensors or (without and without in ours):
            continue
        value = tensors[f"{theirs}.weight"]
        if count := heads.get(ours.split(".")[-1]):
            value = interleaved(value, count)
        writer.add_tensor(f"{ours}.weight", value.astype(np.float16) if value.ndim == 2 else value)
    for key, value in (beside or {}).items():
        writer.add_tensor(key, value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def interleaved(weight: Any, heads: int) -> Any:
    """Rows of a query or key projection [out, in]: halves, as transformers has them, become pairs, as GGUF has them."""
    size = weight.shape[0] // heads
    order = [head * size + half * size // 2 + i for head in range(heads) for i in range(size // 2) for half in (0, 1)]
    return np.ascontiguousarray(weight[order])
