"""The networks that judge pictures, and their trainings.

The two models under test are trained as careless teams do, on fair days only, clear and cloudy ones, with no
augmentation but the mirror. What they make of rain, snow, fog and night is what a counterfactual suite brings to light.
The referee sees every weather and time of day, and only measures: one trunk answers for the mask, the weather, the time
of day, and the colour and kind of the vehicle at each pixel. It is trained on pictures made softer, noisier and a
little off in light and tint, since it will judge generated pictures, which are all of that.

Pictures are float32 [B, 3, 128, 128] in -1..1. The trunk folds each 2 x 2 pixels into channels, works at half
resolution and unfolds its answer: no pixel is averaged away, and the costly full resolution is never convolved.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from counterfactory.engine.judging.confusion import confusion_matrix, iou, mean_iou
from counterfactory.engine.pocket.judges import Finding, Referee
from counterfactory.engine.pocket.world import Scene
from counterfactory.engine.pocket.worlds import EMBEDDED, NOTHING, Drawing

from .data import TRAIN, ScenePool, as_pixels
from .training import M, Recipe, batches, channels_last, fit

_CLASSIFIER_RECIPE = Recipe(steps=450, lr=2e-3, seed=42, warmup=50, save_every=75)
_SEGMENTER_RECIPE = Recipe(steps=400, lr=4e-3, seed=43, warmup=50, save_every=50)
REFEREE_RECIPE = Recipe(steps=1500, lr=3e-3, seed=41, weight_decay=1e-2, save_every=100)
OUTPUTS = ("mask_logits", *EMBEDDED.words, *EMBEDDED.object_words)  # of the referee
_FAIR_SCENES = 1500
_SEGMENTER_WIDTHS, _REFEREE_WIDTHS = (20, 36, 56, 80), (32, 56, 96, 128)
_REFEREE_BATCH = 16
# Thin people and vehicles' outlines decide whether a layout was kept.
_VEHICLES_COUNT, _OTHERS_COUNT = 1.5, 2.5
Images = NDArray[np.uint8]


class Block(nn.Sequential):
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

    def forward(self, pixel_values: Tensor) -> tuple[Tensor, Tensor]:
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

    def __init__(self, width: int) -> None:
        super().__init__()
        self.unfold = nn.Conv2d(width, len(EMBEDDED.classes) * 4, 3, 1, 1)

    def forward(self, features: Tensor) -> Tensor:
        return F.pixel_shuffle(self.unfold(features), 2)


class ObjectHead(nn.Module):
    """Trunk features [B, width, 64, 64] to logits [B, outputs, 128, 128] that need no sharper outline than 2 pixels."""

    def __init__(self, width: int, outputs: int) -> None:
        super().__init__()
        self.score = nn.Conv2d(width, outputs, 1)

    def forward(self, features: Tensor) -> Tensor:
        return F.interpolate(self.score(features), scale_factor=2.0, mode="nearest")


class ClassifierNet(nn.Module):
    """`pixel_values` [B, 3, 128, 128] to logits [B, kinds]: the kind of the nearest vehicle.

    The last features keep their place (8 x 8), since the nearest vehicle is the lowest one.
    """

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            Block(3, 24, 2), Block(24, 48, 2), Block(48, 96, 2), Block(96, 128, 2), Block(128, 128)
        )
        self.squeeze = nn.Conv2d(128, 24, 1)
        self.decide = nn.Sequential(nn.Linear(24 * 64, 64), nn.ReLU(), nn.Linear(64, len(EMBEDDED.kinds)))

    def forward(self, pixel_values: Tensor) -> Tensor:
        logits: Tensor = self.decide(F.relu(self.squeeze(self.features(pixel_values))).flatten(1))
        return logits


class SegmenterNet(nn.Module):
    """`pixel_values` [B, 3, 128, 128] to mask logits [B, classes, 128, 128]."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk = Trunk(_SEGMENTER_WIDTHS)
        self.mask = DenseHead(_SEGMENTER_WIDTHS[0])

    def forward(self, pixel_values: Tensor) -> Tensor:
        logits: Tensor = self.mask(self.trunk(pixel_values)[0])
        return logits


class RefereeNet(nn.Module):
    """`pixel_values` [B, 3, 128, 128] to `OUTPUTS`.

    Those are the mask of classes [B, C, 128, 128]; each attribute of the scene [B, C]; and each attribute of vehicles
    at every pixel, [B, C, 128, 128].
    """

    def __init__(self) -> None:
        super().__init__()
        width = _REFEREE_WIDTHS[0]
        self.scene_sizes = [len(values) for values in EMBEDDED.words.values()]
        self.object_sizes = [len(values) for values in EMBEDDED.object_words.values()]
        self.trunk = Trunk(_REFEREE_WIDTHS)
        self.mask = DenseHead(width)
        self.scene = nn.Sequential(nn.Linear(sum(_REFEREE_WIDTHS), 96), nn.ReLU(), nn.Linear(96, sum(self.scene_sizes)))
        self.vehicle = ObjectHead(width, sum(self.object_sizes))

    def forward(self, pixel_values: Tensor) -> tuple[Tensor, ...]:
        features, whole = self.trunk(pixel_values)
        scene = self.scene(whole).split(self.scene_sizes, 1)
        return self.mask(features), *scene, *self.vehicle(features).split(self.object_sizes, 1)


