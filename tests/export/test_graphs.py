"""The exported graphs against the classes they were made from: real architectures, tiny, with filled weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from diffusers import ControlNetModel, UNet2DConditionModel
from numpy.typing import ArrayLike
from tiny_networks import copied, filled, tiny_decoder, tiny_denoiser
from transformers import Blip2Config, Blip2ForConditionalGeneration

from counterfactory.engine.models.batching import Batched
from counterfactory.engine.models.denoiser import DenoiserRow, PaintPlans
from counterfactory.engine.runtime.openvino import open_session
from counterfactory.export.graphs import modules
from counterfactory.export.graphs.parity import relative_error
from counterfactory.export.graphs.tracing import to_ir

ROWS = {0: "batch"}
PICTURE = {0: "batch", 2: "height", 3: "width"}


@pytest.fixture(scope="module")
def denoiser() -> tuple[UNet2DConditionModel, ControlNetModel]:
    return tiny_denoiser()


@pytest.fixture(scope="module")
def denoiser_ir(
    denoiser: tuple[UNet2DConditionModel, ControlNetModel], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """hint.xml and denoiser.xml of a copy, since the fused graph takes its ControlNet apart."""
    folder = tmp_path_factory.mktemp("denoiser")
    unet, controlnet = denoiser
    copy = copied(controlnet)
    to_ir(
        modules.HintEncoder(copy),
        {"hint": torch.rand(2, 1, 32, 48)},
        ["hint_embedding"],
        folder / "hint.xml",
        {"hint": PICTURE},
    )
    inputs = {
        "latents": torch.randn(2, 4, 16, 24),
        "timestep": torch.tensor([3, 700]),
        "text": torch.randn(2, 7, 24),
        "hint_embedding": torch.randn(2, 16, 16, 24),
        "control_scale": torch.ones(2),
    }
    axes = {name: PICTURE if name in ("latents", "hint_embedding") else ROWS for name in inputs}
    to_ir(modules.FusedDenoiser(unet, copy), inputs, ["prediction"], folder / "denoiser.xml", axes)
    return folder


def assert_near(found: ArrayLike, reference: ArrayLike) -> None:
    """Within what the files' fp16 costs: of the weights and, more, of the timestep's frequencies."""
    assert relative_error(found, reference) <= 3e-2


def plans(folder: Path, batch: int, height: int, width: int) -> PaintPlans:
    size = (height // 2, width // 2)
    hint = open_session(folder / "hint.xml", batch=1, precision="f32", sizes={"hint": (height, width)})
    fused = open_session(
        folder / "denoiser.xml", batch=batch, precision="f32", sizes={"latents": size, "hint_embedding": size}
    )
    return PaintPlans(Batched(hint), Batched(fused), Batched(hint), (4, *size))


@pytest.mark.parametrize(("height", "width"), [(32, 32), (32, 64), (48, 32)])
def test_the_fused_graph_is_controlnet_and_unet(
    denoiser: tuple[UNet2DConditionModel, ControlNetModel], denoiser_ir: Path, height: int, width: int
) -> None:
    unet, controlnet = denoiser
    rng = np.random.default_rng(height * width)
    edges = (rng.random((3, height, width)) < 0.2).astype(np.uint8) * 255
    latents = rng.standard_normal((3, 4, height // 2, width // 2)).astype(np.float32)
    text = rng.standard_normal((3, 7, 24)).astype(np.float32)
    steps, scales = [1, 500, 999], [1.0, 0.0, 0.5]
    opened = plans(denoiser_ir, 4, height, width)
    hints = opened.embed_hints(edges)
    rows = [DenoiserRow(latents[i], steps[i], text[i], hints[i], scales[i]) for i in range(3)]
    found = np.stack(opened.evaluate(rows))
    wanted = []
    for i in range(3):  # diffusers takes one scale a call
        args = (torch.from_numpy(latents[i : i + 1]), torch.tensor([steps[i]]), torch.from_numpy(text[i : i + 1]))
        cond = torch.from_numpy(edges[i, None, None].astype(np.float32) / 255)
        with torch.no_grad():
            down, mid = controlnet(*args, controlnet_cond=cond, conditioning_scale=scales[i], return_dict=False)
            out = unet(
                *args, down_block_additional_residuals=down, mid_block_additional_residual=mid, return_dict=False
            )
        wanted.append(out[0][0].numpy())
    # The plan's weights were rounded to fp16 on the way.
    assert_near(found, np.stack(wanted))


def test_a_row_never_sees_its_neighbours(denoiser_ir: Path) -> None:
    rng = np.random.default_rng(5)
    opened = plans(denoiser_ir, 8, 32, 32)
    rows = [
        DenoiserRow(
            rng.standard_normal((4, 16, 16)).astype(np.float32),
            int(rng.integers(1000)),
            rng.standard_normal((7, 24)).astype(np.float32),
            rng.standard_normal((16, 16, 16)).astype(np.float32),
            1.0,
        )
        for _ in range(11)
    ]
    alone = [opened.evaluate([row])[0] for row in rows]
    together = opened.evaluate(rows[:8])
    shuffled = opened.evaluate([rows[i] for i in (7, 10, 2, 9, 0)])
    for i in range(8):
        np.testing.assert_array_equal(together[i], alone[i])
    for position, i in enumerate((7, 10, 2, 9, 0)):
        np.testing.assert_array_equal(shuffled[position], alone[i])


def test_the_decoder_undoes_the_latents_scale(tmp_path: Path) -> None:
    vae = tiny_decoder(1.7)
    latents = torch.randn(2, 4, 8, 12)
    to_ir(modules.VaeDecoder(vae), {"latents": latents}, ["pixel_values"], tmp_path / "vae.xml", {"latents": PICTURE})
    session = open_session(tmp_path / "vae.xml", batch=2, precision="f32", sizes={"latents": (8, 12)})
    with torch.no_grad():
        wanted = vae.decode(latents / 1.7, return_dict=False)[0].numpy()
    assert_near(session.run({"latents": latents.numpy()})["pixel_values"], wanted)


@pytest.fixture(scope="module")
def blip2() -> Blip2ForConditionalGeneration:
    size = {"hidden_size": 32, "num_attention_heads": 2, "num_hidden_layers": 2}
    torch.manual_seed(3)
    config = Blip2Config(
        vision_config={**size, "intermediate_size": 48, "image_size": 32, "patch_size": 8},
        qformer_config={**size, "intermediate_size": 48, "encoder_hidden_size": 32, "vocab_size": 8},
        text_config={
            **size,
            "model_type": "opt",
            "word_embed_proj_dim": 32,
            "ffn_dim": 48,
            "vocab_size": 40,
            "max_position_embeddings": 64,
            "bos_token_id": 0,
            "pad_token_id": 1,
            "eos_token_id": 2,
        },
        num_query_tokens=4,
        image_token_index=3,
    )
    model = Blip2ForConditionalGeneration(config)
    filled(model)
    return model


def test_captions_are_decoded_as_transformers_does(blip2: Blip2ForConditionalGeneration, tmp_path: Path) -> None:
    pixels = {"pixel_values": torch.randn(2, 3, 32, 32)}
    to_ir(modules.Blip2Vision(blip2), pixels, ["query_embeds"], tmp_path / "vision.xml")
    cache = torch.randn(2, 2, 2, 5, 16)
    inputs = {
        "inputs_embeds": torch.randn(2, 3, 32),
        "position_ids": torch.tensor([[5, 6, 7]] * 2),
        "past_keys": cache,
        "past_values": cache.clone(),
    }
    grows = {0: "batch", 1: "tokens"}
    axes = {
        "inputs_embeds": grows,
        "position_ids": grows,
        **{f"past_{n}": {0: "batch", 3: "past"} for n in ("keys", "values")},
    }
    to_ir(modules.OptDecoder(blip2.language_model), inputs, ["logits", "keys", "values"], tmp_path / "opt.xml", axes)
    vision = open_session(tmp_path / "vision.xml", batch=3, precision="f32")
    decoder = open_session(tmp_path / "opt.xml", batch=3, precision="f32")
    values = torch.randn(3, 3, 32, 32)
    words = torch.tensor([[0, 5, 9, 11], [0, 30, 7, 7], [0, 22, 4, 39]])
    ids = torch.cat([torch.full((3, 4), 3), words], 1)
    with torch.no_grad():
        wanted = blip2(pixel_values=values, input_ids=ids, attention_mask=torch.ones_like(ids)).logits[:, 4:].numpy()
    # The engine's way: queries and the first token at once, then a token at a time over the cache.
    table = blip2.language_model.get_input_embeddings().weight.detach().numpy()
    queries = vision.run({"pixel_values": values.numpy()})["query_embeds"]
    keys = cached = np.zeros((3, 2, 2, 0, 16), np.float32)
    step, position, found = np.concatenate([queries, table[words[:, :1]]], 1), 0, []
    for i in range(4):
        positions = np.tile(np.arange(position, position + step.shape[1], dtype=np.int64), (3, 1))
        feeds = {"inputs_embeds": step, "position_ids": positions, "past_keys": keys, "past_values": cached}
        out = decoder.run(feeds)
        keys, cached, position = out["keys"], out["values"], position + step.shape[1]
        found.append(out["logits"])
        step = table[words[:, i + 1 : i + 2]]
    assert_near(np.stack(found, 1), wanted)
