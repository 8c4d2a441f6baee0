"""Checkpoints as they are published: their own config.json, files in parts, in other precisions and under old names.

`published/` has the config.json of each repository that docs/a10g.md names. The real classes are made from them with
their widths and depths cut, saved, and given the config back as it was published; what lies beside the weights in those
repositories lies beside them here, with other numbers in it, so that a wrong file shows. The export command reads the
folders, and what it makes of them is held against what the real classes compute.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from diffusers import AutoencoderKL, AutoencoderTiny, ControlNetModel, UNet2DConditionModel
from exporter import parsed
from profiles import profile_with
from safetensors.torch import load_file, save_file
from tiny_bert import save_bert
from torch import nn
from transformers import Blip2Config, Blip2ForConditionalGeneration, CLIPConfig, CLIPModel

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.profile.profile import load_profile
from counterfactory.engine.runtime.plans import read_exported
from counterfactory.export.graphs.parity import assert_parity, relative_error
from counterfactory.export.graphs.weights import fill, tensors, weight_files
from counterfactory.export.precision.cpu import OnnxCpu
from counterfactory.export.production import blip2, clip, command, denoiser, examples, hed, vae
from counterfactory.export.production.graph import Graph, Request
from counterfactory.export.production.small_words import clip_tokenizer

CONFIGS = Path(__file__).with_name("published")
_LAYERS = {"num_attention_heads": 4, "num_hidden_layers": 2}
_TOWER = {**_LAYERS, "hidden_size": 64, "intermediate_size": 96}
_BLOCKS = {"block_out_channels": [32, 32, 64, 64], "cross_attention_dim": 64, "layers_per_block": 1}
# What is cut of each config; the rest is as published.
CUT: Mapping[str, Mapping[str, Any]] = {
    "blip2-opt-6.7b-coco": {
        "text_config": {**_LAYERS, "hidden_size": 64, "word_embed_proj_dim": 64, "ffn_dim": 96},
        "vision_config": _TOWER,
        "qformer_config": {**_TOWER, "hidden_size": 48, "encoder_hidden_size": 64},
    },
    "clip-vit-large-patch14": {
        "text_config": {**_TOWER, "projection_dim": 32},
        "vision_config": {**_TOWER, "projection_dim": 32},
        "projection_dim": 32,
    },
    "stable-diffusion-v1-5.unet": _BLOCKS,
    "control_v11p_sd15_canny": _BLOCKS,
    "stable-diffusion-v1-5.vae": {"block_out_channels": [32, 32, 32, 32]},
    "taesd": {"decoder_block_out_channels": [16] * 4, "encoder_block_out_channels": [16] * 4},
}
_OF_TRANSFORMERS = {CLIPModel: CLIPConfig, Blip2ForConditionalGeneration: Blip2Config}


def published(name: str) -> dict[str, Any]:
    """A published config, cut."""
    found: dict[str, Any] = json.loads((CONFIGS / f"{name}.json").read_text())
    for key, value in CUT[name].items():
        found[key] = {**found[key], **value} if isinstance(value, dict) else value
    return found


def made(kind: Any, name: str, seed: int) -> Any:
    """The real class of a published config, with weights."""
    config = published(name)
    config_of = _OF_TRANSFORMERS.get(kind)
    module = kind(config_of.from_dict(config)) if config_of else kind.from_config(config)
    fill(module, seed)
    return module.eval()


def saved(kind: Any, name: str, folder: Path, seed: int, *, dtype: torch.dtype = torch.float32, **how: Any) -> None:
    """Save the real class as its repository has it: `how` is of save_pretrained."""
    made(kind, name, seed).to(dtype).save_pretrained(folder, **how)
    (folder / "config.json").write_text(json.dumps(published(name), indent=2))


def loaded(kind: Any, folder: Path) -> Any:
    """By the real class's own reading, in float32."""
    dtype = {"dtype" if kind in _OF_TRANSFORMERS else "torch_dtype": torch.float32}
    return kind.from_pretrained(folder, local_files_only=True, **dtype).eval().requires_grad_(False)


FLAGS = {"--sentence": "bert", "--blip2": "blip2", "--clip": "clip", "--diffusion": "sd", "--controlnet": "canny"}


