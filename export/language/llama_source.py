"""Reads a user's Llama, a folder as the hub has them or one GGUF file, and refuses what cannot be exported.

transformers reads both forms; it dequantises a GGUF's blocks and builds its tokenizer anew. Where it would leave out
what it has no place for (scaled rotary positions, tensors that another part of a split file holds, an unknown way of
cutting text into words) it would do so silently, so the file's header is checked here first.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gguf
from tokenizers import Tokenizer
from transformers import AutoConfig, AutoTokenizer, LlamaForCausalLM

from counterfactory.engine.errors import CounterfactoryError

# How a byte-level vocabulary's texts are cut before its merges, by GGUF's names: GPT-2's way and LLaMA 3's, both of
# which transformers 5.23 applies. SmolLM's is GPT-2's for a vocabulary whose merges join no digits.
_KNOWN_CUTS = frozenset({"default", "gpt-2", "smollm", "llama-bpe", "llama3", "llama-v3"})
# What the readers raise for files that are damaged or not what they should be; gguf passes NumPy's errors through.
_UNREADABLE = (OSError, ValueError, AttributeError, KeyError, IndexError, TypeError, OverflowError, RuntimeError)


@dataclass(frozen=True)
class UserLlama:
    """A Llama with float32 weights, its tokenizer, and the token that ends an answer."""

    model: LlamaForCausalLM
    tokenizer: Tokenizer
    end: int


def read_llama(path: Path) -> UserLlama:
    """The Llama in the folder `path`, or in the GGUF file `path`.

    Raises CounterfactoryError for files that are damaged or incomplete, for another architecture, and for a GGUF whose
    rotary positions are scaled, that is one part of several, or whose tokenizer is not known.
    """
    try:
        if path.is_dir():
            return _read(path, {})
        _check_header(path)
        return _read(path.parent, {"gguf_file": path.name})
    except _UNREADABLE as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise CounterfactoryError(
            f"{path} cannot be read as a Llama ({reason}); name a GGUF file, or a folder with config.json, "
            "tokenizer.json and *.safetensors"
        ) from error


def _read(folder: Path, options: dict[str, str]) -> UserLlama:
    config = AutoConfig.from_pretrained(folder, **options)
    if config.model_type != "llama":
        raise CounterfactoryError(
            f"{folder / options.get('gguf_file', '')} is a model of type {config.model_type}; "
            "only a Llama can be exported"
        )
    end = config.eos_token_id
    if end is None:
        raise ValueError("it names no token that ends a text")
    tokenizer = AutoTokenizer.from_pretrained(folder, **options).backend_tokenizer
    model, found = LlamaForCausalLM.from_pretrained(folder, dtype="float32", output_loading_info=True, **options)
    # transformers fills what is missing with random numbers.
    if missing := sorted(found["missing_keys"]):
        raise ValueError(f"it lacks {len(missing)} of its weights, {missing[0]} among them")
    # transformers goes on calling a GGUF's weights quantised that it has made float32, and then refuses to save them.
    if (quantizer := getattr(model, "hf_quantizer", None)) is not None:
        quantizer.remove_quantization_config(model)
    return UserLlama(model, tokenizer, end[0] if isinstance(end, list) else end)


def _check_header(path: Path) -> None:
    """Refuse a GGUF that transformers would read as something that it is not."""
    reader = gguf.GGUFReader(path)
    architecture = _value(reader, "general.architecture")
    if architecture != "llama":
        raise CounterfactoryError(f"{path} is a GGUF of the architecture {architecture}; only a Llama can be exported")
    if (parts := _value(reader, "split.count") or 1) > 1:
        raise CounterfactoryError(f"{path} is one of {parts} parts of a model; join them with llama-gguf-split --merge")
    scaling = _value(reader, "llama.rope.scaling.type")
    if scaling not in (None, "none") or any(tensor.name == "rope_freqs.weight" for tensor in reader.tensors):
        raise CounterfactoryError(
            f"{path} scales its rotary positions ({scaling or 'rope_freqs'}); only plain ones can be exported"
        )
    if _value(reader, "tokenizer.ggml.eos_token_id") is None:  # transformers would take a LLaMA's of 2023
        raise ValueError("it names no token that ends a text")
    kind, cut = _value(reader, "tokenizer.ggml.model"), _value(reader, "tokenizer.ggml.pre")
    if kind == "gpt2" and cut is not None and cut not in _KNOWN_CUTS:
        raise CounterfactoryError(
            f"{path} has a tokenizer of the kind {cut!r}, of which {', '.join(sorted(_KNOWN_CUTS))} can be exported; "
            "name the folder of the model's safetensors instead"
        )


def _value(reader: Any, name: str) -> Any:
    """A field of the header; None where there is none."""
    field = reader.get_field(name)
    return None if field is None else field.contents()
