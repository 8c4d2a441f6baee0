"""Trains a network by a recipe, with checkpoints: killed anywhere, the same call goes on, to the same weights on a CPU.

Accelerate has the network compute in the recipe's precision, and keeps and restores its state. All that is random in a
step is drawn anew from (seed, step).
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.training.lesson import Lesson, TrainingPicture
from counterfactory.engine.training.recipe import OptimiserSettings, TrainingRecipe

from .networks import logits_of, scaled
from .pictures import IGNORED, TrainingOrder, TrainingPictures, stack

Say = Callable[[str], None]
_CHECKPOINT = "checkpoint-"
# The least checkpoints of a training, which has one an epoch, and lines that tell of it.
_KEPT, _LINES = 10, 10
_STEPS = 1_000_003


def open_device(name: str) -> torch.device:
    """The device that is asked for, "auto" for a GPU where there is one. Raises CounterfactoryError where it is not."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise CounterfactoryError(f"--device {name} is no device: say auto, cpu, cuda or cuda:N") from error
    count = torch.cuda.device_count() if device.type == "cuda" else 1
    if (device.index or 0) >= count:
        sees = f"--device {name}: torch sees {count or 'no'} GPU{'' if count == 1 else 's'} here"
        raise CounterfactoryError(f"{sees}; say --device cpu, or install a torch for this machine's GPU")
    return device


def rate_at(recipe: TrainingRecipe, step: int, per_epoch: int) -> float:
    """The learning rate of a step, from 0 on."""
    rate, base = recipe.rate, recipe.optimiser.rate * min(1.0, (step + 1) / (recipe.rate.warmup + 1))
    if rate.kind == "step" and rate.every is not None and rate.gamma is not None:
        return base * float(rate.gamma ** (step // per_epoch // rate.every))
    if rate.kind == "cosine":
        return base * 0.5 * (1 + math.cos(math.pi * step / (rate.epochs * per_epoch)))
    return base


def make_optimiser(settings: OptimiserSettings, network: nn.Module) -> torch.optim.Optimizer:
    of = [parameter for parameter in network.parameters() if parameter.requires_grad]
    if settings.kind == "sgd":
        return torch.optim.SGD(of, settings.rate, momentum=settings.momentum or 0, weight_decay=settings.weight_decay)
    kind = torch.optim.Adam if settings.kind == "adam" else torch.optim.AdamW
    betas, eps = settings.betas or (0.9, 0.999), settings.eps or 0.0  # which a recipe has
    return kind(of, settings.rate, betas=betas, eps=eps, weight_decay=settings.weight_decay)


def train(
    lesson: Lesson,
    network: nn.Module,
    pictures: Sequence[TrainingPicture],
    seed: int,
    folder: Path,
    device: torch.device,
    say: Say,
) -> nn.Module:
    """Trains a network, which lies on the CPU as it starts, for the lesson's steps on these pictures, and returns it on
    the device. Checkpoints are in `folder`; the last one goes on.
    """
    recipe, per_epoch = lesson.recipe, lesson.steps_per_epoch
    total = recipe.rate.epochs * per_epoch
    # Accelerate would take the first GPU, whichever was asked for: networks are placed here.
    precision = "bf16" if recipe.precision == "bf16" else "no"
    accelerator = Accelerator(cpu=device.type == "cpu", device_placement=False, mixed_precision=precision)
    network = network.to(device)
    network, optimiser = accelerator.prepare(network, make_optimiser(recipe.optimiser, network))
    start = _restore(accelerator, folder)
    order = TrainingOrder(len(pictures), recipe.batch, seed, start, total)
    data = TrainingPictures(lesson, pictures, seed)
    workers = 0 if device.type == "cpu" else 4
    loader: DataLoader[Any] = DataLoader(data, batch_sampler=order, collate_fn=stack, num_workers=workers)
    network.train()
    losses: list[float] = []
    for step, (inputs, targets) in enumerate(loader, start):
        torch.manual_seed(seed * _STEPS + step)  # what the network itself draws
        for group in optimiser.param_groups:
            group["lr"] = rate_at(recipe, step, per_epoch)
        optimiser.zero_grad()
        with accelerator.autocast():
            logits = logits_of(network(inputs.to(device)))
        loss = _loss(logits, targets.to(device), recipe.smoothing)
        accelerator.backward(loss)
        optimiser.step()
        losses.append(float(loss.detach()))
        if not math.isfinite(losses[-1]):
            raise CounterfactoryError(f"the loss is {losses[-1]} at step {step + 1}: take a lower rate in the recipe")
        done = step + 1
        if done % max(1, total // _LINES) == 0:
            say(f"step {done} of {total}, loss {sum(losses) / len(losses):.3f}")
            losses.clear()
        if done % max(1, min(per_epoch, total // _KEPT)) == 0 or done == total:
            _keep(accelerator, folder, done)
    return accelerator.unwrap_model(network).eval()  # type: ignore[no-any-return]


def _loss(logits: torch.Tensor, targets: torch.Tensor, smoothing: float) -> torch.Tensor:
    if logits.ndim == 4:
        height, width = targets.shape[1:]
        logits = scaled(logits, (height, width))
    return F.cross_entropy(logits.float(), targets, ignore_index=IGNORED, label_smoothing=smoothing)


def _restore(accelerator: Accelerator, folder: Path) -> int:
    """Goes on from the last checkpoint; returns the steps that were taken, 0 without one."""
    kept = sorted(folder.glob(f"{_CHECKPOINT}*"), key=lambda path: int(path.name.removeprefix(_CHECKPOINT)))
    if not kept:
        return 0
    accelerator.load_state(str(kept[-1]))
    return int(kept[-1].name.removeprefix(_CHECKPOINT))


def _keep(accelerator: Accelerator, folder: Path, step: int) -> None:
    """Writes a checkpoint beside its place, so that none is ever half there, and drops those before it."""
    aside = folder / "unfinished"
    shutil.rmtree(aside, ignore_errors=True)
    accelerator.save_state(str(aside))
    aside.rename(folder / f"{_CHECKPOINT}{step}")
    for old in folder.glob(f"{_CHECKPOINT}*"):
        if old.name != f"{_CHECKPOINT}{step}":
            shutil.rmtree(old)
