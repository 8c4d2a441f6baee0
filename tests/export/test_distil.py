"""Distillation: lessons are the teacher's ways as the engine paints them, the student's steps are the engine's, each
term does its part, guidance ends up in the student's weights, and those are packed.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch
from exporter import run_exporter
from numpy.typing import NDArray
from tiny_networks import TOKENS, WIDTH, copied, tiny_denoiser, tiny_painter
from torch.nn import functional as F

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.keys import generator
from counterfactory.engine.meter.meter import Meter
from counterfactory.engine.models.denoiser import DenoiserRow
from counterfactory.engine.models.model_pool import ModelPool
from counterfactory.engine.models.networks import library_of
from counterfactory.engine.models.sampler import Sampler
from counterfactory.engine.pocket.worlds import EMBEDDED
from counterfactory.engine.profile.paint import GuidanceSettings
from counterfactory.engine.profile.profile import Profile, load_profile
from counterfactory.engine.profile.runtime import ModelPaths
from counterfactory.engine.runtime.openvino import open_session
from counterfactory.export.graphs.modules import FusedDenoiser, HintEncoder, VaeDecoder
from counterfactory.export.pocket import distil as at
from counterfactory.export.pocket import pack, vae
from counterfactory.export.pocket.denoiser import Denoiser, noise_schedule
from counterfactory.export.pocket.distil import Critic, Terms, distil, few_steps, gradients, kept_steps, student_paint
from counterfactory.export.pocket.lessons import STREAM, Lessons, Teacher
from counterfactory.export.pocket.restore import restore_denoiser
from counterfactory.export.pocket.training import Recipe

POCKET = load_profile("pocket-full").paint
FULL = replace(POCKET, sampler=replace(POCKET.sampler, steps=4), batch=2, streams=1)
FULL = replace(FULL, control_scale=1.2, negative_prompt="fog")
Floats = NDArray[np.float32]


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def encode(texts: Sequence[str]) -> Floats:
    return np.stack([generator(text, "states").standard_normal((TOKENS, WIDTH), np.float32) for text in texts])


def painting(scale: float, start: float = 0.0, stop: float = 1.0) -> Teacher:
    """A teacher of four steps, guided from `start` to `stop`."""
    painter = tiny_painter()
    encoder = HintEncoder(copied(painter.controlnet))

    @torch.no_grad()
    def embed(hints: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = encoder(F.adaptive_max_pool2d(hints, 32))
        return found

    plans = painter.plans(32, 32, batch=2, streams=1, decode_batch=2)
    return Teacher(plans, replace(FULL, guidance=GuidanceSettings(scale, start, stop)), encode, embed)


def way_by_hand(one: Teacher, key: str, text: Floats, hint: Floats) -> Floats:
    """The latents on a variant's way, row by row, the middle two steps guided by the equation."""
    sampler, guidance = Sampler(one.settings.sampler), one.settings.guidance
    latents, history = generator(key, "noise").standard_normal((4, 16, 16), np.float32), sampler.start
    way = [latents]

    def output(timestep: int, states: Floats) -> Any:
        row = DenoiserRow(latents, timestep, states, hint, one.settings.control_scale)
        return one.plans.evaluate([row])[0].prediction.copy()

    for i, timestep in enumerate(sampler.timesteps.tolist()):
        found = output(timestep, text)
        if guidance.scale != 1 and i in (1, 2):
            without = output(timestep, encode(["fog"])[0])
            found = without + np.float32(guidance.scale) * (found - without)
        latents, history = sampler.step(i, latents, found, history)
        way.append(latents)
    return np.stack(way)


