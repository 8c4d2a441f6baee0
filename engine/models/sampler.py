"""The sampler: turns noise and a network's predictions into latents, as maths on arrays.

A frozen `Sampler` is made from its settings and holds the timesteps and every step's weights. A step of any kind is a
weighted sum of the latents, the network's output, and a few earlier results (`History`) or fresh noise. So `step` is a
pure function, element by element: rows of a batch may be at different steps, and a row stepped alone equals the same
row stepped in a stack, bit for bit.

- DDIM, Song et al. 2020 (arXiv 2010.02502), eq. 12 with sigma 0.
- UniPC, Zhao et al. 2023 (arXiv 2302.04867), algorithms 1 and 2: order 2, B2(h), data prediction, last step of order 1.
- LCM, Luo et al. 2023 (arXiv 2310.04378), algorithm 3: for weights distilled to predict the picture in a few steps.
  Each starts from the last prediction under noise drawn anew.
- Timestep spacings and zero terminal SNR, Lin et al. 2023 (arXiv 2305.08891), table 2 and algorithm 1.

DDIM is the order-1 predictor of UniPC's family, and LCM's noise is a third term of that sum, so all run through the
same step. The noise levels are a schedule's (schedule.py). The sampler does not know how outputs are computed, where
noise is drawn from or how latents become images.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from counterfactory.kernels import guided_step
from counterfactory.kernels.guided_step import Floats, History, StepWeights

from ..profile.paint import LCM_TIMESTEPS, SamplerSettings
from .schedule import USUAL, Schedule

# Of the boundary condition that leaves latents at timestep 0 as they are: the spread of the data, and the factor of
# timesteps.
_LCM_SIGMA_DATA, _LCM_TIMESTEP_SCALING = 0.5, 10.0
# UniPC works on log SNR, so a terminal SNR of zero is this small number instead, as in diffusers.
_LEAST_SIGNAL_POWER = 2.0**-24
_MEMORY = {"ddim": 0, "unipc": 3, "lcm": 0}  # arrays of history that a step can use


@dataclass(frozen=True)
class Sampler:
    """The way from noise to latents in `settings.steps` evaluations; one serves all rows with these settings, which say
    all: see `settle`.

    `timesteps`: int64 [steps], the network's timestep of each evaluation. Latents start as standard normal noise, with
    the history `start`.
    """

    settings: SamplerSettings
    schedule: Schedule = USUAL
    timesteps: NDArray[np.int64] = field(init=False, compare=False)
    start: History = field(init=False, default=(), compare=False)
    _steps: tuple[StepWeights, ...] = field(init=False, repr=False, compare=False)
    _levels: tuple[_Level, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if None in (self.settings.prediction, self.settings.spacing, self.settings.zero_snr):
            raise ValueError(f"a sampler needs all of its settings, got {self.settings}: settle it first")
        timesteps = _timesteps(self.settings, self.schedule)
        timesteps.flags.writeable = False
        object.__setattr__(self, "timesteps", timesteps)
        levels = _levels(self.settings, self.schedule, timesteps)
        object.__setattr__(self, "_levels", levels)
        object.__setattr__(self, "_steps", _steps(self.settings, timesteps, levels))

    def step(
        self, i: int, latents: Floats, model_output: Floats, history: History, noise: Floats | None = None
    ) -> tuple[Floats, History]:
        """Take step `i` (0 first): new latents, and the history for step i + 1.

        `latents` and `model_output` are float32 of one shape: a row, or a stack of rows that are all at step `i`, with
        a history of the same shape, and standard normal `noise` of it where the step adds some (`adds_noise`). Nothing
        is changed in place. Raises ValueError for a step that does not exist, differing shapes, another dtype, a
        history of the wrong length, or noise that is missing or has no use.
        """
        self._check(i, latents, model_output, history, noise)
        if noise is not None:
            history = (latents, noise)
        stepped, past = guided_step.step(self._steps[i], latents, model_output, history)
        return stepped, past[: _MEMORY[self.settings.kind]]

    def adds_noise(self, i: int) -> bool:
        """Whether step `i` takes fresh noise: every one of LCM's but the last."""
        return self.settings.kind == "lcm" and i < self.settings.steps - 1

    def noised(self, i: int, clean: Floats, noise: Floats) -> Floats:
        """Clean latents as step `i` begins, for i = steps as they are: float32 of one shape, with normal `noise`."""
        if i == self.settings.steps:
            return clean
        level = self._levels[i]
        return np.float32(level.signal) * clean + np.float32(level.noise) * noise

    def weights(self, i: int) -> StepWeights:
        """The weights of step `i`, for batches whose rows stand at different steps."""
        return self._steps[i]

    def _check(self, i: int, latents: Floats, model_output: Floats, history: History, noise: Floats | None) -> None:
        if not 0 <= i < self.settings.steps:
            raise ValueError(f"sampler has steps 0 to {self.settings.steps - 1}, got step {i}")
        expected = min(i + 1, _MEMORY[self.settings.kind]) if i else 0
        if len(history) != expected:
            raise ValueError(
                f"{self.settings.kind} step {i} needs {expected} arrays of history, got {len(history)}: "
                "pass what the step before returned, or `start` to step 0"
            )
        if self.adds_noise(i) != (noise is not None):
            needs, got = ("fresh noise", "none") if noise is None else ("no noise", "some")
            raise ValueError(f"{self.settings.kind} step {i} needs {needs}, got {got}: ask `adds_noise` of each step")
        extras = [("history", array) for array in history] + ([] if noise is None else [("noise", noise)])
        for name, array in (("latents", latents), ("model_output", model_output), *extras):
            if array.shape != latents.shape or array.dtype != np.float32:
                raise ValueError(
                    f"sampler {name} must be float32 {list(latents.shape)}, got {array.dtype} {list(array.shape)}"
                )


