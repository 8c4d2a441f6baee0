"""The masked language model: a small BERT goes to OpenVINO and fills blanks there as transformers' pipeline does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from exporter import run_exporter
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import BertConfig, BertForMaskedLM, BertModel, PreTrainedTokenizerFast, pipeline

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.meter.meter import Meter
from counterfactory.engine.models.library import Library
from counterfactory.engine.models.model_pool import ModelPool
from counterfactory.engine.models.networks import networks_of
from counterfactory.engine.models.text_networks import MaskVocabulary
from counterfactory.engine.profile.profile import load_profile
from counterfactory.engine.profile.rewrite import RandomWordSettings
from counterfactory.export.language.bert import export_masked, words_of

WORDS = ["dog", "cat", "grass", "old", "red", "##s", "on", "a", "3", "x-y", "wall", "Bus", "."]
BLANKS = [("a ", " dog on grass."), ("A red ", ""), ("a dog on ", " red wall"), (" ".join(["a"] * 70) + " ", "")]


def bert_tokenizer() -> Tokenizer:
    vocabulary = {word: i for i, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS])}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        "[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    return tokenizer


def save(folder: Path) -> BertForMaskedLM:
    torch.manual_seed(5)
    tokenizer = bert_tokenizer()
    sizes = {"vocab_size": tokenizer.get_vocab_size(), "hidden_size": 32, "num_hidden_layers": 2}
    model = BertForMaskedLM(BertConfig(**sizes, num_attention_heads=4, intermediate_size=48, pad_token_id=0))
    for name, value in model.named_parameters():
        if "LayerNorm" not in name:
            torch.nn.init.normal_(value, std=0.3)
    model.eval().save_pretrained(folder)
    tokenizer.save(str(folder / "tokenizer.json"))
    return model


def test_blanks_are_filled_as_transformers_fills_them(tmp_path: Path) -> None:
    out, model = tmp_path / "models", save(tmp_path / "bert")
    assert run_exporter("masked", str(tmp_path / "bert"), "--out", str(out)) == 0
    profile = replace(load_profile("pocket"), random_words=RandomWordSettings(2, 4, 3))
    runtime = replace(profile.runtime, precision="f32", threads=1)
    opened = ModelPool(Library(out, networks_of(profile), runtime, profile.llm), Meter(lambda _: None))
    masked = opened.masked()
    assert opened.masked() is masked
    whole = ["dog", "cat", "grass", "old", "red", "on", "a", "wall"]
    assert sorted(masked.mask.words) == sorted(whole)
    found = masked.likeliest(BLANKS, 5)
    assert found[-1] == [], "the blank is cut off"
    wrapped = PreTrainedTokenizerFast(tokenizer_object=bert_tokenizer(), mask_token="[MASK]", pad_token="[PAD]")
    fill = pipeline("fill-mask", model=model, tokenizer=wrapped, top_k=wrapped.vocab_size)
    for (before, after), words in zip(BLANKS[:-1], found, strict=False):
        said = [one["token_str"] for one in fill(f"{before}[MASK]{after}")]
        assert words == [word for word in said if word in whole][:5]
    assert len({tuple(words) for words in found[:3]}) == 3, "the text around a blank counts"
    assert masked.likeliest(BLANKS[-1:], 5) == [[]]
    assert masked.likeliest(BLANKS[1:2], 5) == found[1:2]


def test_whole_words_are_found_however_a_vocabulary_marks_them() -> None:
    marked = {f"\u2581{word}" if word.isalpha() else word: i for i, word in enumerate(["<s>", *WORDS, "ing"])}
    found = words_of(Tokenizer(models.WordLevel(marked, unk_token="<s>")))
    assert found == {
        word: 1 + WORDS.index(word) for word in ["dog", "cat", "grass", "old", "red", "on", "a", "wall"]
    } | {"ing": 14}


def test_an_encoder_without_its_output_layer_and_a_tokenizer_without_a_blank_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "bert"
    save(folder)
    Tokenizer(models.WordLevel({"[PAD]": 0, "dog": 1, "[UNK]": 2}, unk_token="[UNK]")).save(
        str(folder / "tokenizer.json")
    )
    with pytest.raises(CounterfactoryError, match=r"none of \[MASK\], <mask>: it knows no blank"):
        export_masked(folder, tmp_path / "out")
    config = BertConfig(vocab_size=18, hidden_size=32, num_hidden_layers=1, num_attention_heads=4, intermediate_size=48)
    BertModel(config, add_pooling_layer=False).save_pretrained(tmp_path / "encoder")
    with pytest.raises(CounterfactoryError, match="an encoder without its output layer says no words"):
        export_masked(tmp_path / "encoder", tmp_path / "out")
    with pytest.raises(CounterfactoryError, match="cannot be read as a masked language model"):
        export_masked(tmp_path / "nothing", tmp_path / "out")


def test_a_file_of_words_that_is_none_is_named(tmp_path: Path) -> None:
    (tmp_path / "masked.json").write_text('{"mask": "[MASK]", "words": []}')
    with pytest.raises(CounterfactoryError, match=r"write it anew with 'python -m counterfactory.export masked'"):
        MaskVocabulary.read(tmp_path / "masked.json")
