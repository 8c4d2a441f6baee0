"""A protected region: blended at every level of noise with the source's latents, as a slow loop over diffusers does it;
which pixels it has, and what is refused.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from diffusers import DDIMScheduler
from numpy.typing import NDArray
from PIL import Image
from test_paint import CASES, CONTROL_SCALE, DDIM, NEGATIVE, assert_same_picture, noise_of, orders, settings_of
from tiny_desk import image_name, numbers, tiny_run, tiny_sources
from tiny_networks import TinyPainter, tiny_painter

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.models.denoiser import PaintPlans
from counterfactory.engine.models.networks import networks_of
from counterfactory.engine.models.picture_networks import LatentEncoder
from counterfactory.engine.profile.paint import ProtectSettings
from counterfactory.engine.profile.profile import load_profile
from counterfactory.engine.sources.data_set import SetOptions, read_set
from counterfactory.engine.sources.source import Source, load_mask
from counterfactory.engine.stages.paint.paint_variants import PaintJob, paint
from counterfactory.engine.stages.paint.protect import ProtectedRegion, feathered, keep_regions, shrink, without_masks

Floats = NDArray[np.float32]
WHOLE = ProtectSettings(("0",), 0.0, 1.0)
CASE = CASES["ddim, guided on the second half"]


@pytest.fixture(scope="module")
def painter() -> TinyPainter:
    return tiny_painter()


@pytest.fixture(scope="module")
def plans(painter: TinyPainter) -> PaintPlans:
    return painter.plans(32, 32, batch=3, streams=1, decode_batch=2)


def kept(until: float, share: Floats) -> ProtectedRegion:
    return ProtectedRegion(
        np.random.default_rng(8).standard_normal((4, 16, 16)).astype(np.float32), share, replace(WHOLE, until=until)
    )


SHARE = np.clip(np.linspace(-0.5, 1.5, 16, dtype=np.float32), 0, 1)[None].repeat(16, 0)


def painted(plans: PaintPlans, region: ProtectedRegion | None, case: Any = CASE) -> NDArray[np.uint8]:
    order = orders()[0]
    job = PaintJob(order.key, order.text, plans.embed_hints(order.edges[None])[0], plans, region=region)
    ((_, picture),) = paint([job], NEGATIVE, settings_of(case))
    return picture


def by_hand(painter: TinyPainter, region: ProtectedRegion, held: int) -> NDArray[np.uint8]:
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
    found: NDArray[np.uint8] = np.rint((pixels.numpy().transpose(1, 2, 0) / 2 + 0.5).clip(0, 1) * 255).astype(np.uint8)
    return found


@pytest.mark.parametrize(("until", "held"), [(1.0, 4), (0.5, 2), (0.51, 3)])
def test_latents_are_blended_at_every_level_that_is_held(
    painter: TinyPainter, plans: PaintPlans, until: float, held: int
) -> None:
    region = kept(until, SHARE)
    assert_same_picture(painted(plans, region), by_hand(painter, region, held))
    distance = by_hand(painter, region, held).astype(int) - by_hand(painter, region, held - 1).astype(int)
    assert np.abs(distance).mean() > 0.3, "another number of steps would not be seen"


@pytest.mark.parametrize("case", ["unipc, guided in the middle", "lcm, guided on the first half"])
def test_what_is_held_to_the_end_is_the_source_and_what_is_not_kept_is_untouched(plans: PaintPlans, case: str) -> None:
    whole = kept(1.0, np.ones((16, 16), np.float32))
    (decoded,) = plans.decode([whole.latents])()
    np.testing.assert_array_equal(painted(plans, whole, CASES[case]), decoded)
    nothing = kept(1.0, np.zeros((16, 16), np.float32))
    np.testing.assert_array_equal(painted(plans, nothing, CASES[case]), painted(plans, None, CASES[case]))


# Which pixels.


def test_a_feather_falls_off_around_the_region_alone() -> None:
    region = np.zeros((9, 9), bool)
    region[4, 4] = True
    found = feathered(region, 4.0)
    assert (found.dtype, found[4, 4]) == (np.float32, 1)
    np.testing.assert_allclose(found[4], [0, 0.25, 0.5, 0.75, 1, 0.75, 0.5, 0.25, 0], atol=1e-6)
    np.testing.assert_allclose(found[3, 3], 1 - 2**0.5 / 4, atol=1e-6)
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


# Who has to know of the encoder.


def test_the_encoder_is_a_network_of_profiles_that_protect() -> None:
    pocket = load_profile("pocket")
    assert "vae_encoder" not in networks_of(pocket)
    found = networks_of(replace(pocket, protect=WHOLE))["vae_encoder"]
    assert (found.plan, found.batch) == ("vae_encoder", pocket.paint.decode_batch)
    assert (list(found.rows), found.rows["paint"].of_source(5)) == (["paint"], 1)
    assert found.sizes == {"pixel_values": "picture"}
    assert found.moved_bytes == 4 * (4 + 3 * 64) * (128 // 8) ** 2


def test_pictures_are_encoded_from_minus_1_to_1() -> None:
    class Network:
        def run(self, feeds: Any) -> Any:
            return {"latents": feeds["pixel_values"]}

    found = LatentEncoder(Network()).encode(np.array([[[[0, 51, 255]]]], np.uint8))  # type: ignore[arg-type]
    assert (found.dtype, found.shape) == (np.float32, (1, 3, 1, 1))
    np.testing.assert_allclose(found.ravel(), [-1, -0.6, 1], atol=1e-6)
