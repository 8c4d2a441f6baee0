"""From trained pocket models to the files that the engine loads (see engine/models/networks.py).

Beside them goes `parameters.json`, by which restore.py makes the torch modules of them again. All but the
autoencoder and the judges are stored in 8 bits.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from diffusers import AutoencoderTiny
from diffusers.models.controlnets.controlnet import ControlNetConditioningEmbedding
from tokenizers import Tokenizer
from transformers import CLIPModel

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.pocket.worlds import EMBEDDED, World

from ..graphs import modules
from ..graphs.tracing import to_ir
from . import blip2, clip, controls, denoiser, distil, judges, llama, vae
from .data import TRAIN, ScenePool, as_pixels
from .int8 import full_profile, pack_int8
from .lessons import Lessons, Teacher
from .parameters import narrow, record
from .restore import restore_blip2, restore_clip, restore_denoiser, restore_llm, restore_vae

Step = Callable[["Training", Path], object]
_ROWS = {0: "batch"}
_PICTURE = {0: "batch", 2: "height", 3: "width"}


@dataclass(frozen=True)
class Training:
    """The folder of training states, the world to train in, and how many processes draw it; `begin` is a folder of
    packed models of the streets, with whose weights trainings begin. `rows` is how many rows a variant the distilled
    denoiser is to take.
    """

    work: Path
    world: World = EMBEDDED
    workers: int = 0
    begin: Path | None = None
    rows: int = 2


def load_vae(training: Training) -> AutoencoderTiny:
    """The trained autoencoder with the scale that gives its latents unit variance on training scenes."""
    older = restore_vae(training.begin) if training.begin else None
    model = vae.train(training.work, training.world, training.workers, older)
    pool = ScenePool(stream=TRAIN, size=256, fresh=0, world=training.world)
    pool.advance(0)
    with torch.no_grad():
        spread = float(model.encoder(as_pixels(pool.images)).std())
    model.register_to_config(scaling_factor=1 / spread)
    return model


def pack_vae(training: Training, weights: Path) -> None:
    """vae_decoder.xml, vae_encoder.xml and latent.json."""
    model = load_vae(training)
    vae.polish(training.work, model, training.world, training.workers)
    pixels = {"pixel_values": torch.randn(2, 3, 128, 192)}
    to_ir(modules.VaeEncoder(model), pixels, ["latents"], weights / "vae_encoder.xml", {"pixel_values": _PICTURE})
    channels = int(model.config.latent_channels)
    latents = torch.randn(2, channels, 32, 48)
    to_ir(
        modules.VaeDecoder(model),
        {"latents": latents},
        ["pixel_values"],
        weights / "vae_decoder.xml",
        {"latents": _PICTURE},
    )
    (weights / "latent.json").write_text(json.dumps({"factor": 4, "channels": channels}) + "\n")
    files, scale = ("vae_encoder.xml", "vae_decoder.xml"), float(model.config.scaling_factor)
    record("vae", dict(model.named_parameters()), weights, files, scaling_factor=scale)


def load_clip(training: Training) -> tuple[CLIPModel, Tokenizer]:
    """The trained pair of encoders and its tokenizer."""
    older = restore_clip(training.begin) if training.begin else None
    return clip.train(training.work, training.world, training.workers, older)


def pack_clip(training: Training, weights: Path) -> None:
    """clip_text.xml, clip_image.xml and clip_tokenizer.json."""
    model, tokenizer = load_clip(training)
    ids = clip.encode(tokenizer, ["a red car on a clear street at night.", ""])
    to_ir(modules.ClipTextEncoder(model), {"input_ids": ids}, ["states", "text_embeds"], weights / "clip_text.xml")
    pixels = torch.randn(2, 3, 128, 128)
    to_ir(modules.ClipImageEncoder(model), {"pixel_values": pixels}, ["image_embeds"], weights / "clip_image.xml")
    (weights / "clip_tokenizer.json").write_text(tokenizer.to_str())
    record("clip", dict(model.named_parameters()), weights, ("clip_text.xml", "clip_image.xml"))
    narrow("clip", weights)


def pack_denoiser(training: Training, weights: Path) -> None:
    """denoiser.xml and the encoders of its controls: hint.xml of edges, and, where it knows them, hint_depth.xml and
    hint_classes.xml, whose embeddings are added to that of the edges.
    """
    model, tokenizer = load_clip(training)
    autoencoder = load_vae(training)
    older = restore_denoiser(training.begin) if training.begin else None
    trained = denoiser.train(training.work, autoencoder, model, tokenizer, training.world, training.workers, older)
    parameters = dict(trained.named_parameters())  # before the fused graph takes the ControlNet apart
    encoders = denoiser.hint_encoders(trained)
    for file, encoder in encoders.items():
        _export_hint(encoder, weights / file)
    fused = modules.FusedDenoiser(trained.unet, trained.controlnet)
    _export_denoiser(fused, clip.TOKENS[training.world.name], weights / "denoiser.xml")
    record("denoiser", parameters, weights, (*encoders, "denoiser.xml"))
    narrow("denoiser", weights)


def pack_controls(training: Training, weights: Path) -> None:
    """hint_depth.xml, hint_classes.xml and denoiser_controls.xml, whose ControlNets follow edges, depth and classes:
    beside the packed networks of a world whose denoiser follows edges alone. Raises CounterfactoryError for another.
    """
    if training.world.palette:
        raise CounterfactoryError(
            f"the denoiser of the world {training.world.name} follows depth and classes itself: leave out controls"
        )
    parts = (restore_vae(weights), *restore_clip(weights), training.world, training.workers)
    learnt = [
        controls.train(training.work, name, restore_denoiser(weights, training.world), *parts)
        for name in controls.CHANNELS
    ]
    for name, controlnet in zip(controls.CHANNELS, learnt, strict=True):
        _export_hint(controlnet.controlnet_cond_embedding, weights / f"hint_{name}.xml")
    packed = restore_denoiser(weights, training.world)
    fused = modules.FusedDenoiser(packed.unet, packed.controlnet, *learnt)
    _export_denoiser(fused, clip.TOKENS[training.world.name], weights / f"{controls.PLAN}.xml")


def _export_hint(encoder: ControlNetConditioningEmbedding, path: Path) -> None:
    hint = {"hint": torch.rand(2, encoder.conv_in.in_channels, 128, 192)}
    to_ir(encoder, hint, ["hint_embedding"], path, {"hint": _PICTURE})


def _export_denoiser(fused: modules.FusedDenoiser, tokens: int, path: Path) -> None:
    channels, width = fused.unet.config.in_channels, fused.unet.config.block_out_channels[0]
    # Of several ControlNets each has its hint and its scale.
    apart = [len(fused.control.controlnets)] * (len(fused.control.controlnets) > 1)
    inputs: Mapping[str, torch.Tensor] = {
        "latents": torch.randn(2, channels, 32, 48),
        "timestep": torch.tensor([3, 700]),
        "text": torch.randn(2, tokens, fused.unet.config.cross_attention_dim),
        "hint_embedding": torch.randn(2, *apart, width, 32, 48),
        "control_scale": torch.ones(2, *apart),
    }
    axes = dict.fromkeys(inputs, _ROWS) | {"latents": _PICTURE}
    axes["hint_embedding"] = {0: "batch", 2 + len(apart): "height", 3 + len(apart): "width"}
    to_ir(fused, inputs, ["prediction"], path, axes)


def pack_distil(training: Training, weights: Path) -> None:
    """denoiser_few.xml and denoiser_few_int8.xml: the packed denoiser distilled from full sampling to a few rows a
    variant. Its hints are embedded by the teacher's hint.xml.
    """
    world, profile = training.world, full_profile(weights)
    master = replace(profile, runtime=replace(profile.runtime, threads=torch.get_num_threads()))
    few = distil.student_paint(master.paint, training.rows)
    kept = distil.kept_steps(master.paint, few)
    student, vae_model = restore_denoiser(weights, world), restore_vae(weights)
    embed = restore_denoiser(weights, world).controlnet.controlnet_cond_embedding
    teacher = Teacher.of(master, embed)
    lessons = Lessons(teacher, world, vae_model, kept, distil.POOL, distil.FRESH, training.workers)
    trained = distil.distil(training.work, student, vae_model, lessons, few, distil.RECIPES[world.name])
    parameters = dict(trained.named_parameters())
    _export_denoiser(trained, clip.TOKENS[world.name], weights / f"{distil.STUDENT}.xml")
    record(distil.STUDENT, parameters, weights, (f"{distil.STUDENT}.xml",))
    pack_int8(weights, few, calibration_runs=256, world=world)
    narrow(distil.STUDENT, weights)


def pack_blip2(training: Training, weights: Path) -> None:
    """blip2_vision.xml, opt_decoder.xml, opt_embeddings.npy and opt_tokenizer.json."""
    older = restore_blip2(training.begin) if training.begin else None
    model, tokenizer = blip2.train(training.work, training.world, training.workers, older)
    pixels = {"pixel_values": torch.randn(2, 3, 128, 128)}
    to_ir(modules.Blip2Vision(model), pixels, ["query_embeds"], weights / "blip2_vision.xml")
    opt = model.language_model
    config = opt.config
    cache = torch.randn(
        2, config.num_hidden_layers, config.num_attention_heads, 5, config.hidden_size // config.num_attention_heads
    )
    inputs = {
        "inputs_embeds": torch.randn(2, 3, config.hidden_size),
        "position_ids": torch.tensor([[5, 6, 7]] * 2),
        "past_keys": cache,
        "past_values": cache.clone(),
    }
    to_ir(modules.OptDecoder(opt), inputs, ["logits", "keys", "values"], weights / "opt_decoder.xml", modules.OPT_AXES)
    (weights / "opt_tokenizer.json").write_text(tokenizer.to_str())
    record("blip2", dict(model.named_parameters()), weights, ("blip2_vision.xml", "opt_decoder.xml"))
    narrow("blip2", weights)
    write_embeddings(weights)


def write_embeddings(weights: Path) -> None:
    """opt_embeddings.npy, float16 [V, D]: the matrix of the packed decoder's output as it is stored there."""
    table = restore_blip2(weights)[0].language_model.get_input_embeddings().weight.detach().numpy()
    np.save(weights / "opt_embeddings.npy", table.astype(np.float16))


def pack_llm(training: Training, weights: Path) -> None:
    """The folder llm."""
    older = restore_llm(training.begin) if training.begin else None
    llama.write_packed(*llama.train(training.work, training.world, older), weights)
    narrow("llm", weights)


def pack_judges(training: Training, weights: Path) -> None:
    """The classifier and the segmenter under test, and the referee."""
    judges.export_judges(training.work, weights, training.world, training.workers)


# In the order in which one rests on another: what the package has.
STEPS: dict[str, Step] = {
    "vae": pack_vae,
    "clip": pack_clip,
    "denoiser": pack_denoiser,
    "distil": pack_distil,
    "blip2": pack_blip2,
    "llm": pack_llm,
    "judges": pack_judges,
}
# Made when they are asked for, into a folder of their own: no profile of the package has them.
FURTHER: dict[str, Step] = {"controls": pack_controls}
