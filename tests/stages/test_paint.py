"""Painting against diffusers' own ControlNet pipeline: whole pictures, from the noise of a key to RGB."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import patch

import numpy as np
import pytest
import torch
from diffusers import DDIMScheduler, LCMScheduler, StableDiffusionControlNetPipeline, UniPCMultistepScheduler
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image
from tiny_desk import image_name, numbers, tiny_run, tiny_sources
from tiny_networks import FACTOR, TOKENS, WIDTH, TinyPainter, TorchSession, copied, step_shapes, torch_plan

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.models.batching import Batched
from counterfactory.engine.models.denoiser import PaintPlans
from counterfactory.engine.models.picture_networks import LatentEncoder
from counterfactory.engine.models.sampler import Sampler
from counterfactory.engine.profile.paint import (
    GuidanceSettings,
    PaintSettings,
    ProtectSettings,
    ReuseSettings,
    SamplerSettings,
)
from counterfactory.engine.sources.data_set import SetOptions, read_set
from counterfactory.engine.sources.source import Source, load_mask
from counterfactory.engine.stages.paint.paint_variants import PaintJob, paint
from counterfactory.engine.stages.paint.protect import ProtectedRegion, feathered, keep_regions, shrink, without_masks
from counterfactory.export.graphs import modules

Pixels = NDArray[np.uint8]
Floats = NDArray[np.float32]
PlansOf = dict[tuple[int, int], PaintPlans]

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


def painted(plans: PlansOf, wanted: Sequence[Order], settings: PaintSettings) -> dict[int, Pixels]:
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


BETAS: dict[str, Any] = {"beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear", "steps_offset": 1}


def scheduler_of(sampler: SamplerSettings) -> Any:
    own = {"prediction_type": sampler.prediction, "timestep_spacing": sampler.spacing}
    common: dict[str, Any] = {**BETAS, **own, "rescale_betas_zero_snr": sampler.zero_snr}
    if sampler.kind == "ddim":
        return DDIMScheduler(**common, clip_sample=False)
    return (LCMScheduler if sampler.kind == "lcm" else UniPCMultistepScheduler)(**common)


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

    parts = {"vae": painter.vae, "unet": painter.unet, "controlnet": painter.controlnet}
    nothing = dict.fromkeys(("text_encoder", "tokenizer", "safety_checker", "feature_extractor"))
    scheduler = scheduler_of(case.sampler)
    pipeline = StableDiffusionControlNetPipeline(**parts, **nothing, scheduler=scheduler, requires_safety_checker=False)
    pipeline.set_progress_bar_config(disable=True)
    height, width = order.edges.shape
    latents = noise_of(order.key, (1, 4, height // FACTOR, width // FACTOR))
    added = count()

    def drawn(shape: Sequence[int], **_: Any) -> torch.Tensor:
        return torch.from_numpy(noise_of(order.key, tuple(shape), f"lcm {next(added)}"))

    edges, texts = order.edges[None, None].astype(np.float32) / 255, (order.text[None], NEGATIVE[None])
    names = ("image", "prompt_embeds", "negative_prompt_embeds", "latents")
    arrays = dict(zip(names, map(torch.from_numpy, (edges, *texts, latents)), strict=True))
    steps = {"num_inference_steps": len(scales), "guidance_scale": scales[0], "callback_on_step_end": next_scale}
    with torch.no_grad(), patch("diffusers.schedulers.scheduling_lcm.randn_tensor", drawn):
        images = pipeline(**arrays, **steps, controlnet_conditioning_scale=CONTROL_SCALE, output_type="np").images
        (picture,) = images
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
def test_pictures_are_those_of_diffusers_pipeline(painter: TinyPainter, plans: PlansOf, case: Case) -> None:
    found = painted(plans, orders(), settings_of(case))
    for place in (1, 6):  # of each size
        assert_same_picture(found[place], reference(painter, orders()[place], case))


def test_evaluations_and_decodes_are_full_and_none_is_made_for_nothing(
    plans: PlansOf, monkeypatch: pytest.MonkeyPatch
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
def test_a_picture_is_the_same_whatever_it_is_painted_one(plans: PlansOf, case: str) -> None:
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


def test_guidance_begins_at_its_start_and_ends_before_its_stop() -> None:
    for start, stop, steps, guided in (
        (0.0, 0.5, 4, [True, True, False, False]),
        (0.25, 0.75, 4, [False, True, True, False]),
        (0.3, 0.6, 4, [False, False, True, False]),
        (1.0, 1.0, 4, [False, False, False, False]),
        (0.0, 0.5, 1, [True]),
    ):
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
    latents = np.random.default_rng(8).standard_normal((4, 16, 16)).astype(np.float32)
    return ProtectedRegion(latents, share, replace(WHOLE, until=until))


SHARE = np.clip(np.linspace(-0.5, 1.5, 16, dtype=np.float32), 0, 1)[None].repeat(16, 0)


def painted_one(plans_32: PaintPlans, region: ProtectedRegion | None, case: Any = CASE) -> Pixels:
    order = orders()[0]
    job = PaintJob(order.key, order.text, plans_32.embed_hints(order.edges[None])[0], plans_32, region=region)
    ((_, picture),) = paint([job], NEGATIVE, settings_of(case))
    return picture


Blend = Callable[[int, Any, Any, Any], Any]


@torch.no_grad()
def denoised(
    painter: TinyPainter,
    order: Order,
    guided: Sequence[bool],
    blend: Blend = lambda i, latents, noise, scheduler: latents,
    noting: list[int] | None = None,
) -> torch.Tensor:
    """Latents by DDIM over diffusers' networks, written out, `blend` after each step; `noting` is told step and row."""
    scheduler = DDIMScheduler(**BETAS, clip_sample=False)
    scheduler.set_timesteps(len(guided))
    noise = torch.from_numpy(noise_of(order.key, (1, 4, 16, 16)))
    latents, edges = noise, torch.from_numpy(order.edges[None, None].astype(np.float32) / 255)
    for i, t in enumerate(scheduler.timesteps):
        outputs = []
        for row, text in enumerate((order.text, NEGATIVE)[: 1 + guided[i]]):
            if noting is not None:
                noting[:] = i, row
            states = torch.from_numpy(text[None])
            step = latents, t, states
            down, mid = painter.controlnet(*step, edges, conditioning_scale=CONTROL_SCALE, return_dict=False)
            outputs.append(painter.unet(*step, None, None, None, None, None, down, mid).sample)
        output = outputs[1] + 3.0 * (outputs[0] - outputs[1]) if guided[i] else outputs[0]
        latents = blend(i, scheduler.step(output, t, latents).prev_sample, noise, scheduler)
    return latents


