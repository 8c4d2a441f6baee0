"""Small BERTs go to OpenVINO: as sentence encoders, and as masked language models that fill blanks as transformers'
pipeline does.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from exporter import run_exporter
from tiny_bert import WORDS, save_bert
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import BertConfig, BertForMaskedLM, BertModel, PreTrainedTokenizerFast, pipeline

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.estimate.formulas import known_facts
from counterfactory.engine.language.token_filter import load_tokenizer
from counterfactory.engine.meter.meter import Meter
from counterfactory.engine.models.library import Library
from counterfactory.engine.models.model_pool import ModelPool
from counterfactory.engine.models.networks import library_of, networks_of
from counterfactory.engine.models.text_networks import MaskVocabulary
from counterfactory.engine.profile.profile import Profile, load_profile
from counterfactory.engine.profile.rewrite import GroundingSettings, RandomWordSettings
from counterfactory.engine.profile.runtime import ModelPaths
from counterfactory.export.graphs.parity import assert_parity
from counterfactory.export.graphs.sentence import Sentence, feeds_of, load_bert
from counterfactory.export.language.bert import export_masked, words_of
from counterfactory.export.production import command, sentence
from counterfactory.export.production.artefact import Asked
from counterfactory.export.production.graph import Request, Sources, batches_of

GROUNDING = GroundingSettings(batch=3, min_similarity=0.5)


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    save_bert(tmp_path / "bert")
    return tmp_path / "bert"


def opened_over(out: Path, profile: Profile) -> ModelPool:
    runtime = replace(profile.runtime, precision="f32", threads=1)
    return ModelPool(Library(out, networks_of(profile), runtime, profile.llm), Meter(lambda _: None))


def test_embeddings_are_means_over_the_tokens_of_length_one(weights: Path, tmp_path: Path) -> None:
    out = tmp_path / "models"
    assert run_exporter("sentence", str(weights), "--out", str(out)) == 0
    pocket = load_profile("pocket")
    profile = replace(pocket, llm=replace(pocket.llm, style="chatml"), grounding=replace(GROUNDING, batch=2))
    opened = opened_over(out, profile)
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


def grounded(folder: Path) -> Profile:
    """The profile of a box with a sentence encoder, computed by ONNX Runtime on a CPU."""
    profile = replace(load_profile("a10g"), grounding=GROUNDING)
    runtime = replace(profile.runtime, backend="onnxruntime", provider="cpu", precision="f32", memory_gb=0)
    return replace(profile, runtime=runtime, device=None, models=ModelPaths(str(folder)))


def test_a_box_s_encoder_is_exported_with_its_other_networks(tmp_path: Path) -> None:
    """As a graph in fp16 and its tokenizer, which the engine opens: embeddings are the random network's own."""
    request = Request(small=True, batches=batches_of(grounded(tmp_path)))
    assert "sentence" in command.graphs_of(request)
    (row,) = command.export_one("sentence", request, tmp_path, Asked(islands=("timestep", "normalisation")), threads=1)
    assert (row.faults, row.precision) == ([], "fp16")
    assert request.batch("sentence") == 2
    profile = replace(grounded(tmp_path), grounding=replace(GROUNDING, batch=2))
    opened = ModelPool(library_of(profile), Meter(lambda _: None))
    texts = ["a red car on the road", "night", "rain " * 70]
    found = opened.sentence().encode(texts)
    tokenizer = sentence.tokenizer_of(request)
    assert len(tokenizer.encode("a red car").ids) == len(tokenizer.encode("rain " * 70).ids) == 64
    with torch.no_grad():
        expected = Sentence(sentence.build(request))(**feeds_of(tokenizer, texts)).numpy()
    assert np.ptp(expected @ expected.T) > 0.05, "texts that are all alike would prove nothing"
    assert_parity(found, expected, "fp16")


def test_no_encoder_is_exported_where_nothing_is_grounded_by_it() -> None:
    without = replace(load_profile("a10g"), grounding=None)
    assert "sentence" in command.graphs_of(Request(small=True))
    assert "sentence" not in command.graphs_of(Request(small=True, batches=batches_of(without)))
    assert "sentence" not in networks_of(without)


def test_a_box_s_encoder_is_the_profile_s_the_flag_s_or_asked_for(weights: Path, tmp_path: Path) -> None:
    usual = load_profile("a10g").weights
    assert usual is not None
    assert str(command.sources_of(usual, Sources()).sentence).startswith("sentence-transformers/all-MiniLM-L6-v2@")
    named = command.sources_of(usual, Sources(sentence=str(weights)))
    assert named.sentence == str(weights)
    request = Request(sources=named, batches=batches_of(grounded(tmp_path)))
    assert sentence.build(request).config.hidden_size == 32
    sentence.write_tokenizer(request, tmp_path)
    assert load_tokenizer(tmp_path / "sentence_tokenizer.json").encode("w1").ids == [WORDS.index("w1")] + [0] * 63
    with pytest.raises(CounterfactoryError, match="no weights of sentence were named: say --sentence"):
        sentence.build(replace(request, sources=Sources()))
    (weights / "tokenizer.json").unlink()
    with pytest.raises(CounterfactoryError, match=r"no tokenizer\.json that can be read"):
        sentence.tokenizer_of(request)
    with pytest.raises(CounterfactoryError, match="cannot be read as a BERT"):
        load_bert(tmp_path)