def _timesteps(settings: SamplerSettings, schedule: Schedule) -> NDArray[np.int64]:
    """The timesteps, int64 [steps], descending. UniPC's spacing includes the noiseless end point, DDIM's does not."""
    trained = schedule.timesteps
    if settings.spacing == "lcm":
        distilled = np.arange(LCM_TIMESTEPS, 0, -1, dtype=np.int64) * (trained // LCM_TIMESTEPS) - 1
        return distilled[np.arange(settings.steps) * LCM_TIMESTEPS // settings.steps]
    points = settings.steps + (settings.kind == "unipc")
    if settings.spacing == "linspace":
        spaced: NDArray[np.generic] = np.linspace(0, trained - 1, points).round()[::-1]
    elif settings.spacing == "leading":
        spaced = np.arange(points)[::-1] * (trained // points) + schedule.offset
    else:
        # The slice, because the quotient's rounding may add a point below zero.
        spaced = np.arange(trained, 0, -trained / settings.steps).round() - 1
    return spaced[: settings.steps].astype(np.int64)


def _levels(settings: SamplerSettings, schedule: Schedule, timesteps: NDArray[np.int64]) -> tuple[_Level, ...]:
    """The levels at which the steps begin, and that at which the last ends, computed in float64.

    Every step ends at the level of the next one's timestep, and the last at pure signal, or where the schedule says.
    (diffusers' DDIM ends 1000 // steps lower instead, which differs only for "linspace" and for steps that do not
    divide 1000.)
    """
    power = schedule.signal_power(bool(settings.zero_snr))
    if settings.kind == "unipc" and settings.zero_snr:
        power = np.maximum(power, _LEAST_SIGNAL_POWER)
    reached = np.append(power[timesteps], 1.0 if schedule.ends_clean else power[0])
    return tuple(_Level(float(a), float(s)) for a, s in zip(np.sqrt(reached), np.sqrt(1.0 - reached), strict=True))


def _steps(
    settings: SamplerSettings, timesteps: NDArray[np.int64], levels: Sequence[_Level]
) -> tuple[StepWeights, ...]:
    """Each step's weights, computed in float64; see `_levels`."""
    multistep = settings.kind == "unipc"
    steps = []
    for i, (now, after) in enumerate(pairwise(levels)):
        if settings.prediction == "v_prediction":
            clean = now.signal, -now.noise
        else:
            clean = 1 / now.signal, -now.noise / now.signal
        if settings.kind == "lcm":
            steps.append(StepWeights(clean, (), _consistency(int(timesteps[i]), after)))
            continue
        last = i == settings.steps - 1
        earlier = levels[i - 1] if multistep and i > 0 and not last else None
        correct: tuple[float, ...] = ()
        if earlier is not None:  # the last step ends at its prediction, whatever the latents
            correct = _corrector(levels[i - 2] if i > 1 else None, earlier, now)
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


def _consistency(timestep: int, after: _Level) -> tuple[float, ...]:
    """Weights of (latents, prediction now, fresh noise) that lead to `after`; of the first two where it is noiseless.

    The picture is taken from both latents and prediction by c_skip and c_out (Luo et al. 2023, section 4.1), so that
    nothing changes at timestep 0.
    """
    scaled, power = _LCM_TIMESTEP_SCALING * timestep, _LCM_SIGMA_DATA**2
    skip, out = power / (scaled**2 + power), scaled / (scaled**2 + power) ** 0.5
    mixed = after.signal * skip, after.signal * out
    return (*mixed, after.noise) if after.noise else mixed


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
