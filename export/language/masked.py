"""A masked language model for `[random_words]`, such as bert-base-uncased, as OpenVINO IR for profiles of CPUs.

    python -m counterfactory.export masked FOLDER --out MODELS

FOLDER holds config.json, model.safetensors and tokenizer.json, or is a hub id with its commit. Written are masked.xml,
masked.bin, masked_tokenizer.json, and masked.json: the blank's text and token, and which tokens are whole words.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import nn
from transformers import AutoModelForMaskedLM

from counterfactory.engine.errors import CounterfactoryError

from ..graphs.hub import locate
from ..graphs.sentence import LENGTH, feeds_of, load_sentence_tokenizer
from ..graphs.tracing import to_ir

_MASKS = ("[MASK]", "<mask>")
# How vocabularies mark a token that begins a word; those of BERT's kind mark the tokens that go on instead.
_BEGINNINGS = ("\u0120", "\u2581")
_GOES_ON = "##"


class Blanked(nn.Module):
    """input_ids and attention_mask, int64 [B, T] both, and place, int64 [B], to the logits [B, V] at that place."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
        """What the network would put at the place of each row."""
        logits = self.model(input_ids=input_ids, attention_mask=attention_mask).logits
        at = place[:, None, None].expand(-1, 1, logits.shape[-1])
        return torch.gather(logits, 1, at)[:, 0]


def load_masked(folder: Path) -> Any:
    """The network in `folder`, in float32. Raises CounterfactoryError for what is no masked language model."""
    try:
        model, found = AutoModelForMaskedLM.from_pretrained(
            folder, attn_implementation="eager", local_files_only=True, output_loading_info=True
        )
    except (OSError, ValueError, RuntimeError) as error:
        said = str(error).strip().splitlines()[0]
        raise CounterfactoryError(f"{folder} cannot be read as a masked language model: {said}") from error
    if missing := sorted(found["missing_keys"]):  # transformers would fill them with random numbers
        raise CounterfactoryError(
            f"{folder} lacks {len(missing)} weights of a masked language model, {missing[0]} among them: an encoder "
            "without its output layer says no words"
        )
    return model.float().eval()


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
    """Write the network's files to the folder `out`. Raises CounterfactoryError for what is no masked language model,
    and for a tokenizer without a blank.
    """
    model = load_masked(source)
    tokenizer = load_sentence_tokenizer(source, model.config.pad_token_id or 0)
    mask = next((text for text in _MASKS if tokenizer.token_to_id(text) is not None), None)
    if mask is None:
        raise CounterfactoryError(f"the tokenizer of {source} has none of {', '.join(_MASKS)}: it knows no blank")
    texts = [f"a {mask} on grass", f"two {mask} stand by a wall"]
    inputs = {**feeds_of(tokenizer, texts), "place": torch.tensor([1, LENGTH // 2])}
    out.mkdir(parents=True, exist_ok=True)
    with torch.no_grad():
        to_ir(Blanked(model), inputs, ("logits",), out / "masked.xml")
    tokenizer.save(str(out / "masked_tokenizer.json"))
    said = {"mask": mask, "token": tokenizer.token_to_id(mask), "words": words_of(tokenizer)}
    (out / "masked.json").write_text(json.dumps(said), encoding="utf-8")


def add_command(commands: Any) -> None:
    """Add `masked` to the exporter's command line."""

    def run(asked: argparse.Namespace, say: Callable[[str], None]) -> int:
        export_masked(locate(asked.source, ("config.json", "tokenizer.json")), asked.out)
        say(f"{asked.out / 'masked.xml'} written; [random_words] of a profile uses it")
        return 0

    parser = commands.add_parser("masked", help="export the masked language model of [random_words] for a CPU")
    parser.add_argument("source", help="folder of the weights, or ID@COMMIT")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="the profile's folder of networks")
    parser.set_defaults(run=run)
