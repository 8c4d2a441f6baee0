"""A decoder's values as pictures on the GPU: `counterfactory.kernels.pixels`, bit for bit."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def pixels_kernel(values, levels, flags, size, block: tl.constexpr):
    """A block of one picture's `size` pixels: values float32 [pictures, 3, size], levels uint8 [pictures, size, 3].

    `flags` int32 [pictures] is 1 afterwards where a value is not finite; elsewhere it stays as it was.
    """
    picture = tl.program_id(0)
    within = tl.program_id(1) * block + tl.arange(0, block)
    inside = within < size
    for channel in tl.static_range(3):
        value = tl.load(values + (picture * 3 + channel) * size + within, mask=inside, other=0.0)
        finite = tl.abs(value) < float("inf")  # of NaN nothing is less
        tl.store(flags + picture + within * 0, 1, mask=inside & (finite == 0))
        value = (value + 1.0) * 127.5
        value = tl.minimum(tl.maximum(value, 0.0), 255.0)
        # Added and taken away again, 1.5 * 2^23 leaves the nearest whole number, of two the even one: np.rint.
        value = (value + 12582912.0) - 12582912.0
        tl.store(levels + (picture * size + within) * 3 + channel, value.to(tl.uint8), mask=inside)
