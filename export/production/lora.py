"""Low-rank deltas merged into a UNet (Hu et al. 2021, arXiv 2106.09685, section 4.1: W + (alpha / r) B A).

What LCM-LoRA and Hyper-SD are published as. Merged before export, so that they cost nothing at run time. diffusers
reads the file, by kohya's names or its own, old or new, and peft merges. Both leave out what they do not understand,
with a warning at most; a delta left out changes pictures without a word, so that what they read is held against the
UNet first.
"""

from __future__ import annotations

import re
from pathlib import Path

from diffusers import UNet2DConditionModel
from diffusers.loaders import StableDiffusionLoraLoaderMixin
from diffusers.utils import convert_unet_state_dict_to_peft
from torch import Tensor, nn

from counterfactory.engine.errors import CounterfactoryError

from ..graphs.weights import tensors

_PART = re.compile(r"(?P<layer>.+)\.lora_(?P<part>[AB])\.weight")
_OF_TEXT = ("lora_te", "text_encoder")


def merge_lora(unet: UNet2DConditionModel, file: Path, weight: float = 1.0) -> int:
    """Add `weight` times the deltas of a LoRA file to a UNet's weights; returns how many layers it changed.

    Raises CounterfactoryError for a file with deltas of a text encoder, names of no layer, half a pair, or shapes
    that do not fit. Nothing is changed then.
    """
    if file.is_dir():
        raise CounterfactoryError(f"{file} is a folder: name the LoRA's file in it")
    found = {name: tensor.float() for name, tensor in tensors(file).items()}
    for key in found:
        if key.startswith(_OF_TEXT):
            changes = f"LoRA {file.name} changes the text encoder too ({key})"
            raise CounterfactoryError(f"{changes}, which is shared with the checks: not supported")
    try:
        state, alphas = StableDiffusionLoraLoaderMixin.lora_state_dict(dict(found), unet_config=unet.config)
    except (KeyError, ValueError) as error:
        raise CounterfactoryError(f"LoRA {file.name} is none that diffusers can read: {error}") from error
    if lost := [key for key in found if "dora_scale" in key]:
        raise CounterfactoryError(f"LoRA {file.name} is a DoRA ({lost[0]}), which cannot be merged as one")
    pairs = _paired(convert_unet_state_dict_to_peft(state), file)
    layers = {name: module for name, module in unet.named_modules() if isinstance(module, nn.Linear | nn.Conv2d)}
    for name, pair in pairs.items():
        _check(name, pair, layers.get(name), file)
    StableDiffusionLoraLoaderMixin.load_lora_into_unet(state, network_alphas=alphas, unet=unet)
    unet.fuse_lora(lora_scale=weight)
    unet.unload_lora()
    return len(pairs)


def _paired(state: dict[str, Tensor], file: Path) -> dict[str, dict[str, Tensor]]:
    pairs: dict[str, dict[str, Tensor]] = {}
    for key, tensor in state.items():
        part = _PART.fullmatch(key.removeprefix("unet.").replace(".processor.", "."))
        if part is None:
            raise CounterfactoryError(f"LoRA {file.name}: {key} belongs to no layer of this UNet")
        pairs.setdefault(part["layer"], {})[part["part"]] = tensor
    return pairs


def _check(name: str, pair: dict[str, Tensor], layer: nn.Module | None, file: Path) -> None:
    """Raise CounterfactoryError unless `pair` is whole and makes a delta of the layer's weight."""
    if layer is None:
        raise CounterfactoryError(f"LoRA {file.name}: {name} belongs to no layer of this UNet")
    if pair.keys() != {"A", "B"}:
        raise CounterfactoryError(f"LoRA {file.name}: {name} has {sorted(pair)}, a pair needs A (down) and B (up)")
    down, up, weight = pair["A"], pair["B"], layer.get_parameter("weight")
    if up.flatten(1).shape[1] != down.shape[0]:
        raise CounterfactoryError(
            f"LoRA {file.name}: {name} goes down to {down.shape[0]} channels and up from {list(up.shape[1:])}"
        )
    if (up.shape[0], *down.shape[1:]) != tuple(weight.shape):
        raise CounterfactoryError(
            f"LoRA {file.name}: delta of {name} has shape {[up.shape[0], *down.shape[1:]]}, "
            f"the layer {list(weight.shape)}: it was made for another architecture"
        )
