"""The sentence encoder: a small BERT goes to OpenVINO and gives there what transformers gives."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import BertConfig, BertModel

from counterfactory.engine.config.networks import networks_of
from counterfactory.engine.config.profile import load_profile
from counterfactory.engine.language.tokenizer import load_tokenizer
from counterfactory.engine.meter.meter import Meter
from counterfactory.engine.models.library import Library
from counterfactory.engine.models.opened import Opened
from counterfactory.engine.stages.pointing import GroundingSettings
from counterfactory.export import __main__ as exporter
from counterfactory.export.graphs.parity import assert_parity

WORDS = ["[PAD]", "[UNK]", *(f"w{number}" for number in range(30))]


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    torch.manual_seed(4)
    config = BertConfig(
        vocab_size=len(WORDS), hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48
    )
    bert = BertModel(config, add_pooling_layer=False)
    for parameter in bert.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    bert.save_pretrained(tmp_path / "bert")
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(tmp_path / "bert" / "tokenizer.json"))
    return tmp_path / "bert"


def test_embeddings_are_means_over_the_tokens_of_length_one(
    weights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "models"
    monkeypatch.setattr("sys.argv", ["export", "sentence", str(weights), "--out", str(out)])
    with pytest.raises(SystemExit) as done:
        exporter.main()
    assert done.value.code == 0
    pocket = load_profile("pocket")
    profile = replace(
        pocket, llm=replace(pocket.llm, style="chatml"), grounding=GroundingSettings(batch=2, min_similarity=0.5)
    )
    runtime = replace(profile.runtime, precision="f32", threads=1)
    opened = Opened(Library(out, networks_of(profile), runtime, profile.llm), Meter(lambda _: None))
    texts = ["w1 w2 w3", "w4", " ".join(f"w{i % 30}" for i in range(80))]
    found = opened.sentence().encode(texts)
    assert opened.sentence() is opened.sentence()
    bert = BertModel.from_pretrained(weights, add_pooling_layer=False).eval()
    expected = []
    for text in texts:
        ids = torch.tensor([[WORDS.index(word) for word in text.split()[:64]]])
        with torch.no_grad():
            mean = bert(input_ids=ids).last_hidden_state.mean(1)[0]
        expected.append((mean / mean.norm()).numpy())
    assert_parity(found, np.stack(expected), "fp16")
    assert load_tokenizer(out / "sentence_tokenizer.json").encode("w1").ids == [WORDS.index("w1")] + [0] * 63
