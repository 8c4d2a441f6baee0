"""What a student learns from: its teacher's way as the engine paints it, and the same after an interruption."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from tiny_networks import TOKENS, WIDTH, copied, tiny_painter
from torch.nn import functional as F

from counterfactory.engine.keys import generator
from counterfactory.engine.models.denoiser import DenoiserRow
from counterfactory.engine.models.sampler import Sampler
from counterfactory.engine.pocket.worlds import STREETS
from counterfactory.engine.profile.paint import GuidanceSettings, PaintSettings
from counterfactory.engine.profile.profile import load_profile
from counterfactory.export.graphs.modules import HintEncoder
from counterfactory.export.pocket import vae
from counterfactory.export.pocket.lessons import STREAM, Lessons, Teacher

SIDE = 32  # pixels of the tiny plans, whose latents have 16
Floats = NDArray[np.float32]


def encode(texts: Sequence[str]) -> Floats:
    return np.stack([generator(text, "states").standard_normal((TOKENS, WIDTH), np.float32) for text in texts])


def guided(scale: float) -> PaintSettings:
    """Four steps of the profile pocket-full, of which the middle two are guided."""
    paint = load_profile("pocket-full").paint
    guidance = GuidanceSettings(scale, 0.25, 0.75)
    sampler = replace(paint.sampler, steps=4)
    return replace(paint, sampler=sampler, guidance=guidance, batch=2, streams=1, negative_prompt="fog")


def teacher(paint: PaintSettings) -> Teacher:
    painter = tiny_painter()
    encoder = HintEncoder(copied(painter.controlnet))

    @torch.no_grad()
    def embed(hints: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = encoder(F.adaptive_max_pool2d(hints, SIDE))
        return found

    return Teacher(painter.plans(SIDE, SIDE, batch=2, streams=1, decode_batch=2), paint, encode, embed)


def way_by_hand(one: Teacher, key: str, text: Floats, hint: Floats) -> Floats:
    """The latents on a variant's way, row by row, guided by the equation."""
    sampler, guidance = Sampler(one.settings.sampler), one.settings.guidance
    latents, history = generator(key, "noise").standard_normal((4, 16, 16), np.float32), sampler.start
    way = [latents]

    def output(timestep: int, states: Floats) -> Any:
        row = DenoiserRow(latents, timestep, states, hint, one.settings.control_scale)
        return one.plans.evaluate([row])[0].copy()

    for i, timestep in enumerate(sampler.timesteps.tolist()):
        found = output(timestep, text)
        if guidance.scale != 1 and i in (1, 2):
            without = output(timestep, encode(["fog"])[0])
            found = without + np.float32(guidance.scale) * (found - without)
        latents, history = sampler.step(i, latents, found, history)
        way.append(latents)
    return np.stack(way)


def test_the_way_is_the_guided_one_from_the_variants_own_noise() -> None:
    strong, weak = teacher(guided(3.0)), teacher(guided(1.0))
    texts = encode(["a red car", "a bus at night", "rain"])
    hints = np.random.default_rng(1).standard_normal((3, 16, 16, 16)).astype(np.float32)
    keys = ["a", "b", "c"]
    found = strong.ways(keys, texts, hints)
    assert found.shape == (3, 5, 4, 16, 16)
    for number, key in enumerate(keys):
        wanted = way_by_hand(strong, key, texts[number], hints[number])
        np.testing.assert_allclose(found[number], wanted, atol=1e-4 * np.abs(wanted).max())
    without = weak.ways(keys, texts, hints)
    np.testing.assert_allclose(without[1], way_by_hand(weak, "b", texts[1], hints[1]), atol=1e-3)
    np.testing.assert_allclose(without[:, :2], found[:, :2], atol=1e-4)  # the first step is not guided
    assert np.abs(without[:, 2:] - found[:, 2:]).mean() > 0.1 * found.std()


def lessons(size: int = 4, fresh: int = 2) -> Lessons:
    autoencoder = vae.build(4)  # as many channels as the tiny denoiser's
    autoencoder.register_to_config(scaling_factor=0.5)
    return Lessons(teacher(guided(3.0)), autoencoder, (0, 2, 4), size, fresh)


def test_lessons_that_go_on_are_those_that_never_stopped() -> None:
    straight, resumed = lessons(), lessons()
    assert straight.advance(0) == [0, 1, 2, 3]
    assert straight.advance(1) == [0, 1]
    assert straight.advance(3) == [2, 3, 0, 1]
    assert len(resumed.advance(3)) == 4
    for name in ("ways", "texts", "hints"):
        held, again = getattr(straight, name), getattr(resumed, name)
        assert len(held.flatten(1).std(1)) == 4
        assert held.flatten(1).std(1).min() > 0
        torch.testing.assert_close(held, again, atol=1e-4, rtol=1e-4)  # rows of other batches round otherwise
    assert torch.equal(straight.truth.latents, resumed.truth.latents)
    assert resumed.advance(3) == []


def test_a_lesson_is_its_own_caption_over_the_other_appearances_edges() -> None:
    found = lessons()
    found.advance(0)
    scenes = found.truth.scenes
    assert not np.array_equal(scenes.images[0], scenes.images[1])
    for slot in range(4):
        caption = STREETS.describe(scenes.scenes[slot], np.random.default_rng((STREAM, slot)), False)
        torch.testing.assert_close(found.texts[slot].float(), torch.from_numpy(encode([caption])[0]), atol=1e-2, rtol=0)
        edges = found.truth.edges[[slot ^ 1]].float() / 255
        wanted = found.teacher.embed(edges)[0]
        torch.testing.assert_close(found.hints[slot].float(), wanted, atol=1e-2 * float(wanted.abs().max()), rtol=0)
        assert not torch.allclose(found.hints[slot], found.hints[slot ^ 1], atol=1e-2)


@pytest.mark.parametrize(("size", "fresh"), [(3, 2), (4, 1)])
def test_lessons_come_in_pairs(size: int, fresh: int) -> None:
    with pytest.raises(ValueError, match=f"pairs of a layout, got {size} and {fresh} new ones at a step"):
        lessons(size, fresh)
