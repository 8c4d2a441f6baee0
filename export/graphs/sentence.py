"""A sentence encoder, a BERT trained for sentences such as all-MiniLM-L6-v2, as it is exported for CPUs and GPUs alike.

Embeddings are means over the tokens, of length 1, as Sentence-Transformers computes them (Reimers and Gurevych 2019,
arXiv 1908.10084).
"""

from __future__ import annotations

from pathlib import Path

import torch
from tokenizers import Tokenizer
from torch import Tensor, nn
from transformers import BertModel

from .pretrained import TABLES, load_pretrained, read_tokenizer

# Labels and phrases are short; a caption of 60 words fits.
LENGTH = 64
# Its pooler, which means over tokens do without, and the heads of its training.
_UNUSED = rf"{TABLES}|^(bert\.)?pooler\.|^cls\."


class Sentence(nn.Module):
    """Token ids and their mask, int64 [B, T] both, to unit embeddings [B, D]."""

    def __init__(self, bert: BertModel) -> None:
        super().__init__()
        self.bert = bert

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        states = self.bert(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        shown = attention_mask[..., None].to(states.dtype)
        return nn.functional.normalize((states * shown).sum(1) / shown.sum(1), dim=-1)


def load_bert(folder: Path) -> BertModel:
    """The network in `folder` (config.json, model.safetensors), in float32. Raises CounterfactoryError for another."""
    how = {"add_pooling_layer": False, "attn_implementation": "eager"}
    bert: BertModel = load_pretrained(BertModel, folder, "a BERT", unused=_UNUSED, **how)
    return bert.float().eval()


def load_sentence_tokenizer(folder: Path, pad: int) -> Tokenizer:
    """The tokenizer.json in `folder`, which cuts and pads to `LENGTH` tokens, `pad` the token to pad with."""
    return fit_tokenizer(read_tokenizer(folder / "tokenizer.json"), pad)


def fit_tokenizer(tokenizer: Tokenizer, pad: int) -> Tokenizer:
    """The tokenizer, which then cuts and pads to `LENGTH` tokens."""
    tokenizer.enable_truncation(LENGTH)
    tokenizer.enable_padding(length=LENGTH, pad_id=pad)
    return tokenizer


def feeds_of(tokenizer: Tokenizer, texts: list[str]) -> dict[str, Tensor]:
    found = tokenizer.encode_batch(texts)
    masks = torch.tensor([one.attention_mask for one in found])
    return {"input_ids": torch.tensor([one.ids for one in found]), "attention_mask": masks}
