"""A Llama in small, of random weights: queries share keys by twos, and the output is a matrix of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM

from counterfactory.export.pocket import llama

TEXTS = ("a red car on a street", "12 Keywords: none")


def tiny_tokenizer(vocabulary: int = 300) -> Tokenizer:
    """A byte-level tokenizer that knows the words of `TEXTS`."""
    return llama.byte_tokenizer(TEXTS * 4, vocabulary)


def byte_level(texts: Sequence[str], vocabulary: int, special: Sequence[str], space_before: bool = False) -> Tokenizer:
    """As GPT-2's, SmolLM2's and OPT's, which differ in whether a space is put before a text."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=space_before)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary, special_tokens=list(special), initial_alphabet=alphabet, show_progress=False
    )
    made.train_from_iterator(texts, trainer)
    return made


def tiny_llama(tokenizer: Tokenizer, **changed: Any) -> LlamaForCausalLM:
    """The model for a tokenizer; `changed` are other settings of its config."""
    torch.manual_seed(3)
    config = {
        "vocab_size": tokenizer.get_vocab_size(),
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 128,
        "tie_word_embeddings": False,
        "rope_parameters": {"rope_type": "default", "rope_theta": 500.0},
    }
    model = LlamaForCausalLM(LlamaConfig(**(config | changed))).eval()
    with torch.no_grad():
        for name, value in model.named_parameters():  # fresh weights hardly look at the context
            value.mul_(1.0 if "norm" in name else 8.0)
            value.copy_(value.half().float())
    return model
