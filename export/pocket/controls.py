"""Further controls of the streets' denoiser: a ControlNet for depth and one for a map of classes, beside that of edges.

As the published ones are to Stable Diffusion, each is a copy of a trained ControlNet that learns to follow another kind
of map, while the UNet stands still (Zhang et al. 2023, arXiv 2302.05543). Here it begins as that of the edges, so that
the UNet knows what it adds. Maps are the renderer's truth.
"""

from __future__ import annotations

from dataclasses import dataclass
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

from .clip import encode
from .convnets import channels_last
from .data import TRAIN, ScenePool
from .denoiser import Denoiser, LatentPool, noise_schedule, text_states
from .training import Recipe, compiled, fit

# The plan of UNet and ControlNets, in the order of the hints: edges, then these.
PLAN = "denoiser_controls"
# The controls with the channels of their maps.
CHANNELS = {"depth": 1, "classes": 3}
# A step takes 1.3 to 1.6 s of a core where another training has the other one.
RECIPE = Recipe(steps=2000, lr=4e-4, seed=61, ema=0.995, save_every=100)
_BATCH = 32
_POOL, _FRESH = 3000, 4
_DROP_TEXT = 0.1


@dataclass(frozen=True)
class Maps:
    """What the controls follow, of scenes that a pool holds."""

    scenes: ScenePool

    def of(self, control: str, index: NDArray[np.int64]) -> torch.Tensor:
        """The maps of a control, float32 [N, C, 128, 128] in 0..1."""
        if control == "depth":
            return torch.from_numpy(self.scenes.nearness[index])[:, None].float() / 255
        palette = load_palette(EMBEDDED.name)
        painted = np.stack([palette.paint(mask, None) for mask in self.scenes.masks[index]])
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
    schedule = noise_schedule()
    pool = LatentPool(ScenePool(stream=TRAIN, size=_POOL, fresh=_FRESH, styles=2, workers=workers), vae)
    maps, empty, predict = Maps(pool.scenes), encode(tokenizer, [""]), compiled(learner)

    def loss_of(step: int) -> torch.Tensor:
        pool.advance(step)
        rng = np.random.default_rng((recipe.seed, step))
        index = rng.choice(pool.scenes.size, _BATCH, replace=False)
        ids = encode(tokenizer, [EMBEDDED.describe(pool.scenes.scenes[i], rng, False) for i in index])
        ids[torch.from_numpy(rng.random(_BATCH) < _DROP_TEXT)] = empty[0]
        latents = pool.latents[index].to(memory_format=torch.channels_last)
        noise, t = torch.randn_like(latents), torch.from_numpy(rng.integers(0, 1000, _BATCH))
        noisy, target = schedule.add_noise(latents, noise, t), schedule.get_velocity(latents, noise, t)
        with torch.autocast("cpu", torch.bfloat16):
            predicted = predict(noisy, t, text_states(clip, ids), maps.of(control, index), torch.ones(_BATCH))
        loss: torch.Tensor = (pool.weights[index] * (predicted.float() - target).square()).mean()
        return loss

    fit(f"control_{control}", learner, recipe, loss_of, work)
    return learner.controlnet.eval()
