"""The one comparison of arrays: an exported graph against the torch module that it was made from.

A reference without spread proves nothing (fresh networks are silent in places), so that spread is demanded first.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike

# Relative to the reference's largest value. float32 summed in another order; 8 and 11 bits of mantissa, errors of some
# hundred layers added up; int8 as calibrated, whose pictures are judged elsewhere.
TOLERANCE: Mapping[str, float] = MappingProxyType({"f32": 1e-4, "bf16": 1e-2, "fp16": 1e-2, "int8": 0.25})


def relative_error(found: ArrayLike, reference: ArrayLike) -> float:
    """max |found - reference| / max |reference|; infinite where `found` is not finite.

    Raises ValueError for another shape, and for a reference that is flat or not finite.
    """
    a, b = np.asarray(found, np.float64), np.asarray(reference, np.float64)
    if a.shape != b.shape:
        raise ValueError(f"found shape {list(a.shape)} where the reference has {list(b.shape)}")
    if not np.isfinite(b).all() or b.std() <= 1e-3 * max(1.0, abs(b.mean())):
        raise ValueError("the reference is flat or not finite: fill its weights before comparing")
    error = float(np.abs(a - b).max() / np.abs(b).max())
    return error if math.isfinite(error) else math.inf


def assert_parity(found: ArrayLike, reference: ArrayLike, precision: str) -> None:
    """`found` equals `reference` within the precision's tolerance, or AssertionError."""
    error = relative_error(found, reference)
    assert error <= TOLERANCE[precision], f"off by {error:.2e}, {precision} allows {TOLERANCE[precision]:.0e}"
