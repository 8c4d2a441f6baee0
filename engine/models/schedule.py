"""How a denoiser was trained to see noise: its checkpoint's scheduler_config.json, read as diffusers' `from_config` of
a sampler's class reads it.

A key that the file lacks has that class's default there, so that one file means other timesteps to other samplers
("leading" to DDIM, "linspace" to UniPC). What would change a picture and is not computed here is refused by its name.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..errors import CounterfactoryError
from ..files.fill import fill_record
from ..profile.paint import MAX_STEPS, SamplerSettings

Betas = Literal["linear", "scaled_linear", "squaredcos_cap_v2"]


@dataclass(frozen=True)
class Schedule:
    """Noise levels of training, those of Stable Diffusion 1.5 unless of_network otherwise.

    `betas` are `trained_betas`, one a timestep. `offset` is `steps_offset`: what "leading" adds to each timestep.
    `ends_clean` is DDIM's `set_alpha_to_one`: its last step ends without noise, else at the level of timestep 0.
    """

    timesteps: int = 1000
    beta_start: float = 0.00085
    beta_end: float = 0.012
    beta_schedule: Betas = "scaled_linear"
    betas: tuple[float, ...] | None = None
    offset: int = 1
    ends_clean: bool = True

    def __post_init__(self) -> None:
        if self.betas is not None and len(self.betas) != self.timesteps:
            raise ValueError(f"trained_betas are {len(self.betas)} and num_train_timesteps {self.timesteps}")
        if self.timesteps <= MAX_STEPS or self.offset not in (0, 1):
            raise ValueError(
                f"num_train_timesteps are {self.timesteps} and steps_offset is {self.offset}: more than {MAX_STEPS} "
                "and 0 or 1 are computed"
            )
        if not all(0 < beta < 1 for beta in self._all_betas()):
            raise ValueError("its betas are not between 0 and 1")

    def _all_betas(self) -> NDArray[np.float64]:
        if self.betas is not None:
            return np.array(self.betas)
        if self.beta_schedule == "linear":
            return np.linspace(self.beta_start, self.beta_end, self.timesteps)
        if self.beta_schedule == "scaled_linear":
            roots: NDArray[np.float64] = np.linspace(self.beta_start**0.5, self.beta_end**0.5, self.timesteps)
            return roots**2
        # Nichol & Dhariwal 2021 (arXiv 2102.09672), eq. 17.
        power = [math.cos((i / self.timesteps + 0.008) / 1.008 * math.pi / 2) ** 2 for i in range(self.timesteps + 1)]
        return np.array([min(1 - after / now, 0.999) for now, after in pairwise(power)])

    def signal_power(self, zero_snr: bool) -> NDArray[np.float64]:
        """Cumulative product of alphas, float64 [timesteps]: the share of signal in the power of the latents."""
        power: NDArray[np.float64] = np.cumprod(1.0 - self._all_betas(), dtype=np.float64)
        if not zero_snr:
            return power
        root = np.sqrt(power)
        rescaled: NDArray[np.float64] = ((root - root[-1]) * root[0] / (root[0] - root[-1])) ** 2
        return rescaled


USUAL = Schedule()


@dataclass(frozen=True)
class _Published:
    """The keys of scheduler_config.json that decide a way from noise to latents."""

    num_train_timesteps: int
    beta_start: float
    beta_end: float
    beta_schedule: Betas
    prediction_type: Literal["epsilon", "v_prediction"]
    timestep_spacing: Literal["leading", "trailing", "linspace"]
    steps_offset: int
    rescale_betas_zero_snr: bool
    set_alpha_to_one: bool
    trained_betas: tuple[float, ...] | None


# diffusers' defaults, of all samplers and of each.
_BETAS = {"num_train_timesteps": 1000, "beta_start": 0.0001, "beta_end": 0.02, "beta_schedule": "linear"}
_STEPS = {"timestep_spacing": "leading", "steps_offset": 0, "set_alpha_to_one": True}
_DEFAULTS = {**_BETAS, **_STEPS, "prediction_type": "epsilon", "rescale_betas_zero_snr": False}
_OWN: Mapping[str, Mapping[str, Any]] = {
    "ddim": {"clip_sample": True},
    "unipc": {"timestep_spacing": "linspace"},
    "lcm": {"beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear"},
}
# What a sampler computes of keys that it does not read: each has to be one of these.
_ONLY: Mapping[str, Mapping[str, tuple[Any, ...]]] = {
    "ddim": {"thresholding": (False,), "clip_sample": (False,)},
    "unipc": {
        "thresholding": (False,),
        "solver_order": (2,),
        "solver_type": ("bh2", "midpoint", "heun", "logrho"),  # the last three are other solvers', and bh2 to this one
        "predict_x0": (True,),
        "lower_order_final": (True,),
        "final_sigmas_type": ("zero",),
        "disable_corrector": ([],),
        **dict.fromkeys([f"use_{kind}_sigmas" for kind in ("karras", "exponential", "beta", "flow")], (False,)),
    },
    "lcm": {
        "thresholding": (False,),
        "clip_sample": (False,),
        "original_inference_steps": (50,),
        "timestep_scaling": (10.0,),
    },
}
_KEYS = {"prediction": "prediction_type", "spacing": "timestep_spacing", "zero_snr": "rescale_betas_zero_snr"}


def settle(
    settings: SamplerSettings, published: Mapping[str, Any] | None, plan: str
) -> tuple[SamplerSettings, Schedule]:
    """A profile's sampler with what it leaves to the scheduler's config that the network `plan` was exported with, and
    the schedule by that config; without one the profile says it all, of Stable Diffusion 1.5's schedule.

    Raises CounterfactoryError where the two contradict each other, where neither says something, and for a config that
    is none or asks for what the sampler does not compute.
    """
    if published is None:
        if missing := [name for name in _KEYS if getattr(settings, name) is None]:
            raise CounterfactoryError(
                f"[paint.sampler] does not say {', '.join(missing)}, and no scheduler_config.json is on record with "
                f"{plan}: export {plan} again, which keeps its checkpoint's"
            )
        return settings, USUAL
    where = f"the scheduler_config.json of {plan}"
    kind = settings.kind
    told = {name: key for name, key in _KEYS.items() if not (kind == "lcm" and name == "spacing")}
    for name, key in told.items():
        ours = getattr(settings, name)
        if ours is not None and published.get(key, ours) != ours:
            raise CounterfactoryError(
                f"[paint.sampler] {name} = {_toml(ours)} contradicts {where}, whose {key} is {published[key]!r}: take "
                f"{name} out of the profile, or export weights with a file that says so"
            )
    table = {**_DEFAULTS, **_OWN[kind], **published}
    for key, choices in _ONLY[kind].items():
        if key in table and table[key] not in choices:
            raise CounterfactoryError(
                f"{where} has {key} = {table[key]!r}, which kind = {_toml(kind)} in [paint.sampler] does not compute: "
                f"choose another kind, or export weights whose file has {choices[0]!r}"
            )
    given = fill_record(_Published, table, where, "export weights with one that the samplers here compute")
    of_network: dict[str, Any] = {name: getattr(given, key) for name, key in told.items()}
    of_network |= {name: value for name in told if (value := getattr(settings, name)) is not None}
    of_network |= {"spacing": "lcm"} if kind == "lcm" else {}
    try:
        betas = given.beta_start, given.beta_end, given.beta_schedule, given.trained_betas
        ends_clean = given.set_alpha_to_one or kind != "ddim"
        schedule = Schedule(given.num_train_timesteps, *betas, given.steps_offset, ends_clean)
        return replace(settings, **of_network), schedule
    except ValueError as error:
        raise CounterfactoryError(f"{where} does not go with [paint.sampler]: {error}") from error


def _toml(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value).lower()