@torch.no_grad()
def by_hand(painter: TinyPainter, region: ProtectedRegion, held: int) -> Pixels:
    """Latents that are blended after the first `held` steps, decoded."""
    clean, share = torch.from_numpy(region.latents[None]), torch.from_numpy(region.share)

    def blend(i: int, latents: Any, noise: Any, scheduler: Any) -> Any:
        if i >= held:
            return latents
        last = i == len(scheduler.timesteps) - 1
        source = clean if last else scheduler.add_noise(clean, noise, scheduler.timesteps[i + 1])
        return share * source + (1 - share) * latents

    latents = denoised(painter, orders()[0], CASE.guided, blend)
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


# Deep features that serve several steps: the same bytes in whatever order, batch or company variants are painted.

Floats = NDArray[np.float32]
SIDE, LATENT = 16, (4, 16, 16)
MIDDLE = GuidanceSettings(3.0, 0.2, 0.6)
PAINT = PaintSettings(replace(DDIM, steps=5), MIDDLE, "denoiser", 1.4, "", BATCH, 1, 2)


def test_a_step_is_whole_after_every_few_and_where_guidance_begins() -> None:
    for guidance, every, whole in (
        (GuidanceSettings(1.0, 0.0, 1.0), 2, "10101"),
        (GuidanceSettings(3.0, 0.0, 1.0), 3, "10010"),
        (MIDDLE, 2, "11010"),  # guided from the second step on
        (GuidanceSettings(3.0, 0.6, 1.0), 2, "10110"),
        (GuidanceSettings(3.0, 0.0, 0.4), 5, "10000"),  # where guidance ends nothing is missing
    ):
        paint = replace(PAINT, guidance=guidance)
        assert paint.whole_steps == [True] * 5
        assert paint.shallow_rows == 0
        reusing = replace(paint, reuse=ReuseSettings(every))
        assert "".join("01"[one] for one in reusing.whole_steps) == whole
        rows = [1 + guidance.guides(i, 5) for i in range(5)]
        assert reusing.shallow_rows == sum(n for n, one in zip(rows, whole, strict=True) if one == "0")
        assert reusing.rows_per_variant == sum(rows)


