"""Writes a small LlamaForCausalLM and its byte-level BPE to one GGUF file (fp16), which OpenVINO GenAI reads.

It takes what the pocket model has: as many key heads as query heads, tied embeddings, no biases. The rest is refused.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from numpy.typing import NDArray
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
_NORMAL_TOKEN, _CONTROL_TOKEN = 1, 3


def rope_order(weight: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    """Rows of a query or key projection [out, in] from halves (transformers) to interleaved pairs (GGUF)."""
    rows = weight.reshape(heads, 2, weight.shape[0] // heads // 2, *weight.shape[1:])
    return np.ascontiguousarray(rows.swapaxes(1, 2).reshape(weight.shape))


def _refuse_what_is_not_written(model: LlamaForCausalLM, tokenizer: Tokenizer) -> None:
    config = model.config
    grouped = config.num_key_value_heads != config.num_attention_heads
    if grouped or not config.tie_word_embeddings or config.attention_bias:
        raise ValueError("only a Llama with tied embeddings, plain multi-head attention and no biases can be written")
    if tokenizer.get_vocab_size() != config.vocab_size:
        raise ValueError(f"the tokenizer has {tokenizer.get_vocab_size()} tokens, the model {config.vocab_size}")


def _write_tokenizer(writer: gguf.GGUFWriter, tokenizer: Tokenizer, special: int, end: int) -> None:
    tokens = [token for token, _ in sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])]
    merges = json.loads(tokenizer.to_str())["model"]["merges"]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types([_CONTROL_TOKEN if i < special else _NORMAL_TOKEN for i in range(len(tokens))])
    writer.add_token_merges([" ".join(pair) if isinstance(pair, list) else pair for pair in merges])
    writer.add_bos_token_id(end)
    writer.add_eos_token_id(end)
    writer.add_add_bos_token(False)


def write_gguf(model: LlamaForCausalLM, tokenizer: Tokenizer, path: Path, *, special: int, end: int) -> None:
    """Write model and tokenizer to `path`; the first `special` tokens are control tokens, `end` closes a text.

    Matrices are fp16, norms fp32. The file is written aside and renamed. Raises ValueError for another architecture.
    """
    _refuse_what_is_not_written(model, tokenizer)
    config = model.config
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_suffix(".tmp")
    writer = gguf.GGUFWriter(str(aside), "llama")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_attention_heads)
    rope: Any = config.rope_parameters
    writer.add_rope_freq_base(float(rope["rope_theta"]))
    writer.add_rope_dimension_count(config.hidden_size // config.num_attention_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(config.vocab_size)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    _write_tokenizer(writer, tokenizer, special, end)

    weights = {name: value.detach().to(torch.float32).numpy() for name, value in model.state_dict().items()}

    def put(name: str, value: NDArray[np.float32]) -> None:
        writer.add_tensor(f"{name}.weight", value.astype(np.float16) if value.ndim == 2 else value)

    put("token_embd", weights["model.embed_tokens.weight"])
    put("output_norm", weights["model.norm.weight"])
    for layer in range(config.num_hidden_layers):
        for ours, theirs in _LAYER.items():
            value = weights[f"model.layers.{layer}.{theirs}.weight"]
            if ours in ("attn_q", "attn_k"):
                value = rope_order(value, config.num_attention_heads)
            put(f"blk.{layer}.{ours}", value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    aside.replace(path)
