"""Painting against diffusers' own ControlNet pipeline: whole pictures, from the noise of a key to RGB."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
from diffusers import DDIMScheduler, LCMScheduler, StableDiffusionControlNetPipeline, UniPCMultistepScheduler
from numpy.typing import NDArray
from PIL import Image
from tiny_desk import image_name, numbers, tiny_run, tiny_sources
from tiny_networks import FACTOR, TOKENS, WIDTH, TinyPainter, TorchSession

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.models.denoiser import PaintPlans
from counterfactory.engine.models.picture_networks import LatentEncoder
from counterfactory.engine.profile.paint import GuidanceSettings, PaintSettings, ProtectSettings, SamplerSettings
from counterfactory.engine.sources.data_set import SetOptions, read_set
from counterfactory.engine.sources.source import Source, load_mask
from counterfactory.engine.stages.paint.paint_variants import PaintJob, paint
from counterfactory.engine.stages.paint.protect import ProtectedRegion, feathered, keep_regions, shrink, without_masks

Pixels = NDArray[np.uint8]
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
    edges: Pixels


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
) -> dict[int, Pixels]:
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


def reference(painter: TinyPainter, order: Order, case: Case) -> Pixels:
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


def apart(one: Pixels, other: Pixels) -> float:
    """The mean distance of two pictures in grey levels."""
    return float(np.abs(one.astype(int) - other.astype(int)).mean())


def assert_same_picture(found: Pixels, expected: Pixels) -> None:
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
def test_a_picture_is_the_same_whatever_it_is_painted_one(plans: dict[tuple[int, int], PaintPlans], case: str) -> None:
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
        (0.0, 0.5, 4, [True, True, False, False]),
        (0.25, 0.75, 4, [False, True, True, False]),
        (0.3, 0.6, 4, [False, False, True, False]),
        (1.0, 1.0, 4, [False, False, False, False]),
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


# A protected region: blended at every level of noise with the source's latents, as a slow loop over diffusers does it.

WHOLE = ProtectSettings(("0",), 0.0, 1.0)
CASE = CASES["ddim, guided on the second half"]


@pytest.fixture(scope="module")
def plans_32(painter: TinyPainter) -> PaintPlans:
    return painter.plans(32, 32, batch=3, streams=1, decode_batch=2)


def kept(until: float, share: Floats) -> ProtectedRegion:
    return ProtectedRegion(
        np.random.default_rng(8).standard_normal((4, 16, 16)).astype(np.float32), share, replace(WHOLE, until=until)
    )


SHARE = np.clip(np.linspace(-0.5, 1.5, 16, dtype=np.float32), 0, 1)[None].repeat(16, 0)


def painted_one(plans_32: PaintPlans, region: ProtectedRegion | None, case: Any = CASE) -> Pixels:
    order = orders()[0]
    job = PaintJob(order.key, order.text, plans_32.embed_hints(order.edges[None])[0], plans_32, region=region)
    ((_, picture),) = paint([job], NEGATIVE, settings_of(case))
    return picture


def by_hand(painter: TinyPainter, region: ProtectedRegion, held: int) -> Pixels:
    """DDIM over diffusers' networks, written out, whose latents are blended after the first `held` steps."""
    order, guided = orders()[0], CASE.guided
    scheduler = DDIMScheduler(
        beta_start=0.00085, beta_end=0.012, beta_schedule="scaled_linear", steps_offset=1, clip_sample=False
    )
    scheduler.set_timesteps(DDIM.steps)
    noise = torch.from_numpy(noise_of(order.key, (1, 4, 16, 16)))
    clean, share = torch.from_numpy(region.latents[None]), torch.from_numpy(region.share)
    edges = torch.from_numpy(order.edges[None, None].astype(np.float32) / 255)
    latents, steps = noise, scheduler.timesteps
    with torch.no_grad():
        for i, t in enumerate(steps):
            outputs = []
            for text in (order.text, NEGATIVE):
                states = torch.from_numpy(text[None])
                down, mid = painter.controlnet(
                    latents, t, states, edges, conditioning_scale=CONTROL_SCALE, return_dict=False
                )
                outputs.append(painter.unet(latents, t, states, None, None, None, None, None, down, mid).sample)
            output = outputs[1] + 3.0 * (outputs[0] - outputs[1]) if guided[i] else outputs[0]
            latents = scheduler.step(output, t, latents).prev_sample
            if i < held:
                last = i == len(steps) - 1
                source = clean if last else scheduler.add_noise(clean, noise, steps[i + 1])
                latents = share * source + (1 - share) * latents
        pixels = painter.vae.decode(latents / painter.vae.config.scaling_factor).sample[0]
    found: Pixels = np.rint((pixels.numpy().transpose(1, 2, 0) / 2 + 0.5).clip(0, 1) * 255).astype(np.uint8)
    return found


