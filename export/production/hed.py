"""HED: soft edges by a network (Xie & Tu 2015, "Holistically-Nested Edge Detection", arXiv 1504.06375).

Five blocks of VGG-16, each with a side output of one channel at its own scale; brought to the picture's size, the
side outputs' mean through a sigmoid is the edge map. The parameters are named and shaped as in the weights that
ControlNet's HED model was trained with (ControlNetHED_Apache2.pth), which have a learned mean colour in `norm`.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..graphs.hub import locate
from ..graphs.weights import fill, load, tensors
from .graph import PICTURE, Graph, Request, static

# Channels and convolutions of each block: VGG-16 (Simonyan & Zisserman 2014, arXiv 1409.1556) without its last pool.
WIDTHS, DEPTHS = (64, 128, 256, 512, 512), (2, 2, 3, 3, 3)
_SMALL_WIDTHS, _SMALL_DEPTHS = (4, 8, 8, 8, 8), (1, 1, 2, 1, 1)


class Block(nn.Module):
    """3 x 3 convolutions at one scale; features [B, C, H, W] to features and a side output [B, 1, H, W]."""

    def __init__(self, channels: int, width: int, depth: int) -> None:
        super().__init__()
        widths = (channels, *(width,) * depth)
        self.convs = nn.ModuleList([nn.Conv2d(a, b, 3, padding=1) for a, b in pairwise(widths)])
        self.projection = nn.Conv2d(width, 1, 1)

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor]:
        for conv in self.convs:
            features = F.relu(conv(features))
        return features, self.projection(features)


class Hed(nn.Module):
    """image [B, 3, H, W], RGB in 0..1, to edges [B, H, W] in 0..1; sides are multiples of 16."""

    def __init__(self, widths: tuple[int, ...] = WIDTHS, depths: tuple[int, ...] = DEPTHS) -> None:
        super().__init__()
        self.norm = nn.Parameter(torch.zeros(1, 3, 1, 1))
        channels = (3, *widths[:-1])
        for i, (before, width, depth) in enumerate(zip(channels, widths, depths, strict=True), start=1):
            setattr(self, f"block{i}", Block(before, width, depth))

    def forward(self, image: Tensor) -> Tensor:
        # The weights expect levels of 0 to 255.
        features, size = image * 255 - self.norm, image.shape[2:]
        total = torch.zeros(())
        for i in range(1, 6):
            if i > 1:
                features = F.max_pool2d(features, 2, 2)
            features, side = getattr(self, f"block{i}")(features)
            resized = F.interpolate(side, size, mode="bilinear", align_corners=False)
            total = resized if i == 1 else total + resized
        return torch.sigmoid(total / 5)[:, 0]


def build(request: Request) -> Hed:
    hed = Hed(_SMALL_WIDTHS, _SMALL_DEPTHS) if request.small else Hed()
    if request.sources is None:
        fill(hed, request.seed)
        with torch.no_grad():  # levels up to 255 through weights made for ones: all sigmoids would be 0 or 1
            hed.get_parameter("block1.convs.0.weight").div_(64)
    else:
        file = locate(request.sources.named("hed"), ("ControlNetHED.pth",), weights=False)
        if file.is_dir():
            file = next((f for f in sorted(file.iterdir()) if "HED" in f.name), file)
        # A wrapper around the network has left prefixes on some copies of the weights.
        found = {name.removeprefix("netNetwork.").removeprefix("module."): t for name, t in tensors(file).items()}
        load(hed, found, file)
    return hed.eval().requires_grad_(False)


def graph(request: Request) -> Graph:
    """image [B, 3, H, W] to edges [B, H, W]; see Hed."""
    inputs = {"image": torch.rand((2, 3, *request.example), generator=torch.Generator().manual_seed(request.seed))}
    plan = static(request.batch("hed"), inputs, ["image"], request.pictures)
    return Graph("hed", build(request), inputs, ("edges",), {"image": PICTURE}, plan)
