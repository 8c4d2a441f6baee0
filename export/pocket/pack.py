"""From trained pocket models to the files that the engine loads (see engine/models/networks.py).

Beside them goes `parameters.json`, by which restore.py makes the torch modules of them again. All but the
autoencoder and the judges are stored in 8 bits.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from diffusers import AutoencoderTiny
from diffusers.models.controlnets.controlnet import ControlNetConditioningEmbedding

from ..graphs import modules
from ..graphs.tracing import to_ir
from . import blip2, clip, controls, denoiser, distil, judges, llama, vae
from .data import TRAIN, ScenePool, as_pixels
from .int8 import full_profile, pack_int8
from .lessons import Lessons, Teacher
from .parameters import narrow, record
from .restore import restore_blip2, restore_clip, restore_denoiser, restore_vae

Step = Callable[["Training", Path], object]
_PICTURE = {0: "batch", 2: "height", 3: "width"}


@dataclass(frozen=True)
class Training:
    """The folder of training states, how many processes draw scenes, and how many rows a variant the distilled
    denoiser is to take.
    """

    work: Path
    workers: int = 0
    rows: int = 2


def load_vae(training: Training) -> AutoencoderTiny:
    """The trained autoencoder with the scale that gives its latents unit variance on training scenes."""
    model = vae.train(training.work, training.workers)
    pool = ScenePool(stream=TRAIN, size=256, fresh=0)
    pool.advance(0)
    with torch.no_grad():
        spread = float(model.encoder(as_pixels(pool.images)).std())
    model.register_to_config(scaling_factor=1 / spread)
    return model


def pack_vae(training: Training, weights: Path) -> None:
    """vae_decoder.xml, vae_encoder.xml and latent.json."""
    model = load_vae(training)
    vae.polish(training.work, model, training.workers)
    pixels = {"pixel_values": torch.randn(2, 3, 128, 192)}
    to_ir(modules.VaeEncoder(model), pixels, ["latents"], weights / "vae_encoder.xml", {"pixel_values": _PICTURE})
    channels = int(model.config.latent_channels)
    latents = {"latents": torch.randn(2, channels, 32, 48)}
    to_ir(modules.VaeDecoder(model), latents, ["pixel_values"], weights / "vae_decoder.xml", {"latents": _PICTURE})
    (weights / "latent.json").write_text(json.dumps({"factor": 4, "channels": channels}) + "\n")
    files, scale = ("vae_encoder.xml", "vae_decoder.xml"), float(model.config.scaling_factor)
    record("vae", dict(model.named_parameters()), weights, files, scaling_factor=scale)


def pack_clip(training: Training, weights: Path) -> None:
    """clip_text.xml, clip_image.xml and clip_tokenizer.json."""
    model, tokenizer = clip.train(training.work, training.workers)
    ids = clip.encode(tokenizer, ["a red car on a clear street at night.", ""])
    to_ir(modules.ClipTextEncoder(model), {"input_ids": ids}, ["states", "text_embeds"], weights / "clip_text.xml")
    pixels = torch.randn(2, 3, 128, 128)
    to_ir(modules.ClipImageEncoder(model), {"pixel_values": pixels}, ["image_embeds"], weights / "clip_image.xml")
    (weights / "clip_tokenizer.json").write_text(tokenizer.to_str())
    record("clip", dict(model.named_parameters()), weights, ("clip_text.xml", "clip_image.xml"))
    narrow("clip", weights)


def pack_denoiser(training: Training, weights: Path) -> None:
    """denoiser.xml, and hint.xml, the encoder of its edges."""
    model, tokenizer = clip.train(training.work, training.workers)
    trained = denoiser.train(training.work, load_vae(training), model, tokenizer, training.workers)
    parameters = dict(trained.named_parameters())  # before the fused graph takes the ControlNet apart
    _export_hint(trained.controlnet.controlnet_cond_embedding, weights / "hint.xml")
    _export_denoiser(modules.FusedDenoiser(trained.unet, trained.controlnet), weights / "denoiser.xml")
    record("denoiser", parameters, weights, ("hint.xml", "denoiser.xml"))
    narrow("denoiser", weights)


def pack_controls(training: Training, weights: Path) -> None:
    """hint_depth.xml, hint_classes.xml and denoiser_controls.xml, whose ControlNets follow edges, depth and classes."""
    parts = (restore_vae(weights), *restore_clip(weights), training.workers)
    learnt = [controls.train(training.work, name, restore_denoiser(weights), *parts) for name in controls.CHANNELS]
    for name, controlnet in zip(controls.CHANNELS, learnt, strict=True):
        _export_hint(controlnet.controlnet_cond_embedding, weights / f"hint_{name}.xml")
    packed = restore_denoiser(weights)
    fused = modules.FusedDenoiser(packed.unet, packed.controlnet, *learnt)
    _export_denoiser(fused, weights / f"{controls.PLAN}.xml")


def _export_hint(encoder: ControlNetConditioningEmbedding, path: Path) -> None:
    hint = {"hint": torch.rand(2, encoder.conv_in.in_channels, 128, 192)}
    to_ir(encoder, hint, ["hint_embedding"], path, {"hint": _PICTURE})


def _export_denoiser(fused: modules.FusedDenoiser, path: Path) -> None:
    channels, width = fused.unet.config.in_channels, fused.unet.config.block_out_channels[0]
    # Of several ControlNets each has its hint and its scale.
    apart = [len(fused.control.controlnets)] * (len(fused.control.controlnets) > 1)
    text = torch.randn(2, clip.TOKENS, fused.unet.config.cross_attention_dim)
    inputs = {"latents": torch.randn(2, channels, 32, 48), "timestep": torch.tensor([3, 700]), "text": text}
    inputs |= {"hint_embedding": torch.randn(2, *apart, width, 32, 48), "control_scale": torch.ones(2, *apart)}
    axes = {name: {0: "batch"} for name in inputs} | {"latents": _PICTURE}
    axes["hint_embedding"] = {0: "batch", 2 + len(apart): "height", 3 + len(apart): "width"}
    to_ir(fused, inputs, ["prediction"], path, axes)


def pack_distil(training: Training, weights: Path) -> None:
    """denoiser_few.xml and denoiser_few_int8.xml: the packed denoiser distilled from full sampling to a few rows a
    variant. Its hints are embedded by the teacher's hint.xml.
    """
    profile = full_profile(weights)
    master = replace(profile, runtime=replace(profile.runtime, threads=torch.get_num_threads()))
    few = distil.student_paint(master.paint, training.rows)
    kept = distil.kept_steps(master.paint, few)
    student, vae_model = restore_denoiser(weights), restore_vae(weights)
    embed = restore_denoiser(weights).controlnet.controlnet_cond_embedding
    lessons = Lessons(Teacher.of(master, embed), vae_model, kept, distil.POOL, distil.FRESH, training.workers)
    trained = distil.distil(training.work, student, vae_model, lessons, few, distil.RECIPE)
    _export_denoiser(trained, weights / f"{distil.STUDENT}.xml")
    record(distil.STUDENT, dict(trained.named_parameters()), weights, (f"{distil.STUDENT}.xml",))
    pack_int8(weights, few, calibration_runs=256)
    narrow(distil.STUDENT, weights)


def pack_blip2(training: Training, weights: Path) -> None:
    """blip2_vision.xml, opt_decoder.xml, opt_embeddings.npy and opt_tokenizer.json."""
    model, tokenizer = blip2.train(training.work, training.workers)
    pixels = {"pixel_values": torch.randn(2, 3, 128, 128)}
    to_ir(modules.Blip2Vision(model), pixels, ["query_embeds"], weights / "blip2_vision.xml")
    opt = model.language_model
    width, heads = opt.config.hidden_size, opt.config.num_attention_heads
    keys, values = torch.randn(2, 2, opt.config.num_hidden_layers, heads, 5, width // heads)
    inputs = {"inputs_embeds": torch.randn(2, 3, width), "position_ids": torch.tensor([[5, 6, 7]] * 2)}
    inputs |= {"past_keys": keys, "past_values": values}
    to_ir(modules.OptDecoder(opt), inputs, ["logits", "keys", "values"], weights / "opt_decoder.xml", modules.OPT_AXES)
    (weights / "opt_tokenizer.json").write_text(tokenizer.to_str())
    record("blip2", dict(model.named_parameters()), weights, ("blip2_vision.xml", "opt_decoder.xml"))
    narrow("blip2", weights)
    # float16 [V, D]: the matrix of the packed decoder's output as it is stored there.
    table = restore_blip2(weights)[0].language_model.get_input_embeddings().weight.detach().numpy()
    np.save(weights / "opt_embeddings.npy", table.astype(np.float16))


def pack_llm(training: Training, weights: Path) -> None:
    llama.write_packed(*llama.train(training.work), weights)
    narrow("llm", weights)


def pack_judges(training: Training, weights: Path) -> None:
    inputs = {"pixel_values": torch.zeros(2, 3, 128, 128)}
    to_ir(judges.train_classifier(training.work), inputs, ["logits"], weights / "classifier.xml")
    to_ir(judges.train_segmenter(training.work), inputs, ["mask_logits"], weights / "segmenter.xml")
    to_ir(judges.train_referee(training.work, training.workers), inputs, judges.OUTPUTS, weights / "referee.xml")


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