@pytest.mark.parametrize(("until", "held"), [(1.0, 4), (0.5, 2), (0.51, 3)])
def test_latents_are_blended_at_every_level_that_is_held(
    painter: TinyPainter, plans_32: PaintPlans, until: float, held: int
) -> None:
    region = kept(until, SHARE)
    assert_same_picture(painted_one(plans_32, region), by_hand(painter, region, held))
    distance = by_hand(painter, region, held).astype(int) - by_hand(painter, region, held - 1).astype(int)
    assert np.abs(distance).mean() > 0.3, "another number of steps would not be seen"


@pytest.mark.parametrize("case", ["unipc, guided in the middle", "lcm, guided on the first half"])
def test_what_is_held_to_the_end_is_the_source_and_what_is_not_is_untouched(plans_32: PaintPlans, case: str) -> None:
    whole = kept(1.0, np.ones((16, 16), np.float32))
    (decoded,) = plans_32.decode([whole.latents])()
    np.testing.assert_array_equal(painted_one(plans_32, whole, CASES[case]), decoded)
    nothing = kept(1.0, np.zeros((16, 16), np.float32))
    np.testing.assert_array_equal(painted_one(plans_32, nothing, CASES[case]), painted_one(plans_32, None, CASES[case]))


# Which pixels.


def test_a_feather_falls_off_around_the_region_alone() -> None:
    region = np.zeros((9, 9), bool)
    region[4, 4] = True
    found = feathered(region, 4.0)
    assert (found.dtype, found[4, 4]) == (np.float32, 1)
    np.testing.assert_allclose(found[4], [0, 0.25, 0.5, 0.75, 1, 0.75, 0.5, 0.25, 0], atol=1e-6)
    np.testing.assert_allclose(found[3, 3], 1 - 2**0.5 / 4, atol=1e-6)
    assert found.min() == found[0, 0] == 0, "nothing is less than not kept"
    np.testing.assert_array_equal(feathered(region, 0.0), region.astype(np.float32))
    small = found[:8, :8].reshape(2, 4, 4, 2).mean((1, 3))
    np.testing.assert_allclose(shrink(found[:8, :8], (2, 4)), small, rtol=1e-6)


@pytest.fixture
def sources(tmp_path: Path) -> list[Source]:
    """Four pictures; classes 0, 1 and 2 lie in columns of their masks, of the last one class 0 alone."""
    root = tmp_path / "set"
    for source in tiny_sources(root, 4):
        columns = np.arange(source.size[1])[None].repeat(source.size[0], 0) * 3 // source.size[1]
        mask = (columns * (source.name != "3")).astype(np.uint8)
        Image.fromarray(mask).save(root / "masks" / f"{source.name}.png")
    return read_set(str(root), SetOptions()).sources


