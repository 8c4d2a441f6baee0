"""Painting against diffusers' own ControlNet pipeline: whole pictures, from the noise of a key to RGB."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
from diffusers import DDIMScheduler, LCMScheduler, StableDiffusionControlNetPipeline, UniPCMultistepScheduler
from numpy.typing import NDArray
from tiny_networks import FACTOR, TOKENS, WIDTH, TinyPainter, TorchSession, tiny_painter

from counterfactory.engine.models.denoiser import PaintPlans
from counterfactory.engine.profile.paint import GuidanceSettings, PaintSettings, SamplerSettings
from counterfactory.engine.stages.paint.paint_variants import PaintJob, paint

Image = NDArray[np.uint8]
Floats = NDArray[np.float32]

BATCH, STREAMS, DECODE_BATCH = 3, 2, 2
SIZES = ((32, 32), (32, 48))  # height, width
# UniPC takes any number of steps. diffusers' DDIM steps down by 1000 // steps, which lands on the next timestep where
# steps divide 1000.
UNIPC = SamplerSettings("unipc", 3, "v_prediction", "trailing", True)
DDIM = SamplerSettings("ddim", 4, "epsilon", "leading", False)
LCM = SamplerSettings("lcm", 4, "epsilon", "lcm", False)


@dataclass(frozen=True)
class Order:
    """One picture asked for: its key, its text and its hint."""

    key: str
    text: Floats
    edges: Image


@dataclass(frozen=True)
class Case:
    """Paint settings, and which steps the oracle guides: written out, not computed."""

    sampler: SamplerSettings
    guidance: GuidanceSettings
    guided: tuple[bool, ...]


CASES = {
    "unipc, guided all the way": Case(UNIPC, GuidanceSettings(4.0, 0.0, 1.0), (True, True, True)),
    "unipc, guided at the beginning": Case(UNIPC, GuidanceSettings(4.0, 0.0, 2 / 3), (True, True, False)),
    "unipc, guided in the middle": Case(UNIPC, GuidanceSettings(4.0, 1 / 3, 2 / 3), (False, True, False)),
    "ddim, guided all the way": Case(DDIM, GuidanceSettings(3.0, 0.0, 1.0), (True, True, True, True)),
    "ddim, guided on the second half": Case(DDIM, GuidanceSettings(3.0, 0.5, 1.0), (False, False, True, True)),
    "ddim, not guided": Case(DDIM, GuidanceSettings(1.0, 0.0, 1.0), (False, False, False, False)),
    "lcm, not guided": Case(LCM, GuidanceSettings(1.0, 0.0, 1.0), (False, False, False, False)),
    "lcm, guided on the first half": Case(LCM, GuidanceSettings(2.0, 0.0, 0.5), (True, True, False, False)),
}
CONTROL_SCALE = 1.4


@pytest.fixture(scope="module")
def painter() -> TinyPainter:
    return tiny_painter()


@pytest.fixture(scope="module")
def plans(painter: TinyPainter) -> dict[tuple[int, int], PaintPlans]:
    return {size: painter.plans(*size, batch=BATCH, streams=STREAMS, decode_batch=DECODE_BATCH) for size in SIZES}


def text_states(seed: int) -> Floats:
    return np.random.default_rng((1, seed)).standard_normal((TOKENS, WIDTH)).astype(np.float32)


NEGATIVE = text_states(99)


def orders() -> list[Order]:
    """Seven pictures in two sizes, of three texts and four edge maps: more rows than one evaluation takes."""
    rng = np.random.default_rng(5)
    edges = [(rng.random(SIZES[i % 2]) < 0.2).astype(np.uint8) * 255 for i in range(4)]
    return [Order(f"variant {i}", text_states(i % 3), edges[i % 4]) for i in range(7)]


def settings_of(case: Case, **changed: Any) -> PaintSettings:
    batches = (BATCH, STREAMS, DECODE_BATCH)
    settings = PaintSettings(case.sampler, case.guidance, "denoiser", CONTROL_SCALE, "", *batches)
    return replace(settings, **changed)


def painted(
    plans: dict[tuple[int, int], PaintPlans], wanted: Sequence[Order], settings: PaintSettings
) -> dict[int, Image]:
    jobs = []
    for order in wanted:
        own = plans[order.edges.shape[0], order.edges.shape[1]]
        jobs.append(PaintJob(order.key, order.text, own.embed_hints(order.edges[None])[0], own))
    found = list(paint(jobs, NEGATIVE, settings))
    assert sorted(place for place, _ in found) == list(range(len(wanted)))
    return dict(found)


def noise_of(key: str, shape: tuple[int, ...], purpose: str = "noise") -> Floats:
    """Standard normal numbers of the counter-based generator whose key is the SHA-256 of the variant's."""
    philox = np.random.Philox(key=int.from_bytes(hashlib.sha256(f"{key}/{purpose}".encode()).digest()[:16], "little"))
    return np.random.Generator(philox).standard_normal(shape, np.float32)


