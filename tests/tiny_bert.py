"""A sentence encoder as its hub publishes one, in small: a BERT of random weights and its tokenizer."""

from __future__ import annotations

from pathlib import Path

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import BertConfig, BertModel

WORDS = ["[PAD]", "[UNK]", *(f"w{number}" for number in range(30))]


def save_bert(folder: Path) -> None:
    """Write the encoder's weights and tokenizer."""
    torch.manual_seed(4)
    config = BertConfig(
        vocab_size=len(WORDS), hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48
    )
    bert = BertModel(config, add_pooling_layer=False)
    for parameter in bert.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    bert.save_pretrained(folder)
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))