def test_variants_keep_the_pixels_of_the_classes_that_are_named(sources: list[Source], tmp_path: Path) -> None:
    settings = ProtectSettings(("2", "1"), 2.0, 0.5)
    same = [sources[0], sources[3]]
    with tiny_run(tmp_path / "suite", sources) as run:
        first, last = keep_regions(run.of(protect=settings), same, run.pictures)
        image = run.pictures.of(same)[sources[0].key]
        assert run.networks.opened == ["vae_encoder 32 32"]
        assert run.networks.calls["vae_encoder"] == [[image_name(image)]]
        assert last is None, "its mask shows neither"
        assert first is not None
        assert first.settings is settings
        np.testing.assert_array_equal(first.latents, numbers(image_name(image), 4, 16, 16))
        region = load_mask(sources[0], (32, 32)) > 0
        np.testing.assert_array_equal(first.share, shrink(feathered(region, 2.0), (16, 16)))
        assert keep_regions(run.of(protect=settings), [sources[3]], run.pictures) == [None]
        assert len(run.networks.opened) == 1
        assert run.pictures.problems == []


def test_classes_go_by_their_names_where_the_set_has_them(sources: list[Source], tmp_path: Path) -> None:
    (tmp_path / "map.toml").write_text('[classes]\n0 = "sky"\n1 = "road"\n2 = "car"\n')
    named = read_set(str(tmp_path / "set"), SetOptions(class_map=str(tmp_path / "map.toml"))).sources
    with tiny_run(tmp_path / "suite", named) as run:
        (found,) = keep_regions(run.of(protect=ProtectSettings(("road",), 0.0, 1.0)), named[:1], run.pictures)
        assert found is not None
        np.testing.assert_array_equal(found.share, shrink(feathered(load_mask(named[0], (32, 32)) == 1, 0), (16, 16)))
        assert keep_regions(run.of(protect=ProtectSettings(("1",), 0.0, 1.0)), named[:1], run.pictures) == [None]
    assert without_masks(ProtectSettings(("car",), 0.0, 1.0), named) == {}
    with pytest.raises(CounterfactoryError) as caught:
        without_masks(ProtectSettings(("sky", "cat"), 0.0, 1.0), named)
    assert str(caught.value) == (
        "[protect] names the class 'cat', which the data set does not have; there are car, road, sky"
    )


def test_a_mask_that_cannot_be_read_protects_nothing_and_says_so(sources: list[Source], tmp_path: Path) -> None:
    assert sources[0].mask_path is not None
    sources[0].mask_path.unlink()
    with tiny_run(tmp_path / "suite", sources) as run:
        assert keep_regions(run.of(protect=ProtectSettings(("1",), 0.0, 1.0)), sources[:1], run.pictures) == [None]
        (problem,) = run.pictures.problems
        assert (problem.name, "0.png: there is no file" in problem.reason) == ("0", True)


def test_sources_without_masks_are_left_out_with_advice(sources: list[Source]) -> None:
    settings = ProtectSettings(("1",), 0.0, 1.0)
    bare = replace(sources[1], mask_path=None)
    assert without_masks(None, [bare]) == {}
    reasons = without_masks(settings, [sources[0], bare])
    assert [(source.name, reason) for source, reason in reasons.items()] == [
        ("1", "it has no mask (masks/ beside images/, or --masks DIR), which [protect] needs")
    ]
    with pytest.raises(CounterfactoryError, match=r"^\[protect\] needs masks .*, and no source has one: give them, or"):
        without_masks(settings, [bare])
    with pytest.raises(CounterfactoryError, match=r"names the class 'car', .*; its masks have numbers alone \(see"):
        without_masks(replace(settings, classes=("car",)), sources)
    assert without_masks(settings, []) == {}


def test_pictures_are_encoded_from_minus_1_to_1() -> None:
    class Network:
        def run(self, feeds: Any) -> Any:
            return {"latents": feeds["pixel_values"]}

    found = LatentEncoder(Network()).encode(np.array([[[[0, 51, 255]]]], np.uint8))  # type: ignore[arg-type]
    assert (found.dtype, found.shape) == (np.float32, (1, 3, 1, 1))
    np.testing.assert_allclose(found.ravel(), [-1, -0.6, 1], atol=1e-6)
