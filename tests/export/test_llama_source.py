"""A user's Llama is read as it is from a folder or a GGUF file, and what is none of ours is refused with the reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gguf_file import write_gguf
from tiny_llama import tiny_llama
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.export.language.llama_source import read_llama
from counterfactory.export.pocket import llama

TOKENIZER = llama.byte_tokenizer(["a red car on a street", "12 Keywords: none"] * 4, 300)
END = 2


@pytest.fixture(scope="module")
def model() -> LlamaForCausalLM:
    """Queries share keys by twos, and the output is a matrix of its own."""
    heads, rope = {"num_attention_heads": 4, "num_key_value_heads": 2}, {"rope_type": "default", "rope_theta": 500.0}
    sizes = {"max_position_embeddings": 128, "tie_word_embeddings": False, "eos_token_id": END}
    return tiny_llama(TOKENIZER.get_vocab_size(), 3, **heads, **sizes, rope_parameters=rope)


def as_gguf(model: LlamaForCausalLM, folder: Path, **changed: Any) -> Path:
    return write_gguf(model, TOKENIZER, folder / "llm.gguf", **({"special": 3, "end": END} | changed))


def as_folder(model: LlamaForCausalLM, folder: Path) -> Path:
    model.save_pretrained(folder / "hub")
    PreTrainedTokenizerFast(tokenizer_object=TOKENIZER).save_pretrained(folder / "hub")
    return folder / "hub"


@pytest.mark.parametrize("write", [as_folder, as_gguf])
def test_weights_tokens_and_the_end_are_the_models(write: Any, model: LlamaForCausalLM, tmp_path: Path) -> None:
    found = read_llama(write(model, tmp_path))
    assert found.end == END
    wanted = dict(model.named_parameters())
    parameters = dict(found.model.named_parameters())
    assert parameters.keys() == wanted.keys()
    for name, parameter in parameters.items():
        assert parameter.dtype == torch.float32
        assert torch.allclose(parameter, wanted[name], rtol=2**-11, atol=2**-24), name
    for name in ("max_position_embeddings", "rms_norm_eps", "num_key_value_heads", "rope_parameters"):
        assert getattr(found.model.config, name) == pytest.approx(getattr(model.config, name)), name
    found.model.save_pretrained(tmp_path / "again")
    again = LlamaForCausalLM.from_pretrained(tmp_path / "again")
    assert all(torch.equal(parameters[name], parameter) for name, parameter in again.named_parameters())
    for text in ("a red car on a street.", "12 Keywords:\n\n", "naïve <|im_start|> a's", "  x\t"):
        assert (
            found.tokenizer.encode(text, add_special_tokens=False).ids
            == TOKENIZER.encode(text, add_special_tokens=False).ids
        ), text


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"architecture": "qwen2"}, "architecture qwen2; only a Llama"),
        ({"fields": {"split.count": 3}}, r"one of 3 parts .* --merge"),
        ({"fields": {"llama.rope.scaling.type": "yarn"}}, r"scales its rotary positions \(yarn\)"),
        ({"beside": {"rope_freqs.weight": np.ones(8, np.float32)}}, r"scales its rotary positions \(rope_freqs\)"),
        ({"fields": {"tokenizer.ggml.pre": "starcoder"}}, "tokenizer of the kind 'starcoder'"),
        ({"without": "blk.1.ffn_up"}, r"lacks 1 of its weights, model\.layers\.1\.mlp\.up_proj\.weight"),
        ({"without": "output_norm"}, r"lacks 1 of its weights, model\.norm\.weight"),
        ({"end": None}, "names no token that ends a text"),
    ],
)
def test_what_would_be_read_wrong_is_refused(
    changed: dict[str, Any], says: str, model: LlamaForCausalLM, tmp_path: Path
) -> None:
    with pytest.raises(CounterfactoryError, match=says):
        read_llama(as_gguf(model, tmp_path, **changed))


def test_a_folder_that_lacks_weights_is_refused(model: LlamaForCausalLM, tmp_path: Path) -> None:
    folder = as_folder(model, tmp_path)
    state = {name: value for name, value in model.state_dict().items() if "layers.1.mlp.up" not in name}
    model.save_pretrained(folder, state_dict=state)
    with pytest.raises(CounterfactoryError, match="lacks 1 of its weights"):
        read_llama(folder)


def test_damaged_files_are_refused(model: LlamaForCausalLM, tmp_path: Path) -> None:
    file = as_gguf(model, tmp_path)
    whole = file.read_bytes()
    for kept in (0, 3, 10, 30, 100, 1000, 5000, len(whole) // 2, len(whole) - 4096):
        file.write_bytes(whole[:kept])
        with pytest.raises(CounterfactoryError, match=r"llm\.gguf cannot be read as a Llama"):
            read_llama(file)
    for at, value in ((0, b"GGML"), (4, b"\x09\0\0\0"), (8, b"\xff" * 8), (16, b"\xff" * 8), (24, b"\xff" * 8)):
        file.write_bytes(whole[:at] + value + whole[at + len(value) :])
        with pytest.raises(CounterfactoryError, match=r"llm\.gguf cannot be read as a Llama"):
            read_llama(file)
