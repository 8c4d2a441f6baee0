"""The packed networks as torch modules again, the same numbers as the engine's plans or a refusal that says why; and
their weights in 8 bits: every value within half a step, and one network whether the engine opens it or torch.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from tokenizers import Tokenizer
from torch import nn
from transformers import LlamaForCausalLM

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.language.llama import Llama
from counterfactory.engine.pocket.worlds import EMBEDDED
from counterfactory.engine.runtime import dequantize
from counterfactory.engine.runtime.blob_cache import BlobCache
from counterfactory.engine.runtime.openvino import open_session
from counterfactory.engine.runtime.quiet_openvino import ov
from counterfactory.engine.runtime.session import Array
from counterfactory.export.graphs import modules
from counterfactory.export.graphs.narrowing import narrowed
from counterfactory.export.pocket import llama, pack, vae
from counterfactory.export.pocket import packed as packed_at
from counterfactory.export.pocket.packed import MASTERS, RUNTIME, gather, put_back
from counterfactory.export.pocket.parameters import FILE, constants, find, narrow, record, restore_into
from counterfactory.export.pocket.restore import restore_blip2, restore_clip, restore_llm, restore_vae

CAPTION = "a clear street at noon, a red car on the road. a blue truck stands in front of brick buildings."


def engine(plan: str, feeds: Mapping[str, Array], **sizes: tuple[int, int]) -> list[Array]:
    """What the engine's own session makes of the feeds, in f32."""
    batch = len(next(iter(feeds.values())))
    folder = MASTERS if (MASTERS / f"{plan}.xml").is_file() else RUNTIME
    session = open_session(folder / f"{plan}.xml", batch=batch, precision="f32", sizes=sizes)
    return list(session.run(feeds).values())


def assert_near(found: torch.Tensor, reference: Array) -> None:
    """Within 1e-3 of the reference's spread; a flat reference would prove nothing."""
    spread = float(reference.std())
    assert spread > 1e-2 * max(1.0, float(np.abs(reference.mean())))
    assert float(np.abs(found.numpy() - reference).max()) <= 1e-3 * float(np.abs(reference).max())


@pytest.fixture(scope="module")
def picture() -> Array:
    """A street, float32 [1, 3, 128, 128] in -1..1: noise would leave most of a network idle."""
    image, _ = EMBEDDED.draw(EMBEDDED.sample(np.random.default_rng(8))).pair
    return np.asarray(image.transpose(2, 0, 1)[None] / 127.5 - 1, np.float32)


@torch.no_grad()
def test_the_autoencoder_is_the_engines(packed_models: Path, picture: Array) -> None:
    model = restore_vae(packed_models)
    latents = engine("vae_encoder", {"pixel_values": picture}, pixel_values=(128, 128))[0]
    assert_near(modules.VaeEncoder(model)(torch.from_numpy(picture)), latents)
    pixels = engine("vae_decoder", {"latents": latents}, latents=(32, 32))[0]
    assert_near(modules.VaeDecoder(model)(torch.from_numpy(latents)), pixels)


@torch.no_grad()
def test_clip_is_the_engines(packed_models: Path, picture: Array) -> None:
    model, tokenizer = restore_clip(packed_models)
    ids = np.array([e.ids for e in tokenizer.encode_batch([CAPTION, ""])], np.int64)
    states, embeds = engine("clip_text", {"input_ids": ids})
    found = modules.ClipTextEncoder(model)(torch.from_numpy(ids))
    assert_near(found[0], states)
    assert_near(found[1], embeds)
    seen = engine("clip_image", {"pixel_values": picture})[0]
    assert_near(modules.ClipImageEncoder(model)(torch.from_numpy(picture)), seen)
    assert 1 < float(model.logit_scale.exp()) < 1000  # it stands in no graph, and is not the initial value
    assert float(model.logit_scale) != pytest.approx(model.config.logit_scale_init_value, abs=1e-4)


