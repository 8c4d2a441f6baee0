"""Stable Diffusion 1.x with its ControlNets: one fused step, and a hint encoder for each ControlNet.

Rombach et al. 2022 (arXiv 2112.10752), Zhang et al. 2023 (arXiv 2302.05543). Any checkpoint of the architecture will
do, 1.4 and 1.5 and what was made of them; LoRAs are merged into the UNet before it is exported.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from diffusers import ControlNetModel, UNet2DConditionModel
from torch import nn

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.models.sampler import Sampler
from counterfactory.engine.models.schedule import settle

from ..graphs import modules
from ..graphs.editing import EditingDenoiser, follow_inputs
from ..graphs.hub import locate
from ..graphs.pretrained import load_pretrained
from .clip import SMALL as SMALL_CLIP
from .clip import text_width
from .graph import PICTURE, ROWS, Graph, Request, normal, static
from .lora import merge_lora

FACTOR, TOKENS = 8, 77
# stable-diffusion-v1-5's unet/config.json; all else, and sd-controlnet-canny's, is as diffusers' classes have it.
SD15: Mapping[str, Any] = {"block_out_channels": (320, 640, 1280, 1280), "cross_attention_dim": 768}
# stable-diffusion-v1-5's scheduler/scheduler_config.json.
SCHEDULER: Mapping[str, Any] = {
    "_class_name": "PNDMScheduler", "beta_end": 0.012, "beta_schedule": "scaled_linear", "beta_start": 0.00085,
    "clip_sample": False, "num_train_timesteps": 1000, "set_alpha_to_one": False, "skip_prk_steps": True,
    "steps_offset": 1, "trained_betas": None,
}  # fmt: skip
SMALL: Mapping[str, Any] = {
    "layers_per_block": 1, "block_out_channels": (16, 32), "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D"),
    "cross_attention_dim": SMALL_CLIP["text_config"]["hidden_size"], "attention_head_dim": 2, "norm_num_groups": 8,
}  # fmt: skip
SMALL_FACTOR, SMALL_TOKENS = 2, SMALL_CLIP["text_config"]["max_position_embeddings"]


def random_unet(seed: int, small: bool = False) -> UNet2DConditionModel:
    """A UNet with seeded weights: 860 M parameters in float32 (3.4 GB) at full size."""
    torch.manual_seed(seed)
    size = {**SMALL, "up_block_types": ("CrossAttnUpBlock2D", "UpBlock2D")} if small else SD15
    return _frozen(UNet2DConditionModel(sample_size=16 if small else 64, **size))


def random_controlnet(seed: int, small: bool = False) -> ControlNetModel:
    """A ControlNet with seeded weights, its zero convolutions filled: 361 M parameters (1.4 GB) at full size."""
    torch.manual_seed(seed)
    controlnet = ControlNetModel(**({**SMALL, "conditioning_embedding_out_channels": (8, 16)} if small else SD15))
    fill_zero_convolutions(controlnet)
    return _frozen(controlnet)


def fill_zero_convolutions(controlnet: ControlNetModel) -> None:
    """Give the convolutions that a fresh ControlNet starts from zero some weight: else it computes nothing.

    A runtime may fold multiplications by zero, and a comparison of outputs would not see the ControlNet.
    """
    layers = [*controlnet.controlnet_down_blocks, controlnet.controlnet_mid_block]
    for layer in [*layers, controlnet.controlnet_cond_embedding.conv_out]:
        nn.init.normal_(layer.weight, std=0.5 * layer.weight[0].numel() ** -0.5)


def build_unet(request: Request) -> UNet2DConditionModel:
    """The UNet that is asked for, LoRAs merged. Raises CounterfactoryError for another architecture."""
    if request.sources is None:
        return random_unet(request.seed, request.small)
    unet = load_part(UNet2DConditionModel, request.sources.named("diffusion"), "unet")
    width = text_width(request)
    if unet.config.cross_attention_dim != width or unet.config.in_channels != 4:
        own = f"reads text of width {unet.config.cross_attention_dim} and {unet.config.in_channels} channels"
        wanted = f"Stable Diffusion 1.x with its CLIP has {width} and 4"
        raise CounterfactoryError(f"the UNet of {request.sources.diffusion} {own}; {wanted}")
    for lora in request.sources.loras:
        file, _, weight = lora.partition(":")
        merge_lora(unet, locate(file), float(weight or 1))
    return _frozen(unet)


def scheduler_of(request: Request) -> Mapping[str, Any]:
    """The scheduler_config.json of the pipeline that is asked for. Raises CounterfactoryError where it has none."""
    if request.sources is None:
        return SCHEDULER
    name, source = "scheduler_config.json", request.sources.named("diffusion")
    folder = locate(source, (name,), weights=False, part="scheduler")
    file = folder / "scheduler" / name
    try:
        found = json.loads((file if file.is_file() else folder / name).read_text(encoding="utf-8"))
        if not isinstance(found, dict):
            raise ValueError("no table")
    except (OSError, ValueError) as error:
        lacks = f"{source} has no scheduler/{name} that can be read ({error}), by which its denoiser was trained"
        raise CounterfactoryError(f"{lacks}: put the checkpoint's own there") from error
    return found


def sampler_of(request: Request) -> Sampler:
    """The sampler that suites will be painted by. Raises CounterfactoryError as `settle` does."""
    return Sampler(*settle(request.paint.sampler, scheduler_of(request), request.plan("denoiser")))


def build_controlnets(request: Request) -> list[ControlNetModel]:
    """The ControlNets that are asked for, at least one."""
    count = request.controls if request.sources is None else len(request.sources.named("controlnets"))
    return [build_controlnet(request, i) for i in range(count)]


def build_controlnet(request: Request, index: int) -> ControlNetModel:
    if request.sources is None:
        return random_controlnet(request.seed + 1 + index, request.small)
    found: ControlNetModel = load_part(ControlNetModel, request.sources.named("controlnets")[index], "controlnet")
    return _frozen(found)


def hint_graph(request: Request, index: int = 0) -> Graph:
    """hint [1, 1 or 3, H, W] in 0..1 to hint_embedding [1, 320, H/8, W/8], of the ControlNet `index`."""
    controlnet = build_controlnet(request, index)
    shape = (2, request.hint_channels, *request.example)
    inputs = {"hint": torch.rand(shape, generator=torch.Generator().manual_seed(request.seed))}
    plan = static(request.batch("hint"), inputs, ["hint"], request.pictures)
    name = f"hint_{index}" if index else "hint"
    grey = request.hint_channels == 1
    return Graph(name, modules.HintEncoder(controlnet, grey), inputs, ("hint_embedding",), {"hint": PICTURE}, plan)


def example_inputs(
    rows: int,
    size: tuple[int, int],
    *,
    controls: int = 1,
    small: bool = False,
    config: Mapping[str, Any] | None = None,
    seed: int = 15,
) -> dict[str, torch.Tensor]:
    """Seeded inputs of the denoiser for latents of `size`, by name and in order; of a UNet of `config`, if given."""
    config, tokens = config or (SMALL if small else SD15), SMALL_TOKENS if small else TOKENS
    width, hint = config["cross_attention_dim"], config["block_out_channels"][0]
    several = (controls,) if controls > 1 else ()
    plain = {"latents": normal(seed, rows, 4, *size), "timestep": torch.linspace(999, 1, rows).long()}
    embedding = normal(seed + 2, rows, *several, hint, *size)
    control = {"hint_embedding": embedding, "control_scale": torch.ones(rows, *several)}
    return {**plain, "text": normal(seed + 1, rows, tokens, width), **control}


def _latent_sizes(request: Request) -> list[tuple[int, int]]:
    """Of the example, then of the pictures to paint."""
    factor = SMALL_FACTOR if request.small else FACTOR
    return [(height // factor, width // factor) for height, width in (request.example, *request.pictures)]


def _axes(inputs: Mapping[str, torch.Tensor], pictured: Sequence[str], controls: int) -> dict[str, Mapping[int, str]]:
    axes = {name: PICTURE if name in pictured else ROWS for name in inputs}
    return axes | ({"hint_embedding": {0: "batch", 3: "height", 4: "width"}} if controls > 1 else {})


def denoiser_graph(request: Request) -> Graph:
    """The fused step (see modules.FusedDenoiser, also for what several ControlNets change), or for an editor the UNet
    with rows that may follow others, alone or with its ControlNets (see EditingDenoiser).
    """
    unet, edits = build_unet(request), request.editor is not None
    controlnets = [] if request.editor == "without controls" else build_controlnets(request)
    for source, controlnet in zip(request.sources.controlnets if request.sources else (), controlnets, strict=False):
        _check_suits(unet, controlnet, source)
    example, *sizes = _latent_sizes(request)
    inputs = example_inputs(2, example, controls=len(controlnets), small=request.small, config=unet.config)
    if edits:
        controls = {name: inputs.pop(name) for name in ("hint_embedding", "control_scale")}
        inputs |= {**follow_inputs(2, inputs["text"].shape[1]), **(controls if controlnets else {})}
    pictured = [name for name in ("latents", "hint_embedding") if name in inputs]
    plan = static(request.batch("denoiser"), inputs, pictured, sizes)
    kind: type[nn.Module] = modules.FusedDenoiser
    further = list[str]()
    if edits:
        kind, further = EditingDenoiser, ["attention"]
    elif request.paint.reuse is not None:
        kind, further = modules.WholeDenoiser, ["deep"]
    axes, facts = _axes(inputs, pictured, len(controlnets)), {"scheduler": scheduler_of(request)}
    return Graph("denoiser", kind(unet, *controlnets), inputs, ("prediction", *further), axes, plan, facts=facts)


def shallow_graph(request: Request) -> Graph:
    """The layers of the fused step around its deep features (see modules.ShallowDenoiser)."""
    unet = build_unet(request)
    module, channels = modules.ShallowDenoiser(unet, *build_controlnets(request)), modules.deep_channels(unet)
    size, *sizes = _latent_sizes(request)
    inputs = example_inputs(2, size, controls=len(module.controls), small=request.small, config=unet.config)
    text = inputs.pop("text")
    inputs |= {"deep": normal(request.seed + 3, 2, channels, *size), **({"text": text} if module.reads_text else {})}
    pictured = ("latents", "hint_embedding", "deep")
    plan = static(request.batch("denoiser_shallow"), inputs, pictured, sizes)
    axes = _axes(inputs, pictured, len(module.controls))
    return Graph("denoiser_shallow", module, inputs, ("prediction",), axes, plan)


def _check_suits(unet: UNet2DConditionModel, controlnet: ControlNetModel, source: str) -> None:
    """Raise CounterfactoryError unless what the ControlNet adds is what the UNet takes."""
    for key in ("cross_attention_dim", "block_out_channels", "layers_per_block"):
        theirs, ours = (tuple(v) if isinstance(v, list) else v for v in (controlnet.config[key], unet.config[key]))
        if theirs != ours:
            odd = f"ControlNet {source} has {key} {theirs} and the UNet {ours}"
            raise CounterfactoryError(f"{odd}: name one made for it")


def load_part(kind: Any, source: str, part: str) -> Any:
    """The network of diffusers' class `kind` in float32, from its own folder or from `part` of a pipeline's.

    Where weights lie in fp16 alone (NAME.fp16.safetensors), those are taken. Raises CounterfactoryError for a folder
    of something else.
    """
    folder = locate(source, part=part)
    folder = folder / part if (folder / part).is_dir() else folder
    if not (folder / "config.json").is_file():
        raise CounterfactoryError(f"{folder} has no config.json: name the diffusers folder of a {kind.__name__}")
    names = [file.name for file in folder.glob("diffusion_pytorch_model*")]
    variant = "fp16" if names and all(".fp16" in name for name in names) else None
    return load_pretrained(kind, folder, f"a {kind.__name__}", torch_dtype=torch.float32, variant=variant)


def _frozen(module: Any) -> Any:
    return module.eval().requires_grad_(False)
