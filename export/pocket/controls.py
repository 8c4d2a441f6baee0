"""Further controls of the streets' denoiser: a ControlNet for depth and one for a map of classes, beside that of edges.

As the published ones are to Stable Diffusion, each is a copy of a trained ControlNet that learns to follow another kind
of map, while the UNet stands still (Zhang et al. 2023, arXiv 2302.05543). Here it begins as that of the edges, so that
the UNet knows what it adds. Maps are the renderer's truth.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from diffusers import AutoencoderTiny, ControlNetModel
from diffusers.models.attention_processor import AttnProcessor
from numpy.typing import NDArray
from tokenizers import Tokenizer
from torch import nn
from transformers import CLIPModel

from counterfactory.engine.pocket.worlds import EMBEDDED
from counterfactory.engine.sources.palette import load_palette

from .data import TRAIN, ScenePool
from .denoiser import BATCH, Denoiser, LatentPool, caption_states, velocity_loss
from .training import Recipe, channels_last, compiled, fit

# The plan of UNet and ControlNets, in the order of the hints: edges, then these.
PLAN = "denoiser_controls"
# The controls with the channels of their maps.
CHANNELS = {"depth": 1, "classes": 3}
# A step takes 1.3 to 1.6 s of a core where another training has the other one.
RECIPE = Recipe(steps=2000, lr=4e-4, seed=61, ema=0.995, save_every=100)
_POOL, _FRESH = 3000, 4


def maps_of(scenes: ScenePool, control: str, index: NDArray[np.int64]) -> torch.Tensor:
    """What a control follows, of scenes that a pool holds: float32 [N, C, 128, 128] in 0..1."""
    if control == "depth":
        return torch.from_numpy(scenes.nearness[index])[:, None].float() / 255
    palette = load_palette(EMBEDDED.name)
    painted = np.stack([palette.paint(mask, None) for mask in scenes.masks[index]])
    return torch.from_numpy(painted).permute(0, 3, 1, 2).float() / 255


@torch.no_grad()
def take_over(module: nn.Module, older: nn.Module) -> None:
    """Fill the parameters of `module` from those of `older` of their names, as far as the shapes overlap from index 0;
    what is new keeps its seeded values.
    """
    own, theirs = dict(module.named_parameters()), dict(older.named_parameters())
    for name in own.keys() & theirs.keys():
        shared = tuple(slice(min(pair)) for pair in zip(own[name].shape, theirs[name].shape, strict=True))
        own[name][shared] = theirs[name][shared]


def begin(control: str, edges: ControlNetModel) -> ControlNetModel:
    """A ControlNet of a control with the weights of that of the edges; what embeds its maps takes over what suits."""
    controlnet = ControlNetModel.from_config(edges.config, conditioning_channels=CHANNELS[control])
    assert isinstance(controlnet, ControlNetModel)
    take_over(controlnet, edges)
    # The flash kernel's backward pass is several times slower than plain matrix products on a CPU.
    controlnet.set_attn_processor(AttnProcessor())
    return controlnet


def train(
    work: Path,
    control: str,
    denoiser: Denoiser,
    vae: AutoencoderTiny,
    clip: CLIPModel,
    tokenizer: Tokenizer,
    workers: int = 0,
    recipe: Recipe = RECIPE,
) -> ControlNetModel:
    """Train a control beside the denoiser's UNet, or load the finished training, from `work`."""
    learner = Denoiser(denoiser.unet, begin(control, denoiser.controlnet))
    learner.unet.set_attn_processor(AttnProcessor())
    learner.unet.requires_grad_(False)
    channels_last(learner)
    pool = LatentPool(ScenePool(stream=TRAIN, size=_POOL, fresh=_FRESH, styles=2, workers=workers), vae)
    predict = compiled(learner)

    def loss_of(step: int) -> torch.Tensor:
        pool.advance(step)
        rng = np.random.default_rng((recipe.seed, step))
        index = rng.choice(pool.scenes.size, BATCH, replace=False)
        text = caption_states(clip, tokenizer, pool.scenes, index, rng)
        maps = maps_of(pool.scenes, control, index)
        return velocity_loss(predict, pool, index, text, maps, torch.ones(BATCH), rng)

    return fit(f"control_{control}", learner, recipe, loss_of, work).controlnet
