"""The sampler: turns noise and a network's predictions into latents, as maths on arrays.

A frozen `Sampler` is made from its settings and holds the timesteps and every step's weights. A step of either solver
is a weighted sum of the latents, the network's output, and a few earlier results (`History`). So `step` is a pure
function, element by element: rows of a batch may be at different steps, and a row stepped alone equals the same row
stepped in a stack, bit for bit.

- DDIM, Song et al. 2020 (arXiv 2010.02502), eq. 12 with sigma 0.
- UniPC, Zhao et al. 2023 (arXiv 2302.04867), algorithms 1 and 2: order 2, B2(h), data prediction, last step of order 1.
- Timestep spacings and zero terminal SNR, Lin et al. 2023 (arXiv 2305.08891), table 2 and algorithm 1.

DDIM is the order-1 predictor of the same family, so both run through the same step. The noise schedule is that of
Stable Diffusion 1.5. How outputs are computed and how latents become images is not known here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from counterfactory.kernels import guided_step
from counterfactory.kernels.guided_step import Floats, History, StepWeights

_TRAIN_STEPS = 1000
_BETA_START, _BETA_END = 0.00085, 0.012
_LEADING_OFFSET = 1  # Stable Diffusion's `steps_offset`: "leading" never asks for timestep 0
_MAX_STEPS = 250  # beyond it "leading" would bunch up its integer timesteps far from the noise
# UniPC works on log SNR, so a terminal SNR of zero is this small number instead, as in diffusers.
_LEAST_SIGNAL_POWER = 2.0**-24
_MEMORY = {"ddim": 0, "unipc": 3}  # arrays of history that a step can use
_CHOICES = {
    "kind": ("ddim", "unipc"),
    "prediction": ("epsilon", "v_prediction"),
    "spacing": ("leading", "trailing", "linspace"),
}


@dataclass(frozen=True)
class SamplerSettings:
    """How latents are denoised. All but `kind` and `steps` must be as in the network's training.

    `prediction`: what the network's output means. `spacing`: which timesteps are visited; "trailing" starts at pure
    noise, as zero SNR needs. `zero_snr`: whether the schedule was rescaled to end in pure noise.
    """

    kind: Literal["ddim", "unipc"]
    steps: int
    prediction: Literal["epsilon", "v_prediction"]
    spacing: Literal["leading", "trailing", "linspace"]
    zero_snr: bool

    def __post_init__(self) -> None:
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                raise ValueError(f"sampler {name} must be one of {', '.join(choices)}, got {getattr(self, name)!r}")
        least = 2 if (self.kind, self.spacing) == ("ddim", "linspace") else 1  # one step would start at timestep 0
        if not least <= self.steps <= _MAX_STEPS:
            raise ValueError(
                f"sampler {self.kind} with {self.spacing} spacing takes {least} to {_MAX_STEPS} steps, got {self.steps}"
            )
        if self.zero_snr and self.prediction == "epsilon":
            raise ValueError(
                "sampler zero_snr needs prediction v_prediction, got epsilon: "
                "where there is no signal, the noise alone does not determine the picture"
            )


@dataclass(frozen=True)
class Sampler:
    """The way from noise to latents in `settings.steps` evaluations; one serves all rows with these settings.

    `timesteps`: int64 [steps], the network's timestep of each evaluation. Latents start as standard normal noise
    times `initial_scale`, with the history `start`.
    """

    settings: SamplerSettings
    timesteps: NDArray[np.int64] = field(init=False, compare=False)
    start: History = field(init=False, default=(), compare=False)
    initial_scale: float = field(init=False, default=1.0, compare=False)
    _steps: tuple[StepWeights, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        timesteps = _timesteps(self.settings)
        timesteps.flags.writeable = False
        object.__setattr__(self, "timesteps", timesteps)
        object.__setattr__(self, "_steps", _steps(self.settings, timesteps))

    def step(self, i: int, latents: Floats, model_output: Floats, history: History) -> tuple[Floats, History]:
        """Take step `i` (0 first): new latents, and the history for step i + 1.

        `latents` and `model_output` are float32 of one shape: a row, or a stack of rows that are all at step `i`, with
        a history of the same shape. Nothing is changed in place. Raises ValueError for a step that does not exist,
        differing shapes, another dtype, or a history of the wrong length.
        """
        self._check(i, latents, model_output, history)
        stepped, known = guided_step.step(self._steps[i], latents, model_output, history)
        return stepped, known[: _MEMORY[self.settings.kind]]

    def weights(self, i: int) -> StepWeights:
        """The weights of step `i`, for batches whose rows stand at different steps."""
        return self._steps[i]

    def _check(self, i: int, latents: Floats, model_output: Floats, history: History) -> None:
        if not 0 <= i < self.settings.steps:
            raise ValueError(f"sampler has steps 0 to {self.settings.steps - 1}, got step {i}")
        expected = min(i + 1, _MEMORY[self.settings.kind]) if i else 0
        if len(history) != expected:
            raise ValueError(
                f"{self.settings.kind} step {i} needs {expected} arrays of history, got {len(history)}: "
                "pass what the step before returned, or `start` to step 0"
            )
        for name, array in (("latents", latents), ("model_output", model_output), *(("history", h) for h in history)):
            if array.shape != latents.shape or array.dtype != np.float32:
                raise ValueError(
                    f"sampler {name} must be float32 {list(latents.shape)}, got {array.dtype} {list(array.shape)}"
                )


def _signal_power(zero_snr: bool) -> NDArray[np.float64]:
    """Cumulative product of alphas, float64 [1000]: the share of signal in the power of the latents."""
    betas = np.linspace(_BETA_START**0.5, _BETA_END**0.5, _TRAIN_STEPS) ** 2
    power: NDArray[np.float64] = np.cumprod(1.0 - betas, dtype=np.float64)
    if not zero_snr:
        return power
    root = np.sqrt(power)
    rescaled: NDArray[np.float64] = ((root - root[-1]) * root[0] / (root[0] - root[-1])) ** 2
    return rescaled


def _timesteps(settings: SamplerSettings) -> NDArray[np.int64]:
    """The timesteps, int64 [steps], descending. UniPC's spacing includes the noiseless end point, DDIM's does not."""
    points = settings.steps + (settings.kind == "unipc")
    if settings.spacing == "linspace":
        spaced: NDArray[np.generic] = np.linspace(0, _TRAIN_STEPS - 1, points).round()[::-1]
    elif settings.spacing == "leading":
        spaced = np.arange(points)[::-1] * (_TRAIN_STEPS // points) + _LEADING_OFFSET
    else:
        # The slice, because the quotient's rounding may add a point below zero.
        spaced = np.arange(_TRAIN_STEPS, 0, -_TRAIN_STEPS / settings.steps).round() - 1
    return spaced[: settings.steps].astype(np.int64)


def _steps(settings: SamplerSettings, timesteps: NDArray[np.int64]) -> tuple[StepWeights, ...]:
    """Each step's weights, computed in float64.

    Every step ends at the level of the next one's timestep, and the last at pure signal. (diffusers' DDIM ends
    1000 // steps lower instead, which differs only for "linspace" and for steps that do not divide 1000.)
    """
    power = _signal_power(settings.zero_snr)
    if settings.kind == "unipc":
        power = np.maximum(power, _LEAST_SIGNAL_POWER)
    reached = np.append(power[timesteps], 1.0)
    levels = [_Level(float(a), float(s)) for a, s in zip(np.sqrt(reached), np.sqrt(1.0 - reached), strict=True)]
    multistep = settings.kind == "unipc"
    steps = []
    for i, (now, after) in enumerate(pairwise(levels)):
        last = i == settings.steps - 1
        earlier = levels[i - 1] if multistep and i > 0 and not last else None
        correct: tuple[float, ...] = ()
        if earlier is not None:  # the last step ends at its prediction, whatever the latents
            correct = _corrector(levels[i - 2] if i > 1 else None, earlier, now)
        if settings.prediction == "v_prediction":
            clean = now.signal, -now.noise
        else:
            clean = 1 / now.signal, -now.noise / now.signal
        steps.append(StepWeights(clean, correct, _predictor(earlier, now, after)))
    return tuple(steps)


@dataclass(frozen=True)
class _Level:
    """The amplitudes of signal and noise in latents; their squares add up to 1."""

    signal: float
    noise: float

    @property
    def log_snr(self) -> float:
        """Half the log of the signal-to-noise ratio, lambda in the papers."""
        return float(np.log(self.signal) - np.log(self.noise))


def _predictor(earlier: _Level | None, now: _Level, after: _Level) -> tuple[float, ...]:
    """Weights of (latents, prediction now, prediction at `earlier`) that take latents from `now` to `after`.

    Without `earlier` it is DDIM's step, which mixes the predicted signal and noise anew.
    """
    ratio = after.noise / now.noise
    straight = after.signal - now.signal * ratio  # alpha_t (1 - e^-h)
    if earlier is None:
        return ratio, straight
    r = (earlier.log_snr - now.log_snr) / (after.log_snr - now.log_snr)
    slope = 0.5 * straight / r
    return ratio, straight - slope, slope


def _corrector(earliest: _Level | None, earlier: _Level, now: _Level) -> tuple[float, ...]:
    """Weights of (latents at `earlier`, prediction now, prediction at `earlier`, prediction at `earliest`) that compute
    the latents at `now` again, using the network's output there. Without `earliest` it is of order 1.
    """
    ratio = now.noise / earlier.noise
    straight = now.signal - earlier.signal * ratio
    if earliest is None:
        return ratio, 0.5 * straight, 0.5 * straight
    h = now.log_snr - earlier.log_snr
    r = (earliest.log_snr - earlier.log_snr) / h
    phi = float(np.expm1(-h))
    first = (phi / -h - 1) / phi
    second = 2 * ((phi / -h - 1) / -h - 0.5) / phi
    past, present = np.linalg.solve(np.array([[1.0, 1.0], [r, 1.0]]), np.array([first, second])).tolist()
    return ratio, straight * present, straight * (1 - present - past / r), straight * past / r