EDGES = (np.random.default_rng(5).random((2 * SIDE, 2 * SIDE)) < 0.2).astype(np.uint8) * 255


@dataclass(frozen=True)
class Kept(PaintPlans):
    """Plans that decode nothing: what is painted are the latents."""

    def decode(self, latents: Sequence[Any]) -> Callable[[], list[Any]]:
        return lambda: [np.array(one) for one in latents]


def reusing_plans(painter: TinyPainter) -> Kept:
    plans = painter.plans(2 * SIDE, 2 * SIDE, batch=BATCH, streams=1, decode_batch=2)
    copy, shapes = copied(painter.controlnet), step_shapes(BATCH, SIDE, SIDE)
    control = {"hint_embedding": (BATCH, 16, SIDE, SIDE), "control_scale": (BATCH,)}
    whole = modules.WholeDenoiser(painter.unet, copy)
    around = {name: shape for name, shape in shapes.items() if name != "text"} | control
    deep = {"deep": (BATCH, modules.deep_channels(painter.unet), SIDE, SIDE)}
    return Kept(
        plans.hint,
        torch_plan(whole, "prediction deep", **shapes, **control),
        plans.decoder,
        LATENT,
        shallow=torch_plan(modules.ShallowDenoiser(painter.unet, copy), "prediction", **around, **deep),
    )