def told(hub: Path) -> list[str]:
    """What the command is told of the folders."""
    return [word for flag, name in FLAGS.items() for word in (flag, str(hub / name))]


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("hub")
    torch.manual_seed(0)
    # BLIP-2: shards in bf16, one of them with a table that older versions saved; a variant in shards beside them.
    folder = root / "blip2"
    saved(Blip2ForConditionalGeneration, "blip2-opt-6.7b-coco", folder, 1, dtype=torch.bfloat16, max_shard_size="3MB")
    index = json.loads((folder / "model.safetensors.index.json").read_text())
    table = "vision_model.embeddings.position_ids"
    save_file({table: torch.arange(677)[None]}, folder / "model-00000-of-00009.safetensors")
    index["weight_map"][table] = "model-00000-of-00009.safetensors"
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    other = load_file(folder / sorted(set(index["weight_map"].values()))[-1])
    save_file({name: tensor + 1 for name, tensor in other.items()}, folder / "model.fp16-00001-of-00001.safetensors")
    clip_tokenizer(50304, 77).save(str(folder / "tokenizer.json"))
    # CLIP: one file, with tables of positions; a .bin beside it.
    folder = root / "clip"
    saved(CLIPModel, "clip-vit-large-patch14", folder, 2)
    whole = load_file(folder / "model.safetensors")
    # One word is loud: random tokens never say it, captions of streets do.
    word = clip_tokenizer(49408, 77).token_to_id("a")
    whole["text_model.embeddings.token_embedding.weight"][word, :2] *= 2000
    lengths = {"text": 77, "vision": 257}
    tables = {f"{tower}_model.embeddings.position_ids": torch.arange(n)[None] for tower, n in lengths.items()}
    save_file({**whole, **tables}, folder / "model.safetensors", {"format": "pt"})
    torch.save({name: tensor + 1 for name, tensor in whole.items()}, folder / "pytorch_model.bin")
    clip_tokenizer(49408, 77).save(str(folder / "tokenizer.json"))
    # The pipeline: fp16 and non-EMA files beside those in float32, and .bin beside all.
    for kind, part, seed in ((UNet2DConditionModel, "unet", 3), (AutoencoderKL, "vae", 4)):
        name, folder = f"stable-diffusion-v1-5.{part}", root / "sd" / part
        for variant in ("fp16", "non_ema"):
            saved(kind, name, folder, 90, dtype=torch.float16, variant=variant)
        saved(kind, name, folder, 91, safe_serialization=False)
        saved(kind, name, folder, seed)
    # Its autoencoder names the parts of attention as diffusers did in 2022.
    file = root / "sd" / "vae" / "diffusion_pytorch_model.safetensors"
    old = {"to_q.": "query.", "to_k.": "key.", "to_v.": "value.", "to_out.0.": "proj_attn."}
    renamed = load_file(file)
    for new, before in old.items():
        renamed = {name.replace(f"attentions.0.{new}", f"attentions.0.{before}"): t for name, t in renamed.items()}
    assert sum("proj_attn" in name for name in renamed) == 4
    save_file(renamed, file, {"format": "pt"})
    (root / "sd" / "scheduler").mkdir()
    scheduler = (CONFIGS / "stable-diffusion-2-1.scheduler.json").read_text()  # not what random weights are given
    (root / "sd" / "scheduler" / "scheduler_config.json").write_text(scheduler)
    saved(ControlNetModel, "control_v11p_sd15_canny", root / "canny", 92, dtype=torch.float16, variant="fp16")
    saved(ControlNetModel, "control_v11p_sd15_canny", root / "canny", 5, max_shard_size="2MB")
    saved(AutoencoderTiny, "taesd", root / "taesd", 6)
    save_bert(root / "bert")
    save_file({"3.weight": torch.ones(64)}, root / "taesd" / "taesd_decoder.safetensors")
    return root


def request_of(*said: str) -> Request:
    """The request that the command makes of its arguments."""
    return command._request(parsed("--out", "x", *said), load_profile("a10g"))


def computed(graph: Graph) -> tuple[torch.Tensor, ...]:
    with torch.no_grad():
        found = graph.module(*graph.inputs.values())
    return found if isinstance(found, tuple) else (found,)


def seen(pixels: torch.Tensor) -> torch.Tensor:
    """Pixels in -1..1 as CLIP and BLIP-2 are shown them."""
    mean, std = (torch.tensor(values)[:, None, None] for values in (clip.MEAN, clip.STD))
    return ((pixels + 1) / 2 - mean) / std


