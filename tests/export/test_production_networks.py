"""The networks of a box: what they compute, where their weights come from, LoRAs merged into them, and loud channels in
half precision.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import onnx
import pytest
import torch
from diffusers import AutoencoderKL, ControlNetModel, UNet2DConditionModel
from safetensors.torch import save_file
from scipy.signal import correlate
from tokenizers import Tokenizer
from torch import nn
from transformers import CLIPModel

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.runtime.session import Array
from counterfactory.export.graphs import modules
from counterfactory.export.graphs.parity import assert_parity
from counterfactory.export.graphs.weights import digest, fill, load, tensors
from counterfactory.export.production import blip2, clip, command, denoiser, examples, hed, vae
from counterfactory.export.production.artefact import Asked, Row, export_graph
from counterfactory.export.production.graph import Graph, Request, Sources
from counterfactory.export.production.lora import merge_lora
from counterfactory.export.production.small_words import clip_tokenizer

SMALL = Request(small=True)


# --- what the networks compute ---


def convolved(picture: Array, weight: Array, bias: Array) -> Array:
    """A convolution [C, H, W] with [O, C, k, k] that keeps the size, by SciPy."""
    padded = np.pad(picture, ((0, 0), *[(weight.shape[2] // 2,) * 2] * 2))
    return np.stack([correlate(padded, one, "valid")[0] + by for one, by in zip(weight, bias, strict=True)])


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
    shapes = {"norm": (1, 3, 1, 1), "block3.convs.2.weight": (256, 256, 3, 3)}
    shapes["block5.projection.weight"] = (1, 512, 1, 1)
    assert {name: tuple(full[name].shape) for name in shapes} == shapes


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
    said = "1 missing, first bias; 1 not known, first more; 1 of another shape"
    with pytest.raises(CounterfactoryError, match=said):
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


def test_trained_weights_are_calibrated_on_streets(tmp_path: Path) -> None:
    clip.build(SMALL).save_pretrained(tmp_path / "clip")
    tokenizer = clip_tokenizer(60, 12)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    tokenizer.save(str(tmp_path / "clip" / "tokenizer.json"))
    controlnet = denoiser.random_controlnet(6, small=True)
    controlnet.save_pretrained(tmp_path / "canny")
    (tmp_path / "scheduler_config.json").write_text(json.dumps(denoiser.SCHEDULER))
    folders = {"clip": str(tmp_path / "clip"), "diffusion": str(tmp_path)}
    sources = Sources(controlnets=(str(tmp_path / "canny"),) * 2, **folders)
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
    assert written.encode("a red car").ids == [1, 2, 4, *[59] * 9]
    (tmp_path / "clip" / "tokenizer.json").unlink()
    with pytest.raises(CounterfactoryError, match=r"no tokenizer\.json that can be read"):
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


# --- LoRAs, as worked by hand and by every naming; what would be left out without a word is refused ---

ATTENTION = "down_blocks.1.attentions.0.transformer_blocks.0.attn1"
LINEAR, OUT, CONV = f"{ATTENTION}.to_q", f"{ATTENTION}.to_out.0", "down_blocks.0.resnets.0.conv1"
# Other kinds of layers that LCM-LoRA changes.
OTHERS = ("mid_block.resnets.0.time_emb_proj", "mid_block.attentions.0.proj_in", "down_blocks.0.downsamplers.0.conv")
Tensors = dict[str, torch.Tensor]


@pytest.fixture
def unet() -> UNet2DConditionModel:
    return denoiser.random_unet(3, small=True)


def pairs(unet: UNet2DConditionModel) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    """Deltas of rank 2 for a linear layer, one that is named otherwise in old files, a convolution, and OTHERS."""
    random = torch.Generator().manual_seed(1)
    found = {}
    for name in (LINEAR, OUT, CONV, *OTHERS):
        out, *rest = unet.get_submodule(name).get_parameter("weight").shape
        ends = [1] * (len(rest) - 1)
        found[name] = torch.randn(2, *rest, generator=random), torch.randn(out, 2, *ends, generator=random)
    return found


def lora(unet: UNet2DConditionModel, form: str) -> Tensors:
    """The deltas as kohya (with alpha 1, half of the rank), peft and diffusers name them (without: the rank stands for
    it), and as diffusers once named layers of attention.
    """
    old = {LINEAR: f"{ATTENTION}.processor.to_q_lora", OUT: f"{ATTENTION}.processor.to_out_lora"}
    found: Tensors = {}
    for name, pair in pairs(unet).items():
        flat = f"lora_unet_{name.replace('.', '_')}"
        begins = {"kohya": f"{flat}.lora_", "peft": f"unet.{name}.lora_", "diffusers": f"unet.{name}.lora."}
        begin = begins.get(form, f"unet.{old.get(name, f'{name}.lora')}.")
        ends = "AB" if form == "peft" else ("down", "up")
        found |= {f"{begin}{end}.weight": tensor for end, tensor in zip(ends, pair, strict=True)}
        found |= {f"{flat}.alpha": torch.tensor(1.0)} if form == "kohya" else {}
    return found


def saved(tensors: Tensors, folder: Path) -> Path:
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, folder / "lora.safetensors")
    return folder / "lora.safetensors"


@pytest.mark.parametrize(("form", "scale"), [("kohya", 0.5), ("peft", 1.0), ("diffusers", 1.0), ("processors", 1.0)])
def test_a_lora_is_merged_as_by_hand(unet: UNet2DConditionModel, tmp_path: Path, form: str, scale: float) -> None:
    before = {name: value.clone() for name, value in unet.state_dict().items()}
    assert merge_lora(unet, saved(lora(unet, form), tmp_path), 0.7) == 6
    deltas = {}
    for name, (down, up) in pairs(unet).items():
        delta = np.zeros(before[f"{name}.weight"].shape)
        for rank in range(2):
            for out in range(len(delta)):
                delta[out] += up[out, rank].item() * down[rank].numpy()
        deltas[f"{name}.weight"] = 0.7 * scale * delta
    after = unet.state_dict()
    assert after.keys() == before.keys()
    for name, value in after.items():
        wanted = before[name].numpy() + deltas.get(name, 0)
        np.testing.assert_allclose(value.numpy(), wanted, rtol=1e-5, atol=1e-6, err_msg=name)


KOHYA, PEFT = f"lora_unet_{LINEAR.replace('.', '_')}", f"unet.{LINEAR}"


def both(layer: str, *parts: str) -> Tensors:
    return {f"{layer}.lora_{part}.weight": torch.ones(2, 2) for part in parts}


@pytest.mark.parametrize(
    ("form", "change", "said"),
    [
        ("kohya", {"lora_te_text_model_x.lora_down.weight": torch.ones(1)}, "changes the text encoder too"),
        ("peft", {"text_encoder.text_model.x.lora_A.weight": torch.ones(1)}, "changes the text encoder too"),
        ("kohya", both("lora_unet_up_to_k", "down", "up"), "belongs to no layer"),
        ("peft", both("unet.up.to_k", "A", "B"), "belongs to no layer"),
        ("peft", {f"{PEFT}.hada_w1_a": torch.ones(2, 2)}, "belongs to no layer"),
        ("kohya", {f"{KOHYA}.lora_up.weight": None}, "none that diffusers can read: .*lora_up.weight"),
        ("peft", {f"{PEFT}.lora_B.weight": None}, r"has \['A'\], a pair needs A \(down\) and B \(up\)"),
        ("peft", {f"{PEFT}.lora_B.weight": torch.ones(32, 3)}, r"goes down to 2 channels and up from \[3\]"),
        ("kohya", {f"{KOHYA}.lora_up.weight": torch.ones(9, 2)}, r"shape \[9, 32\], the layer \[32, 32\]"),
        ("kohya", {f"{KOHYA}.dora_scale": torch.ones(32)}, "is a DoRA"),
    ],
)
def test_loras_that_do_not_fit_change_nothing(
    unet: UNet2DConditionModel, tmp_path: Path, form: str, change: dict[str, torch.Tensor | None], said: str
) -> None:
    before = {name: value.clone() for name, value in unet.state_dict().items()}
    tensors = {name: value for name, value in (lora(unet, form) | change).items() if value is not None}
    with pytest.raises(CounterfactoryError, match=said):
        merge_lora(unet, saved(tensors, tmp_path))
    assert unet.state_dict().keys() == before.keys()
    for name, value in unet.state_dict().items():
        assert torch.equal(value, before[name])


def test_a_folder_of_loras_is_refused(unet: UNet2DConditionModel, tmp_path: Path) -> None:
    with pytest.raises(CounterfactoryError, match="is a folder: name the LoRA's file in it"):
        merge_lora(unet, tmp_path)


# --- loud channels ---

# Trained networks have channels a hundred times as loud as the rest, in what layers add to their states and in queries
# and keys (Dettmers et al. 2022, arXiv 2208.07339, section 4; Sun et al. 2024, arXiv 2402.17762). Seeded weights have
# none: here they are put in by hand, and fp16 must keep its bound.
CHANNELS = [5, 7]
FP16_MAX = float(np.finfo(np.float16).max)


def raised(layers: Iterable[nn.Module], by: float) -> None:
    """Make two output channels of each layer `by` times as loud."""
    with torch.no_grad():
        for layer in layers:
            layer.get_parameter("weight")[CHANNELS] *= by
            layer.get_parameter("bias")[CHANNELS] *= by


def exported(graph: Graph, out: Path) -> tuple[Row, Mapping[str, float]]:
    """The row of the export, and the error with each set of islands that was tried."""
    (row,) = export_graph(lambda: graph, out, Asked(), random=True)
    manifest = json.loads((out / "onnx" / graph.name / "manifest.json").read_text())
    return row, manifest["measured"]


def scaled_late(path: Path) -> list[str]:
    """Softmaxes whose product of queries and keys is divided or multiplied only afterwards."""
    proto = onnx.load(str(path), load_external_data=False)
    made = {name: node for node in proto.graph.node for name in node.output}
    found = []
    for softmax in (node for node in proto.graph.node if node.op_type == "Softmax"):
        # A mask may be added on the way.
        node: Any = made[softmax.input[0]]
        while node.op_type in ("Cast", "Add"):
            before = [made[name] for name in node.input if name in made]
            node = next(one for one in before if one.op_type in ("MatMul", "Mul", "Div", "Cast", "Add"))
        found += [softmax.name] if node.op_type != "MatMul" else []
    return found


@pytest.mark.parametrize(
    ("build", "layers", "parts"),
    [
        (blip2.vision_graph, "module.vision.encoder.layers", ("self_attn.projection", "mlp.fc2")),
        (blip2.decoder_graph, "layers", ("self_attn.out_proj", "fc2")),
    ],
)
def test_loud_channels_of_the_states_need_the_norms_island_and_get_it(
    tmp_path: Path, build: Callable[[Request], Graph], layers: str, parts: tuple[str, ...]
) -> None:
    graph = build(SMALL)
    raised((layer.get_submodule(p) for layer in graph.module.get_submodule(layers).children() for p in parts), 100)
    row, measured = exported(graph, tmp_path)
    assert row.faults == []
    assert "normalisation" in row.islands
    assert measured["none"] > row.parity_bound, "these channels are not loud enough to prove anything"
    assert scaled_late(tmp_path / "onnx" / row.name / "model.onnx") == []


def test_loud_queries_and_keys_stay_within_fp16(tmp_path: Path) -> None:
    """Queries are scaled before they meet the keys, as in transformers: scaled after it, their products overflow."""
    graph = blip2.decoder_graph(SMALL)
    module = graph.module
    assert isinstance(module, modules.CachedOptDecoder)
    attentions = [layer.self_attn for layer in module.layers]
    raised((part for attention in attentions for part in (attention.q_proj, attention.k_proj)), 100)
    graph.inputs["cache_keys"][:, :, :, 0, CHANNELS] *= 200
    states = graph.inputs["inputs_embeds"] + module.positions.weight[graph.inputs["position_ids"] + 2]
    normed = module.layers[0].self_attn_layer_norm(states)
    queries = attentions[0].q_proj(normed)[..., : module.width]
    unscaled = (queries @ graph.inputs["cache_keys"][:, :, 0, 0].permute(1, 2, 0)).abs().max().item()
    assert FP16_MAX < unscaled < FP16_MAX * module.width**0.5
    row, _ = exported(graph, tmp_path)
    assert row.faults == []