@torch.no_grad()
def test_blip2_is_the_engines(packed_models: Path, picture: Array) -> None:
    model, tokenizer = restore_blip2(packed_models)
    queries = engine("blip2_vision", {"pixel_values": picture})[0]
    assert_near(modules.Blip2Vision(model)(torch.from_numpy(picture)), queries)
    ids = np.array([[tokenizer.token_to_id("<s>"), *tokenizer.encode(CAPTION).ids]])
    embeds = np.concatenate([queries, np.load(packed_models / "opt_embeddings.npy").astype(np.float32)[ids]], 1)
    config = model.config.text_config
    heads = config.num_attention_heads
    empty = np.zeros((1, config.num_hidden_layers, heads, 0, config.hidden_size // heads), np.float32)
    feeds = {"inputs_embeds": embeds, "position_ids": np.arange(embeds.shape[1])[None]}
    logits = engine("opt_decoder", {**feeds, "past_keys": empty, "past_values": empty})[0]
    # transformers' own way from pixels to logits, not the graph's.
    all_ids = torch.cat([torch.full((1, queries.shape[1]), model.config.image_token_index), torch.from_numpy(ids)], 1)
    out = model(torch.from_numpy(picture), input_ids=all_ids, attention_mask=torch.ones_like(all_ids))
    assert_near(out.logits[:, -1], logits)


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, nn.Module]:
    """An autoencoder of seeded weights, packed as a trained one is: factors beside its layers are folded away."""
    model, folder = vae.build(), tmp_path_factory.mktemp("packed")
    with pytest.MonkeyPatch.context() as patch:
        model.register_to_config(scaling_factor=1.7)
        patch.setattr(pack, "load_vae", lambda _: model)
        patch.setattr(vae, "polish", lambda *_: None)
        pack.pack_vae(pack.Training(folder / "nothing"), folder)
    return folder, model


def test_what_is_packed_can_be_restored(packed: tuple[Path, nn.Module]) -> None:
    folder, model = packed
    found = restore_vae(folder)
    assert found.config.scaling_factor == 1.7
    wanted = dict(model.named_parameters())
    for name, parameter in found.named_parameters():
        torch.testing.assert_close(parameter, wanted[name], rtol=2e-3, atol=3e-4, msg=lambda m, n=name: f"{n}: {m}")


@pytest.fixture
def copy(packed: tuple[Path, nn.Module], tmp_path: Path) -> Path:
    """The packed folder, to be spoiled."""
    return Path(shutil.copytree(packed[0], tmp_path / "copy"))


def entry(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], object]:
    """Spoils the map of a folder by a change of what it holds."""

    def spoil(folder: Path) -> None:
        everything = json.loads((folder / FILE).read_text())
        change(everything)
        (folder / FILE).write_text(json.dumps(everything))

    return spoil


def text(held: str) -> Callable[[Path], object]:
    return lambda folder: (folder / FILE).write_text(held)


def cut(name: str) -> Callable[[Path], object]:
    """Other weights of the same size."""
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes()[:-8] + b"\0" * 7 + b"\n")


def swapped(everything: dict[str, Any]) -> None:
    """Two biases of one size changed places: every constant is there and fits."""
    placed = everything["vae"]["placed"]["vae_encoder.xml"]
    one, two, *_ = (name for name in placed if name.endswith("bias"))
    placed[one], placed[two] = placed[two], placed[one]


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (entry(lambda e: e.pop("vae")), "knows nothing of vae"),
        (entry(lambda e: e.update(vae=7)), "damaged"),
        (entry(lambda e: e["vae"].pop("check")), "damaged"),
        (entry(lambda e: e["vae"]["config"].update(scaling_factor=1.0)), "damaged"),
        (entry(lambda e: e["vae"]["placed"].pop("vae_decoder.xml")), "damaged"),
        (entry(swapped), "damaged"),
        *((text(held), FILE) for held in ("", "[]", "{", '{"vae":{"check":NaN}}', "\x00")),
        (lambda folder: (folder / FILE).unlink(), "is missing: only models packed with it"),
        (cut("vae_decoder.bin"), "is of other files of vae"),
        (cut("vae_encoder.xml"), "is of other files of vae"),
    ],
)
def test_a_damaged_map_and_one_of_other_files_are_refused(
    copy: Path, spoil: Callable[[Path], object], says: str
) -> None:
    spoil(copy)
    with pytest.raises(CounterfactoryError, match=says):
        restore_vae(copy)