def predicted(unet: nn.Module, controlnet: nn.Module, row: Mapping[str, torch.Tensor], hint: torch.Tensor) -> Any:
    """diffusers' own step with its ControlNet, for a row of the fused graph's inputs."""
    call = (row["latents"], row["timestep"], row["text"])
    with torch.no_grad():
        down, mid = controlnet(*call, controlnet_cond=hint, return_dict=False)
        residuals = {"down_block_additional_residuals": down, "mid_block_additional_residual": mid}
        return unet(*call, **residuals, return_dict=False)[0]


def test_blip2_in_bf16_shards(hub: Path) -> None:
    """Its picture's embeddings, read by its language model, as the whole model reads them."""
    request, whole = request_of(*told(hub)), loaded(Blip2ForConditionalGeneration, hub / "blip2")
    graph = command.graphs_of(request)["blip2_vision"]()
    (queries,) = computed(graph)
    pixels = seen(graph.inputs["pixel_values"])
    assert pixels.shape == (2, 3, 364, 364)
    opt = blip2.build_opt(request)
    words = torch.tensor([[2, 102, 50118, 9]] * 2)
    ids = torch.cat([torch.full((2, 32), 50265), words], 1)
    with torch.no_grad():
        found = opt(inputs_embeds=torch.cat([queries, opt.get_input_embeddings()(words)], 1)).logits[:, 32:]
        wanted = whole(pixel_values=pixels, input_ids=ids, attention_mask=torch.ones_like(ids)).logits[:, 32:]
    assert_parity(found, wanted, "f32")
    plan = command.graphs_of(request)["opt_decoder"]().plan[0]
    assert plan["inputs_embeds"].bounds(2) == (64, 64, 64)


def test_clip_whose_config_names_another_end_of_texts(hub: Path) -> None:
    """Its `eos_token_id` is 2, and transformers then reads where the highest token is."""
    request, whole = request_of(*told(hub)), loaded(CLIPModel, hub / "clip")
    assert whole.config.text_config.eos_token_id == 2
    text, image = (command.graphs_of(request)[name]() for name in ("clip_text", "clip_image"))
    states, text_embeds = computed(text)
    (image_embeds,) = computed(image)
    ids = text.inputs["input_ids"]
    with torch.no_grad():
        wanted = whole(input_ids=ids, pixel_values=seen(image.inputs["pixel_values"]))
    assert_parity(text_embeds, wanted.text_embeds, "f32")
    assert_parity(image_embeds, wanted.image_embeds, "f32")
    assert_parity(states, wanted.text_model_output.last_hidden_state, "f32")


def test_the_pipelines_networks_are_those_without_a_variant(hub: Path) -> None:
    request = request_of(*told(hub))
    fused, hint, decoder = (command.graphs_of(request)[name]() for name in ("denoiser", "hint", "vae_decoder"))
    unet, controlnet = loaded(UNet2DConditionModel, hub / "sd" / "unet"), loaded(ControlNetModel, hub / "canny")
    autoencoder = loaded(AutoencoderKL, hub / "sd" / "vae")
    grey = hint.inputs["hint"][:, :, :128, :192]
    with torch.no_grad():
        embedded = hint.module(grey)
        row = {name: value[..., :16, :24] if value.ndim == 4 else value for name, value in fused.inputs.items()}
        found, _ = fused.module(row["latents"], row["timestep"], row["text"], embedded, row["control_scale"])
        wanted = predicted(unet, controlnet, row, grey.repeat(1, 3, 1, 1))
        alone = unet(row["latents"], row["timestep"], row["text"], return_dict=False)[0]
        latents = decoder.inputs["latents"][..., :16, :24]
        assert_parity(decoder.module(latents), autoencoder.decode(latents / 0.18215, return_dict=False)[0], "f32")
    assert_parity(found, wanted, "f32")
    assert relative_error(alone, wanted) > 1e-3, "the ControlNet does nothing, so that this proves nothing"


