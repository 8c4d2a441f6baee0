"""Null-text inversion, the slow reference: it leads guidance back to the picture, by the states that it answers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tiny_networks import TOKENS, WIDTH, tiny_denoiser

from counterfactory.engine.models.inversion import step_back
from counterfactory.engine.models.sampler import Sampler
from counterfactory.engine.profile.paint import SamplerSettings
from counterfactory.export.graphs.null_text import NullText, invert, optimise

SAMPLER = Sampler(SamplerSettings("ddim", 3, "v_prediction", "trailing", True))
SCALE = 3.0


@pytest.fixture(scope="module")
def unet() -> torch.nn.Module:
    return tiny_denoiser()[0].requires_grad_(False)


def drawn(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn((1, *shape), generator=torch.Generator().manual_seed(seed))


CLEAN, CAPTION, EMPTY = drawn(1, 4, 8, 8), drawn(2, TOKENS, WIDTH), drawn(3, TOKENS, WIDTH)


def said(unet: torch.nn.Module, latents: torch.Tensor, i: int, text: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        found: torch.Tensor = unet(latents, torch.tensor([int(SAMPLER.timesteps[i])]), text).sample
    return found


def forth(unet: torch.nn.Module, noise: torch.Tensor, states: list[torch.Tensor]) -> torch.Tensor:
    """The guided way from `noise`, each step away from its own states."""
    latents = noise.numpy()
    for i, state in enumerate(states):
        with_text, without = (said(unet, torch.from_numpy(latents), i, text).numpy() for text in (CAPTION, state))
        latents, _ = SAMPLER.step(i, latents, without + np.float32(SCALE) * (with_text - without), SAMPLER.start)
    return torch.from_numpy(latents)


def test_the_record_is_the_engine_s(unet: torch.nn.Module) -> None:
    record = invert(unet, CLEAN, CAPTION, SAMPLER)
    assert len(record) == 4
    assert record[3] is CLEAN
    for i in range(3):
        output = said(unet, record[i + 1], i, CAPTION).numpy()
        wanted = step_back(SAMPLER, i, record[i + 1].numpy(), output)
        torch.testing.assert_close(record[i], torch.from_numpy(wanted), rtol=1e-4, atol=1e-4)


def test_guidance_away_from_the_states_leads_back(unet: torch.nn.Module) -> None:
    def missed(found: torch.Tensor) -> float:
        return float((found - CLEAN).square().mean())

    def optimised(inner_steps: int, enough: float = 1e-5) -> NullText:
        return optimise(unet, CLEAN, CAPTION, EMPTY, SAMPLER, SCALE, inner_steps, enough)

    found = optimised(10)
    assert [state.shape for state in found.states] == [(1, TOKENS, WIDTH)] * 3
    assert not any(state.requires_grad for state in found.states)
    torch.testing.assert_close(found.reached, forth(unet, found.trajectory[0], found.states), rtol=1e-3, atol=1e-3)
    none = forth(unet, found.trajectory[0], [EMPTY] * 3)
    assert missed(found.reached) < 0.9 * missed(none)
    assert missed(optimised(30).reached) < missed(found.reached)
    (first, *_) = optimised(10, enough=1e9).states  # near enough after one step of Adam
    assert 0 < (first - EMPTY).abs().max() <= 1.01e-2
