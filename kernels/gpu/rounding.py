"""Rounding as NumPy rounds, in terms that both Triton's compiler and its interpreter know.

Compiled, not run on a GPU.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def nearest(value):
    """Values of magnitude below 2^22 to the nearest whole number, ties to the even one, in float32.

    Adding 1.5 * 2^23 leaves a float32 no bits for a fraction; libdevice's rint is not known to the interpreter.
    """
    return (value.to(tl.float32) + 12582912.0) - 12582912.0
