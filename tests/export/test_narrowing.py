"""Packed networks with weights in 8 bits: half of fp16's bytes, every value within half a step, and one network
whether the engine opens it or torch restores it.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from tiny_llama import tiny_llama
from torch import nn
from transformers import LlamaForCausalLM

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.language.llama import Llama
from counterfactory.engine.runtime import dequantize
from counterfactory.engine.runtime.blob_cache import BlobCache
from counterfactory.engine.runtime.openvino import open_session
from counterfactory.engine.runtime.quiet_openvino import ov
from counterfactory.engine.runtime.session import Array
from counterfactory.export.graphs.narrowing import narrowed
from counterfactory.export.pocket import llama
from counterfactory.export.pocket.parameters import FILE, constants, narrow, record, restore_into
from counterfactory.export.pocket.restore import restore_blip2

X = np.random.default_rng(1).standard_normal((2, 16, 8, 8)).astype(np.float32)


class Net(nn.Module):
    """A convolution, a linear layer, a table and what stays in half precision."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.convolution = nn.Conv2d(16, 32, 3, padding=1)
        self.norm = nn.LayerNorm(32)
        self.linear = nn.Linear(32, 160)
        self.table = nn.Parameter(torch.randn(64, 160))
        self.small = nn.Linear(160, 4)
        with torch.no_grad():
            self.norm.weight.uniform_(0.5, 2)
            self.norm.bias.uniform_(-1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x [B, 16, 8, 8] to [B, 4]."""
        rows = self.norm(self.convolution(x).flatten(2).transpose(1, 2))
        hidden: torch.Tensor = self.small(torch.tanh(self.linear(rows)) + self.table).square().mean(1)
        return hidden


def restored(weights: Path) -> Net:
    net = Net()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.fill_(7)
    restore_into("net", net, weights)
    return net


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The network in fp16, and the same in 8 bits."""
    wide, narrow_ = (tmp_path_factory.mktemp(name) for name in ("wide", "narrow"))
    model = ov.convert_model(Net().eval(), example_input=torch.from_numpy(X))
    model.inputs[0].get_tensor().set_names({"x"})
    model.outputs[0].get_tensor().set_names({"y"})
    ov.save_model(model, wide / "net.xml", compress_to_fp16=True)
    record("net", dict(Net().named_parameters()), wide, ("net.xml",))
    shutil.copytree(wide, narrow_, dirs_exist_ok=True)
    narrow("net", narrow_)
    return wide, narrow_


def opened(weights: Path) -> Array:
    return open_session(weights / "net.xml", batch=2, precision="f32").run({"x": X})["y"]


@torch.no_grad()
def test_what_is_opened_is_what_is_restored(folders: tuple[Path, Path]) -> None:
    wide, small = map(opened, folders)
    found = restored(folders[1])(torch.from_numpy(X)).numpy()
    spread = wide.std()
    assert np.abs(found - small).max() < 1e-4 * spread
    assert 1e-4 * spread < np.abs(wide - small).max() < 3e-2 * spread


def test_names_stay_and_narrowing_again_changes_nothing(folders: tuple[Path, Path], tmp_path: Path) -> None:
    wide, small = folders
    assert {name for name, _ in constants(wide / "net.xml")} == {name for name, _ in constants(small / "net.xml")}
    for twice, origin in (("again", small), ("anew", wide)):  # the latter by other numbers in OpenVINO's own names
        shutil.copytree(origin, tmp_path / twice)
        narrow("net", tmp_path / twice)
        assert sorted(f.name for f in (tmp_path / twice).iterdir()) == ["net.bin", "net.xml", FILE]
        for file in ("net.bin", "net.xml", FILE):
            assert (tmp_path / twice / file).read_bytes() == (small / file).read_bytes(), (twice, file)


def test_other_networks_of_the_map_stay(folders: tuple[Path, Path], tmp_path: Path) -> None:
    shutil.copytree(folders[0], tmp_path, dirs_exist_ok=True)
    record("other", {"scale": torch.ones(1)}, tmp_path, ("net.xml",))
    before = json.loads((tmp_path / FILE).read_text())["other"]
    narrow("net", tmp_path)
    assert json.loads((tmp_path / FILE).read_text())["other"] == before


def test_files_that_the_map_is_not_of_are_refused(folders: tuple[Path, Path], tmp_path: Path) -> None:
    shutil.copytree(folders[0], tmp_path, dirs_exist_ok=True)
    shutil.copyfile(folders[1] / "net.bin", tmp_path / "net.bin")
    before = (tmp_path / "net.xml").read_bytes()
    with pytest.raises(CounterfactoryError, match="is of other files of net"):
        narrow("net", tmp_path)
    assert (tmp_path / "net.xml").read_bytes() == before


@settings(max_examples=60)
@given(
    arrays.arrays(np.float16, arrays.array_shapes(min_dims=2, max_dims=4, min_side=2, max_side=5)),
    st.integers(0, 3),
)
def test_every_value_is_within_half_a_scale(weight: Array, axis: int) -> None:
    weight = np.nan_to_num(weight, posinf=0, neginf=0)
    values, scale = narrowed(weight)
    assert values.dtype == np.int8
    assert np.abs(values.astype(int)).max() <= 127
    assert (np.abs(values * scale - weight.astype(np.float32)) <= scale * 0.5001).all()
    assert sum(length > 1 for length in scale.shape) <= 1
    np.testing.assert_array_equal(narrowed(weight)[0], values)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_scales_lie_along_the_axis_that_loses_least(axis: int) -> None:
    rng = np.random.default_rng(axis)
    shape = [6, 7, 8]
    loud = np.moveaxis(10.0 ** rng.integers(-3, 2, (shape[axis], 1, 1)), 0, axis)
    values, scale = narrowed((rng.standard_normal(shape) * loud).astype(np.float16))
    assert [length > 1 for length in scale.shape] == [i == axis for i in range(3)]
    assert np.abs(values).max() == 127


def test_a_channel_of_zeros_stays_zero() -> None:
    weight = np.zeros((3, 4), np.float16)
    weight[1] = [1, 2, -4, 3]
    values, scale = narrowed(weight)
    assert np.isfinite(scale).all()
    np.testing.assert_array_equal((values * scale)[[0, 2]], 0)


@pytest.fixture(scope="module")
def language(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, LlamaForCausalLM]:
    """A small language model, and the folder that it is packed in, in 8 bits."""
    tokenizer = llama.byte_tokenizer(["a red car on a clear street.", "Keywords: none"] * 4, 300)
    sizes = {"num_hidden_layers": 1, "max_position_embeddings": 64, "tie_word_embeddings": True}
    model, folder = tiny_llama(tokenizer, **sizes), tmp_path_factory.mktemp("language")
    with torch.no_grad():
        for name, value in model.named_parameters():
            value.mul_(1 + 0.1 * torch.randn_like(value)) if "norm" in name else value.normal_(0, 0.2)
    llama.write_packed(model, tokenizer, folder)
    before = (folder / "llm" / "model.bin").stat().st_size
    narrow("llm", folder)
    assert (folder / "llm" / "model.bin").stat().st_size < 0.6 * before
    return folder, model


@torch.no_grad()
def test_a_language_model_in_8_bits_is_the_engines(language: tuple[Path, LlamaForCausalLM]) -> None:
    folder, trained = language
    found = LlamaForCausalLM(trained.config).eval()
    packed = llama.PackedParameters(found)
    restore_into("llm", packed, folder)
    packed.give_back(found)
    engine = Llama(folder / "llm", precision="f32", threads=1)
    tokens = engine.encode("a red car on a clear street.")
    logits = engine.step([tokens], engine.beginning([]), engine.rows(1, 64), 0, np.zeros(1, np.int64))[0]
    told, before = (model(torch.tensor([tokens])).logits[0, -1].numpy() for model in (found, trained))
    assert np.abs(logits - told).max() < 1e-4 * told.std()
    assert 1e-4 * told.std() < np.abs(logits - before).max() < 0.2 * told.std()


def test_a_compiled_language_model_goes_by_the_code_that_widens(
    language: tuple[Path, LlamaForCausalLM], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = BlobCache(tmp_path / "compiled")
    for code in ("one", "one", "two"):
        (tmp_path / code).write_text(code)
        monkeypatch.setattr(dequantize, "__file__", str(tmp_path / code))
        Llama(language[0] / "llm", precision="f32", threads=1, blobs=cache)
    assert len(cache.sizes()) == 2


@pytest.mark.parametrize("network", ["clip", "blip2", "llm", "denoiser", "denoiser_few"])
def test_the_embedded_network_is_stored_in_8_bits(network: str, packed_models: Path) -> None:
    """All that is a matrix; nothing of it in fp16 beside."""
    entry = json.loads((packed_models / FILE).read_text())[network]
    for file, places in entry["placed"].items():
        kinds = {
            op.get_friendly_name(): (op.get_element_type(), op.get_output_shape(0))
            for op in ov.Core().read_model(packed_models / file).get_ops()
            if op.get_type_name() == "Constant"
        }
        for name, place in places.items():
            kind, shape = kinds[place[0]]
            large = np.prod(list(shape)) >= 4096 and sum(length > 1 for length in shape) > 1
            assert (kind == ov.Type.i8) == large, (file, name)


def test_the_captioner_s_tokens_are_the_stored_ones(packed_models: Path) -> None:
    """Its last matrix is its table of tokens, which the engine has beside it."""
    stored = restore_blip2(packed_models)[0].language_model.get_input_embeddings().weight
    np.testing.assert_array_equal(np.load(packed_models / "opt_embeddings.npy"), stored.detach().half().numpy())
