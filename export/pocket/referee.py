"""The referee: sees every weather and time of day, and only measures.

One trunk answers for the mask, the weather, the time of day, and the colour and kind of the vehicle at each pixel.
It is trained on pictures made softer, noisier and a little off in light and tint, since it will judge generated
pictures, which are all of that.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional as F

from counterfactory.engine.judging.confusion import confusion_matrix, iou, mean_iou
from counterfactory.engine.pocket.judges import Referee, vehicle_map
from counterfactory.engine.pocket.render import render
from counterfactory.engine.pocket.world import CLASSES, COLOURS, KINDS, TIMES, WEATHERS, Scene

from .convnets import DenseHead, ObjectHead, Trunk, channels_last
from .data import HELD_OUT, TRAIN, ScenePool, as_pixels, scene
from .training import Recipe, batches, fit

RECIPE = Recipe(steps=1500, lr=3e-3, seed=41, weight_decay=1e-2, save_every=100)
OUTPUTS = ("mask_logits", "weather", "time", "colour", "kind")
_BATCH = 16
_WIDTHS = (32, 56, 96, 128)
NO_VEHICLE = -100  # what cross entropy ignores
# Thin people and vehicles' outlines decide whether a layout was kept.
_CLASS_WEIGHTS = (1.0, 1.0, 1.0, 1.0, 1.0, 1.5, 2.5)


class RefereeNet(nn.Module):
    """`pixel_values` [B, 3, 128, 128] to `OUTPUTS`; the mask, colour and kind are per pixel, [B, C, 128, 128]."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk = Trunk(_WIDTHS)
        self.mask = DenseHead(_WIDTHS[0], len(CLASSES))
        self.scene = nn.Sequential(nn.Linear(sum(_WIDTHS), 96), nn.ReLU(), nn.Linear(96, len(WEATHERS) + len(TIMES)))
        self.vehicle = ObjectHead(_WIDTHS[0], len(COLOURS) + len(KINDS))

    def forward(self, pixel_values: torch.Tensor) -> tuple[torch.Tensor, ...]:
        features, whole = self.trunk(pixel_values)
        scene, vehicle = self.scene(whole), self.vehicle(features)
        weather, time = scene.split((len(WEATHERS), len(TIMES)), 1)
        colour, kind = vehicle.split((len(COLOURS), len(KINDS)), 1)
        return self.mask(features), weather, time, colour, kind


def build_referee() -> RefereeNet:
    """The referee with seeded initial weights."""
    torch.manual_seed(RECIPE.seed)
    return RefereeNet()


def vehicle_truth(scene: Scene, mask: NDArray[np.uint8]) -> tuple[NDArray[np.int8], NDArray[np.int8]]:
    """Colour and kind of the vehicle at each pixel as indices, int8 [H, W]; `NO_VEHICLE` elsewhere."""
    which = vehicle_map(scene, mask)
    colours = np.array([COLOURS.index(v.colour) for v in scene.vehicles] + [NO_VEHICLE], np.int8)
    kinds = np.array([KINDS.index(v.kind) for v in scene.vehicles] + [NO_VEHICLE], np.int8)
    return colours[which], kinds[which]  # -1 picks the last


def spoil(pixels: torch.Tensor) -> torch.Tensor:
    """What a generator does to a picture, mildly: light, contrast and tint per picture, then blur, then noise."""
    count = len(pixels)

    def draw(*shape: int) -> torch.Tensor:
        return torch.rand(count, *shape) * 2 - 1

    pixels = pixels * (1 + 0.12 * draw(1, 1, 1)) + 0.06 * draw(1, 1, 1) + 0.035 * draw(3, 1, 1)
    sigma = (0.3 + 0.7 * torch.rand(count)) * (torch.rand(count) < 0.7)
    side = torch.exp(-0.5 / sigma.clamp(min=0.05).square())
    far = side**4
    taps = torch.stack([far, side, torch.ones(count), side, far], 1)
    taps = taps / taps.sum(1, keepdim=True)
    flat = F.pad(pixels, (2, 2, 2, 2), mode="replicate").flatten(0, 1)[None]
    taps = taps.repeat_interleave(3, 0)[:, None]
    flat = F.conv2d(F.conv2d(flat, taps[..., None], groups=3 * count), taps[:, :, None], groups=3 * count)
    pixels = flat.view_as(pixels)
    return (pixels + 0.05 * torch.rand(count, 1, 1, 1) * torch.randn_like(pixels)).clamp(-1, 1)