def test_a_lesson_s_way_is_the_guided_one_from_the_variants_own_noise() -> None:
    strong, texts, keys = painting(3.0, 0.25, 0.75), encode(["a red car", "a bus at night"]), ["a", "b"]
    hints = np.random.default_rng(1).standard_normal((2, 16, 16, 16)).astype(np.float32)
    found = strong.ways(keys, texts, hints)
    assert found.shape == (2, 5, 4, 16, 16)
    for number, key in enumerate(keys):
        wanted = way_by_hand(strong, key, texts[number], hints[number])
        np.testing.assert_allclose(found[number], wanted, atol=1e-4 * np.abs(wanted).max())
    weak = replace(strong.settings, guidance=GuidanceSettings(1.0, 0.25, 0.75))
    without = way_by_hand(replace(strong, settings=weak), "b", texts[1], hints[1])
    assert np.abs(without[2:] - found[1, 2:]).mean() > 0.1 * found.std()


def lessons(size: int = 4, fresh: int = 2) -> Lessons:
    autoencoder = vae.build()  # as many channels as the tiny denoiser's
    autoencoder.register_to_config(scaling_factor=0.5)
    return Lessons(painting(1.0), autoencoder, (0, 2, 4), size, fresh)


def test_lessons_are_own_captions_over_the_other_appearances_edges_and_go_on_as_if_they_had_not_stopped() -> None:
    straight, resumed = lessons(), lessons()
    assert straight.advance(0) == [0, 1, 2, 3]
    assert straight.advance(1) == [0, 1]
    scenes = straight.truth.scenes
    for slot in range(4):
        rng = np.random.default_rng((STREAM, scenes.number(slot)))
        states = encode([EMBEDDED.describe(scenes.scenes[slot], rng)])[0]
        torch.testing.assert_close(straight.texts[slot].float(), torch.from_numpy(states), atol=1e-2, rtol=0)
        wanted = straight.teacher.embed(straight.truth.edges[[slot ^ 1]].float() / 255)[0]
        atol = 1e-2 * float(wanted.abs().max())
        torch.testing.assert_close(straight.hints[slot].float(), wanted, atol=atol, rtol=0)
        assert not torch.allclose(straight.hints[slot], straight.hints[slot ^ 1], atol=1e-2)
    assert len(resumed.advance(1)) == 4
    for name in ("ways", "texts", "hints"):
        held, again = getattr(straight, name), getattr(resumed, name)
        assert held.flatten(1).std(1).min() > 0
        torch.testing.assert_close(held, again, atol=1e-4, rtol=1e-4)  # rows of other batches round otherwise
    assert torch.equal(straight.truth.latents, resumed.truth.latents)
    assert resumed.advance(1) == []


def test_lessons_come_in_pairs() -> None:
    for size, fresh in ((3, 2), (4, 1)):
        with pytest.raises(ValueError, match=f"pairs of a layout, got {size} and {fresh} new ones at a step"):
            lessons(size, fresh)


@pytest.mark.parametrize(("steps", "kept"), [(1, (0, 8)), (2, (0, 4, 8)), (4, (0, 2, 4, 6, 8)), (8, (*range(9),))])
def test_a_student_of_few_rows_is_held_to_where_its_teacher_comes_by(steps: int, kept: tuple[int, ...]) -> None:
    few = student_paint(POCKET, steps)
    assert kept_steps(POCKET, few) == kept
    ours, theirs = (Sampler(paint.sampler).timesteps for paint in (few, POCKET))
    assert [theirs[i] for i in kept[:-1]] == ours.tolist()
    assert few.rows_per_variant == steps
    assert (replace(few, denoiser="denoiser_few_int8") == load_profile("pocket").paint) == (steps == 2)


def test_a_student_that_goes_elsewhere_is_refused() -> None:
    with pytest.raises(CounterfactoryError, match=r"of 3 steps visits timesteps \[999, 666, 332\].* lack \[332, 666\]"):
        kept_steps(POCKET, student_paint(POCKET, 3))


