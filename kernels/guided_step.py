"""One denoising step of a batch: classifier-free guidance, then the sampler's weighted sums.

Rows of a batch may stand at different steps, of different samplers, guided or not: what differs between them is
numbers alone, so each row brings its weights. `step` is one row's step (or that of rows with the same weights); `pack`
makes the table of a whole batch's weights, which the GPU's kernel reads.

Guidance: Ho & Salimans 2022 (arXiv 2207.12598), eq. 6. How steps become weights is the sampler's to know.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
History = tuple[Floats, ...]

HISTORY = 3  # arrays that a step can use: the latents that the last step started from, and two earlier predictions
_CLEAN, _CORRECT, _ADVANCE = 2, 4, 3  # the most weights of each sum
COLUMNS = 1 + _CLEAN + _CORRECT + _ADVANCE
COUNTS = 3


@dataclass(frozen=True)
class StepWeights:
    """Weights of one step. `clean`: of (latents, output), giving the predicted clean latents. `correct`: of (last
    latents, newest prediction, earlier ones); empty where the latents stand as they are. `advance`: of (latents,
    newest prediction, earlier one). Steps that add fresh noise have it in the earlier prediction's place, `history[1]`.
    """

    clean: tuple[float, ...]
    correct: tuple[float, ...]
    advance: tuple[float, ...]

    def __post_init__(self) -> None:
        lengths = len(self.clean), len(self.correct), len(self.advance)
        if lengths[0] != _CLEAN or lengths[1] not in (0, 3, 4) or lengths[2] not in (2, 3):
            raise ValueError(f"a step has 2 clean, 0, 3 or 4 correct and 2 or 3 advance weights, got {lengths}")


@dataclass(frozen=True)
class StepTable:
    """Weights of a batch of rows, as the kernel reads them.

    `weights`: float32 [R, 10]: guidance scale, clean (2), correct (4), advance (3); what a row does not use is 0.
    `counts`: int32 [R, 3]: 1 where the row is guided, its number of correct weights, its number of advance weights.
    """

    weights: Floats
    counts: NDArray[np.int32]


def pack(rows: Sequence[tuple[StepWeights, float | None]]) -> StepTable:
    """The table of rows, each the weights of its step and its guidance scale, None where the step is not guided."""
    weights = np.zeros((len(rows), COLUMNS), np.float32)
    counts = np.zeros((len(rows), COUNTS), np.int32)
    for row, (step, scale) in enumerate(rows):
        weights[row, 0] = 1.0 if scale is None else scale
        weights[row, 1:3] = step.clean
        weights[row, 3 : 3 + len(step.correct)] = step.correct
        weights[row, 7 : 7 + len(step.advance)] = step.advance
        counts[row] = scale is not None, len(step.correct), len(step.advance)
    return StepTable(weights, counts)


def guide(conditional: Floats, unconditional: Floats, scale: float) -> Floats:
    """Classifier-free guidance: away from `unconditional`; scale 1 is none."""
    return unconditional + float(scale) * (conditional - unconditional)


def weighted(weights: Sequence[float], arrays: Sequence[Floats]) -> Floats:
    """The sum of `arrays` by `weights`, added from the left; arrays without a weight are left out.

    Products and sums stay separate element-wise calls: a fused or blocked product (einsum, dot) would round by the
    array's size, and a row alone would differ from the same row in a stack.
    """
    total = weights[0] * arrays[0]
    for weight, array in zip(weights[1:], arrays[1:], strict=False):
        total += weight * array
    return total


def step(weights: StepWeights, latents: Floats, output: Floats, history: History) -> tuple[Floats, History]:
    """New latents, and (latents, newest prediction, earlier ones) for the step after; nothing is changed in place.

    `latents` and `output` are float32 of one shape, and so is every array of `history`, as the step before left it.
    """
    predictions = (weighted(weights.clean, (latents, output)), *history[1:])
    if weights.correct:
        latents = weighted(weights.correct, (history[0], *predictions))
    known = (latents, *predictions)
    return weighted(weights.advance, known), known[:HISTORY]
