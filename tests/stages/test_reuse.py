"""Deep features that serve several steps: whole pictures against a slow loop over diffusers' networks, and the same
bytes in whatever order, batch or company variants are painted.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch
from diffusers import DDIMScheduler
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tiny_networks import TOKENS, WIDTH, TinyPainter, copied, step_shapes, torch_plan

from counterfactory.engine.models.batching import Batched
from counterfactory.engine.models.denoiser import DenoiserRow, Evaluated, PaintPlans
from counterfactory.engine.models.sampler import Sampler
from counterfactory.engine.profile.paint import GuidanceSettings, PaintSettings, ReuseSettings, SamplerSettings
from counterfactory.engine.stages.paint.paint_variants import PaintJob, paint
from counterfactory.export.graphs import modules

Floats = NDArray[np.float32]
BATCH, SIDE, LATENT = 3, 16, (4, 16, 16)
DDIM = SamplerSettings("ddim", 5, "epsilon", "leading", False)
MIDDLE = GuidanceSettings(3.0, 0.2, 0.6)
PAINT = PaintSettings(DDIM, MIDDLE, "denoiser", 1.4, "", BATCH, 1, 2)


@pytest.mark.parametrize(
    ("guidance", "every", "whole"),
    [
        (GuidanceSettings(1.0, 0.0, 1.0), 2, "10101"),
        (GuidanceSettings(3.0, 0.0, 1.0), 3, "10010"),
        (MIDDLE, 2, "11010"),  # guided from the second step on
        (GuidanceSettings(3.0, 0.6, 1.0), 2, "10110"),
        (GuidanceSettings(3.0, 0.0, 0.4), 5, "10000"),  # where guidance ends nothing is missing
    ],
)
def test_a_step_is_whole_after_every_few_and_where_guidance_begins(
    guidance: GuidanceSettings, every: int, whole: str
) -> None:
    paint = replace(PAINT, guidance=guidance)
    assert paint.whole_steps == [True] * 5
    assert paint.shallow_rows == 0
    reusing = replace(paint, reuse=ReuseSettings(every))
    assert "".join("01"[one] for one in reusing.whole_steps) == whole
    rows = [1 + guidance.guides(i, 5) for i in range(5)]
    assert reusing.shallow_rows == sum(n for n, one in zip(rows, whole, strict=True) if one == "0")
    assert reusing.rows_per_variant == sum(rows)


def noise_of(key: str) -> Floats:
    philox = np.random.Philox(key=int.from_bytes(hashlib.sha256(f"{key}/noise".encode()).digest()[:16], "little"))
    return np.random.Generator(philox).standard_normal(LATENT, np.float32)


def text_states(seed: int) -> Floats:
    return np.random.default_rng((1, seed)).standard_normal((TOKENS, WIDTH)).astype(np.float32)


NEGATIVE = text_states(99)
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


@torch.no_grad()
def by_hand(painter: TinyPainter, text: Floats, key: str, whole: str, guided: str) -> Floats:
    """DDIM over diffusers' networks, whole ones at each step, in which deep features are overwritten at some."""
    scheduler = DDIMScheduler(
        beta_start=0.00085, beta_end=0.012, beta_schedule="scaled_linear", steps_offset=1, clip_sample=False
    )
    scheduler.set_timesteps(DDIM.steps)
    edges, latents = torch.from_numpy(EDGES[None, None].astype(np.float32) / 255), torch.from_numpy(noise_of(key)[None])
    layer, held = painter.unet.up_blocks[-1].resnets[-2], dict[int, torch.Tensor]()

    def predict(number: int, states: Floats, step: int) -> torch.Tensor:
        def overwrite(_: Any, passed: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
            joined, *more = passed
            own = joined.shape[1] - painter.unet.conv_in.out_channels
            if whole[step] == "1":
                held[number] = joined[:, :own]
            return torch.cat([held[number], joined[:, own:]], 1), *more

        rows, t = torch.from_numpy(states[None]), scheduler.timesteps[step]
        hook = layer.register_forward_pre_hook(overwrite)
        down, mid = painter.controlnet(latents, t, rows, edges, conditioning_scale=1.4, return_dict=False)
        found = painter.unet(latents, t, rows, None, None, None, None, None, down, mid).sample
        hook.remove()
        assert isinstance(found, torch.Tensor)
        return found

    for i, t in enumerate(scheduler.timesteps):
        output = predict(0, text, i)
        if guided[i] == "1":
            without = predict(1, NEGATIVE, i)
            output = without + 3.0 * (output - without)
        latents = scheduler.step(output, t, latents).prev_sample
    return np.asarray(latents[0], np.float32)


def test_latents_are_those_of_whole_networks_whose_deep_features_are_overwritten(painter: TinyPainter) -> None:
    plans = reusing_plans(painter)
    (hint,) = plans.embed_hints(EDGES[None])
    jobs = [PaintJob(f"variant {i}", text_states(i), hint, plans) for i in range(3)]
    found = dict(paint(jobs, NEGATIVE, replace(PAINT, reuse=ReuseSettings(2))))
    often = dict(paint(jobs, NEGATIVE, PAINT))
    for i in range(3):
        reference = by_hand(painter, text_states(i), f"variant {i}", "11010", "01100")
        np.testing.assert_allclose(found[i], reference, atol=2e-4)
        np.testing.assert_allclose(
            often[i], by_hand(painter, text_states(i), f"variant {i}", "11111", "01100"), atol=2e-4
        )
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


def reference(key: str, text: Floats, hint: Floats, negative: Floats, how: PaintSettings) -> Floats:
    """The schedule written out: a variant by itself, a row at a time."""
    sampler, latents, history = Sampler(how.sampler), noise_of(key), Sampler(how.sampler).start
    since, kept, before = 0, dict[int, Floats](), False
    for i, timestep in enumerate(sampler.timesteps.tolist()):
        guided, since = how.guidance.guides(i, how.sampler.steps), since + 1
        if i == 0 or how.reuse is None or since == how.reuse.every or (guided and not before):
            kept, since = {}, 0
        before, outputs = guided, []
        for number, states in enumerate((text, negative)[: 1 + guided]):
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
    alone = [reference(f"variant {i}", text_states(i), hints[i % 2], NEGATIVE, how) for i in range(count)]

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


def test_what_a_plan_gives_beside_its_prediction_comes_by_row() -> None:
    plans = sums(4)
    rows = [
        DenoiserRow(np.full(LATENT, i, np.float32), 900, text_states(i), np.zeros(LATENT, np.float32), 1.0)
        for i in range(3)
    ]
    whole = plans.evaluate(rows)
    again = plans.evaluate([replace(row, deep=one.deep) for row, one in zip(rows, whole, strict=True)])
    for one, other in zip(whole, again, strict=True):
        assert isinstance(one, Evaluated)
        np.testing.assert_array_equal(one.prediction, other.prediction)
        assert (one.deep is None, other.deep is None) == (False, True)
