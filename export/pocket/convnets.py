"""The plain convolutional networks that judge pictures: blocks and the U-shaped trunk.

Pictures are float32 [B, 3, 128, 128] in -1..1. The trunk folds each 2 x 2 pixels into channels, works at half
resolution and unfolds its answer: no pixel is averaged away, and the costly full resolution is never convolved.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Sequential):
    """3 x 3 convolution, batch norm, ReLU."""

    def __init__(self, inward: int, outward: int, stride: int = 1) -> None:
        super().__init__(
            nn.Conv2d(inward, outward, 3, stride, 1, bias=False), nn.BatchNorm2d(outward), nn.ReLU(inplace=True)
        )


class Trunk(nn.Module):
    """A U-Net: pixel values to features of every pixel pair and of the whole picture.

    `forward` returns [B, widths[0], 64, 64] and the mean of every encoder level, [B, sum(widths)].
    """

    def __init__(self, widths: tuple[int, ...]) -> None:
        super().__init__()
        self.stem = Block(12, widths[0])
        self.down = nn.ModuleList(Block(a, b, 2) for a, b in pairwise(widths))
        self.encode = nn.ModuleList(Block(w, w) for w in widths)
        self.merge = nn.ModuleList(Block(b + a, a) for a, b in pairwise(widths))
        self.decode = nn.ModuleList(Block(w, w) for w in widths[:-1])

    def forward(self, pixel_values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.encode[0](self.stem(F.pixel_unshuffle(pixel_values, 2)))
        levels = [x]
        for down, encode in zip(self.down, list(self.encode)[1:], strict=True):
            x = encode(down(x))
            levels.append(x)
        whole = torch.cat([level.mean((2, 3)) for level in levels], 1)
        for i in reversed(range(len(self.merge))):
            up = F.interpolate(x, scale_factor=2.0, mode="nearest")
            x = self.decode[i](self.merge[i](torch.cat([up, levels[i]], 1)))
        return x, whole


class DenseHead(nn.Module):
    """Trunk features [B, width, 64, 64] to logits of every pixel, [B, classes, 128, 128]."""

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.unfold = nn.Conv2d(width, classes * 4, 3, 1, 1)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return F.pixel_shuffle(self.unfold(features), 2)


class ObjectHead(nn.Module):
    """Trunk features [B, width, 64, 64] to logits [B, classes, 128, 128] that need no sharper outline than 2 pixels."""

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.score = nn.Conv2d(width, classes, 1)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return F.interpolate(self.score(features), scale_factor=2.0, mode="nearest")


def channels_last(net: nn.Module) -> None:
    """Lay the weights out as the CPU's convolutions like them."""
    net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch 2.13's stub lacks the keyword