def scheduler_of(sampler: SamplerSettings) -> Any:
    common: dict[str, Any] = {
        "beta_start": 0.00085,
        "beta_end": 0.012,
        "beta_schedule": "scaled_linear",
        "steps_offset": 1,
        "prediction_type": sampler.prediction,
        "timestep_spacing": sampler.spacing,
        "rescale_betas_zero_snr": sampler.zero_snr,
    }
    if sampler.kind == "ddim":
        return DDIMScheduler(**common, clip_sample=False)
    if sampler.kind == "lcm":
        return LCMScheduler(**common)
    return UniPCMultistepScheduler(**common)


def reference(painter: TinyPainter, order: Order, case: Case) -> Image:
    """The picture that diffusers' pipeline makes. It combines two rows at every step: a step that is not guided is one
    at a scale beside 1, which leaves the row with the text within the last bit or two of a float32.
    """
    beside_one = float(np.nextafter(1, 2))
    scales = [case.guidance.scale if guided else beside_one for guided in case.guided]

    def next_scale(pipeline: Any, step: int, timestep: int, tensors: dict[str, Any]) -> dict[str, Any]:
        if step + 1 < len(scales):
            pipeline._guidance_scale = scales[step + 1]
        return {}

    pipeline = StableDiffusionControlNetPipeline(
        vae=painter.vae,
        text_encoder=None,
        tokenizer=None,
        unet=painter.unet,
        controlnet=painter.controlnet,
        scheduler=scheduler_of(case.sampler),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )
    pipeline.set_progress_bar_config(disable=True)
    height, width = order.edges.shape
    latents = noise_of(order.key, (1, 4, height // FACTOR, width // FACTOR))
    added = count()

    def drawn(shape: Sequence[int], **_: Any) -> torch.Tensor:
        return torch.from_numpy(noise_of(order.key, tuple(shape), f"lcm {next(added)}"))

    with torch.no_grad(), patch("diffusers.schedulers.scheduling_lcm.randn_tensor", drawn):
        (picture,) = pipeline(
            image=torch.from_numpy(order.edges[None, None].astype(np.float32) / 255),
            prompt_embeds=torch.from_numpy(order.text[None]),
            negative_prompt_embeds=torch.from_numpy(NEGATIVE[None]),
            latents=torch.from_numpy(latents),
            num_inference_steps=len(scales),
            guidance_scale=scales[0],
            controlnet_conditioning_scale=CONTROL_SCALE,
            callback_on_step_end=next_scale,
            output_type="np",
        ).images
    return np.asarray(np.rint(picture * 255), np.uint8)


def apart(one: Image, other: Image) -> float:
    """The mean distance of two pictures in grey levels."""
    return float(np.abs(one.astype(int) - other.astype(int)).mean())


def assert_same_picture(found: Image, expected: Image) -> None:
    """Equal but for rounding: float32 sums in another order move a value by some 1e-5 of the range, a tenth of a grey
    level at most, so that only values near the middle between two levels round to the neighbour.
    """
    assert found.dtype == np.uint8
    assert found.shape == expected.shape
    assert expected.std() > 20, "a flat reference would prove nothing"
    assert ((expected > 0) & (expected < 255)).mean() > 0.5, "a reference out of range would prove little"
    distance = np.abs(found.astype(int) - expected.astype(int))
    assert distance.max() <= 1
    assert (distance > 0).mean() < 0.01


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_pictures_are_those_of_diffusers_pipeline(
    painter: TinyPainter, plans: dict[tuple[int, int], PaintPlans], case: Case
) -> None:
    found = painted(plans, orders(), settings_of(case))
    for place in (1, 6):  # of each size
        assert_same_picture(found[place], reference(painter, orders()[place], case))


def test_evaluations_and_decodes_are_full_and_none_is_made_for_nothing(
    plans: dict[tuple[int, int], PaintPlans], monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []
    run = TorchSession.run

    def counted(self: TorchSession, feeds: Any, hold: Any = ()) -> dict[str, Any]:
        ran.append(type(self.module).__name__)
        return run(self, feeds, hold)

    monkeypatch.setattr(TorchSession, "run", counted)
    wanted = [replace(orders()[0], key=f"variant {i}") for i in range(2 * DECODE_BATCH * BATCH)]
    painted(plans, wanted, settings_of(CASES["ddim, guided on the second half"]))
    runs = Counter(ran)
    least = len(wanted) * (1 + 1 + 2 + 2) // BATCH
    # When no variant is left to begin, a batch of each step may stay partly empty.
    assert least <= runs.pop("FusedDenoiser") <= least + DDIM.steps
    assert runs == {"HintEncoder": len(wanted), "VaeDecoder": len(wanted) // DECODE_BATCH}


@pytest.mark.parametrize("case", ["unipc, guided in the middle", "lcm, guided on the first half"])
def test_a_picture_is_the_same_whatever_it_is_painted_with(plans: dict[tuple[int, int], PaintPlans], case: str) -> None:
    settings = settings_of(CASES[case])
    found = painted(plans, orders(), settings)
    alone = [painted(plans, [order], settings)[0] for order in orders()]
    backward = painted(plans, orders()[::-1], settings)
    for place, picture in enumerate(alone):
        np.testing.assert_array_equal(found[place], picture)
        np.testing.assert_array_equal(backward[len(alone) - 1 - place], picture)
    keys = painted(plans, [replace(orders()[0], key=key) for key in ("one", "two", "one")], settings)
    np.testing.assert_array_equal(keys[0], keys[2])
    assert apart(keys[0], keys[1]) > 5


@pytest.mark.parametrize(
    ("start", "stop", "steps", "guided"),
    [
        (0.0, 1.0, 4, [True, True, True, True]),
        (0.0, 0.5, 4, [True, True, False, False]),
        (0.25, 0.75, 4, [False, True, True, False]),
        (0.3, 0.6, 4, [False, False, True, False]),
        (0.5, 0.5, 4, [False, False, False, False]),
        (1.0, 1.0, 4, [False, False, False, False]),
        (0.0, 0.0, 1, [False]),
        (0.0, 0.5, 1, [True]),
    ],
)
def test_guidance_begins_at_its_start_and_ends_before_its_stop(
    start: float, stop: float, steps: int, guided: list[bool]
) -> None:
    settings = GuidanceSettings(2.0, start, stop)
    assert [settings.guides(step, steps) for step in range(steps)] == guided
    assert not any(GuidanceSettings(1.0, start, stop).guides(step, steps) for step in range(steps))
    case = Case(replace(DDIM, steps=steps), settings, tuple(guided))
    assert settings_of(case).rows_per_variant == steps + sum(guided)
