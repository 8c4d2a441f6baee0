"""The loop that every pocket model is trained by: from fixed seeds, resumable, with a log that can be plotted.

A training is a function from the step's number to a loss. Everything random in a step is drawn from generators
seeded by (seed, step), and the learning rate is a function of the step, so that a run that was interrupted goes
on as if it had not been. State is written aside and renamed.
"""

from __future__ import annotations

import copy
import json
import math
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import torch
from diffusers.models.upsampling import Upsample2D
from torch import Tensor, nn

from counterfactory.engine.files.writing import open_whole

M = TypeVar("M", bound=nn.Module)


@dataclass(frozen=True)
class Recipe:
    """How long and how fast to train. `ema` is the decay of the averaged weights, None for no averaging."""

    steps: int
    lr: float
    seed: int
    weight_decay: float = 1e-2
    warmup: int = 100
    ema: float | None = None
    save_every: int = 200
    log_every: int = 25
    clip: float = 1.0

    def rate(self, step: int) -> float:
        """Learning rate of a step: linear warm-up, then a cosine to 2 % of the peak."""
        ramp = min(1.0, (step + 1) / self.warmup)
        return self.lr * ramp * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * step / self.steps)))


def fit(name: str, module: M, recipe: Recipe, loss_of: Callable[[int], Tensor], work: Path) -> M:
    """Train `module` by `loss_of(step)` and return it with its final (averaged) weights.

    `work/name.pt` holds the state of an unfinished or finished training; a finished one is loaded and returned at
    once. `work/name.jsonl` gets a line of step, loss and seconds every `log_every` steps.
    """
    work.mkdir(parents=True, exist_ok=True)
    state_file, log_file = work / f"{name}.pt", work / f"{name}.jsonl"
    params = [p for p in module.parameters() if p.requires_grad]
    optimiser = torch.optim.AdamW(params, recipe.lr, betas=(0.9, 0.99), weight_decay=recipe.weight_decay)
    average = [p.detach().clone() for p in params] if recipe.ema else []
    start = 0
    if state_file.exists():
        state = torch.load(state_file, weights_only=True)
        module.load_state_dict(state["module"])
        optimiser.load_state_dict(state["optimiser"])
        average, start = state["average"], state["step"]
    module.train()
    losses: list[float] = []
    began = time.monotonic()
    for step in range(start, recipe.steps):
        torch.manual_seed(recipe.seed * 1_000_003 + step)
        for group in optimiser.param_groups:
            group["lr"] = recipe.rate(step)
        loss = loss_of(step)
        optimiser.zero_grad()
        torch.autograd.backward(loss)
        nn.utils.clip_grad_norm_(params, recipe.clip)
        optimiser.step()
        if recipe.ema:
            decay = min(recipe.ema, (1 + step) / (10 + step))
            torch._foreach_lerp_(average, [p.detach() for p in params], 1 - decay)
        losses.append(float(loss.detach()))
        if (step + 1) % recipe.log_every == 0:
            row = {"step": step + 1, "loss": sum(losses) / len(losses), "s": round(time.monotonic() - began, 1)}
            losses.clear()
            with log_file.open("a") as log:
                log.write(json.dumps(row) + "\n")
        if (step + 1) % recipe.save_every == 0 or step + 1 == recipe.steps:
            states = {"module": module.state_dict(), "optimiser": optimiser.state_dict()}
            with open_whole(state_file) as file:
                torch.save({**states, "average": average, "step": step + 1}, file)
    if recipe.ema:
        with torch.no_grad():
            for p, mean in zip(params, average, strict=True):
                p.copy_(mean)
    return module.eval()


def compiled(module: nn.Module) -> Callable[..., Tensor]:
    """The module's forward and backward passes compiled by inductor, where there is a C++ compiler to do it.

    On a CPU this takes minutes once and then saves a third of each step of a network of many small layers.

    What is compiled is a copy on the module's own parameters, which doubles pictures by repeating them: the backward
    pass that inductor (of torch 2.13) makes of a nearest interpolation between two convolutions is zero in bfloat16 on
    channels-last tensors, and nothing before it would ever be trained.
    """
    if shutil.which("c++") is None:
        return module
    shared = copy.deepcopy(module, {id(parameter): parameter for parameter in module.parameters()})
    for part in shared.modules():
        if isinstance(part, Upsample2D):
            part.interpolate = False
            part.register_forward_pre_hook(_double)
    faster: Callable[..., Tensor] = torch.compile(shared)
    return faster


def _double(part: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    pixels, *rest = inputs
    return pixels.repeat_interleave(2, -2).repeat_interleave(2, -1), *rest


def channels_last(net: nn.Module) -> None:
    """Lay the weights out as the CPU's convolutions like them."""
    net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch 2.13's stub lacks the keyword


def batches(seed: int, step: int, size: int, population: int) -> Tensor:
    """Indices of a step's batch, int64 [size], drawn from `population` items."""
    generator = torch.Generator().manual_seed(seed * 1_000_003 + step)
    return torch.randint(population, (size,), generator=generator)
