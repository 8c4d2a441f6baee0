"""Distils the pocket denoiser: a student paints in a few rows what its teacher paints in many, guidance folded in.

The student is the same network, begun with the teacher's weights. From the teacher's own noise it takes the few steps
that the engine will take with it (DDIM, unguided) and is held, after each, to where the teacher's way leads at that
timestep; gradients pass through all of its steps, so that the first learns to suit the last. Squared errors alone
leave the average of what it cannot tell apart, which is blur. So decoded pictures are compared as well, by pixels,
gradients and how much detail there is in each small region, and a critic of latents (Goodfellow et al. 2014, arXiv
1406.2661; hinge loss and projection as in Miyato & Koyama 2018, arXiv 1802.05637) tells them from those of pictures
that were rendered to the same caption.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from diffusers import AutoencoderTiny
from diffusers.models.attention_processor import AttnProcessor
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.models.sampler import Sampler
from counterfactory.engine.profile.paint import GuidanceSettings, PaintSettings

from ..graphs.modules import FusedDenoiser, VaeDecoder
from .denoiser import Denoiser
from .lessons import Lessons
from .training import Recipe, batches, channels_last, compiled, fit
from .vae import detail, gradients

# The plan of a student; in 8 bits it is this with "_int8".
STUDENT = "denoiser_few"
# A step takes 1.3 s of one core, a lesson 0.08 s.
RECIPE = Recipe(steps=800, lr=2e-4, seed=41, weight_decay=1e-3, ema=0.995, save_every=100)
POOL, FRESH, BATCH = 1024, 4, 24
_CROP = 16  # of latents, that are decoded for the loss: a quarter of a picture


@dataclass(frozen=True)
class Terms:
    """What each part of the loss weighs: errors of latents by class, those of decoded pixels and gradients, of the
    amount of detail, and what the critic says.
    """

    latents: float = 1.0
    picture: float = 0.5
    detail: float = 1.0
    critic: float = 0.02


def student_paint(teacher: PaintSettings, steps: int) -> PaintSettings:
    """How a student of `steps` rows paints that was distilled from a denoiser used as `teacher` says."""
    unguided = GuidanceSettings(scale=1.0, start=0.0, stop=0.0)
    sampler = replace(teacher.sampler, kind="ddim", steps=steps)
    return replace(teacher, denoiser=STUDENT, sampler=sampler, guidance=unguided)


def kept_steps(teacher: PaintSettings, student: PaintSettings) -> tuple[int, ...]:
    """Which of the teacher's steps begin at the timesteps of the student's, and its end.

    Raises CounterfactoryError where the teacher does not come by.
    """
    theirs, own = (Sampler(paint.sampler).timesteps.tolist() for paint in (teacher, student))
    if not set(own) <= set(theirs):
        lacking = f"of which the teacher's {len(theirs)} steps lack {sorted(set(own) - set(theirs))}"
        advice = "ask for a number of steps that divides the teacher's"
        raise CounterfactoryError(f"a student of {len(own)} steps visits timesteps {own}, {lacking}; {advice}")
    return (*(theirs.index(timestep) for timestep in own), len(theirs))


class Critic(nn.Module):
    """Latents [B, C, h, w] with their text [B, T, D] and hint embedding [B, D', h, w] to scores of patches [B, P]."""

    def __init__(self, channels: int, hint_width: int, text_width: int) -> None:
        super().__init__()
        self.hint = nn.Conv2d(hint_width, 16, 1)
        widths = (48, 64, 96)
        first, *others = zip((channels + 16, *widths), widths, strict=False)
        self.layers = nn.ModuleList([nn.Conv2d(*first, 3, 1, 1), *(nn.Conv2d(a, b, 3, 2, 1) for a, b in others)])
        self.score = nn.Conv2d(widths[-1], 1, 1)
        self.text = nn.Linear(text_width, widths[-1])

    def forward(self, latents: Tensor, text: Tensor, hint: Tensor) -> Tensor:
        x = torch.cat([latents, self.hint(hint)], 1)
        for layer in self.layers:
            x = F.leaky_relu(layer(x), 0.2)
        said = self.text(text.mean(1))[:, :, None, None]
        scores: Tensor = (self.score(x) + (x * said).mean(1, keepdim=True)).flatten(1)
        return scores


def few_steps(
    predict: Callable[..., Tensor], sampler: Sampler, noise: Tensor, text: Tensor, hint: Tensor, scale: Tensor
) -> list[tuple[Tensor, float]]:
    """The student's latents [B, C, h, w] after each step, and the share of its prediction in them."""
    latents, found = noise, []
    for i, timestep in enumerate(sampler.timesteps.tolist()):
        weights = sampler.weights(i)
        t = torch.full((len(latents),), timestep, dtype=torch.int64)
        with torch.autocast("cpu", torch.bfloat16):
            output = predict(latents, t, text, hint, scale)
        clean = weights.clean[0] * latents + weights.clean[1] * output.float()
        latents = weights.advance[0] * latents + weights.advance[1] * clean
        found.append((latents, weights.advance[1]))
    return found


def distil(
    work: Path,
    student: Denoiser,
    vae: AutoencoderTiny,
    lessons: Lessons,
    settings: PaintSettings,
    recipe: Recipe,
    terms: Terms = Terms(),
    batch: int = BATCH,
) -> FusedDenoiser:
    """Train `student`, which begins as the teacher and paints by `settings`, or load the finished training, from
    `work`. Its hint encoders are the teacher's, and are cut off.
    """
    sampler = Sampler(settings.sampler)
    for part in (student.unet, student.controlnet):
        part.set_attn_processor(AttnProcessor())
    fused = FusedDenoiser(student.unet, student.controlnet)
    channels_last(fused)
    torch.manual_seed(recipe.seed)
    config = student.unet.config
    critic = Critic(config.in_channels, student.controlnet.config.block_out_channels[0], config.cross_attention_dim)
    decoder = VaeDecoder(vae).requires_grad_(False)
    predict = compiled(fused)

    def loss_of(step: int) -> Tensor:
        lessons.advance(step)
        index = batches(recipe.seed, step, batch, lessons.size)
        ways, text, hint = lessons.ways[index], lessons.texts[index].float(), lessons.hints[index].float()
        scale = torch.full((batch,), float(settings.control_scale))
        weights = lessons.truth.weights[index]
        noise = ways[:, 0].contiguous(memory_format=torch.channels_last)
        found = few_steps(predict, sampler, noise, text, hint, scale)
        loss = torch.zeros(())
        for (latents, share), wanted in zip(found, ways[:, 1:].unbind(1), strict=True):
            loss = loss + terms.latents * (weights * ((latents - wanted) / share).square()).mean()
        made, truth = found[-1][0], lessons.truth.latents[index]
        loss = loss + _picture_loss(decoder, made, ways[:, -1], terms)
        if terms.critic:
            loss = loss + _critic_loss(critic, made, truth, text, hint, terms)
        return loss

    both = nn.ModuleDict({"student": fused, "critic": critic})  # they take turns within every step
    fit(f"distil_{settings.sampler.steps}", both, recipe, loss_of, work)
    return fused.eval()


def _picture_loss(decoder: VaeDecoder, made: Tensor, wanted: Tensor, terms: Terms) -> Tensor:
    """Of one region of all pictures, since decoding costs as much as a row of the denoiser."""
    if not terms.picture and not terms.detail:
        return torch.zeros(())
    room = made.shape[-2] - _CROP + 1
    y, x = (int(torch.randint(max(1, room), ())) for _ in range(2))
    crop = (..., slice(y, y + _CROP), slice(x, x + _CROP))
    with torch.autocast("cpu", torch.bfloat16):
        ours = decoder(made[crop]).float()
        with torch.no_grad():
            theirs = decoder(wanted[crop]).float()
    pixels = (ours - theirs).abs().mean() + 2 * (gradients(ours) - gradients(theirs)).abs().mean()
    loss: Tensor = terms.picture * pixels + terms.detail * (detail(ours) - detail(theirs)).abs().mean()
    return loss


def _critic_loss(critic: Critic, made: Tensor, truth: Tensor, text: Tensor, hint: Tensor, terms: Terms) -> Tensor:
    """The student's part, in which the critic stands still, and the critic's, in which the student does."""

    def noised(latents: Tensor) -> Tensor:
        return latents + 0.1 * torch.randn_like(latents)

    still = {name: value.detach() for name, value in critic.named_parameters()}
    asked = functional_call(critic, still, (noised(made), text, hint))
    false, true = critic(noised(made.detach()), text, hint), critic(noised(truth), text, hint)
    loss: Tensor = F.relu(1 + false).mean() + F.relu(1 - true).mean() - terms.critic * asked.mean()
    return loss