def test_the_scheduler_is_the_pipeline_s_own(hub: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Int8 is calibrated by it, and what the profile contradicts is said before anything is exported."""
    request, own = request_of(*told(hub)), json.loads((CONFIGS / "stable-diffusion-2-1.scheduler.json").read_text())
    assert command.graphs_of(request)["denoiser"]().facts == {"scheduler": own}
    assert denoiser.sampler_of(request).settings.prediction == "v_prediction"
    assert examples.painting(request, {}).sampler.settings.prediction == "v_prediction"
    usual = json.loads((CONFIGS / "stable-diffusion-v1-5.scheduler.json").read_text())
    del usual["_diffusers_version"]
    assert denoiser.scheduler_of(Request()) == usual
    contrary = profile_with(tmp_path / "contrary", "a10g", paint={"sampler": {"prediction": "epsilon"}})
    monkeypatch.setattr(command, "export_all", lambda *_, **__: pytest.fail("it was exported"))
    with pytest.raises(CounterfactoryError, match=r'prediction = "epsilon" contradicts the scheduler_config.json of'):
        command.run(parsed(*told(hub), "--profile", str(contrary), "--out", str(tmp_path)))
    (tmp_path / "sd").mkdir()
    for text in (None, "[]", "{"):
        if text is not None:
            (tmp_path / "sd" / "scheduler_config.json").write_text(text)
        with pytest.raises(CounterfactoryError, match=r"sd has no scheduler/scheduler_config.json that can be read"):
            denoiser.scheduler_of(request_of(*told(hub), "--diffusion", str(tmp_path / "sd")))


def test_latents_are_scaled_as_the_autoencoder_s_config_says(hub: Path, tmp_path: Path) -> None:
    shutil.copytree(hub / "sd" / "vae", tmp_path / "vae")
    file = tmp_path / "vae" / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"scaling_factor": 0.5}))
    request = request_of(*told(hub), "--diffusion", str(tmp_path))
    graph, autoencoder = vae.decoder_graph(request), loaded(AutoencoderKL, tmp_path / "vae")
    latents = torch.randn(1, 4, 8, 8, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        assert_parity(graph.module(latents), autoencoder.decode(latents / 0.5, return_dict=False)[0], "f32")
    assert graph.facts == {"scaling_factor": 0.5}


def test_what_lies_in_fp16_alone_is_read(tmp_path: Path, hub: Path) -> None:
    saved(UNet2DConditionModel, "stable-diffusion-v1-5.unet", tmp_path, 7, dtype=torch.float16, variant="fp16")
    unet = denoiser.load_part(UNet2DConditionModel, str(tmp_path), "unet")
    wanted = made(UNet2DConditionModel, "stable-diffusion-v1-5.unet", 7).half().state_dict()
    assert unet.dtype == torch.float32
    assert all(torch.equal(tensor.half(), wanted[name]) for name, tensor in unet.state_dict().items())
    for file in tmp_path.glob("*.safetensors"):
        file.unlink()
    with pytest.raises(CounterfactoryError, match=r"cannot be read as a UNet2DConditionModel: .* no file named"):
        denoiser.load_part(UNet2DConditionModel, str(tmp_path), "unet")


def test_networks_that_do_not_belong_together_are_refused(tmp_path: Path, hub: Path) -> None:
    wide = {**published("control_v11p_sd15_canny"), "block_out_channels": [32, 64, 64, 64]}
    ControlNetModel.from_config(wide).save_pretrained(tmp_path / "canny")
    said = [*told(hub)[:-1], str(tmp_path / "canny")]
    with pytest.raises(CounterfactoryError, match=r"canny has block_out_channels \(32, 64, 64, 64\) and the UNet"):
        command.graphs_of(request_of(*said))["denoiser"]()
    (tmp_path / "clip").mkdir()
    (tmp_path / "clip" / "config.json").write_bytes((CONFIGS / "clip-vit-large-patch14.json").read_bytes())
    with pytest.raises(CounterfactoryError, match=r"reads text of width 64 .* with its CLIP has 768 and 4"):
        command.graphs_of(request_of(*told(hub), "--clip", str(tmp_path / "clip")))["denoiser"]()


# --- what they are compared on ---


@pytest.mark.parametrize("said", [[], ["--profile", "lance"]], ids=["a10g", "lance"])
def test_trained_networks_are_compared_on_streets(hub: Path, said: list[str]) -> None:
    """Every input that a suite makes of photographs and captions; the graphs compute something of them."""
    asked = parsed("--out", "x", *told(hub), *said)
    request = command._request(asked, load_profile(asked.profile))
    # What beams change is the decoder's alone.
    graphs = {name: build() for name, build in command.graphs_of(request).items() if name == "opt_decoder" or not said}
    made = {name: examples.on_streets(graph, request) for name, graph in graphs.items()}
    shown: dict[str, set[str]] = {}
    for name, graph in made.items():
        shown[name] = {i for i in graph.inputs if graph.inputs[i] is not graphs[name].inputs[i]}
    step = {"inputs_embeds", "position_ids", "cache_keys", "cache_values"}
    paint = {"latents", "text", "hint_embedding"}
    wanted = {"opt_decoder": step | ({"cache_rows"} if said else set()), "hint": {"hint"}, "vae_decoder": {"latents"}}
    wanted |= {"denoiser": paint, "denoiser_shallow": paint | {"deep"}, "sentence": {"input_ids", "attention_mask"}}
    wanted |= {"clip_text": {"input_ids"}, "blip2_vision": {"pixel_values"}, "clip_image": {"pixel_values"}}
    assert shown == {name: ports for name, ports in wanted.items() if name in graphs}
    decoder = made["opt_decoder"].inputs
    assert decoder["position_ids"][0, 0] == len(decoder["cache_keys"]) == 33
    assert {graph.examples for graph in made.values()} == {"streets"}
    for name, graph in made.items():
        if name != "denoiser":  # computed above
            for output in computed(graph):
                assert relative_error(output, output) == 0, "a flat output proves nothing"
    if not said:
        hint, ids = made["hint"].inputs["hint"], made["clip_text"].inputs["input_ids"]
        assert set(hint.unique().tolist()) == {0.0, 1.0}
        assert 0.005 < hint.mean() < 0.5
        assert (ids == 49407).any(1).all()


def test_the_denoiser_is_compared_on_noised_streets_if_their_weights_are_named(hub: Path) -> None:
    request = request_of(*told(hub))
    graph = command.graphs_of(request)["denoiser"]()
    made = examples.on_streets(graph, request).inputs
    # Next to no noise is left at timestep 1, and next to nothing else at 999.
    assert made["timestep"].tolist() == [999, 1]
    noise = graph.inputs["latents"]
    alike = [np.corrcoef(made["latents"][i].flatten(), noise[i].flatten())[0, 1] for i in range(2)]
    assert alike[0] > 0.9
    assert alike[1] < 0.2
    assert request.sources is not None
    without = replace(request, sources=replace(request.sources, clip=None))
    assert examples.on_streets(graph, without) is graph


# --- which files are the weights ---


def checkpoint(folder: Path, *names: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for i, name in enumerate(names):
        save_file({"weight": torch.full((2,), float(i))}, folder / name)


def test_an_index_says_which_files_belong_together(tmp_path: Path) -> None:
    parts = [f"model-0000{i}-of-00002.safetensors" for i in (1, 2)]
    checkpoint(tmp_path, *parts, "model.fp16-00001-of-00001.safetensors", "model-00003-of-00003.safetensors")
    with pytest.raises(CounterfactoryError, match=r"nor an index of its parts, and 4 other \.safetensors"):
        weight_files(tmp_path)
    index = {"weight_map": dict(zip("ab", parts, strict=True))}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    assert [file.name for file in weight_files(tmp_path)] == parts
    (tmp_path / parts[1]).unlink()
    with pytest.raises(CounterfactoryError, match=rf"lacks {parts[1]}, which model\.safetensors\.index\.json names"):
        weight_files(tmp_path)
    (tmp_path / "model.safetensors.index.json").write_text("[]")
    with pytest.raises(CounterfactoryError, match="is no index of weights"):
        weight_files(tmp_path)
    checkpoint(tmp_path, "model.safetensors")
    assert [file.name for file in weight_files(tmp_path)] == ["model.safetensors"]


def test_weights_in_bin_files_are_read_where_there_are_no_others(tmp_path: Path) -> None:
    torch.save({"a.weight": torch.ones(2)}, tmp_path / "pytorch_model-00001-of-00002.bin")
    torch.save({"b.weight": torch.ones(3)}, tmp_path / "pytorch_model-00002-of-00002.bin")
    files = {f"{name}.weight": f"pytorch_model-0000{i}-of-00002.bin" for i, name in enumerate("ab", 1)}
    (tmp_path / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": files}))
    assert {name: len(tensor) for name, tensor in tensors(tmp_path).items()} == {"a.weight": 2, "b.weight": 3}
    save_file({"a.weight": torch.zeros(5)}, tmp_path / "model.safetensors")
    assert {name: len(tensor) for name, tensor in tensors(tmp_path).items()} == {"a.weight": 5}


# --- the command ---


def exported(
    said: list[str], out: Path, monkeypatch: pytest.MonkeyPatch, islands: str | None = "timestep,normalisation"
) -> dict[str, Any]:
    """The rows of export.json, of graphs made in this process."""
    monkeypatch.setattr(command, "alone", lambda work, *arguments: work(*arguments))
    heard: list[str] = []
    asked = parsed(*said, "--threads", "1", *(["--islands", islands] if islands else []))
    asked.out = out
    assert command.run(asked, heard.append) == 0, heard
    return {row["name"]: row for row in json.loads((out / "export.json").read_text())}


def test_the_command_exports_published_folders(hub: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = [*told(hub), "--tiny-vae", str(hub / "taesd"), "--only", "clip_text,vae_decoder"]
    rows = exported(said, tmp_path, monkeypatch, islands=None)
    assert [rows[name]["random"] for name in ("clip_text", "vae_decoder")] == [False, False]
    whole, tiny = loaded(CLIPModel, hub / "clip"), loaded(AutoencoderTiny, hub / "taesd")
    ids = torch.randint(0, 49406, (3, 77), generator=torch.Generator().manual_seed(1))
    ids[0, 9:], ids[1, 30:], ids[2, 76:] = 49407, 49407, 49407
    found = OnnxCpu(tmp_path / "onnx" / "clip_text" / "model.onnx").run({"input_ids": ids.numpy()})
    with torch.no_grad():
        wanted = whole.text_model(input_ids=ids)
        pooled = nn.functional.normalize(whole.text_projection(wanted.pooler_output), dim=-1)
    assert_parity(found["states"], wanted.last_hidden_state, "fp16")
    assert_parity(found["text_embeds"], pooled, "fp16")
    assert (tmp_path / "clip_tokenizer.json").is_file()
    latents = torch.randn(2, 4, 8, 16, generator=torch.Generator().manual_seed(2))
    pixels = OnnxCpu(tmp_path / "onnx" / "vae_decoder" / "model.onnx").run({"latents": latents.numpy()})["pixel_values"]
    with torch.no_grad():
        assert_parity(pixels, tiny.decode(latents, return_dict=False)[0], "fp16")
    assert read_exported(tmp_path, "vae_decoder").classes == ("AutoencoderTiny",)
    manifest = json.loads((tmp_path / "onnx" / "clip_text" / "manifest.json").read_text())
    assert manifest["examples"] == "streets"
    assert manifest["measured"]["none"] > 1e-2, "the loud word was not said"
    assert "normalisation" in manifest["islands"]
    assert json.loads((tmp_path / "latent.json").read_text()) == {"factor": 8, "channels": 4}


@pytest.mark.slow
def test_the_command_exports_every_published_network(
    hub: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unet, controlnet = loaded(UNet2DConditionModel, hub / "sd" / "unet"), loaded(ControlNetModel, hub / "canny")
    weight = unet.mid_block.resnets[0].time_emb_proj.weight
    up, down = torch.randn(len(weight), 4), torch.randn(4, weight.shape[1])
    adapter = {f"unet.mid_block.resnets.0.time_emb_proj.lora_{end}.weight": t for end, t in (("A", down), ("B", up))}
    save_file(adapter, tmp_path / "lcm.safetensors")
    weight += 0.5 * up @ down
    torch.save(hed.Hed().state_dict(), tmp_path / "ControlNetHED.pth")
    said = [*told(hub), "--hed", str(tmp_path / "ControlNetHED.pth"), "--tiny-vae", str(hub / "taesd")]
    rows = exported([*said, "--lora", f"{tmp_path / 'lcm.safetensors'}:0.5"], tmp_path / "out", monkeypatch)
    names = {"blip2_vision", "opt_decoder", "clip_text", "hint", "denoiser", "vae_decoder", "clip_image", "hed"}
    assert rows.keys() == names | {"sentence", "denoiser_shallow"}
    feeds = denoiser.example_inputs(2, (8, 16), config=unet.config, seed=3)
    feeds["hint_embedding"] = hint = torch.randn(2, 32, 8, 16)
    controlnet.controlnet_cond_embedding = nn.Identity()
    wanted = predicted(unet, controlnet, feeds, hint)
    made = OnnxCpu(tmp_path / "out" / "onnx" / "denoiser" / "model.onnx")
    assert read_exported(tmp_path / "out", "denoiser").scheduler == denoiser.scheduler_of(request_of(*said))
    found = made.run({name: tensor.numpy() for name, tensor in feeds.items()})
    assert_parity(found["prediction"], wanted, "fp16")