def test_its_steps_are_the_engines() -> None:
    """What it learns to do in torch is what the engine does with it, and what diffusers' DDIM does."""
    few = replace(painting(1.0), settings=student_paint(FULL, 2))
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
    assert len(found) == 2
    scheduler = noise_schedule()
    scheduler.set_timesteps(2)
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

    def __init__(self, size: int = 4) -> None:
        self.size, self.steps_seen = size, list[int]()
        self.teacher = painting(2.0)
        self.texts, self.hints = normal(size, TOKENS, WIDTH), normal(size, 16, 16, 16, seed=1)
        keys = [str(i) for i in range(size)]
        ways = self.teacher.ways(keys, self.texts.numpy(), self.hints.numpy())
        self.ways = torch.from_numpy(ways[:, list(kept_steps(FULL, student_paint(FULL, 2)))])
        self.truth = SimpleNamespace(weights=torch.ones(size, 1, 16, 16), latents=normal(size, 4, 16, 16, seed=2))

    def advance(self, step: int) -> None:
        self.steps_seen.append(step)


def trained(work: Path, lessons: Taught, steps: int, terms: Terms) -> torch.Tensor:
    """What a student paints of the lessons that was trained for some steps."""
    unet, controlnet = tiny_denoiser()
    recipe = Recipe(steps, lr=3e-3, seed=1, weight_decay=0.0, warmup=1, save_every=100)
    few = student_paint(FULL, 2)
    student = distil(work, Denoiser(unet, controlnet), vae.build(), cast(Lessons, lessons), few, recipe, terms, 4)
    scale = torch.full((lessons.size,), 1.2)
    with torch.no_grad():
        found = few_steps(student, Sampler(few.sampler), lessons.ways[:, 0], lessons.texts, lessons.hints, scale)
    return found[-1][0]


