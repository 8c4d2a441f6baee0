"""The networks of a box: what they compute, and where their weights come from. No graph is exported here."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import onnx
import pytest
import torch
from diffusers import AutoencoderKL, ControlNetModel, UNet2DConditionModel
from safetensors.torch import save_file
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing
from torch import nn
from transformers import CLIPModel

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.runtime.session import Array
from counterfactory.export.graphs.parity import assert_parity
from counterfactory.export.graphs.weights import digest, fill, load, tensors
from counterfactory.export.production import blip2, clip, command, denoiser, examples, hed, vae
from counterfactory.export.production.artefact import Asked, export_graph
from counterfactory.export.production.graph import Request, Sources

SMALL = Request(small=True)


# --- what the networks compute ---


def convolved(picture: Array, weight: Array, bias: Array) -> Array:
    """A convolution [C, H, W] with [O, C, k, k] that keeps the size, by sums."""
    reach = weight.shape[2] // 2
    padded = np.pad(picture, ((0, 0), (reach, reach), (reach, reach)))
    height, width = picture.shape[1:]
    found = np.zeros((len(weight), height, width)) + bias[:, None, None]
    for y in range(weight.shape[2]):
        for x in range(weight.shape[3]):
            found += np.einsum("oc,chw->ohw", weight[:, :, y, x], padded[:, y : y + height, x : x + width])
    return found


def test_hed_is_the_papers_network_under_the_names_of_the_published_weights() -> None:
    network = hed.build(SMALL)
    weights = {name: value.numpy().astype(np.float64) for name, value in network.state_dict().items()}
    image = np.random.default_rng(0).random((3, 32, 48)).astype(np.float32)
    features = image.astype(np.float64) * 255 - weights["norm"][0]
    sides = []
    for block, depth in enumerate((1, 1, 2, 1, 1), start=1):
        if block > 1:
            channels, height, width = features.shape
            features = features.reshape(channels, height // 2, 2, width // 2, 2).max((2, 4))
        for i in range(depth):
            names = (f"block{block}.convs.{i}.weight", f"block{block}.convs.{i}.bias")
            features = np.maximum(convolved(features, *(weights[name] for name in names)), 0)
        names = (f"block{block}.projection.weight", f"block{block}.projection.bias")
        side = convolved(features, *(weights[name] for name in names))[0]
        sides.append(cv2.resize(side, (48, 32), interpolation=cv2.INTER_LINEAR))
    wanted = 1 / (1 + np.exp(-np.mean(sides, 0)))
    with torch.no_grad():
        found = network(torch.from_numpy(image)[None])[0].numpy()
    assert_parity(found, wanted, "f32")
    assert wanted.std() > 0.05, "edges that are all alike prove nothing"
    full = hed.Hed().state_dict()
    assert len(full) == 1 + 2 * (13 + 5)
    assert {
        name: tuple(full[name].shape) for name in ("norm", "block3.convs.2.weight", "block5.projection.weight")
    } == {
        "norm": (1, 3, 1, 1),
        "block3.convs.2.weight": (256, 256, 3, 3),
        "block5.projection.weight": (1, 512, 1, 1),
    }


def test_a_cache_crosses_the_graphs_boundary_as_it_is_computed(tmp_path: Path) -> None:
    """In half precision its ports are so too: no cast, and half the memory. Other ports stay as they are."""
    asked = Asked(islands=("normalisation",))
    (row,) = export_graph(lambda: blip2.decoder_graph(replace(SMALL, beams=3)), tmp_path, asked, random=True)
    assert row.faults == []
    graph = onnx.load(str(tmp_path / "onnx" / "opt_decoder" / "model.onnx"), load_external_data=False).graph
    kinds = {port.name: port.type.tensor_type.elem_type for port in (*graph.input, *graph.output)}
    caches = {f"cache_{kind}{more}" for kind in ("keys", "values") for more in ("", "_added")}
    wanted = dict.fromkeys(caches, onnx.TensorProto.FLOAT16)
    wanted |= dict.fromkeys(("position_ids", "cache_rows"), onnx.TensorProto.INT64)
    assert kinds == wanted | dict.fromkeys(("inputs_embeds", "logits"), onnx.TensorProto.FLOAT)
    cast = {name for node in graph.node if node.op_type == "Cast" for name in node.input}
    assert cast.isdisjoint({"cache_keys", "cache_values"})


def test_filled_weights_are_seeded_and_leave_nothing_silent() -> None:
    first, again, other = (blip2.Eyes(blip2.config_of(SMALL)) for _ in range(3))
    for eyes, seed in ((first, 1), (again, 1), (other, 2)):
        fill(eyes, seed)
    assert digest(first) == digest(again) != digest(other)
    for name, parameter in first.named_parameters():
        assert parameter.std() > 1e-2, f"{name} is silent"
    again.query_tokens.data[0, 0, 0] += 1e-3
    assert digest(again) != digest(first)


# --- where weights come from ---


def test_what_does_not_fit_is_named(tmp_path: Path) -> None:
    save_file({"weight": torch.ones(2, 3), "more": torch.ones(1)}, tmp_path / "model.safetensors")
    with pytest.raises(
        CounterfactoryError, match=r"1 missing, first bias; 1 not known, first more; 1 of another shape"
    ):
        load(nn.Linear(2, 3), tensors(tmp_path), tmp_path)
    with pytest.raises(CounterfactoryError, match="no weights whose names begin with vision"):
        tensors(tmp_path, ("vision",))
    (tmp_path / "model.safetensors").write_bytes(b"\xff" * 64)
    with pytest.raises(CounterfactoryError, match=r"model\.safetensors cannot be read"):
        tensors(tmp_path)
    with pytest.raises(CounterfactoryError, match=r"has no model\.safetensors, nor an index of its parts"):
        tensors(tmp_path.parent)


def test_weights_that_are_not_named_or_not_there_are_refused(tmp_path: Path) -> None:
    sources = Sources(controlnets=(str(tmp_path),))
    with pytest.raises(CounterfactoryError, match="no weights of hed were named: say --hed"):
        hed.build(Request(sources=sources))
    with pytest.raises(CounterfactoryError, match=r"has no config\.json"):
        denoiser.build_controlnets(Request(sources=sources))


def words(folder: Path) -> None:
    """A tokenizer of single words beside CLIP's weights, with the ids of the small configuration."""
    end, known = "<|endoftext|>", ("a", "car", "night", "street", "rainy", "snowy", "foggy", "clear", "red", "blue")
    vocabulary = {word: i for i, word in enumerate(("[?]", *known))} | {end: 59}
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token="[?]"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.post_processor = TemplateProcessing(single=f"$A {end}", special_tokens=[(end, 59)])
    tokenizer.save(str(folder / "tokenizer.json"))


