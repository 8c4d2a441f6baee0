"""The sentence encoder of `[grounding]`: all-MiniLM-L6-v2, or another BERT trained for sentences."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from transformers import BertConfig, BertModel

from ..graphs.hub import locate
from ..graphs.sentence import LENGTH, Sentence, fit_tokenizer, load_bert, load_sentence_tokenizer
from ..graphs.weights import fill
from .clip import TINY
from .graph import ROWS, Graph, Request, static
from .small_words import sentence_tokenizer

# sentence-transformers/all-MiniLM-L6-v2's config.json; all else is as transformers has it.
MINILM_L6: Mapping[str, Any] = {"hidden_size": 384, "num_hidden_layers": 6, "intermediate_size": 1536}
SMALL: Mapping[str, Any] = {**TINY, "vocab_size": 60, "max_position_embeddings": LENGTH}


def build(request: Request) -> BertModel:
    if request.sources is None:
        config = BertConfig(**(SMALL if request.small else MINILM_L6), attn_implementation="eager")
        bert = BertModel(config, add_pooling_layer=False)
        fill(bert, request.seed)
    else:
        bert = load_bert(_folder(request))
    return bert.eval().requires_grad_(False)


def graph(request: Request) -> Graph:
    """input_ids and attention_mask, int64 [B, 64] both, to unit embeddings [B, D]."""
    bert = build(request)
    generator = torch.Generator().manual_seed(request.seed)
    ids = torch.randint(1, bert.config.vocab_size, (2, LENGTH), generator=generator)
    mask = torch.ones_like(ids)
    mask[0, LENGTH // 4 :] = 0
    inputs = {"input_ids": ids * mask, "attention_mask": mask}
    plan = static(request.batch("sentence"), inputs)
    return Graph("sentence", Sentence(bert), inputs, ("embeddings",), dict.fromkeys(inputs, ROWS), plan)


def tokenizer_of(request: Request) -> Tokenizer:
    """The tokenizer beside the weights, cut and padded to the plan's length; the small set's own."""
    if request.sources is None:
        return fit_tokenizer(sentence_tokenizer(SMALL["vocab_size"]), 0)
    folder = _folder(request)
    return load_sentence_tokenizer(folder, BertConfig.from_pretrained(folder, local_files_only=True).pad_token_id or 0)


def write_tokenizer(request: Request, folder: Path) -> None:
    """sentence_tokenizer.json in `folder`; nothing for random weights of real size, whose tokenizer comes with them."""
    if request.small or request.sources is not None:
        (folder / "sentence_tokenizer.json").write_text(tokenizer_of(request).to_str())


def _folder(request: Request) -> Path:
    assert request.sources is not None, "random weights have no folder"
    return locate(request.sources.named("sentence"), ("config.json", "tokenizer.json"))
