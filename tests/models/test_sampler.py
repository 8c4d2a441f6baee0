"""The sampler against diffusers, against textbook formulas, and row by row against stacks."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from diffusers import DDIMScheduler, LCMScheduler, UniPCMultistepScheduler
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from counterfactory.engine.models.sampler import Sampler
from counterfactory.engine.profile.paint import SamplerSettings
from counterfactory.kernels import guided_step

Floats = NDArray[np.float32]
SHAPE = (2, 4, 8, 8)
SCHEDULE: Any = {"beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear", "steps_offset": 1}

KINDS = ("ddim", "unipc")
MODELS = (("epsilon", False), ("v_prediction", False), ("v_prediction", True))  # prediction, zero_snr
SPACINGS = ("leading", "trailing", "linspace")
UNIPC = SamplerSettings("unipc", 3, "v_prediction", "trailing", True)
LCM = [SamplerSettings("lcm", 4, p, "lcm", z) for p, z in MODELS]  # type: ignore[arg-type]
WAYS = [SamplerSettings(k, 4, p, s, z) for k, (p, z), s in itertools.product(KINDS, MODELS, SPACINGS)] + LCM  # type: ignore[arg-type]


def noise(seed: int, shape: tuple[int, ...] = SHAPE) -> Floats:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def network(latents: Floats, timestep: int) -> Floats:
    """A smooth, bounded function of latents and timestep that no solver integrates exactly."""
    t = np.float32(timestep / 1000)
    rolled = np.roll(latents, 1, axis=-1)
    output = np.tanh(0.6 * latents + 0.3 * rolled) * (0.4 + t) + np.sin(3 * latents + 5 * t) * 0.2
    return np.asarray(output, np.float32)


def fresh(sampler: Sampler, i: int, shape: tuple[int, ...] = SHAPE) -> Floats | None:
    """The noise that step `i` adds, the same whenever it is asked for."""
    return noise(1000 + i, shape) if sampler.adds_noise(i) else None


def diffusers_scheduler(way: SamplerSettings) -> Any:
    own = {"prediction_type": way.prediction, "timestep_spacing": way.spacing, "rescale_betas_zero_snr": way.zero_snr}
    own |= {"clip_sample": False} if way.kind == "ddim" else {}
    kinds: dict[str, Any] = {"ddim": DDIMScheduler, "unipc": UniPCMultistepScheduler}
    scheduler = kinds[way.kind](**SCHEDULE, **own)
    scheduler.set_timesteps(way.steps)
    if (way.kind, way.spacing) == ("ddim", "linspace"):
        # diffusers 0.42 steps down by 1000 // num_inference_steps, but linspace points lie 999 / (steps - 1) apart:
        # told of one step fewer, it lands on the timesteps it visits (for the step counts below).
        scheduler.num_inference_steps = way.steps - 1
    return scheduler


def comparable() -> list[SamplerSettings]:
    """UniPC in any number of steps; DDIM where diffusers' own lands on the timesteps that it visits next."""
    ways = []
    for kind, (prediction, zero_snr), spacing in itertools.product(KINDS, MODELS, SPACINGS):
        steps: tuple[int, ...] = (1, 2, 3, 4, 10, 20, 28, 50) if kind == "unipc" else (1, 2, 4, 10, 20, 50)
        if (kind, spacing) == ("ddim", "linspace"):
            steps = (4, 10, 28)
        ways += [SamplerSettings(kind, n, prediction, spacing, zero_snr) for n in steps]  # type: ignore[arg-type]
    return ways


@pytest.mark.parametrize("way", comparable(), ids=str)
def test_whole_trajectories_equal_diffusers(way: SamplerSettings) -> None:
    sampler, scheduler = Sampler(way), diffusers_scheduler(way)
    assert sampler.timesteps.tolist() == scheduler.timesteps.tolist()
    ours = theirs = noise(3)
    history = sampler.start
    for i, timestep in enumerate(scheduler.timesteps):
        ours, history = sampler.step(i, ours, network(ours, int(timestep)), history)
        output = torch.from_numpy(network(theirs, int(timestep)))
        theirs = scheduler.step(output, timestep, torch.from_numpy(theirs), return_dict=False)[0].numpy()
        assert ours.dtype == np.float32
        assert np.abs(ours - theirs).max() < 1e-5 * np.abs(theirs).max(), f"after step {i}"
    assert np.std(theirs) > 0.05, "a vanished reference would prove nothing"