def test_a_map_of_another_module_is_refused(copy: Path) -> None:
    with pytest.raises(CounterfactoryError, match="does not suit the module of vae"):
        restore_into("vae", vae.build().encoder, copy)


def test_a_parameter_that_stands_nowhere_is_refused(copy: Path) -> None:
    before = (copy / FILE).read_text()
    other = {"layer.weight": torch.randn(32, 32, 3, 3)}
    said = r"other: layer\.weight \[32, 32, 3, 3\] stands in none of vae_encoder"
    with pytest.raises(CounterfactoryError, match=said):
        record("other", other, copy, ("vae_encoder.xml",))
    assert (copy / FILE).read_text() == before


VALUES = st.floats(-4, 4, width=16).filter(lambda v: v == 0 or abs(v) > 2**-8)


@settings(max_examples=60)
@given(
    arrays.arrays(np.float16, arrays.array_shapes(min_dims=2, max_dims=2, min_side=3, max_side=6), elements=VALUES),
    st.sampled_from([0.5, 1.0, 1.4417, 2.0, 3.0]),
    st.sampled_from([0.0, -1.0]),
    st.booleans(),
    st.integers(0, 2**31),
)
def test_a_constant_is_found_through_what_was_folded_into_it(
    values: np.ndarray[Any, Any], scale: float, offset: float, transposed: bool, seed: int
) -> None:
    """Among decoys of its size; what comes back is the parameter, whichever of equal constants was taken."""
    parameter = values.astype(np.float32)
    made = (parameter * np.float32(scale) + np.float32(offset)).astype(np.float16).astype(np.float32)
    rng = np.random.default_rng(seed)
    decoys = {("file", f"decoy{i}"): rng.standard_normal(made.shape).astype(np.float32) for i in range(3)}
    held = {**decoys, ("file", "made"): (made.T if transposed else made)[None]}
    place = find(parameter, held)
    if parameter.std() == 0 and (scale, offset) != (1.0, 0.0):
        return  # a flat parameter says nothing about a fold, and may be refused
    assert place is not None
    back = place.parameter(held[place.file, place.constant], parameter.shape)
    np.testing.assert_allclose(back, parameter, rtol=2**-9, atol=2**-9 * (1 + abs(offset)))


def test_every_constant_has_a_name_of_its_own(packed_models: Path) -> None:
    """The map names constants; two of one name would hide each other."""
    for file in sorted(packed_models.glob("*.xml")):
        names = [name for name, _ in constants(file)]
        assert len(names) == len(set(names)), file.name


