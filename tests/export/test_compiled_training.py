"""A compiled network learns as the network itself would."""

from __future__ import annotations

import shutil

import pytest

pytest.importorskip("diffusers", reason="no diffusers: what compiled trainings learn goes unchecked")

import torch
from diffusers.models.upsampling import Upsample2D
from torch import nn

from counterfactory.export.pocket.training import compiled


class Upsampled(nn.Module):
    """Pictures doubled between convolutions, as in a UNet."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.below, self.above = nn.Conv2d(8, 64, 3, padding=1), nn.Conv2d(64, 4, 3, padding=1)
        self.larger = Upsample2D(64, use_conv=True, out_channels=64)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        predicted: torch.Tensor = self.above(self.larger(self.below(pixels)))
        return predicted


@pytest.mark.slow  # it runs a C++ compiler
@pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler: nothing is compiled here")
def test_what_lies_before_an_upsampling_learns() -> None:
    net = Upsampled().to(memory_format=torch.channels_last)
    pixels = torch.randn(4, 8, 16, 16).to(memory_format=torch.channels_last)
    gradients = []
    for predict in (net, compiled(net)):
        net.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            predicted = predict(pixels)
        torch.autograd.backward(predicted.float().square().mean())
        gradients.append({name: p.grad.clone() for name, p in net.named_parameters() if p.grad is not None})
    own, found = gradients
    assert own.keys() == found.keys() == dict(net.named_parameters()).keys()
    for name, gradient in own.items():
        assert gradient.abs().max() > 1e-5, f"{name}: nothing to compare"
        assert (found[name] - gradient).norm() < 0.05 * gradient.norm(), name
