"""How surprising a text is to the language model on a CPU: transformers' own loss, whatever else is read beside it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from counterfactory.engine.language.openvino_llm import OpenVinoLlm
from counterfactory.export.language.llama_steps import write_llama
from counterfactory.export.pocket import llama

TEXTS = ("a red car on a street", "a car", "", "a street in the rain, with a red bus and a car behind it", "a cat")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> tuple[LlamaForCausalLM, Path]:
    """A small Llama of random weights, and its export."""
    torch.manual_seed(3)
    tokenizer = llama.byte_tokenizer(["a red car on a street"] * 4, 290)
    config = LlamaConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=48,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=128,
    )
    network = LlamaForCausalLM(config).eval()
    with torch.no_grad():
        for name, value in network.named_parameters():  # fresh weights hardly look at the context
            value.mul_(1.0 if "norm" in name else 8.0)
            value.copy_(value.half().float())
    folder = tmp_path_factory.mktemp("llama")
    write_llama(network, tokenizer, 0, folder)
    return network, folder


def test_a_text_is_as_surprising_as_transformers_loss_says(model: tuple[LlamaForCausalLM, Path]) -> None:
    network, folder = model
    llm = OpenVinoLlm(folder, precision="f32", threads=1)
    tokenizer = llm._llama
    begun = tokenizer.encode("A caption of a photograph:")
    expected = []
    for text in TEXTS:
        tokens = tokenizer.encode(f" {text}")
        labels = torch.tensor([[*[-100] * len(begun), *tokens]])
        with torch.no_grad():
            expected.append(float(network(torch.tensor([[*begun, *tokens]]), labels=labels).loss))
    found = llm.surprises(TEXTS)
    assert max(expected) - min(expected) > 0.5
    assert found == pytest.approx(expected, rel=1e-4)
    assert [llm.surprises([text])[0] for text in TEXTS] == pytest.approx(found, rel=1e-5), "company changes nothing"
    assert llm.surprises([]) == []
