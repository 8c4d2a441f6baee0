"""The referee: sees every weather and time of day, and only measures.

One trunk answers for the mask, the weather, the time of day, and the colour and kind of the vehicle at each pixel.
It is trained on pictures made softer, noisier and a little off in light and tint, since it will judge generated
pictures, which are all of that.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional as F

from counterfactory.engine.judging.confusion import confusion_matrix, iou, mean_iou
from counterfactory.engine.pocket.judges import Finding, Referee
from counterfactory.engine.pocket.worlds import EMBEDDED, NOTHING, Drawing

from .convnets import DenseHead, ObjectHead, Trunk, channels_last
from .data import TRAIN, ScenePool, as_pixels
from .training import Recipe, batches, fit

RECIPE = Recipe(steps=1500, lr=3e-3, seed=41, weight_decay=1e-2, save_every=100)
_SEED = 41
_BATCH = 16
OUTPUTS = ("mask_logits", *EMBEDDED.words, *EMBEDDED.object_words)
_WIDTHS = (32, 56, 96, 128)
# Thin people and vehicles' outlines decide whether a layout was kept.
_VEHICLES_COUNT, _OTHERS_COUNT = 1.5, 2.5


class RefereeNet(nn.Module):
    """`pixel_values` [B, 3, 128, 128] to `OUTPUTS`.

    Those are the mask of classes [B, C, 128, 128]; each attribute of the scene [B, C]; and each attribute of objects at
    every pixel, [B, C, 128, 128].
    """

    def __init__(self) -> None:
        super().__init__()
        self.scene_sizes = [len(values) for values in EMBEDDED.words.values()]
        self.object_sizes = [len(values) for values in EMBEDDED.object_words.values()]
        self.trunk = Trunk(_WIDTHS)
        self.mask = DenseHead(_WIDTHS[0], len(EMBEDDED.classes))
        self.scene = nn.Sequential(nn.Linear(sum(_WIDTHS), 96), nn.ReLU(), nn.Linear(96, sum(self.scene_sizes)))
        self.vehicle = ObjectHead(_WIDTHS[0], sum(self.object_sizes))

    def forward(self, pixel_values: torch.Tensor) -> tuple[torch.Tensor, ...]:
        features, whole = self.trunk(pixel_values)
        scene = self.scene(whole).split(self.scene_sizes, 1)
        return self.mask(features), *scene, *self.vehicle(features).split(self.object_sizes, 1)


def build_referee() -> RefereeNet:
    """The referee with seeded initial weights."""
    torch.manual_seed(_SEED)
    return RefereeNet()


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


def train_referee(work: Path, workers: int = 0) -> RefereeNet:
    """Train, or load the finished training, from `work`."""
    net = build_referee()
    channels_last(net)
    pool = ScenePool(stream=TRAIN, size=2400, fresh=2, workers=workers, with_truth=True)
    weights = torch.ones(len(EMBEDDED.classes))
    weights[EMBEDDED.first_object] = _VEHICLES_COUNT
    weights[EMBEDDED.first_object + 1 :] = _OTHERS_COUNT

    def loss_of(step: int) -> torch.Tensor:
        pool.advance(step)
        index = batches(RECIPE.seed, step, _BATCH, pool.size).numpy()
        scenes = [pool.scenes[i] for i in index]
        pixels = spoil(as_pixels(pool.images[index])).to(memory_format=torch.channels_last)
        masks, objects = torch.from_numpy(pool.masks[index]).long(), torch.from_numpy(pool.truth[index]).long()
        wanted = {name: [values.index(getattr(s, name)) for s in scenes] for name, values in EMBEDDED.words.items()}
        if torch.rand(()) < 0.5:
            pixels, masks, objects = (x.flip(-1) for x in (pixels, masks, objects))
        with torch.autocast("cpu", torch.bfloat16):
            mask, *rest = net(pixels)
        loss = F.cross_entropy(mask.float(), masks, weights)
        for logits, name in zip(rest, wanted, strict=False):
            loss = loss + 0.3 * F.cross_entropy(logits.float(), torch.tensor(wanted[name]))
        for k, logits in enumerate(rest[len(wanted) :]):
            if (objects[:, k] != NOTHING).any():  # the mean of nothing is no number
                loss = loss + 0.3 * F.cross_entropy(logits.float(), objects[:, k], ignore_index=NOTHING)
        return loss

    trained = fit("referee", net, RECIPE, loss_of, work)
    assert isinstance(trained, RefereeNet)
    return trained


def soften(images: NDArray[np.uint8], seed: int) -> NDArray[np.uint8]:
    """Pictures after `spoil`, uint8 [N, 128, 128, 3], the same for the same seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        pixels = spoil(as_pixels(images))
    return ((pixels + 1) * 127.5).round().byte().permute(0, 2, 3, 1).contiguous().numpy()


def referee_figures(referee: Referee, known: Sequence[tuple[Any, Drawing]]) -> dict[str, Any]:
    """What a referee gets right on the renderings of scenes, which come with their drawings.

    `referee_miou` and `referee_iou_by_class`; `referee_attributes`, the share that is right of each attribute of scenes
    and, by the vote of their pixels, of objects; and `referee_attributes_soft`, of the renderings after `spoil`.
    """
    images = np.stack([drawing.picture for _, drawing in known])
    findings = referee.inspect(images)
    masks = np.stack([drawing.mask for _, drawing in known])
    counts = confusion_matrix(masks, np.stack([f.mask for f in findings]), len(EMBEDDED.classes))
    return {
        "referee_miou": mean_iou(counts),
        "referee_iou_by_class": _shares_of(EMBEDDED.classes, iou(counts)),
        "referee_attributes": _attributes(findings, known),
        "referee_attributes_soft": _attributes(referee.inspect(soften(images, _SEED)), known),
    }


def _shares_of(names: Sequence[str], shares: NDArray[np.float64]) -> dict[str, float]:
    return {name: float(share) for name, share in zip(names, shares, strict=True) if not np.isnan(share)}


def _attributes(findings: Sequence[Finding], known: Sequence[tuple[Any, Drawing]]) -> dict[str, float]:
    right: dict[str, list[bool]] = {name: [] for name in OUTPUTS[1:]}
    for finding, (scene, drawing) in zip(findings, known, strict=True):
        for name in EMBEDDED.words:
            right[name].append(finding.scene[name] == getattr(scene, name))
        for number, facts in enumerate(EMBEDDED.object_facts(scene), 1):
            if facts:
                seen = finding.object(drawing.objects == number)
                for name, fact in facts.items():
                    right[name].append(seen[name] == fact)
    return {name: float(np.mean(hits)) for name, hits in right.items() if hits}
