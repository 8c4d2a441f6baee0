"""The one comparison of arrays that parity tests use."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

# Relative to the reference's largest value. f32 through another order of summation; bf16 has 8 bits of mantissa.
TOLERANCE = {"f32": 1e-4, "bf16": 3e-2}


def assert_parity(found: ArrayLike, reference: ArrayLike, precision: str) -> None:
    """`found` equals `reference` within the precision's tolerance; a reference without spread proves nothing."""
    a, b = np.asarray(found, np.float64), np.asarray(reference, np.float64)
    assert a.shape == b.shape
    assert b.std() > 1e-3 * max(1.0, abs(b.mean())), "the reference is flat: fill its weights before comparing"
    assert np.abs(a - b).max() <= TOLERANCE[precision] * np.abs(b).max()
