"""Guidance and the sampler's step, an element at a time: weighted sums of Python numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from counterfactory.kernels.guided_step import StepWeights, guide

Floats = NDArray[np.float32]
SHAPE = (2, 3)


def arrays(seed: int, count: int) -> list[Floats]:
    return list(np.random.default_rng(seed).standard_normal((count, *SHAPE)).astype(np.float32))


def close(found: Floats, expected: list[float]) -> bool:
    """float32 sums of at most four products of numbers of about 2."""
    return found.dtype == np.float32 and np.allclose(found.ravel(), expected, rtol=0, atol=1e-4)


@given(st.integers(0, 99), st.floats(1, 10, width=32))
def test_guidance_goes_from_the_row_without_text_past_the_one_with_it(seed: int, scale: float) -> None:
    conditional, unconditional = arrays(seed, 2)
    pairs = zip(conditional.ravel().tolist(), unconditional.ravel().tolist(), strict=True)
    assert close(guide(conditional, unconditional, scale), [u + scale * (c - u) for c, u in pairs])
    assert guide(conditional, unconditional, np.float64(scale)).dtype == np.float32


@pytest.mark.parametrize("lengths", [(1, 0, 2), (3, 0, 2), (2, 1, 2), (2, 2, 3), (2, 5, 2), (2, 3, 1), (2, 4, 4)])
def test_weights_that_make_no_step_are_refused(lengths: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match=rf"2 or 3 advance weights, got \({', '.join(map(str, lengths))}\)"):
        StepWeights(*((1.0,) * n for n in lengths))
