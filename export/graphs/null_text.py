"""Null-text inversion (Mokady et al. 2022, arXiv 2211.09794) as its authors have it: the slow reference, in PyTorch.

A picture's latents are taken back to noise by DDIM without guidance. Forth, with guidance, each step would leave that
way; so before each the empty caption's states are optimised, some ten steps of Adam, until the guided step lands where
the inversion had been. Edits then guide away from those states. Nothing in the engine does this: an inversion that
optimises nothing is held against it (docs/lance.md).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from counterfactory.engine.models.inversion import step_weights
from counterfactory.engine.models.sampler import Sampler


@dataclass(frozen=True)
class NullText:
    """`trajectory`: latents [1, C, h, w] before each step and at last; `states` [1, T, D] of the empty caption for each
    step; `reached`: the latents at the end of the guided way.
    """

    trajectory: list[Tensor]
    states: list[Tensor]
    reached: Tensor


def invert(unet: nn.Module, clean: Tensor, caption: Tensor, sampler: Sampler) -> list[Tensor]:
    """The latents [1, C, h, w] before each step of `sampler`, which is DDIM's, and `clean` behind them."""
    trajectory = [clean]
    with torch.no_grad():
        for i in reversed(range(len(sampler.timesteps))):
            kept, added = step_weights(sampler, i)
            trajectory.insert(0, (trajectory[0] - added * _output(unet, trajectory[0], sampler, i, caption)) / kept)
    return trajectory


def optimise(
    unet: nn.Module,
    clean: Tensor,
    caption: Tensor,
    empty: Tensor,
    sampler: Sampler,
    scale: float,
    inner_steps: int = 10,
    enough: float = 1e-5,
) -> NullText:
    """Invert `clean` [1, C, h, w] by its caption's states [1, T, D], and fit the states of the empty caption, step by
    step, so that guidance of `scale` leads back.

    At most `inner_steps` of Adam a step, its rate falling from 1e-2, fewer where the mean squared error comes below
    `enough`, which itself rises a little, as in the authors' code.
    """
    trajectory, states, steps = invert(unet, clean, caption, sampler), [], len(sampler.timesteps)
    latents, null = trajectory[0], empty.detach()
    for i in range(steps):
        kept, added = step_weights(sampler, i)
        null = null.clone().requires_grad_(True)
        adam = torch.optim.Adam([null], lr=1e-2 * (1 - i / (2 * steps)))
        with torch.no_grad():
            conditional = _output(unet, latents, sampler, i, caption)
        for _ in range(inner_steps):
            unconditional = _output(unet, latents, sampler, i, null)
            guided = unconditional + scale * (conditional - unconditional)
            loss = F.mse_loss(kept * latents + added * guided, trajectory[i + 1])
            adam.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            adam.step()
            if loss.item() < enough + i * 2e-5:
                break
        null = null.detach()
        states.append(null)
        with torch.no_grad():
            unconditional = _output(unet, latents, sampler, i, null)
            latents = kept * latents + added * (unconditional + scale * (conditional - unconditional))
    return NullText(trajectory, states, latents)


def _output(unet: nn.Module, latents: Tensor, sampler: Sampler, i: int, text: Tensor) -> Tensor:
    output = unet(latents, torch.tensor([int(sampler.timesteps[i])]), text, return_dict=False)[0]
    assert isinstance(output, Tensor)
    return output
