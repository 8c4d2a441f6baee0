"""A picture's path back to noise, and an edit's path forward along it: maths on latents, for DDIM's steps.

DDIM's step is a weighted sum of the latents and the network's output, so it can be taken backwards (Song et al. 2020,
arXiv 2010.02502, section 4.3): by the output at the less noisy end first, then, in further rounds, by the output at the
noisier end that this led to (ReNoise, Garibi et al. 2024, arXiv 2403.14602). The latents on the way are recorded.

Forward, the source takes the recorded path instead of the one that its outputs lead to (direct inversion, Ju et al.
2023, arXiv 2310.01506), so that it arrives where it began. An edit starts from the same noise. The correction that puts
the source back on its record is added to the edit's step too: the two then differ only by their captions, and an edit
that changes no word is the source itself. `Path` and the functions know nothing of rows or captions.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from .sampler import Sampler

Floats = NDArray[np.float32]


def step_weights(sampler: Sampler, i: int) -> tuple[float, float]:
    """The weights of (latents, output) that step `i` adds up. Raises ValueError for another sampler than DDIM."""
    if sampler.settings.kind != "ddim":
        raise ValueError(f"steps of ddim can be taken back, those of {sampler.settings.kind} have a history")
    weights = sampler.weights(i)
    (latents, output), (ratio, straight) = weights.clean, weights.advance
    return ratio + straight * latents, straight * output


def step_back(sampler: Sampler, i: int, latents: Floats, output: Floats) -> Floats:
    """The latents before step `i` that the network's `output` would have taken to `latents`."""
    latents_weight, output_weight = step_weights(sampler, i)
    before: Floats = np.float32(1 / latents_weight) * (latents - np.float32(output_weight) * output)
    return before


@dataclass
class Path:
    """A picture's latents [C, h, w] before each step and after the last: `latents[i]` before step i."""

    sampler: Sampler
    clean: Floats
    latents: dict[int, Floats] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.latents[len(self.sampler.timesteps)] = self.clean

    def follow(self, i: int, edited: Floats, edited_output: Floats, output: Floats) -> Floats:
        """Step `i` of an edit along the source's path: the recorded step, plus the difference of the edit's step.

        `edited` are the edit's latents before the step, `edited_output` and `output` the (guided) outputs for it and
        for the source.
        """
        latents_weight, output_weight = (np.float32(weight) for weight in step_weights(self.sampler, i))
        apart: Floats = latents_weight * (edited - self.latents[i]) + output_weight * (edited_output - output)
        return self.latents[i + 1] + apart