def overwritten(painter: TinyPainter, text: Floats, key: str, whole: str) -> Floats:
    """The same by hand, whole networks at each step, in which deep features are overwritten at some."""
    layer, held, step = painter.unet.up_blocks[-1].resnets[-2], dict[int, torch.Tensor](), [0, 0]

    def overwrite(_: Any, passed: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        (joined, *more), (i, row) = passed, step
        own = joined.shape[1] - painter.unet.conv_in.out_channels
        if whole[i] == "1":
            held[row] = joined[:, :own]
        return torch.cat([held[row], joined[:, own:]], 1), *more

    hook = layer.register_forward_pre_hook(overwrite)
    latents = denoised(painter, Order(key, text, EDGES), (False, True, True, False, False), noting=step)
    hook.remove()
    return np.asarray(latents[0], np.float32)


def test_latents_are_those_of_whole_networks_whose_deep_features_are_overwritten(painter: TinyPainter) -> None:
    plans = reusing_plans(painter)
    (hint,) = plans.embed_hints(EDGES[None])
    jobs = [PaintJob(f"variant {i}", text_states(i), hint, plans) for i in range(3)]
    found = dict(paint(jobs, NEGATIVE, replace(PAINT, reuse=ReuseSettings(2))))
    often = dict(paint(jobs, NEGATIVE, PAINT))
    for i in range(3):
        for latents, whole in ((found, "11010"), (often, "11111")):
            slow = overwritten(painter, text_states(i), f"variant {i}", whole)
            np.testing.assert_allclose(latents[i], slow, atol=2e-4)
        assert np.abs(found[i] - often[i]).max() > 1e-2, "features of another step would not be seen"


# Order, batch and resuming, over networks of a few sums, row by row.


class Sums:
    """A denoiser whose deep feature is half of its answer; refuses a batch that is too large, and mixed rows."""

    def __init__(self, batch: int, whole: bool) -> None:
        self.batch, self.whole, self.rows = batch, whole, 0
        names = ("latents", "timestep", "hint_embedding", "control_scale", "text" if whole else "deep")
        self.signature = SimpleNamespace(inputs=[SimpleNamespace(name=name) for name in names])

    def run(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        assert len(feeds["latents"]) <= self.batch
        assert set(feeds) == {port.name for port in self.signature.inputs}
        self.rows += len(feeds["latents"])
        of_rows = [answer({name: of[i] for name, of in feeds.items()}) for i in range(len(feeds["latents"]))]
        names = ("prediction", "deep") if self.whole else ("prediction",)
        return {name: np.stack(values) for name, values in zip(names, zip(*of_rows, strict=True), strict=False)}


def answer(row: Mapping[str, Any]) -> tuple[Floats, Floats]:
    time = np.float32(row["timestep"]) / np.float32(1000)
    deep = row["deep"] if "deep" in row else np.tanh(row["latents"] * time + row["text"].mean())
    return np.tanh(deep + row["latents"] * np.float32(0.3) + row["hint_embedding"] * row["control_scale"] * time), deep


def written_out(key: str, text: Floats, hint: Floats, how: PaintSettings) -> Floats:
    """The schedule written out: a variant by itself, a row at a time."""
    sampler, latents, history = Sampler(how.sampler), noise_of(key, LATENT), Sampler(how.sampler).start
    since, kept, before = 0, dict[int, Floats](), False
    for i, timestep in enumerate(sampler.timesteps.tolist()):
        guided, since = how.guidance.guides(i, how.sampler.steps), since + 1
        if i == 0 or how.reuse is None or since == how.reuse.every or (guided and not before):
            kept, since = {}, 0
        before, outputs = guided, []
        for number, states in enumerate((text, NEGATIVE)[: 1 + guided]):
            row = {"latents": latents, "timestep": timestep, "hint_embedding": hint, "control_scale": np.float32(1.4)}
            output, kept[number] = answer(row | ({"deep": kept[number]} if number in kept else {"text": states}))
            outputs.append(output)
        scale = np.float32(how.guidance.scale)
        output = outputs[1] + scale * (outputs[0] - outputs[1]) if guided else outputs[0]
        latents, history = sampler.step(i, latents, output, history)
    return latents


def sums(batch: int) -> Kept:
    whole, shallow = (cast(Batched, Sums(batch, form)) for form in (True, False))
    return Kept(whole, whole, whole, LATENT, shallow=shallow)


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_order_batch_and_resuming_change_no_byte(data: st.DataObject) -> None:
    start, stop = sorted(data.draw(st.tuples(*[st.sampled_from([0.0, 0.2, 0.4, 0.5, 0.8, 1.0])] * 2)))
    every = data.draw(st.none() | st.integers(2, 4))
    sampler = SamplerSettings("unipc", data.draw(st.integers(1, 7)), "v_prediction", "trailing", True)
    guidance = GuidanceSettings(data.draw(st.sampled_from([1.0, 3.0])), start, stop)
    reuse = None if every is None else ReuseSettings(every)
    how = replace(PAINT, sampler=sampler, guidance=guidance, reuse=reuse, decode_batch=data.draw(st.integers(1, 3)))
    hints = [np.full(LATENT, value, np.float32) for value in (-0.5, 0.5)]
    count = data.draw(st.integers(1, 7))
    alone = [written_out(f"variant {i}", text_states(i), hints[i % 2], how) for i in range(count)]

    def paint_all(numbers: Sequence[int], batch: int) -> tuple[dict[int, Floats], Kept]:
        plans = sums(batch)
        jobs = [PaintJob(f"variant {i}", text_states(i), hints[i % 2], plans) for i in numbers]
        painted = paint(jobs, NEGATIVE, replace(how, batch=batch))
        return {numbers[place]: cast(Floats, latents) for place, latents in painted}, plans

    order, batch = data.draw(st.permutations(range(count))), data.draw(st.integers(1, 5))
    done = data.draw(st.integers(0, count))
    found, plans = paint_all(order, batch)
    rest = paint_all(order[done:], data.draw(st.integers(1, 5)))[0]
    for i, latents in enumerate(alone):
        np.testing.assert_array_equal(found[i], latents)
        if i in rest:
            np.testing.assert_array_equal(rest[i], latents)
    rows = [cast(Sums, plan).rows for plan in (plans.denoiser, plans.shallow)]
    assert rows == [count * (how.rows_per_variant - how.shallow_rows), count * how.shallow_rows]