def test_estimates_and_plans_know_the_encoder_before_it_is_exported(tmp_path: Path) -> None:
    profile = replace(load_profile("a10g"), grounding=GROUNDING, models=ModelPaths(str(tmp_path)))
    library = library_of(profile)
    fact = known_facts(profile, library, None)["sentence"]
    assert (fact.flops, fact.weight_bytes) == (pytest.approx(1.4e9, rel=0.01), pytest.approx(45e6, rel=0.01))
    assert library.state(library.networks["sentence"])[0] == "missing"


MASKED_WORDS = ["dog", "cat", "grass", "old", "red", "##s", "on", "a", "3", "x-y", "wall", "Bus", "."]
WHOLE = ["dog", "cat", "grass", "old", "red", "on", "a", "wall"]
BLANKS = [("a ", " dog on grass."), ("A red ", ""), ("a dog on ", " red wall"), (" ".join(["a"] * 70) + " ", "")]


def bert_tokenizer() -> Tokenizer:
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    vocabulary = {word: i for i, word in enumerate([*special, *MASKED_WORDS])}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    ends = [("[CLS]", 2), ("[SEP]", 3)]
    tokenizer.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", special_tokens=ends)
    tokenizer.add_special_tokens(special)
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
    opened = opened_over(out, replace(load_profile("pocket"), random_words=RandomWordSettings(2, 4, 3)))
    masked = opened.masked()
    assert opened.masked() is masked
    assert sorted(masked.mask.words) == sorted(WHOLE)
    found = masked.likeliest(BLANKS, 5)
    assert found[-1] == [], "the blank is cut off"
    wrapped = PreTrainedTokenizerFast(tokenizer_object=bert_tokenizer(), mask_token="[MASK]", pad_token="[PAD]")
    fill = pipeline("fill-mask", model=model, tokenizer=wrapped, top_k=wrapped.vocab_size)
    for (before, after), words in zip(BLANKS[:-1], found, strict=False):
        said = [one["token_str"] for one in fill(f"{before}[MASK]{after}")]
        assert words == [word for word in said if word in WHOLE][:5]
    assert len({tuple(words) for words in found[:3]}) == 3, "the text around a blank counts"
    assert masked.likeliest(BLANKS[-1:], 5) == [[]]
    assert masked.likeliest(BLANKS[1:2], 5) == found[1:2]


def test_whole_words_are_found_however_a_vocabulary_marks_them() -> None:
    marked = {f"\u2581{word}" if word.isalpha() else word: i for i, word in enumerate(["<s>", *MASKED_WORDS, "ing"])}
    found = words_of(Tokenizer(models.WordLevel(marked, unk_token="<s>")))
    assert found == {word: 1 + MASKED_WORDS.index(word) for word in WHOLE} | {"ing": 14}


def test_an_encoder_without_its_output_layer_and_a_tokenizer_without_a_blank_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "bert"
    save(folder)
    blankless = Tokenizer(models.WordLevel({"[PAD]": 0, "dog": 1, "[UNK]": 2}, unk_token="[UNK]"))
    blankless.save(str(folder / "tokenizer.json"))
    with pytest.raises(CounterfactoryError, match=r"none of \[MASK\], <mask>: it knows no blank"):
        export_masked(folder, tmp_path / "out")
    config = BertConfig(vocab_size=18, hidden_size=32, num_hidden_layers=1, num_attention_heads=4, intermediate_size=48)
    BertModel(config, add_pooling_layer=False).save_pretrained(tmp_path / "encoder")
    with pytest.raises(CounterfactoryError, match=r"lacks \d+ tensors, cls\.predictions"):
        export_masked(tmp_path / "encoder", tmp_path / "out")
    with pytest.raises(CounterfactoryError, match="cannot be read as a masked language model"):
        export_masked(tmp_path / "nothing", tmp_path / "out")


def test_a_file_of_words_that_is_none_is_named(tmp_path: Path) -> None:
    (tmp_path / "masked.json").write_text('{"mask": "[MASK]", "words": []}')
    with pytest.raises(CounterfactoryError, match=r"write it anew with 'python -m counterfactory.export masked'"):
        MaskVocabulary.read(tmp_path / "masked.json")
