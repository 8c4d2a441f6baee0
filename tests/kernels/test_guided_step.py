"""Guidance and the sampler's step, an element at a time: weighted sums of Python numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from counterfactory.kernels.guided_step import StepWeights, guide, pack, step

Floats = NDArray[np.float32]
SHAPE = (2, 3)

numbers = st.floats(-2, 2, width=32)


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


@given(
    st.integers(0, 99),
    st.tuples(numbers, numbers),
    st.sampled_from([0, 3, 4]).flatmap(lambda n: st.tuples(*[numbers] * n)),
    st.sampled_from([2, 3]).flatmap(lambda n: st.tuples(*[numbers] * n)),
)
def test_a_step_is_its_weighted_sums(
    seed: int, clean: tuple[float, ...], correct: tuple[float, ...], advance: tuple[float, ...]
) -> None:
    latents, output, *history = arrays(seed, 5)
    found, known = step(StepWeights(clean, correct, advance), latents, output, tuple(history))
    stepped, kept = [], []
    for at in np.ndindex(SHAPE):
        x, out, last, earlier, earliest = (float(a[at]) for a in (latents, output, *history))
        predicted = clean[0] * x + clean[1] * out
        if correct:
            x = sum(w * v for w, v in zip(correct, (last, predicted, earlier, earliest), strict=False))
        stepped.append(sum(w * v for w, v in zip(advance, (x, predicted, earlier), strict=False)))
        kept.append((x, predicted, earlier))
    assert close(found, stepped)
    assert len(known) == 3
    assert all(close(array, [values[i] for values in kept]) for i, array in enumerate(known))


@pytest.mark.parametrize("lengths", [(1, 0, 2), (3, 0, 2), (2, 1, 2), (2, 2, 3), (2, 5, 2), (2, 3, 1), (2, 4, 4)])
def test_weights_that_make_no_step_are_refused(lengths: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match=rf"2 or 3 advance weights, got \({', '.join(map(str, lengths))}\)"):
        StepWeights(*((1.0,) * n for n in lengths))


def test_a_table_holds_each_row_s_weights_in_their_columns() -> None:
    """As a kernel reads them: scale (1 for none), clean, correct, advance; then what of it counts."""
    table = pack([(StepWeights((2, 3), (4, 5, 6), (7, 8, 9)), 2.5), (StepWeights((2, 3), (), (7, 8)), None)])
    assert (table.weights.dtype, table.counts.dtype) == (np.float32, np.int32)
    assert table.weights.tolist() == [[2.5, 2, 3, 4, 5, 6, 0, 7, 8, 9], [1, 2, 3, 0, 0, 0, 0, 7, 8, 0]]
    assert table.counts.tolist() == [[1, 3, 3], [0, 0, 2]]