def train_referee(work: Path) -> RefereeNet:
    """Train, or load the finished training, from `work`."""
    net = build_referee()
    channels_last(net)
    pool = ScenePool(stream=TRAIN, size=2400, fresh=2)
    truths = np.zeros((2, *pool.masks.shape), np.int8)
    weights = torch.tensor(_CLASS_WEIGHTS)

    def loss_of(step: int) -> torch.Tensor:
        for slot in pool.advance(step):
            truths[:, slot] = vehicle_truth(pool.scenes[slot], pool.masks[slot])
        index = batches(RECIPE.seed, step, _BATCH, pool.size).numpy()
        scenes = [pool.scenes[i] for i in index]
        pixels = spoil(as_pixels(pool.images[index])).to(memory_format=torch.channels_last)
        masks = torch.from_numpy(pool.masks[index]).long()
        colours, kinds = torch.from_numpy(truths[:, index]).long()
        weathers = torch.tensor([WEATHERS.index(s.weather) for s in scenes])
        times = torch.tensor([TIMES.index(s.time) for s in scenes])
        if torch.rand(()) < 0.5:
            pixels, masks, colours, kinds = (x.flip(-1) for x in (pixels, masks, colours, kinds))
        with torch.autocast("cpu", torch.bfloat16):
            mask, weather, time, colour, kind = net(pixels)
        return (
            F.cross_entropy(mask.float(), masks, weights)
            + 0.3 * F.cross_entropy(weather.float(), weathers)
            + 0.3 * F.cross_entropy(time.float(), times)
            + 0.3 * F.cross_entropy(colour.float(), colours, ignore_index=NO_VEHICLE)
            + 0.3 * F.cross_entropy(kind.float(), kinds, ignore_index=NO_VEHICLE)
        )

    trained = fit("referee", net, RECIPE, loss_of, work)
    assert isinstance(trained, RefereeNet)
    return trained


def soften(images: NDArray[np.uint8], seed: int) -> NDArray[np.uint8]:
    """Pictures after `spoil`, uint8 [N, 128, 128, 3], the same for the same seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        pixels = spoil(as_pixels(images))
    return ((pixels + 1) * 127.5).round().byte().permute(0, 2, 3, 1).contiguous().numpy()


def referee_report(weights: Path, count: int = 300) -> dict[str, Any]:
    """What the exported referee gets right on `count` held-out scenes: as rendered ("sharp") and softened ("soft").

    Each holds miou, iou_by_class, and the shares of right weather, time, vehicle_colour and vehicle_kind (the vote
    of each vehicle's pixels).
    """
    scenes = [scene(HELD_OUT, i) for i in range(count)]
    images, masks = (np.stack(parts) for parts in zip(*(render(s) for s in scenes), strict=True))
    referee = Referee.load(weights)
    return {"scenes": count} | {
        name: _measure(referee, scenes, pictures, masks)
        for name, pictures in (("sharp", images), ("soft", soften(images, RECIPE.seed)))
    }


def _measure(
    referee: Referee, scenes: list[Scene], images: NDArray[np.uint8], masks: NDArray[np.uint8]
) -> dict[str, Any]:
    findings = referee.inspect(images)
    counts = confusion_matrix(masks, np.stack([f.mask for f in findings]), len(CLASSES))
    vehicles: list[tuple[bool, bool]] = []
    for street, mask, finding in zip(scenes, masks, findings, strict=True):
        which = vehicle_map(street, mask)
        for i, vehicle in enumerate(street.vehicles):
            colour, kind = finding.vehicle(which == i)
            vehicles.append((colour == vehicle.colour, kind == vehicle.kind))
    colours, kinds = np.mean(vehicles, 0).tolist()
    return {
        "miou": mean_iou(counts),
        "iou_by_class": dict(zip(CLASSES, iou(counts).tolist(), strict=True)),
        "weather": float(np.mean([f.weather == s.weather for f, s in zip(findings, scenes, strict=True)])),
        "time": float(np.mean([f.time == s.time for f, s in zip(findings, scenes, strict=True)])),
        "vehicle_colour": colours,
        "vehicle_kind": kinds,
    }