def fair_weather(stream: int, count: int) -> tuple[Images, Images, NDArray[np.int64]]:
    """The careless teams' data set, the first `count` scenes of a stream on fair days: pictures uint8 [N, 128, 128, 3],
    masks uint8 [N, 128, 128], and labels int64 [N], indices into the kinds of vehicles.
    """
    scenes = [EMBEDDED.fair(EMBEDDED.scene(stream, i), i) for i in range(count)]
    pictures, masks = zip(*(EMBEDDED.draw(scene).pair for scene in scenes), strict=True)
    return np.stack(pictures), np.stack(masks), np.array([EMBEDDED.kinds.index(scene.label) for scene in scenes])


def _train_careless(
    work: Path,
    name: str,
    build: Callable[[], M],
    recipe: Recipe,
    batch: int,
    loss_of: Callable[[Tensor, Tensor, Tensor], Tensor],
) -> M:
    """Train a model under test, or load the finished training, from `work`. The loss is of logits, masks and labels."""
    torch.manual_seed(recipe.seed)
    net = build()
    channels_last(net)
    data = cache(partial(fair_weather, TRAIN, _FAIR_SCENES))  # a finished training needs no pictures

    def loss_of_step(step: int) -> Tensor:
        images, all_masks, labels = data()
        index = batches(recipe.seed, step, batch, _FAIR_SCENES).numpy()
        pixels = as_pixels(images[index]).to(memory_format=torch.channels_last)
        masks = torch.from_numpy(all_masks[index]).long()
        if torch.rand(()) < 0.5:
            pixels, masks = pixels.flip(-1), masks.flip(-1)
        with torch.autocast("cpu", torch.bfloat16):
            logits = net(pixels)
        return loss_of(logits.float(), masks, torch.from_numpy(labels[index]))

    return fit(name, net, recipe, loss_of_step, work)


def train_classifier(work: Path) -> ClassifierNet:
    """Train the careless classifier, or load the finished training, from `work`."""

    def loss_of(logits: Tensor, _: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(logits, labels, label_smoothing=0.05)

    return _train_careless(work, "classifier", ClassifierNet, _CLASSIFIER_RECIPE, 32, loss_of)


def train_segmenter(work: Path) -> SegmenterNet:
    """Train the careless segmenter, or load the finished training, from `work`."""

    def loss_of(logits: Tensor, masks: Tensor, _: Tensor) -> Tensor:
        return F.cross_entropy(logits, masks)

    return _train_careless(work, "segmenter", SegmenterNet, _SEGMENTER_RECIPE, 16, loss_of)


def spoil(pixels: Tensor) -> Tensor:
    """What a generator does to a picture, mildly: light, contrast and tint per picture, then blur, then noise."""
    count = len(pixels)

    def draw(*shape: int) -> Tensor:
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
    torch.manual_seed(REFEREE_RECIPE.seed)
    net = RefereeNet()
    channels_last(net)
    pool = ScenePool(stream=TRAIN, size=2400, fresh=2, workers=workers, with_truth=True)
    weights = torch.ones(len(EMBEDDED.classes))
    weights[EMBEDDED.first_object] = _VEHICLES_COUNT
    weights[EMBEDDED.first_object + 1 :] = _OTHERS_COUNT

    def loss_of(step: int) -> Tensor:
        pool.advance(step)
        index = batches(REFEREE_RECIPE.seed, step, _REFEREE_BATCH, pool.size).numpy()
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

    return fit("referee", net, REFEREE_RECIPE, loss_of, work)


def referee_figures(referee: Referee, known: Sequence[tuple[Scene, Drawing]]) -> dict[str, Any]:
    """What a referee gets right on the renderings of scenes, which come with their drawings.

    `referee_miou` and `referee_iou_by_class`; `referee_attributes`, the share that is right of each attribute of scenes
    and, by the vote of their pixels, of vehicles; and `referee_attributes_soft`, of the renderings after `spoil`.
    """
    images = np.stack([drawing.picture for _, drawing in known])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(REFEREE_RECIPE.seed)
        pixels = (spoil(as_pixels(images)) + 1) * 127.5
    soft = pixels.round().byte().permute(0, 2, 3, 1).contiguous().numpy()
    findings = referee.inspect(images)
    masks = np.stack([drawing.mask for _, drawing in known])
    counts = confusion_matrix(masks, np.stack([f.mask for f in findings]), len(EMBEDDED.classes))
    shares = zip(EMBEDDED.classes, iou(counts), strict=True)
    return {
        "referee_miou": mean_iou(counts),
        "referee_iou_by_class": {name: float(share) for name, share in shares if not np.isnan(share)},
        "referee_attributes": _attributes(findings, known),
        "referee_attributes_soft": _attributes(referee.inspect(soft), known),
    }


def _attributes(findings: Sequence[Finding], known: Sequence[tuple[Scene, Drawing]]) -> dict[str, float]:
    right: dict[str, list[bool]] = {name: [] for name in OUTPUTS[1:]}
    for finding, (scene, drawing) in zip(findings, known, strict=True):
        for name in EMBEDDED.words:
            right[name].append(finding.scene[name] == getattr(scene, name))
        for number, vehicle in enumerate(scene.vehicles, 1):
            for name, value in finding.object(drawing.objects == number).items():
                right[name].append(value == getattr(vehicle, name))
    return {name: float(np.mean(hits)) for name, hits in right.items()}
