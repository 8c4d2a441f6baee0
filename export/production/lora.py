"""Low-rank deltas merged into a UNet (Hu et al. 2021, arXiv 2106.09685, section 4.1: W + (alpha / r) B A).

What LCM-LoRA and Hyper-SD are published as. Merged before export, so that they cost nothing at run time. Both common
ways to name the pairs are read; a name that is not understood is an error, since a delta left out changes pictures
without a word.
"""

from __future__ import annotations

import re
from pathlib import Path

import torch
from torch import nn

from counterfactory.engine.errors import CounterfactoryError

from ..graphs.weights import tensors

# kohya: lora_unet_down_blocks_0_..._to_q.lora_down.weight, .lora_up.weight, .alpha
_FLAT = re.compile(r"lora_unet_(?P<name>\w+)\.(?P<part>lora_down\.weight|lora_up\.weight|alpha)")
# diffusers and peft: unet.down_blocks.0...to_q.lora_A.weight, older ...attn1.processor.to_q_lora.down.weight
_DOTTED = re.compile(
    r"(?:base_model\.model\.)?(?:unet\.)?(?P<name>[\w.]+?)"
    r"(?:\.lora_A(?:\.default)?\.weight|\.lora_B(?:\.default)?\.weight|(?:\.lora|_lora)\.(?:down|up)\.weight|\.alpha)"
)


def merge_lora(unet: nn.Module, file: Path, weight: float = 1.0) -> int:
    """Add `weight` times the deltas of a LoRA file to a UNet's weights; returns how many layers it changed.

    Raises CounterfactoryError for a file with deltas of a text encoder, names of no layer, half a pair, or shapes
    that do not fit. Nothing is changed then.
    """
    if file.is_dir():
        raise CounterfactoryError(f"{file} is a folder: name the LoRA's file in it")
    pairs = _paired(unet, tensors(file), file)
    deltas = {name: _delta(name, parts, file) for name, parts in pairs.items()}
    layers = dict(unet.named_modules())
    for name, delta in deltas.items():
        if delta.shape != layers[name].weight.shape:
            raise CounterfactoryError(
                f"LoRA {file.name}: delta of {name} has shape {list(delta.shape)}, "
                f"the layer {list(layers[name].weight.shape)}: it was made for another architecture"
            )
    with torch.no_grad():
        for name, delta in deltas.items():
            parameter = layers[name].get_parameter("weight")
            parameter += (weight * delta).to(parameter.dtype)
    return len(deltas)


def _paired(unet: nn.Module, found: dict[str, torch.Tensor], file: Path) -> dict[str, dict[str, torch.Tensor]]:
    """Parts `down`, `up` and maybe `alpha` of each layer, by the layer's name."""
    layers = {name for name, module in unet.named_modules() if isinstance(module, nn.Linear | nn.Conv2d)}
    flat = {name.replace(".", "_"): name for name in layers}
    pairs: dict[str, dict[str, torch.Tensor]] = {}
    for key, tensor in found.items():
        if key.startswith(("lora_te", "text_encoder")):
            raise CounterfactoryError(
                f"LoRA {file.name} changes the text encoder too ({key}), which is shared with the checks: not supported"
            )
        one = _FLAT.fullmatch(key)
        other = None if one else _DOTTED.fullmatch(key)
        name = flat.get(one["name"]) if one else _dotted_layer(other["name"], layers) if other else None
        if name is None:
            raise CounterfactoryError(f"LoRA {file.name}: {key} belongs to no layer of this UNet")
        pairs.setdefault(name, {})[_role(key)] = tensor
    return pairs


def _dotted_layer(name: str, layers: set[str]) -> str | None:
    name = name.replace(".processor.", ".")
    return next((layer for layer in (name, name.replace(".to_out", ".to_out.0")) if layer in layers), None)


def _role(key: str) -> str:
    if key.endswith(".alpha"):
        return "alpha"
    return "down" if any(mark in key for mark in ("lora_down", "lora_A", "lora.down")) else "up"


def _delta(name: str, parts: dict[str, torch.Tensor], file: Path) -> torch.Tensor:
    if not {"down", "up"} <= parts.keys():
        raise CounterfactoryError(f"LoRA {file.name}: {name} has {sorted(parts)}, a pair needs down and up")
    down, up = parts["down"], parts["up"]
    rank = down.shape[0]
    if up.flatten(1).shape[1] != rank:
        raise CounterfactoryError(
            f"LoRA {file.name}: {name} goes down to {rank} channels and up from {list(up.shape[1:])}"
        )
    alpha = float(parts["alpha"]) if "alpha" in parts else float(rank)
    product = (up.flatten(1) @ down.flatten(1)).reshape(up.shape[0], *down.shape[1:])
    return product * (alpha / rank)