def test_trained_weights_are_calibrated_on_streets(tmp_path: Path) -> None:
    clip.build(SMALL).save_pretrained(tmp_path / "clip")
    words(tmp_path / "clip")
    controlnet = denoiser.random_controlnet(6, small=True)
    controlnet.save_pretrained(tmp_path / "canny")
    sources = Sources(clip=str(tmp_path / "clip"), controlnets=(str(tmp_path / "canny"),) * 2)
    request = Request(sources=sources, sizes=((128, 192), (192, 128)))
    found = examples.painting(request, {})
    assert found.texts.shape == (4, 12, 32)
    assert found.negative.shape == (12, 32)
    assert found.hints.shape == (4, 2, 16, 64, 96)
    np.testing.assert_array_equal(found.hints[:, 0], found.hints[:, 1])  # one ControlNet twice
    assert all(not np.array_equal(found.texts[0], found.texts[i]) for i in range(1, 4))
    assert all(not np.array_equal(found.hints[0], found.hints[i]) for i in range(1, 4))
    clip.write_tokenizer(request, tmp_path)
    written = Tokenizer.from_file(str(tmp_path / "clip_tokenizer.json"))
    assert written.encode("a red car").ids == [1, 9, 2, *[59] * 9]
    (tmp_path / "clip" / "tokenizer.json").unlink()
    with pytest.raises(CounterfactoryError, match=r"needs config\.json and tokenizer\.json of CLIP"):
        clip.tokenizer_of(request)


def test_published_edge_weights_are_read(tmp_path: Path) -> None:
    network = hed.Hed()
    torch.save({f"netNetwork.{name}": value for name, value in network.state_dict().items()}, tmp_path / "HED.pth")
    assert digest(hed.build(Request(sources=Sources(hed=str(tmp_path))))) == digest(network)


def test_the_real_sizes_are_those_that_were_published() -> None:
    """Parameters as their papers and model cards count them, without making any."""
    with torch.device("meta"):
        unet = UNet2DConditionModel(**denoiser.SD15)
        controlnet = ControlNetModel(**denoiser.SD15)
        autoencoder = AutoencoderKL(**vae.KL)
        towers = CLIPModel(command.clip.CLIPConfig(**clip.VIT_L_14))
        eyes = blip2.Eyes(blip2.config_of(Request(captioner="2.7b", caption_side=224)))
        edges = hed.Hed()

    def count(module: nn.Module) -> int:
        return sum(parameter.numel() for parameter in module.parameters())

    assert count(unet) == 859_520_964
    assert count(controlnet) == 361_279_120
    assert count(autoencoder) == 83_653_863
    assert count(towers) == 427_616_513
    assert count(edges) == 14_716_168
    assert round(count(eyes) / 1e6) == 1093
