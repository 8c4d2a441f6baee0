"""Published scheduler_config.json files, read as diffusers' own `from_config` reads them, and what is refused of them.

The files are those of Stable Diffusion 1.5 and 2.1, of weights with zero terminal SNR (scaled-linear and linear), of an
LCM's pipeline, and that of Hyper-SD's model card (Stable Diffusion 1.5's with "trailing").
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from diffusers import DDIMScheduler, LCMScheduler, UniPCMultistepScheduler

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.models.networks import library_of
from counterfactory.engine.models.sampler import Sampler
from counterfactory.engine.models.schedule import settle
from counterfactory.engine.profile.paint import SamplerSettings
from counterfactory.engine.profile.profile import Profile, load_profile
from counterfactory.engine.profile.runtime import ModelPaths, RuntimeSettings
from counterfactory.kernels import guided_step

FILES = sorted((Path(__file__).parents[1] / "export" / "published").glob("*.scheduler.json"))
KINDS: dict[str, Any] = {"unipc": UniPCMultistepScheduler, "ddim": DDIMScheduler, "lcm": LCMScheduler}


# Of DDIM those where diffusers' own lands on the timesteps that it visits next.
def exported(folder: Path, config: dict[str, Any] | None, plan: str = "denoiser") -> Profile:
    """The profile of a box whose denoiser was exported with a config; its plan is not there."""
    manifest = folder / "onnx" / plan / "manifest.json"
    manifest.parent.mkdir(parents=True, exist_ok=True)
    manifest.write_text(json.dumps({"onnx_sha256": "a" * 64} | ({} if config is None else {"scheduler": config})))
    runtime = RuntimeSettings("onnxruntime", "f32", 0, 0, "cpu")
    return replace(load_profile("a10g"), runtime=runtime, device=None, models=ModelPaths(str(folder)))


def test_a_run_follows_what_its_denoiser_was_exported_with(tmp_path: Path) -> None:
    """Another file is another maker of pictures; a form in int8 has that of the graph it was made of."""
    library = library_of(exported(tmp_path, published("sd2.1-base-zsnr")))
    assert library.sampler().settings == SamplerSettings("unipc", 20, "v_prediction", "trailing", True)
    profile = exported(tmp_path, published())
    assert library_of(profile).sampler().timesteps[0] == 999
    int8 = replace(profile, paint=replace(profile.paint, denoiser="denoiser_int8"))
    assert library_of(int8).sampler() == library_of(profile).sampler()
    content = [library_of(exported(tmp_path, config)) for config in (published(), published("hyper-sd"))]
    (tmp_path / "onnx" / "denoiser" / "model.onnx").write_bytes(b"a graph")
    keys = []
    for library, config in zip(content, (published(), published("hyper-sd")), strict=True):
        exported(tmp_path, config)
        keys.append(library._content(library.networks["denoiser"]))
    assert keys[0] != keys[1]
    assert library.state(library.networks["denoiser"]) == ("found", "")
    for config, why in ((None, "no scheduler_config.json is on record"), ({"prediction_type": "sample"}, "'sample'")):
        stale = library_of(exported(tmp_path, config and published() | config))
        assert stale.state(stale.networks["denoiser"])[0] == "stale"
        for ask in (stale.sampler, lambda of=stale: of._content(of.networks["denoiser"])):
            with pytest.raises(CounterfactoryError, match=why):
                ask()


UNIPC, DDIM, LCM = (SamplerSettings(kind, 20) for kind in ("unipc", "ddim", "lcm"))  # type: ignore[arg-type]
STEPS = {"unipc": (1, 2, 4, 20, 28), "ddim": (1, 2, 4, 20, 50), "lcm": (1, 2, 4, 8)}


def published(name: str = "stable-diffusion-v1-5") -> dict[str, Any]:
    found: dict[str, Any] = json.loads(next(f for f in FILES if f.name == f"{name}.scheduler.json").read_text())
    return found


def exact(kind: str, config: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Any:
    """diffusers' scheduler by `from_config`, its schedule summed up in float64 where it would be in float32."""
    with monkeypatch.context() as patch:
        patch.setattr(torch, "float32", torch.float64)
        return KINDS[kind].from_config(config)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name.partition(".scheduler")[0])
