"""One block of each network of the profile cpu, as wide as the published ones, against transformers and diffusers.

Florence-2's stand in tests/models/test_florence2.py. An export holds its graph to the module that is held here.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from diffusers import AutoencoderTiny, ControlNetModel, UNet2DConditionModel
from test_published import computed, loaded, predicted, seen
from tiny_llama import tiny_llama, tiny_tokenizer
from transformers import CLIPConfig, CLIPModel

from counterfactory.engine.language.llama import Llama
from counterfactory.engine.runtime.openvino import open_core
from counterfactory.engine.runtime.quiet_openvino import ov
from counterfactory.export.graphs.parity import assert_parity, relative_error
from counterfactory.export.graphs.weights import fill
from counterfactory.export.language.llama_steps import write_llama
from counterfactory.export.production import clip, denoiser, vae
from counterfactory.export.production.graph import Request, Sources

pytestmark = pytest.mark.slow


def test_a_layer_of_smollm2(tmp_path: Path) -> None:
    """SmolLM2-1.7B's width, heads, rotary base and tied head, by the written graph: read at once, then word by word."""
    words = tiny_tokenizer()
    sizes = {"hidden_size": 2048, "intermediate_size": 8192, "num_attention_heads": 32, "num_key_value_heads": 32}
    rotary = {"rope_parameters": {"rope_type": "default", "rope_theta": 130000.0}, "max_position_embeddings": 8192}
    model = tiny_llama(words, **sizes, **rotary, num_hidden_layers=1, tie_word_embeddings=True)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_((parameter / 4 if parameter.ndim > 1 else parameter).half())
    write_llama(model, words, 0, tmp_path)
    widened = (op for op in open_core().read_model(tmp_path / "model.xml").get_ops() if op.get_type_name() == "Convert")
    halves = [op for op in widened if op.get_input_element_type(0) == ov.Type.f16]
    assert sum(op.input_value(0).get_node().data.size > 1 for op in halves) == 5  # else float32 when opened
    assert all("decompression_0" in op.get_rt_info() for op in halves)
    written = Llama(tmp_path, precision="f32", threads=1)
    common, text = [5, 6, 7], [11, 12, 13, 14, 250]
    cache, held = written.rows(1, 1), written.beginning(common)
    for read, run in ((0, text[:4]), (4, text[4:])):
        logits = written.step([run], held, cache, 0, np.array([read]))
        with torch.no_grad():
            wanted = model(torch.tensor([[*common, *text[: read + len(run)]]])).logits[0, -1].numpy()
        assert_parity(logits[0], wanted, "f32")


def test_a_layer_of_each_tower_of_clip(tmp_path: Path) -> None:
    config = {name: {**part, "num_hidden_layers": 1} for name, part in clip.VIT_L_14.items() if isinstance(part, dict)}
    model = CLIPModel(CLIPConfig(**{**clip.VIT_L_14, **config}))
    fill(model, 6)
    model.save_pretrained(tmp_path)
    request, whole = Request(sources=Sources(clip=str(tmp_path))), loaded(CLIPModel, tmp_path)
    text, image = clip.text_graph(request), clip.image_graph(request)
    states, text_embeds = computed(text)
    (image_embeds,) = computed(image)
    with torch.no_grad():
        wanted = whole(input_ids=text.inputs["input_ids"], pixel_values=seen(image.inputs["pixel_values"]))
    assert states.shape == (2, 77, 768)
    assert_parity(states, wanted.text_model_output.last_hidden_state, "f32")
    assert_parity(text_embeds, wanted.text_embeds, "f32")
    assert_parity(image_embeds, wanted.image_embeds, "f32")


def test_the_widest_and_the_first_blocks_of_the_painter(tmp_path: Path) -> None:
    """UNet and ControlNet of the published widths' first and last, one layer each, all that attends among it."""
    shape = {"layers_per_block": 1, "block_out_channels": (320, 1280), "cross_attention_dim": 768}
    shape["down_block_types"] = ("CrossAttnDownBlock2D", "DownBlock2D")
    unet = UNet2DConditionModel(**shape, up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"), sample_size=64)
    controlnet = ControlNetModel(**shape)
    for seed, (name, module) in enumerate((("unet", unet), ("controlnet", controlnet))):
        fill(module, seed)
        module.save_pretrained(tmp_path / name)
    (tmp_path / "scheduler").mkdir()
    (tmp_path / "scheduler" / "scheduler_config.json").write_text(json.dumps(dict(denoiser.SCHEDULER)))
    folder = tmp_path / "clip"
    CLIPConfig(**clip.VIT_L_14).save_pretrained(folder)
    sources = Sources(diffusion=str(tmp_path), controlnets=(str(tmp_path / "controlnet"),), clip=str(folder))
    graph, hint = (build(Request(sources=sources)) for build in (denoiser.denoiser_graph, denoiser.hint_graph))
    row = {name: value[..., :16, :24] if value.ndim == 4 else value for name, value in graph.inputs.items()}
    grey = hint.inputs["hint"][:, :, :128, :192]
    with torch.no_grad():
        found, _ = graph.module(*(row | {"hint_embedding": hint.module(grey)}).values())
        alone = unet(row["latents"], row["timestep"], row["text"], return_dict=False)[0]
    wanted = predicted(unet.eval(), controlnet.eval(), row, grey.repeat(1, 3, 1, 1))
    assert_parity(found, wanted, "f32")
    assert relative_error(alone, wanted) > 1e-3, "the ControlNet does nothing, so that this proves nothing"


def test_the_painter_s_decoder() -> None:
    """TAESD is small enough to be here whole."""
    graph = vae.decoder_graph(Request(tiny_vae=True, seed=4))
    whole = AutoencoderTiny().eval()
    fill(whole, 6)
    with torch.no_grad():
        assert_parity(computed(graph)[0], whole.decode(graph.inputs["latents"], return_dict=False)[0], "f32")
