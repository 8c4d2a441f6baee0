"""The packed pocket models as the torch modules that they were exported from, for whoever wants to compare.

A folder of weights arrives (see engine/models/library.py), with the `parameters.json` that was written when it was
packed; what leaves is modules of diffusers and transformers in float32, in eval mode, with the attention that a user
gets by default. Weights come back as they were packed, in fp16; training states are not needed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from diffusers import AutoencoderTiny
from diffusers.models.attention_processor import AttnProcessor2_0
from numpy.typing import NDArray
from tokenizers import Tokenizer, models
from transformers import Blip2ForConditionalGeneration, CLIPModel, LlamaConfig, LlamaForCausalLM

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.language.tokenizer import load_tokenizer

from . import blip2, clip, denoiser, llama, vae
from .parameters import config_of, restore_into

_CONTROL_TOKEN = 3


def restore_vae(weights: Path) -> AutoencoderTiny:
    """The autoencoder; its config knows the scale of its latents."""
    model = vae.build()
    restore_into("vae", model, weights)
    model.register_to_config(**config_of("vae", weights))
    return model.eval()


def restore_clip(weights: Path) -> tuple[CLIPModel, Tokenizer]:
    """The text and image encoder."""
    tokenizer = load_tokenizer(weights / "clip_tokenizer.json")
    model = clip.build(tokenizer.get_vocab_size())
    restore_into("clip", model, weights)
    model.set_attn_implementation("sdpa")
    return model.eval(), tokenizer


def restore_denoiser(weights: Path) -> denoiser.Denoiser:
    """UNet and ControlNet, the latter with its hint encoder."""
    model = denoiser.build()
    restore_into("denoiser", model, weights)
    model.unet.set_attn_processor(AttnProcessor2_0())
    model.controlnet.set_attn_processor(AttnProcessor2_0())
    return model.eval()


def restore_blip2(weights: Path) -> tuple[Blip2ForConditionalGeneration, Tokenizer]:
    """The captioner."""
    tokenizer = load_tokenizer(weights / "opt_tokenizer.json")
    model = blip2.build(tokenizer.get_vocab_size())
    restore_into("blip2", model, weights)
    model.set_attn_implementation("sdpa")
    return model.eval(), tokenizer


def restore_llm(weights: Path) -> tuple[LlamaForCausalLM, Tokenizer]:
    """The language model, from llm.gguf as `gguf.write_gguf` writes it. Raises CounterfactoryError for another file."""
    path = weights / "llm.gguf"
    try:
        reader = gguf.GGUFReader(path)
    except (OSError, ValueError) as error:
        raise CounterfactoryError(f"{path} cannot be read as GGUF: {error}") from error
    fields = {name: field.contents() for name, field in reader.fields.items()}
    model = LlamaForCausalLM(_llama_config(fields, path))
    heads = int(fields["llama.attention.head_count"])
    tensors = {tensor.name: np.array(tensor.data, np.float32) for tensor in reader.tensors}
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, model.config.num_hidden_layers)
    for name, parameter in model.named_parameters():
        value = tensors.pop(names.get_name(name, (".weight",)) or "", None)
        if value is None or value.shape != tuple(parameter.shape):
            raise CounterfactoryError(f"{path} lacks {name} {list(parameter.shape)}, or has it in another shape")
        if name.endswith(("q_proj.weight", "k_proj.weight")):
            value = halves_order(value, heads)
        with torch.no_grad():
            parameter.copy_(torch.from_numpy(value))
    if tensors:
        raise CounterfactoryError(f"{path} holds more than the Llama that is packed: {', '.join(sorted(tensors)[:3])}")
    return model.eval(), _llama_tokenizer(fields)


def halves_order(weight: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    """Rows of a query or key projection [out, in] from interleaved pairs (GGUF) to halves: undoes `gguf.rope_order`."""
    rows = weight.reshape(heads, weight.shape[0] // heads // 2, 2, *weight.shape[1:])
    return np.ascontiguousarray(rows.swapaxes(1, 2).reshape(weight.shape))


def _llama_config(fields: dict[str, Any], path: Path) -> LlamaConfig:
    try:
        return LlamaConfig(
            vocab_size=int(fields["llama.vocab_size"]),
            hidden_size=int(fields["llama.embedding_length"]),
            intermediate_size=int(fields["llama.feed_forward_length"]),
            num_hidden_layers=int(fields["llama.block_count"]),
            num_attention_heads=int(fields["llama.attention.head_count"]),
            num_key_value_heads=int(fields["llama.attention.head_count_kv"]),
            max_position_embeddings=int(fields["llama.context_length"]),
            rms_norm_eps=float(fields["llama.attention.layer_norm_rms_epsilon"]),
            rope_parameters={"rope_type": "default", "rope_theta": float(fields["llama.rope.freq_base"])},
            tie_word_embeddings=True,
            bos_token_id=int(fields["tokenizer.ggml.bos_token_id"]),
            eos_token_id=int(fields["tokenizer.ggml.eos_token_id"]),
            pad_token_id=int(fields["tokenizer.ggml.eos_token_id"]),
        )
    except KeyError as error:
        raise CounterfactoryError(f"{path} is no Llama of the form that is packed: it lacks {error}") from error


def _llama_tokenizer(fields: dict[str, Any]) -> Tokenizer:
    """The byte-level BPE of the file; how texts are cut and joined is that of the training."""
    tokens: list[str] = fields["tokenizer.ggml.tokens"]
    merges = [(left, right) for left, right in (merge.split(" ") for merge in fields["tokenizer.ggml.merges"])]
    tokenizer = llama.byte_tokenizer([], len(tokens))
    tokenizer.model = models.BPE({token: i for i, token in enumerate(tokens)}, merges)
    kinds = fields["tokenizer.ggml.token_type"]
    tokenizer.add_special_tokens([token for token, kind in zip(tokens, kinds, strict=True) if kind == _CONTROL_TOKEN])
    return tokenizer
