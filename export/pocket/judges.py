"""The models under test that the demo judges, trained as careless teams do, and the export of all judges.

The careless data set is fixed and fair-weather: clear and cloudy days only, no augmentation but the mirror. What the
models make of rain, snow, fog and night is what a counterfactual suite brings to light.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional as F

from counterfactory.engine.pocket.worlds import EMBEDDED, SIZE

from ..graphs.tracing import to_ir
from .convnets import Block, DenseHead, Trunk, channels_last
from .data import TRAIN, as_pixels
from .referee import OUTPUTS, train_referee
from .training import Recipe, batches, fit

CLASSIFIER_RECIPE = Recipe(steps=450, lr=2e-3, seed=42, warmup=50, save_every=75)
SEGMENTER_RECIPE = Recipe(steps=400, lr=4e-3, seed=43, warmup=50, save_every=50)
_FAIR_SCENES = 1500
_SEGMENTER_WIDTHS = (20, 36, 56, 80)


class ClassifierNet(nn.Module):
    """`pixel_values` [B, 3, 128, 128] to logits [B, kinds]: the kind of the nearest vehicle.

    The last features keep their place (8 x 8), since the nearest vehicle is the lowest one.
    """

    def __init__(self, kinds: int) -> None:
        super().__init__()
        self.features = nn.Sequential(
            Block(3, 24, 2), Block(24, 48, 2), Block(48, 96, 2), Block(96, 128, 2), Block(128, 128)
        )
        self.squeeze = nn.Conv2d(128, 24, 1)
        self.decide = nn.Sequential(nn.Linear(24 * 64, 64), nn.ReLU(), nn.Linear(64, kinds))

    def forward(self, pixel_values: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.decide(F.relu(self.squeeze(self.features(pixel_values))).flatten(1))
        return logits


class SegmenterNet(nn.Module):
    """`pixel_values` [B, 3, 128, 128] to mask logits [B, classes, 128, 128]."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.trunk = Trunk(_SEGMENTER_WIDTHS)
        self.mask = DenseHead(_SEGMENTER_WIDTHS[0], classes)

    def forward(self, pixel_values: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.mask(self.trunk(pixel_values)[0])
        return logits


@dataclass(frozen=True)
class FairWeather:
    """The careless team's data set: `images` uint8 [N, 128, 128, 3], `masks` uint8 [N, 128, 128],
    `labels` int64 [N], indices into the kinds of vehicles."""

    images: NDArray[np.uint8]
    masks: NDArray[np.uint8]
    labels: NDArray[np.int64]


def fair_weather(stream: int, count: int) -> FairWeather:
    """The first `count` scenes of a stream, on fair days."""
    scenes = [EMBEDDED.fair(EMBEDDED.scene(stream, i), i) for i in range(count)]
    drawings = [EMBEDDED.draw(s) for s in scenes]
    labels = np.array([EMBEDDED.kinds.index(s.label) for s in scenes], np.int64)
    return FairWeather(np.stack([d.picture for d in drawings]), np.stack([d.mask for d in drawings]), labels)


def build_classifier() -> ClassifierNet:
    """The careless classifier with seeded initial weights."""
    torch.manual_seed(CLASSIFIER_RECIPE.seed)
    return ClassifierNet(len(EMBEDDED.kinds))


def build_segmenter() -> SegmenterNet:
    """The careless segmenter with seeded initial weights."""
    torch.manual_seed(SEGMENTER_RECIPE.seed)
    return SegmenterNet(len(EMBEDDED.classes))


def train_classifier(work: Path) -> ClassifierNet:
    """Train, or load the finished training, from `work`."""
    net = build_classifier()
    channels_last(net)
    data: list[FairWeather] = []

    def loss_of(step: int) -> torch.Tensor:
        if not data:  # a finished training needs no pictures
            data.append(fair_weather(TRAIN, _FAIR_SCENES))
        index = batches(CLASSIFIER_RECIPE.seed, step, 32, _FAIR_SCENES).numpy()
        pixels = as_pixels(data[0].images[index]).to(memory_format=torch.channels_last)
        if torch.rand(()) < 0.5:
            pixels = pixels.flip(-1)
        with torch.autocast("cpu", torch.bfloat16):
            logits = net(pixels)
        return F.cross_entropy(logits.float(), torch.from_numpy(data[0].labels[index]), label_smoothing=0.05)

    trained = fit("classifier", net, CLASSIFIER_RECIPE, loss_of, work)
    assert isinstance(trained, ClassifierNet)
    return trained


def train_segmenter(work: Path) -> SegmenterNet:
    """Train, or load the finished training, from `work`."""
    net = build_segmenter()
    channels_last(net)
    data: list[FairWeather] = []

    def loss_of(step: int) -> torch.Tensor:
        if not data:
            data.append(fair_weather(TRAIN, _FAIR_SCENES))
        index = batches(SEGMENTER_RECIPE.seed, step, 16, _FAIR_SCENES).numpy()
        pixels = as_pixels(data[0].images[index]).to(memory_format=torch.channels_last)
        masks = torch.from_numpy(data[0].masks[index]).long()
        if torch.rand(()) < 0.5:
            pixels, masks = pixels.flip(-1), masks.flip(-1)
        with torch.autocast("cpu", torch.bfloat16):
            logits = net(pixels)
        return F.cross_entropy(logits.float(), masks)

    trained = fit("segmenter", net, SEGMENTER_RECIPE, loss_of, work)
    assert isinstance(trained, SegmenterNet)
    return trained


def export_judges(work: Path, weights: Path, workers: int = 0) -> None:
    """Write classifier, segmenter and referee as OpenVINO IR to the folder `weights`, training what is not trained."""
    inputs = {"pixel_values": torch.zeros(2, 3, SIZE, SIZE)}
    to_ir(train_classifier(work), inputs, ("logits",), weights / "classifier.xml")
    to_ir(train_segmenter(work), inputs, ("mask_logits",), weights / "segmenter.xml")
    to_ir(train_referee(work, workers), inputs, OUTPUTS, weights / "referee.xml")
