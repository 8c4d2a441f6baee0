"""Reads a user's Llama, a folder as the hub has them or one GGUF file, and refuses what cannot be exported.

transformers reads both forms' configurations and tokenizers, and a folder's weights. Where it would leave out what it
has no place for in a GGUF (scaled rotary positions, tensors that another part of a split file holds, an unknown way of
cutting text into words) it would do so silently, so the file's header is checked here first. A GGUF's blocks are
dequantised here, a tensor at a time into a file that is mapped: whole, it would take 7 GB for each 1.7 B weights.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from tokenizers import Tokenizer
from transformers import AutoConfig, AutoTokenizer, LlamaForCausalLM

from counterfactory.engine.errors import CounterfactoryError

from ..graphs.mapped import build_empty, lay_out

_LAYER = {"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "o_proj": "attn_output"}
_LAYER |= {f"{part}_proj": f"attn_{part}" for part in "qkv"}
_LAYER |= {f"{part}_proj": f"ffn_{part}" for part in ("gate", "up", "down")}
# How a byte-level vocabulary's texts are cut before its merges, by GGUF's names: GPT-2's way and LLaMA 3's, both of
# which transformers 5.23 applies. SmolLM's is GPT-2's for a vocabulary whose merges join no digits.
_KNOWN_CUTS = frozenset({"default", "gpt-2", "smollm", "llama-bpe", "llama3", "llama-v3"})
_UNUSED = "rotary_emb.inv_freq"  # which older versions saved, and which follows from the configuration
# What the readers raise for files that are damaged or not what they should be; gguf passes NumPy's errors through.
_UNREADABLE = (OSError, ValueError, AttributeError, KeyError, IndexError, TypeError, OverflowError, RuntimeError)


@dataclass(frozen=True)
class UserLlama:
    """A Llama with float32 weights, its tokenizer, and the token that ends an answer."""

    model: LlamaForCausalLM
    tokenizer: Tokenizer
    end: int


def read_llama(path: Path, scratch: Path | None = None) -> UserLlama:
    """The Llama in the folder `path`, or in the GGUF file `path`, whose weights are laid out in the folder `scratch`.

    Raises CounterfactoryError for files that are damaged or incomplete, for another architecture, and for a GGUF whose
    rotary positions are scaled, that is one part of several, or whose tokenizer is not known.
    """
    try:
        if path.is_dir():
            return _read(path, {})
        reader = gguf.GGUFReader(path)
        _check_header(path, reader)
        return _read(path.parent, {"gguf_file": path.name}, lambda config: _dequantised(reader, config, scratch))
    except _UNREADABLE as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        advice = "name a GGUF file, or a folder with config.json, tokenizer.json and *.safetensors"
        raise CounterfactoryError(f"{path} cannot be read as a Llama ({reason}); {advice}") from error


def _read(folder: Path, options: dict[str, str], read: Callable[[Any], LlamaForCausalLM] | None = None) -> UserLlama:
    """What transformers reads; with `read` that makes the model of its configuration."""
    config = AutoConfig.from_pretrained(folder, **options)
    if config.model_type != "llama":
        what = f"{folder / options.get('gguf_file', '')} is a model of type {config.model_type}"
        raise CounterfactoryError(f"{what}; only a Llama can be exported")
    end = config.eos_token_id
    if end is None:
        raise ValueError("it names no token that ends a text")
    tokenizer = AutoTokenizer.from_pretrained(folder, **options).backend_tokenizer
    last = end[0] if isinstance(end, list) else end
    if read is not None:
        return UserLlama(read(config), tokenizer, last)
    model, found = LlamaForCausalLM.from_pretrained(folder, dtype="float32", output_loading_info=True, **options)
    # transformers fills what is missing with random numbers, and leaves out what it has no place for.
    if missing := sorted(found["missing_keys"]):
        raise ValueError(f"it lacks {len(missing)} of its weights, {missing[0]} among them")
    if extra := sorted(name for name in found["unexpected_keys"] if not name.endswith(_UNUSED)):
        raise ValueError(f"it holds {len(extra)} tensors that no Llama has, {extra[0]} among them")
    return UserLlama(model, tokenizer, last)


def _dequantised(reader: Any, config: Any, scratch: Path | None) -> LlamaForCausalLM:
    """The model of `config` with a GGUF's weights. Raises ValueError for a tensor that is missing, is not the model's,
    or has another shape.
    """
    tensors = {tensor.name: tensor for tensor in reader.tensors}
    tied = "output.weight" not in tensors
    config.tie_word_embeddings = tied
    model = lay_out(build_empty(lambda: LlamaForCausalLM(config)), scratch and scratch / "llama.weights")
    heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}
    for name, parameter in model.named_parameters():
        ours = _gguf_name(name)
        tensor = tensors.pop(ours, None)
        if tensor is None:
            raise ValueError(f"it lacks 1 of its weights, {name}, as {ours}")
        values = gguf.dequantize(tensor.data, tensor.tensor_type)
        if values.shape != parameter.shape:
            raise ValueError(f"{ours} is {list(values.shape)}, not {list(parameter.shape)}")
        if count := heads.get(ours.rsplit(".", 2)[-2]):  # pairs become halves, as transformers turns positions
            pairs = values.reshape(count, -1, 2, values.shape[1])
            values = pairs.swapaxes(1, 2).reshape(values.shape)
        parameter.data.copy_(torch.from_numpy(values.astype(np.float32)))
    if tensors:
        raise ValueError(f"it holds {len(tensors)} tensors that no Llama has, {next(iter(tensors))} among them")
    return model.eval()


def _gguf_name(parameter: str) -> str:
    parts = parameter.removesuffix(".weight").split(".")
    if "layers" not in parts:
        return {"embed_tokens": "token_embd", "norm": "output_norm", "lm_head": "output"}[parts[-1]] + ".weight"
    return f"blk.{parts[2]}.{_LAYER[parts[-1]]}.weight"


def _check_header(path: Path, reader: Any) -> None:
    """Refuse a GGUF that would be read as something that it is not."""
    architecture = _value(reader, "general.architecture")
    if architecture != "llama":
        raise CounterfactoryError(f"{path} is a GGUF of the architecture {architecture}; only a Llama can be exported")
    if (parts := _value(reader, "split.count") or 1) > 1:
        raise CounterfactoryError(f"{path} is one of {parts} parts of a model; join them with llama-gguf-split --merge")
    scaling = _value(reader, "llama.rope.scaling.type")
    if scaling not in (None, "none") or any(tensor.name == "rope_freqs.weight" for tensor in reader.tensors):
        scaled = f"{path} scales its rotary positions ({scaling or 'rope_freqs'})"
        raise CounterfactoryError(f"{scaled}; only plain ones can be exported")
    if _value(reader, "tokenizer.ggml.eos_token_id") is None:  # transformers would take a LLaMA's of 2023
        raise ValueError("it names no token that ends a text")
    kind, cut = _value(reader, "tokenizer.ggml.model"), _value(reader, "tokenizer.ggml.pre")
    if kind == "gpt2" and cut is not None and cut not in _KNOWN_CUTS:
        known = f"of which {', '.join(sorted(_KNOWN_CUTS))} can be exported"
        advice = "name the folder of the model's safetensors instead"
        raise CounterfactoryError(f"{path} has a tokenizer of the kind {cut!r}, {known}; {advice}")


def _value(reader: Any, name: str) -> Any:
    field = reader.get_field(name)
    return None if field is None else field.contents()
