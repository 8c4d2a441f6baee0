"""Distillation: the student's steps are the engine's, guidance ends up in its weights, and each term does its part."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch
from diffusers import DDIMScheduler
from tiny_networks import TOKENS, WIDTH, copied, tiny_denoiser, tiny_painter

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.models.sampler import Sampler
from counterfactory.engine.profile.paint import GuidanceSettings
from counterfactory.engine.profile.profile import load_profile
from counterfactory.export.graphs.modules import FusedDenoiser, VaeDecoder
from counterfactory.export.pocket import distil as at
from counterfactory.export.pocket import vae
from counterfactory.export.pocket.denoiser import Denoiser
from counterfactory.export.pocket.distil import (
    Critic,
    Terms,
    detail,
    distil,
    few_steps,
    gradients,
    kept_steps,
    student_paint,
)
from counterfactory.export.pocket.lessons import Lessons, Teacher
from counterfactory.export.pocket.training import Recipe

POCKET = load_profile("pocket-full").paint
FULL = replace(POCKET, sampler=replace(POCKET.sampler, steps=4), batch=2, streams=1, control_scale=1.2)


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def painting(guidance: GuidanceSettings) -> Teacher:
    plans = tiny_painter().plans(32, 32, batch=2, streams=1, decode_batch=2)
    empty = np.zeros((1, TOKENS, WIDTH), np.float32)
    return Teacher(plans, replace(FULL, guidance=guidance), lambda _: empty, lambda hint: hint)


def test_a_student_takes_as_many_rows_as_it_has_steps() -> None:
    few = student_paint(POCKET, 2)
    assert few.rows_per_variant == 2 < POCKET.rows_per_variant
    assert (few.denoiser, few.sampler.kind, few.sampler.steps) == ("denoiser_few", "ddim", 2)
    same = replace(few, denoiser=POCKET.denoiser, sampler=POCKET.sampler, guidance=POCKET.guidance)
    assert same == POCKET
    assert replace(few.sampler, kind=POCKET.sampler.kind, steps=8) == POCKET.sampler


@pytest.mark.parametrize(("steps", "kept"), [(1, (0, 8)), (2, (0, 4, 8)), (4, (0, 2, 4, 6, 8)), (8, (*range(9),))])
def test_a_student_is_held_to_where_its_teacher_comes_by(steps: int, kept: tuple[int, ...]) -> None:
    assert kept_steps(POCKET, student_paint(POCKET, steps)) == kept
    ours, theirs = (Sampler(p.sampler).timesteps for p in (student_paint(POCKET, steps), POCKET))
    assert [theirs[i] for i in kept[:-1]] == ours.tolist()


def test_a_student_that_goes_elsewhere_is_refused() -> None:
    with pytest.raises(CounterfactoryError, match=r"of 3 steps visits timesteps \[999, 666, 332\].* lack \[332, 666\]"):
        kept_steps(POCKET, student_paint(POCKET, 3))


@pytest.mark.parametrize("steps", [2, 4])
def test_its_steps_are_the_engines(steps: int) -> None:
    """What it learns to do in torch is what the engine does with it, and what diffusers' DDIM does."""
    unguided = painting(GuidanceSettings(1.0, 0.0, 0.0))
    few = replace(unguided, settings=student_paint(FULL, steps))
    text, hint = normal(1, TOKENS, WIDTH), normal(1, 16, 16, 16, seed=1)
    (way,) = few.ways(["key"], text.numpy(), hint.numpy())
    unet, controlnet = tiny_denoiser()
    fused = FusedDenoiser(unet, copied(controlnet)).eval()

    @torch.no_grad()
    def predict(*given: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", enabled=False):
            found: torch.Tensor = fused(*given)
        return found

    noise, scale = torch.from_numpy(way[:1]), torch.tensor([1.2])
    found = few_steps(predict, Sampler(few.settings.sampler), noise, text, hint, scale)
    assert len(found) == steps
    scheduler = DDIMScheduler(
        beta_start=0.00085,
        beta_end=0.012,
        beta_schedule="scaled_linear",
        prediction_type="v_prediction",
        rescale_betas_zero_snr=True,
        timestep_spacing="trailing",
        clip_sample=False,
    )
    scheduler.set_timesteps(steps)
    latents = noise
    for i, (timestep, (reached, share)) in enumerate(zip(scheduler.timesteps, found, strict=True)):
        output = predict(latents, timestep[None], text, hint, scale)
        latents = scheduler.step(output, timestep, latents).prev_sample
        torch.testing.assert_close(reached, latents, atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(reached[0], torch.from_numpy(way[i + 1]), atol=1e-4, rtol=1e-4)
        assert 0 < share <= 1
    assert found[-1][1] == pytest.approx(1)  # the last latents are the prediction


class Taught:
    """Lessons of tiny networks, always the same ones: the teacher's ways and what they were painted from."""

    def __init__(self, guidance: GuidanceSettings, size: int = 4, steps: int = 2) -> None:
        self.size, self.steps_seen = size, list[int]()
        self.teacher = painting(guidance)
        self.texts, self.hints = normal(size, TOKENS, WIDTH), normal(size, 16, 16, 16, seed=1)
        keys = [str(i) for i in range(size)]
        ways = self.teacher.ways(keys, self.texts.numpy(), self.hints.numpy())
        self.ways = torch.from_numpy(ways[:, list(kept_steps(FULL, student_paint(FULL, steps)))])
        self.truth = SimpleNamespace(weights=torch.ones(size, 1, 16, 16), latents=normal(size, 4, 16, 16, seed=2))

    def advance(self, step: int) -> None:
        self.steps_seen.append(step)


def trained(
    work: Path, lessons: Taught, steps: int, terms: Terms, recipe: Recipe | None = None, rows: int = 2
) -> tuple[FusedDenoiser, torch.Tensor]:
    """A student that was trained for some steps, and what it paints of the lessons."""
    unet, controlnet = tiny_denoiser()
    recipe = recipe or Recipe(steps, lr=3e-3, seed=1, weight_decay=0.0, warmup=1, save_every=steps)
    few, autoencoder = student_paint(FULL, rows), vae.build(4)
    student = distil(work, Denoiser(unet, controlnet), autoencoder, cast(Lessons, lessons), few, recipe, terms, 4)
    scale = torch.full((lessons.size,), 1.2)
    with torch.no_grad():
        found = few_steps(student, Sampler(few.sampler), lessons.ways[:, 0], lessons.texts, lessons.hints, scale)
    return student, found[-1][0]


@pytest.fixture(autouse=True)
def uncompiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiling takes longer than these tests."""
    monkeypatch.setattr(at, "compiled", lambda module: module)


def test_guidance_ends_up_in_the_weights(tmp_path: Path) -> None:
    strong, weak = (Taught(GuidanceSettings(scale, 0.0, 1.0)) for scale in (2.0, 1.0))
    plain = Terms(latents=1.0, picture=0.0, detail=0.0, critic=0.0)

    def off(painted: torch.Tensor, lessons: Taught) -> float:
        return float((painted - lessons.ways[:, -1]).square().mean())

    _, before = trained(tmp_path / "before", strong, 0, plain)
    _, after = trained(tmp_path / "after", strong, 16, plain)
    assert off(before, strong) > off(before, weak), "without training it is its unguided self"
    assert off(after, strong) < 0.6 * off(before, strong)
    assert off(after, strong) < off(after, weak)
    assert strong.steps_seen == list(range(16))


def test_an_interrupted_distillation_goes_on_as_if_it_had_not_been(tmp_path: Path) -> None:
    recipe = Recipe(3, lr=1e-3, seed=1, warmup=1, ema=0.5, save_every=1)
    lessons = Taught(GuidanceSettings(4.0, 0.0, 1.0))
    whole, _ = trained(tmp_path / "whole", lessons, 3, Terms(), recipe)

    def stop(step: int) -> None:
        if step == 2:
            raise InterruptedError

    advance: Callable[[int], None] = lessons.advance
    lessons.advance = stop  # type: ignore[method-assign]
    with pytest.raises(InterruptedError):
        trained(tmp_path / "cut", lessons, 3, Terms(), recipe)
    lessons.advance = advance  # type: ignore[method-assign]
    again, _ = trained(tmp_path / "cut", lessons, 3, Terms(), recipe)
    for (name, ours), theirs in zip(whole.named_parameters(), again.parameters(), strict=True):
        assert torch.equal(ours, theirs), name
    (tmp_path / "cut" / "distil_2.pt").rename(tmp_path / "cut" / "distil_4.pt")
    fresh, _ = trained(tmp_path / "cut", lessons, 3, Terms(), replace(recipe, steps=0))
    assert not torch.equal(next(fresh.parameters()), next(whole.parameters())), "another student's state was taken"


def test_the_picture_s_terms_see_pixels_and_lost_detail() -> None:
    blurred = torch.nn.functional.avg_pool2d(normal(2, 3, 32, 32), 3, 1, 1)
    sharp = normal(2, 3, 32, 32)
    assert detail(sharp).shape == (2, 1, 4, 4)
    assert (detail(blurred) < 0.5 * detail(sharp)).all()
    flat = detail(torch.full((1, 3, 24, 24), 0.5))
    assert float(flat[..., 1, 1]) == pytest.approx(0, abs=1e-6)
    step = torch.zeros(1, 3, 16, 16)
    step[..., 8:] = 1
    assert float(gradients(step).abs().sum()) == pytest.approx(3 * 15)
    decoder = VaeDecoder(vae.build(4))
    made, wanted, rendered = (normal(1, 4, 16, 16, seed=seed) for seed in range(3))

    def loss(picture: float, detail: float, of: torch.Tensor = made, truth: float = 0.0) -> float:
        with torch.no_grad():
            return float(at._picture_loss(decoder, of, wanted, rendered, Terms(1.0, picture, detail, 0.0, truth)))

    assert loss(0, 0) == 0
    assert loss(1, 0) > 0
    assert loss(0, 1) > 0
    assert loss(1, 1, wanted) == pytest.approx(0, abs=1e-6)
    assert loss(2, 0) == pytest.approx(2 * loss(1, 0), rel=1e-5)
    assert loss(1, 1) == pytest.approx(loss(1, 0) + loss(0, 1), rel=1e-5)
    assert loss(0, 1, wanted, truth=1.0) > 0
    assert loss(0, 1, rendered, truth=1.0) == pytest.approx(0, abs=1e-6)
    assert loss(0, 1, rendered, truth=0.5) == pytest.approx(0.5 * loss(0, 1, rendered), rel=1e-4)


def critic_gradients(weight: float, critic: Critic, made: torch.Tensor, given: tuple[Any, ...]) -> list[torch.Tensor]:
    """Gradients of the critic's weights and, last, of what it was shown."""
    torch.manual_seed(3)
    made = made.clone().requires_grad_()
    loss = at._critic_loss(critic, made, *given, Terms(critic=weight))
    return list(torch.autograd.grad(loss, [*critic.parameters(), made], allow_unused=True, materialize_grads=True))


def test_critic_and_student_learn_from_their_own_part_alone() -> None:
    torch.manual_seed(0)
    critic = Critic(4, 16, WIDTH)
    made = normal(3, 4, 16, 16)
    given = (normal(3, 4, 16, 16, seed=1), normal(3, TOKENS, WIDTH, seed=2), normal(3, 16, 16, 16, seed=3))
    none, some = (critic_gradients(weight, critic, made, given) for weight in (0.0, 5.0))
    for ours, theirs in zip(none[:-1], some[:-1], strict=True):
        torch.testing.assert_close(ours, theirs)
    assert sum(float(gradient.abs().sum()) for gradient in none[:-1]) > 0
    assert float(none[-1].abs().sum()) == 0, "the critic's own part moved the student"
    assert float(some[-1].abs().sum()) > 0
    with torch.no_grad():
        before = critic(made, *given[1:]).mean()
        after = critic(made - 0.05 * some[-1] / some[-1].abs().mean(), *given[1:]).mean()
        assert after > before, "the student is drawn to what the critic takes for rendered"
        shape = critic(made, *given[1:]).shape
        other = critic(made, given[1].flip(0), given[2])
        moved = critic(made, given[1], given[2].flip(0))
    assert shape == (3, 16)
    assert not torch.allclose(other, moved)


def test_a_critic_learns_to_tell_rendered_latents() -> None:
    torch.manual_seed(0)
    critic = Critic(4, 16, WIDTH)
    text, hint = normal(8, TOKENS, WIDTH), normal(8, 16, 16, 16)
    optimiser = torch.optim.AdamW(critic.parameters(), 3e-3)
    for step in range(30):
        made, truth = 0.5 * normal(8, 4, 16, 16, seed=step), normal(8, 4, 16, 16, seed=1000 + step)
        optimiser.zero_grad()
        torch.autograd.backward(at._critic_loss(critic, made, truth, text, hint, Terms()))
        optimiser.step()
    with torch.no_grad():
        made, truth = 0.5 * normal(8, 4, 16, 16, seed=77), normal(8, 4, 16, 16, seed=78)
        assert float(critic(truth, text, hint).mean()) > float(critic(made, text, hint).mean()) + 0.5