@pytest.mark.parametrize("steps", [1, 2, 3, 4, 8, 50])
@pytest.mark.parametrize("way", LCM, ids=str)
def test_lcm_trajectories_equal_diffusers(monkeypatch: pytest.MonkeyPatch, way: SamplerSettings, steps: int) -> None:
    """In float64, where nothing but the formulas counts, both given the same noise; and in float32 as the engine does.

    diffusers sums up its schedule in float32: it is given the exact one.
    """
    sampler = Sampler(replace(way, steps=steps))
    drawn = iter(range(steps))
    monkeypatch.setattr(
        "diffusers.schedulers.scheduling_lcm.randn_tensor",
        lambda shape, dtype, **_: torch.from_numpy(noise(1000 + next(drawn), tuple(shape))).to(dtype),
    )
    scheduler = LCMScheduler(**SCHEDULE, prediction_type=way.prediction, rescale_betas_zero_snr=way.zero_snr)
    scheduler.alphas_cumprod = torch.tensor(signal_power(way.zero_snr), dtype=torch.float64)
    scheduler.set_timesteps(steps)
    assert sampler.timesteps.tolist() == scheduler.timesteps.tolist()
    expected = found = noise(3).astype(np.float64)
    engine, history = noise(3), sampler.start
    for i, timestep in enumerate(scheduler.timesteps):
        output = network(expected.astype(np.float32), int(timestep)).astype(np.float64)
        weights, new = sampler.weights(i), fresh(sampler, i)
        # A weight of zero would not do: what is not there may be no number in the kernel's memory.
        assert len(weights.advance) == (2 if new is None else 3)
        given = torch.from_numpy(output), int(timestep), torch.from_numpy(expected)
        expected = scheduler.step(*given, return_dict=False)[0].numpy()
        known = () if new is None else (found, new.astype(np.float64))
        found = guided_step.step(weights, found, output, known)[0]  # type: ignore[arg-type]
        assert found.dtype == expected.dtype == np.float64
        assert np.abs(found - expected).max() < 1e-10 * np.abs(expected).max(), f"after step {i}"
        engine, history = sampler.step(i, engine, output.astype(np.float32), history, new)
        assert history == ()
        assert np.abs(engine - expected).max() < 1e-5 * np.abs(expected).max(), f"after step {i}"
    assert len(list(drawn)) == 1, "noise is drawn for every step but the last"
    assert np.std(expected) > 0.05, "a vanished reference would prove nothing"


@pytest.mark.parametrize(("kind", "spacing"), [*itertools.product(KINDS, SPACINGS), ("lcm", "lcm")])
def test_timesteps_equal_diffusers(kind: Any, spacing: Any) -> None:
    way = SamplerSettings(kind, 2, "v_prediction", spacing, False)
    scheduler = LCMScheduler(**SCHEDULE) if kind == "lcm" else diffusers_scheduler(way)
    for steps in (*range(2, 51), *((99, 101, 143, 200, 249, 250) if kind != "lcm" else ())):
        scheduler.set_timesteps(steps)
        timesteps = Sampler(replace(way, steps=steps)).timesteps
        # "trailing": for some numbers of steps rounding gives diffusers one timestep more, which is -1.
        assert timesteps.tolist() == scheduler.timesteps.tolist()[:steps]
        assert (timesteps.dtype, timesteps.shape) == (np.int64, (steps,))
        assert timesteps.max() <= 999
        assert timesteps.min() >= 0
        assert (np.diff(timesteps) < 0).all()


def signal_power(zero_snr: bool) -> list[float]:
    """The noise schedule by its definition, one timestep after the other."""
    power, product = [], 1.0
    for t in range(1000):
        beta = (0.00085**0.5 + (0.012**0.5 - 0.00085**0.5) * t / 999) ** 2
        product *= 1 - beta
        power.append(product)
    if zero_snr:
        first, last = power[0] ** 0.5, power[-1] ** 0.5
        power = [((p**0.5 - last) * first / (first - last)) ** 2 for p in power]
    return power


