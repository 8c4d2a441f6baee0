"""Language models: what quantising runs on a GPU box, and what it says where there is none; a user's Llama is read as
it is from a folder or a GGUF file, and what is none of ours is refused with the reason.
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from exllama_standin import real_package, write_model
from gguf_file import write_gguf
from safetensors.numpy import load_file
from tiny_llama import tiny_llama, tiny_tokenizer
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.profile.profile import load_profile
from counterfactory.export.language import llm
from counterfactory.export.language.llama_source import read_llama
from counterfactory.export.language.llm import PACKAGES, Conversion


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("llm") / "model")


def test_quantising_says_what_to_run(folder: Path, tmp_path: Path) -> None:
    conversion = Conversion(str(folder), tmp_path / "made" / "exl2", "exl2", 5.0)
    assert conversion.weights == sum(tensor.size for tensor in load_file(folder / "model.safetensors").values())
    with pytest.raises(CounterfactoryError) as told:
        conversion.run(lambda: False)
    said = str(told.value)
    assert "no NVIDIA GPU" in said
    assert "python -m counterfactory.export llm" in said
    assert f"-i {folder} -o {conversion.work} -cf {conversion.target} -b 5 -hb 6" in said
    empty = Conversion(str(tmp_path / "nothing"), tmp_path / "out", "exl3", 5.0)
    assert "lacks config.json, tokenizer.json, *.safetensors" in " ".join(empty.lacking(lambda: True))
    with pytest.raises(CounterfactoryError, match="from 2 to 8"):
        Conversion(str(folder), tmp_path / "x", "exl2", 9.0)
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "model.safetensors").write_bytes(b"\xff" * 40)
    with pytest.raises(CounterfactoryError, match="no safetensors file"):
        _ = Conversion(str(tmp_path / "bad"), tmp_path / "x", "exl2", 4.0).weights


def test_the_command_takes_its_target_from_the_profile(tmp_path: Path) -> None:
    parser = argparse.ArgumentParser()
    llm.add_command(parser.add_subparsers())

    def heard(*words: str) -> str:
        lines: list[str] = []
        assert llm.run(parser.parse_args(["llm", *words]), lines.append) == 0
        return "\n".join(lines)

    said = heard("--dry-run")
    profile = load_profile("a10g")
    target = profile.models.path / profile.llm.model
    assert f"-i WEIGHTS -o {target}.work -cf {target} -b 5 -hb 6" in said
    assert "meta-llama/Llama-2-13b-chat-hf@" in said
    assert "fetches the weights (26 GB)" in said
    assert "18 GB of disk beside the source, of which 8.5 GB stay" in said
    other = ["--dry-run", "--format", "exl3", "--target", str(tmp_path / "made"), "--bits", "4.5"]
    assert f"-o {tmp_path / 'made'} -b 4.5 -hb 6" in heard(*other)
    with pytest.raises(CounterfactoryError, match="which needs no quantising"):
        heard("--profile", "pocket")


CONVERTERS = {
    "exl2": ("exllamav2.conversion.convert_exl2", "--out_dir", "--compile_full"),
    "exl3": ("exllamav3.conversion.convert_model", "--work_dir", "--out_dir"),
}


@pytest.mark.parametrize("form", CONVERTERS)
def test_the_converters_take_the_options(form: Any, folder: Path, tmp_path: Path) -> None:
    """Their options, read from their sources: importing one of them runs it."""
    real_package(PACKAGES[form])
    module, work, out = CONVERTERS[form]
    spec = importlib.util.find_spec(module)
    assert spec is not None
    calls = [node for node in ast.walk(ast.parse(Path(str(spec.origin)).read_text())) if isinstance(node, ast.Call)]
    options = [one.args for one in calls if getattr(one.func, "attr", "") == "add_argument"]
    known = {ast.literal_eval(short): ast.literal_eval(long) for short, *rest in options for long in rest}
    conversion = Conversion(str(folder), tmp_path / "out", form, 4.5)
    given = conversion.command[3:]
    wanted = {"--in_dir": str(folder), "--bits": "4.5", "--head_bits": "6"}
    wanted |= {work: str(conversion.work), out: str(tmp_path / "out")}
    assert {known[flag]: value for flag, value in zip(given[::2], given[1::2], strict=True)} == wanted


TOKENIZER = tiny_tokenizer()
END = 2


@pytest.fixture(scope="module")
def model() -> LlamaForCausalLM:
    return tiny_llama(TOKENIZER, eos_token_id=END)


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
        ours, theirs = (one.encode(text, add_special_tokens=False).ids for one in (found.tokenizer, TOKENIZER))
        assert ours == theirs, text


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
    cut = [whole[:kept] for kept in (0, 3, 10, 30, 100, 1000, 5000, len(whole) // 2, len(whole) - 4096)]
    changed = ((0, b"GGML"), (4, b"\x09\0\0\0"), (8, b"\xff" * 8), (16, b"\xff" * 8), (24, b"\xff" * 8))
    for damaged in (*cut, *(whole[:at] + value + whole[at + len(value) :] for at, value in changed)):
        file.write_bytes(damaged)
        with pytest.raises(CounterfactoryError, match=r"llm\.gguf cannot be read as a Llama"):
            read_llama(file)