def test_whole_trajectories_are_from_config_s(file: Path, kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Timesteps, levels and latents, of a random linear network of latents and timestep."""
    random, config = np.random.default_rng(5), json.loads(file.read_text())
    mixed, shifted = random.standard_normal((12, 12)) / 5, random.standard_normal(12)
    start, fresh = random.standard_normal((3, 12)), random.standard_normal((60, 3, 12))
    drawn = iter(fresh)
    monkeypatch.setattr("diffusers.schedulers.scheduling_lcm.randn_tensor", lambda *_, **__: torch.tensor(next(drawn)))
    for steps in STEPS[kind]:
        drawn = iter(fresh)
        sampler = Sampler(*settle(SamplerSettings(kind, steps), config, "denoiser"))
        theirs = exact(kind, config, monkeypatch)
        theirs.set_timesteps(steps)
        assert sampler.timesteps.tolist() == theirs.timesteps.tolist()
        signal = theirs.alphas_cumprod[sampler.timesteps].numpy()
        np.testing.assert_allclose(
            [level.signal**2 for level in sampler._levels[:-1]], signal, rtol=1e-10, atol=1e-7 * (kind == "unipc")
        )
        wanted = found = start
        history: Any = ()
        for i, t in enumerate(sampler.timesteps.tolist()):
            output = wanted @ mixed + t / 1000 * shifted
            step = theirs.step(torch.tensor(output), t, torch.tensor(wanted), return_dict=False)
            known = (found, fresh[i]) if sampler.adds_noise(i) else history
            found, past = guided_step.step(sampler.weights(i), found, output, known)  # type: ignore[arg-type]
            wanted, history = step[0].numpy(), past[: 3 * (kind == "unipc")]
            assert found.dtype == wanted.dtype == np.float64
            # UniPC's sigmas are float32 in diffusers, whatever it is given.
            assert np.abs(found - wanted).max() < (1e-5 if kind == "unipc" else 1e-10) * np.abs(wanted).max()
        assert np.std(wanted) > 0.05, "a vanished reference would prove nothing"
        assert sampler.noised(steps, start, fresh[0]) is start, "also where the last step ends at another level"


@pytest.mark.parametrize("name", ["a10g", "a10g-fast", "lance", "cpu"])
def test_shipped_profiles_leave_the_schedule_to_the_file(name: str) -> None:
    settings = load_profile(name).paint.sampler
    trailing = "trailing" if name == "a10g-fast" else None  # the adapter's, of which the pipeline's file knows nothing
    assert (settings.prediction, settings.spacing, settings.zero_snr) == (None, trailing, None)
    told = "prediction, zero_snr" if trailing else "prediction, spacing, zero_snr"
    with pytest.raises(CounterfactoryError, match=f"does not say {told}, and no scheduler_config"):
        settle(settings, None, "denoiser")
    with pytest.raises(ValueError, match="settle it first"):
        Sampler(settings)


TRAILING = SamplerSettings("ddim", 4, spacing="trailing")


def test_what_a_file_leaves_open_a_profile_may_say() -> None:
    """Stable Diffusion 1.5's names no spacing: Hyper-SD's weights are merged over it, and need "trailing"."""
    settled, _ = settle(TRAILING, published(), "denoiser")
    assert (settled.spacing, settled.prediction) == ("trailing", "epsilon")
    hyper = settle(SamplerSettings("ddim", 4), published("hyper-sd"), "x")
    assert Sampler(*settle(TRAILING, published(), "x")) == Sampler(*hyper)


REFUSED: list[tuple[SamplerSettings, dict[str, Any], str]] = [
    (TRAILING, {"timestep_spacing": "leading"}, 'spacing = "trailing" contradicts .* timestep_spacing is .leading.:'),
    (SamplerSettings("ddim", 4, "epsilon"), {"prediction_type": "v_prediction"}, 'prediction = "epsilon" contradicts'),
    (SamplerSettings("ddim", 4, zero_snr=False), {"rescale_betas_zero_snr": True}, "zero_snr = false contradicts"),
    (UNIPC, {"prediction_type": "sample"}, "'prediction_type' cannot be 'sample'"),
    (UNIPC, {"prediction_type": "flow_prediction"}, "'prediction_type' cannot be 'flow_prediction'"),
    (UNIPC, {"beta_schedule": "sigmoid"}, "'beta_schedule' cannot be 'sigmoid'"),
    (UNIPC, {"use_karras_sigmas": True}, 'use_karras_sigmas = True, which kind = "unipc" in .* does not compute'),
    (UNIPC, {"solver_order": 3}, "solver_order = 3"),
    (UNIPC, {"final_sigmas_type": "sigma_min"}, "final_sigmas_type = 'sigma_min'"),
    (DDIM, {"clip_sample": True}, "clip_sample = True"),
    (LCM, {"original_inference_steps": 100}, "original_inference_steps = 100"),
    (LCM, {"timestep_scaling": 1.0}, "timestep_scaling = 1.0"),
    (DDIM, {"thresholding": True}, "thresholding = True"),
    (DDIM, {"steps_offset": 7}, "steps_offset is 7"),
    (DDIM, {"num_train_timesteps": 100}, "num_train_timesteps are 100"),
    (DDIM, {"trained_betas": [0.1, 0.2]}, "trained_betas are 2 and num_train_timesteps 1000"),
    (DDIM, {"beta_end": 1.5}, "betas are not between 0 and 1"),
    (DDIM, {"beta_start": "low"}, "'beta_start' should be a finite number, found 'low'"),
    (DDIM, {"rescale_betas_zero_snr": True}, "zero_snr needs prediction v_prediction, got epsilon"),
    (SamplerSettings("ddim", 1), {"timestep_spacing": "linspace"}, "takes 2 to 250 steps, got 1"),
]


@pytest.mark.parametrize(("settings", "changed", "why"), REFUSED, ids=[str(i) for i in range(len(REFUSED))])
def test_what_is_not_computed_is_refused_by_name(settings: SamplerSettings, changed: dict[str, Any], why: str) -> None:
    with pytest.raises(CounterfactoryError, match=why) as refused:
        settle(settings, published() | changed, "denoiser")
    assert "the scheduler_config.json of denoiser" in str(refused.value)
    assert str(refused.value).count(". ") == 0, "one sentence"


def test_a_file_that_lacks_a_key_has_the_sampler_s_default() -> None:
    """As `from_config` has it: DDIM clips then, which is not computed here."""
    bare = {key: value for key, value in published().items() if key != "clip_sample"}
    with pytest.raises(CounterfactoryError, match="clip_sample = True"):
        settle(DDIM, bare, "denoiser")
    for kind, wanted in (("unipc", 0.0001), ("lcm", 0.00085)):
        _, schedule = settle(SamplerSettings(kind, 4), {}, "denoiser")  # type: ignore[arg-type]
        assert schedule.beta_start == KINDS[kind]().config.beta_start == wanted


@pytest.mark.parametrize("betas", [None, "squaredcos_cap_v2", "trained"])
def test_other_betas_are_diffusers_too(betas: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    trained = np.linspace(0.001, 0.03, 300).tolist()
    config = published() | ({"trained_betas": trained, "num_train_timesteps": 300} if betas == "trained" else {})
    config |= {"beta_schedule": betas} if betas == "squaredcos_cap_v2" else {}
    for kind in KINDS:
        _, schedule = settle(SamplerSettings(kind, 4), config, "denoiser")  # type: ignore[arg-type]
        wanted = exact(kind, config, monkeypatch).alphas_cumprod.double().numpy()
        np.testing.assert_allclose(schedule.signal_power(False), wanted, rtol=1e-10)