@settings(max_examples=60)
@given(
    way=st.sampled_from(WAYS),
    steps=st.integers(2, 9),
    rows=st.integers(1, 5),
    shape=st.tuples(st.integers(1, 4), st.integers(1, 9), st.integers(1, 9)),
    seed=st.integers(0, 99),
)
def test_a_row_alone_is_as_in_a_stack(way: SamplerSettings, steps: int, rows: int, shape: Any, seed: int) -> None:
    sampler = Sampler(replace(way, steps=steps))
    latents, outputs = noise(seed, (rows, *shape)), noise(seed + 100, (steps, rows, *shape))
    added = [fresh(sampler, i, (rows, *shape)) for i in range(steps)]
    together, history = latents, sampler.start
    for i in range(steps):
        taken = [array for array in (together, outputs[i], *history, added[i]) if array is not None]
        before = [array.tobytes() for array in taken]
        together, history = sampler.step(i, together, outputs[i], history, added[i])
        assert [array.tobytes() for array in taken] == before, "nothing is changed in place"
    for row in range(rows):
        alone, own = latents[row], sampler.start
        for i in range(steps):
            new = added[i]
            alone, own = sampler.step(i, alone, outputs[i, row], own, None if new is None else new[row])
        assert alone.tobytes() == together[row].tobytes()


def test_calls_that_make_no_sense_are_refused() -> None:
    unipc, lcm = Sampler(UNIPC), Sampler(LCM[0])
    with pytest.raises(ValueError, match="read-only"):
        unipc.timesteps[0] = 1
    x = noise(1)
    x1, h1 = unipc.step(0, x, x, ())
    some = "pass what the step before returned, or `start` to step 0$"
    refused: list[tuple[Sampler, tuple[Any, ...], str]] = [
        (unipc, (-1, x, x, ()), "has steps 0 to 2, got step -1"),
        (unipc, (3, x, x, ()), "has steps 0 to 2, got step 3"),
        (unipc, (1, x1, x1, ()), f"step 1 needs 2 arrays of history, got 0: {some}"),
        (unipc, (0, x, x, h1), "step 0 needs 0 arrays of history, got 2"),
        (unipc, (0, x, x[0], ()), r"model_output must be float32 \[2, 4, 8, 8\], got float32 \[4, 8, 8\]"),
        (unipc, (0, np.asarray(x, np.float64), x, ()), r"latents must be float32 .* got float64"),
        (unipc, (1, x1[0], x1[0], h1), "history must be float32"),
        (unipc, (0, x, x, (), x), "unipc step 0 needs no noise, got some"),
        (lcm, (0, x, x, ()), "lcm step 0 needs fresh noise, got none"),
        (lcm, (3, x, x, (), x), "lcm step 3 needs no noise, got some"),
        (lcm, (0, x, x, (), x[0]), r"noise must be float32 \[2, 4, 8, 8\], got float32 \[4, 8, 8\]"),
    ]
    for sampler, asked, message in refused:
        with pytest.raises(ValueError, match=message):
            sampler.step(*asked)


@pytest.mark.parametrize("way", [SamplerSettings("ddim", 4, "epsilon", "leading", False), UNIPC])
def test_noised_latents_are_at_the_level_where_a_step_begins(way: Any) -> None:
    sampler = Sampler(way)
    scheduler = DDIMScheduler(**SCHEDULE, rescale_betas_zero_snr=way.zero_snr)
    atol = 1.5e-3 if way.kind == "unipc" else 1e-5  # a little signal at its end
    clean, noise = np.random.default_rng(0).standard_normal((2, 1, 4, 8, 8)).astype(np.float32)
    for i, t in enumerate(sampler.timesteps.tolist()):
        wanted = scheduler.add_noise(torch.from_numpy(clean), torch.from_numpy(noise), torch.tensor([t])).numpy()
        found = sampler.noised(i, clean, noise)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, wanted, atol=atol)
    np.testing.assert_array_equal(sampler.noised(way.steps, clean, noise), clean)