def test_what_is_packed_anew_goes_back_to_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The wheel takes one of the two folders whole, so that a master put there would travel with it."""
    for name, kept in (("MASTERS", "denoiser_few.bin"), ("RUNTIME", "denoiser_few_int8.bin llm/model.bin")):
        folder = tmp_path / name.lower()
        for file in kept.split():
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).write_bytes(b"old")
        monkeypatch.setattr(packed_at, name, folder)
    whole = gather(tmp_path / "whole")
    assert put_back(whole) == []
    for file in ("denoiser_few.bin", "llm/model.bin", "referee.xml", "parameters.json", "hint.xml"):
        (whole / file).write_bytes(b"new")
    assert put_back(whole) == ["denoiser_few.bin", "hint.xml", "llm/model.bin", "parameters.json", "referee.xml"]
    wanted = {"masters": {"denoiser_few.bin", "referee.xml", "parameters.json"}}
    wanted["runtime"] = {"hint.xml", "llm/model.bin"}
    for folder, names in wanted.items():
        files = [file for file in (tmp_path / folder).rglob("*") if file.is_file() and file.read_bytes() == b"new"]
        assert {file.relative_to(tmp_path / folder).as_posix() for file in files} == names


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


@settings(max_examples=60)
@given(
    arrays.arrays(np.float16, arrays.array_shapes(min_dims=2, max_dims=4, min_side=2, max_side=5)), st.integers(0, 3)
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


@pytest.fixture(scope="module")
def language(tmp_path_factory: pytest.TempPathFactory) -> tuple[LlamaForCausalLM, Tokenizer, Path, Path]:
    """A language model with its tokenizer, and the folders that it is packed in, in fp16 and in 8 bits."""
    tokenizer = llama.byte_tokenizer(["a red car on a clear street.", "Keywords: none"] * 4, 300)
    model, folders = llama.build(tokenizer.get_vocab_size()), [tmp_path_factory.mktemp(name) for name in ("half", "8")]
    with torch.no_grad():
        for norm in (value for name, value in model.named_parameters() if "norm" in name):
            norm.mul_(1 + 0.1 * torch.randn_like(norm))  # fresh ones are no factor, and fold away
    for folder in folders:
        llama.write_packed(model.eval(), tokenizer, folder)
    narrow("llm", folders[1])
    sizes = [(folder / "llm" / "model.bin").stat().st_size for folder in folders]
    assert sizes[1] < 0.6 * sizes[0]
    return model, tokenizer, folders[0], folders[1]


def test_a_packed_language_model_is_restored(language: tuple[LlamaForCausalLM, Tokenizer, Path, Path]) -> None:
    model, tokenizer, folder, _ = language
    found, told = restore_llm(folder)
    names = dict(model.named_parameters())
    for name, parameter in found.named_parameters():
        assert torch.allclose(parameter, names[name], rtol=2**-11, atol=2**-24), name
    for text in ("a red car on a clear street.", "12 Keywords:\n\n", "naïve <|im_start|>"):
        assert told.encode(text).ids == tokenizer.encode(text).ids
    assert told.decode([0, 1, 2]) == tokenizer.decode([0, 1, 2])


@torch.no_grad()
def test_a_language_model_in_8_bits_is_the_engines(language: tuple[LlamaForCausalLM, Tokenizer, Path, Path]) -> None:
    trained, *_, folder = language
    engine = Llama(folder / "llm", precision="f32", threads=1)
    (tokens,) = engine.encode(["a red car on a clear street."])
    logits = engine.step([tokens], engine.beginning([]), engine.rows(1, 64), 0, np.zeros(1, np.int64))[0]
    models = (restore_llm(folder)[0], trained)
    told, before = (model(torch.tensor([tokens])).logits[0, -1].numpy() for model in models)
    assert np.abs(logits - told).max() < 1e-4 * told.std()
    assert 1e-4 * told.std() < np.abs(logits - before).max() < 0.2 * told.std()


def test_a_compiled_language_model_goes_by_the_code_that_widens(
    language: tuple[LlamaForCausalLM, Tokenizer, Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = BlobCache(tmp_path / "compiled")
    for code in ("one", "one", "two"):
        (tmp_path / code).write_text(code)
        monkeypatch.setattr(dequantize, "__file__", str(tmp_path / code))
        Llama(language[3] / "llm", precision="f32", threads=1, blobs=cache)
    assert len(cache.sizes()) == 2


@pytest.mark.parametrize("network", ["clip", "blip2", "llm", "denoiser", "denoiser_few"])
def test_the_embedded_network_is_stored_in_8_bits(network: str, packed_models: Path) -> None:
    """All that is a matrix; nothing of it in fp16 beside."""
    entry = json.loads((packed_models / FILE).read_text())[network]
    for file, places in entry["placed"].items():
        ops = ov.Core().read_model(packed_models / file).get_ops()
        stored = (op for op in ops if op.get_type_name() == "Constant")
        kinds = {op.get_friendly_name(): (op.get_element_type(), op.get_output_shape(0)) for op in stored}
        for name, place in places.items():
            kind, shape = kinds[place[0]]
            large = np.prod(list(shape)) >= 4096 and sum(length > 1 for length in shape) > 1
            assert (kind == ov.Type.i8) == large, (file, name)


def test_the_captioner_s_tokens_are_the_stored_ones(packed_models: Path) -> None:
    """Its last matrix is its table of tokens, which the engine has beside it."""
    stored = restore_blip2(packed_models)[0].language_model.get_input_embeddings().weight
    np.testing.assert_array_equal(np.load(packed_models / "opt_embeddings.npy"), stored.detach().half().numpy())