@pytest.fixture(autouse=True)
def uncompiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiling takes longer than these tests."""
    monkeypatch.setattr(at, "compiled", lambda module: module)


def test_guidance_ends_up_in_the_weights(tmp_path: Path) -> None:
    strong, plain = Taught(), Terms(latents=1.0, picture=0.0, detail=0.0, critic=0.0)

    def off(painted: torch.Tensor) -> float:
        return float((painted - strong.ways[:, -1]).square().mean())

    before = trained(tmp_path / "before", strong, 0, plain)
    after = trained(tmp_path / "after", strong, 16, plain)
    assert off(after) < 0.6 * off(before)
    assert strong.steps_seen == list(range(16))


def test_all_terms_move_the_student_whose_state_has_its_rows_name(tmp_path: Path) -> None:
    lessons = Taught()
    before, after = trained(tmp_path, lessons, 0, Terms()), trained(tmp_path, lessons, 1, Terms())
    assert not torch.equal(before, after)
    assert [path.name for path in tmp_path.glob("*.pt")] == ["distil_2.pt"]


def test_the_picture_s_terms_see_pixels_gradients_and_detail() -> None:
    step = torch.zeros(1, 3, 16, 16)
    step[..., 8:] = 1
    assert float(gradients(step).abs().sum()) == pytest.approx(3 * 15)
    decoder = VaeDecoder(vae.build())
    made, wanted = (normal(1, 4, 16, 16, seed=seed) for seed in range(2))

    def loss(picture: float, detail: float, of: torch.Tensor = made) -> float:
        with torch.no_grad():
            return float(at._picture_loss(decoder, of, wanted, Terms(1.0, picture, detail, 0.0)))

    assert loss(0, 0) == 0
    assert loss(1, 0) > 0
    assert loss(0, 1) > 0
    assert loss(1, 1, wanted) == pytest.approx(0, abs=1e-6)
    assert loss(2, 0) == pytest.approx(2 * loss(1, 0), rel=1e-5)
    assert loss(1, 1) == pytest.approx(loss(1, 0) + loss(0, 1), rel=1e-5)


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
        told = critic(given[0], *given[1:]).mean() - critic(made, *given[1:]).mean()
        for parameter, gradient in zip(critic.parameters(), none[:-1], strict=True):
            parameter -= 0.01 * gradient
        better = critic(given[0], *given[1:]).mean() - critic(made, *given[1:]).mean()
        assert better > told, "the critic learns to tell rendered latents"
        before = critic(made, *given[1:]).mean()
        after = critic(made - 0.05 * some[-1] / some[-1].abs().mean(), *given[1:]).mean()
        assert after > before, "the student is drawn to what the critic takes for rendered"
        shape = critic(made, *given[1:]).shape
        other = critic(made, given[1].flip(0), given[2])
        moved = critic(made, given[1], given[2].flip(0))
    assert shape == (3, 16)
    assert not torch.allclose(other, moved)


@pytest.mark.parametrize(("said", "rows"), [([], 2), (["--rows", "4"], 4)])
def test_the_command_line_says_how_many_rows(
    said: list[str], rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[pack.Training] = []
    monkeypatch.setitem(pack.STEPS, "distil", lambda training, weights: found.append(training))
    assert run_exporter("pocket", "--only", "distil", "--weights", str(tmp_path), *said) == 0
    assert [training.rows for training in found] == [rows]


@pytest.mark.slow
def test_an_untrained_student_is_its_teacher_packed_anew(
    packed_models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = tmp_path / "weights"
    shutil.copytree(packed_models, weights)
    monkeypatch.setattr(at, "RECIPE", replace(at.RECIPE, steps=0))
    really, teacher_of, taught = pack.pack_int8, Teacher.of, list[Profile]()

    def opened(profile: Profile, embed: Any) -> Teacher:
        taught.append(profile)
        return teacher_of(profile, embed)

    def calibrated(*given: Any, calibration_runs: int) -> None:
        assert calibration_runs > 64
        really(*given, calibration_runs=4)

    monkeypatch.setattr(pack.Teacher, "of", opened)
    monkeypatch.setattr(pack, "pack_int8", calibrated)
    pack.pack_distil(pack.Training(tmp_path / "work"), weights)
    assert [(one.paint, one.models.path) for one in taught] == [(POCKET, weights)]
    sizes = {"latents": (32, 32), "hint_embedding": (32, 32)}
    feeds = {"latents": normal(2, 4, 32, 32).numpy(), "timestep": np.array([999, 499])}
    feeds |= {"text": normal(2, 64, 192, seed=1).numpy(), "hint_embedding": normal(2, 32, 32, 32, seed=2).numpy()}
    feeds["control_scale"] = np.array([1.6, 1.0], np.float32)

    def predicted(name: str) -> Any:
        return open_session(weights / f"{name}.xml", batch=2, precision="f32", sizes=sizes).run(feeds)["prediction"]

    # The weights of few are rounded to fp16 a second time.
    wanted, few, integers = map(predicted, ("denoiser", "denoiser_few", "denoiser_few_int8"))
    assert wanted.std() > 0.1
    np.testing.assert_allclose(few, wanted, atol=5e-3 * np.abs(wanted).max())
    error = np.sqrt(np.mean((integers - wanted) ** 2) / np.mean(wanted**2))
    assert 1e-3 < error < 0.3
    model = restore_denoiser(weights, at.STUDENT)
    hint = torch.rand(1, 1, 128, 128)
    with torch.no_grad():
        embedded = model.controlnet.controlnet_cond_embedding(hint)
        known = restore_denoiser(weights).controlnet.controlnet_cond_embedding(hint)
        assert torch.equal(embedded, known)
        again = FusedDenoiser(model.unet, model.controlnet)(*map(torch.from_numpy, feeds.values()))
    np.testing.assert_allclose(again.numpy(), few, atol=5e-3 * np.abs(wanted).max())
    profile = replace(load_profile("pocket"), models=ModelPaths(str(weights)))
    plans = ModelPool(library_of(profile), Meter(lambda _: None)).paint_plans(128, 128)
    assert plans.latent_shape == (4, 32, 32)
